//! The actions at fail points, from the environment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The settings in the environment.
#[derive(Debug)]
struct Plan {
    place: Option<Place>,
    log: Option<Log>,
}

#[derive(Debug)]
struct Place {
    name: String,
    /// How often it is passed before something happens.
    left: AtomicU64,
    copy: Option<(PathBuf, PathBuf)>,
    /// The process, the thread and the signal.
    signal: Option<[i32; 3]>,
}

#[derive(Debug)]
struct Log {
    file: File,
    reached: Mutex<BTreeMap<&'static str, u64>>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Plan {
    /// `None` where no variable is set, and where one cannot be understood.
    fn read() -> Option<Self> {
        let log = variable("TRACEWIRE_FAIL_LOG").and_then(|path| {
            let file = File::options().append(true).create(true).open(path).ok()?;
            let reached = Mutex::default();
            Some(Log { file, reached })
        });
        let place = variable("TRACEWIRE_FAIL_POINT").and_then(|text| {
            let (name, count) = text.rsplit_once(':')?;
            let copy = variable("TRACEWIRE_FAIL_COPY").and_then(|text| {
                let (from, to) = text.split_once(':')?;
                Some((PathBuf::from(from), PathBuf::from(to)))
            });
            let signal = variable("TRACEWIRE_FAIL_SIGNAL").and_then(|text| {
                let mut numbers = text.split(':').map(|number| number.parse::<i32>().ok());
                Some([numbers.next()??, numbers.next()??, numbers.next()??])
            });
            Some(Place {
                name: name.to_owned(),
                left: AtomicU64::new(count.parse().ok()?),
                copy,
                signal,
            })
        });
        (log.is_some() || place.is_some()).then_some(Self { place, log })
    }
}

/// A fail point is reached.
pub fn reach(name: &'static str) {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    let Some(plan) = PLAN.get_or_init(Plan::read) else {
        return;
    };
    if let Some(log) = &plan.log {
        let mut reached = log.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let count = reached.entry(name).or_default();
        *count += 1;
        if count.is_power_of_two() {
            // One write, as the process may end at any moment.
            let _ = (&log.file).write_all(format!("{name} {count}\n").as_bytes());
        }
    }
    if let Some(place) = plan.place.as_ref().filter(|place| place.name == name)
        && place.left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        place.act();
    }
}

impl Place {
    fn act(&self) {
        if let Some((from, to)) = &self.copy {
            // `std::fs::copy` fails where a signal comes meanwhile; these go on.
            let copied = std::fs::read(from).and_then(|bytes| std::fs::write(to, bytes));
            copied
                .unwrap_or_else(|error| panic!("{} to {}: {error}", from.display(), to.display()));
        }
        // SAFETY: these calls take plain numbers.
        unsafe {
            match self.signal {
                Some([process, thread, signal]) => {
                    libc::syscall(libc::SYS_tgkill, process, thread, signal);
                }
                None => {
                    libc::kill(libc::getpid(), libc::SIGKILL);
                }
            }
        }
    }
}
