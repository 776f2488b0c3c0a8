//! `cargo xtask bench proxy`: hits a second with two values at the stubs of QEMU, in four ways: a tracepoint through the proxy in front of
//! a QEMU with Tracewire's plugin, and of one without; a breakpoint of GDB with commands; and `dprintf`.
//!
//! One GDB script is the same in all, but for what is at the function. The time is between two stops at another function, which
//! is called after each thousand hits. Round trips are counted in a run of their own, between the proxy and the stub.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tracewire_test_support::{BARE_MACHINES, BareMachine, Gdb, Qemu};

use crate::ratio::{median, print_ratio};
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each has its turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many thousands of hits the proxy collects in a turn
    #[arg(long, default_value_t = 5)]
    thousands: u32,
    /// This machine only
    #[arg(long)]
    machine: Option<String>,
    /// The `tracewire` program to run; built if none is named
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The plugin of QEMU; built if none is named
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Do not fail where a limit is not kept
    #[arg(long)]
    no_limits: bool,
}

/// The limits that the project sets itself: how many times as many hits a second, and round trips a hit.
const LEAST_OF_BREAKPOINT: f64 = 10.0;
const LEAST_OF_DPRINTF: f64 = 5.0;
const MOST_TRIPS: f64 = 4.0;
/// What GDB's own requests at the stop after each thousand hits may add to the round trips of a hit.
const OF_STOPS: f64 = 0.03;

/// How many times as many hits there are in a turn with the plugin.
const INSIDE: u32 = 10;

/// How many hits are between two stops.
const HITS: u32 = 1000;

/// What is at the function.
#[derive(Clone, Copy)]
enum Way {
    /// With the plugin.
    Inside,
    Tracepoint,
    Breakpoint,
    Dprintf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_PROXY)?;
    let tracewire = match &arguments.program {
        Some(program) => std::path::absolute(program)?,
        None => workspace::tracewire()?,
    };
    let directory = tempfile::tempdir()?;
    let plugin = match &arguments.plugin {
        Some(plugin) => std::path::absolute(plugin)?,
        None => workspace::qemu_plugin()?,
    };
    println!(
        "{:<10}{:>12}{:>12}{:>14}{:>12}{:>18}{:>18}",
        "hits/s", "with plugin", "proxy", "breakpoint", "dprintf", "round trips/hit", "with plugin"
    );
    let mut missed = Vec::new();
    let is_wanted = |machine: &BareMachine| {
        let name = arguments.machine.as_deref();
        name.is_none_or(|name| name == machine.name)
    };
    for machine in BARE_MACHINES.into_iter().filter(is_wanted) {
        let guest = Guest {
            machine,
            directory: directory.path(),
            elf: machine.build(directory.path()),
            tracewire: &tracewire,
            plugin: &plugin,
        };
        let [mut inside, mut ours, mut breakpoint, mut dprintf] = <[Vec<f64>; 4]>::default();
        for _ in 0..arguments.rounds {
            inside.push(guest.speed(Way::Inside, arguments.thousands * INSIDE)?);
            ours.push(guest.speed(Way::Tracepoint, arguments.thousands)?);
            breakpoint.push(guest.speed(Way::Breakpoint, 1)?);
            dprintf.push(guest.speed(Way::Dprintf, 1)?);
        }
        let trips = guest.round_trips(Way::Tracepoint)?;
        let trips_inside = guest.round_trips(Way::Inside)?;
        println!(
            "{:<10}{:>12.0}{:>12.0}{:>14.0}{:>12.0}{trips:>18.3}{trips_inside:>18.3}",
            machine.name,
            median(&inside),
            median(&ours),
            median(&breakpoint),
            median(&dprintf)
        );
        // The ratio of speeds: ours are in place of the peer's times.
        print_ratio("  with plugin / breakpoint", &inside, &breakpoint);
        print_ratio("  with plugin / dprintf", &inside, &dprintf);
        print_ratio("  proxy / breakpoint", &ours, &breakpoint);
        print_ratio("  proxy / dprintf", &ours, &dprintf);
        if median(&inside) < median(&breakpoint) * LEAST_OF_BREAKPOINT
            || median(&inside) < median(&dprintf) * LEAST_OF_DPRINTF
            || trips > MOST_TRIPS + OF_STOPS
            || trips_inside > MOST_TRIPS + OF_STOPS
        {
            missed.push(machine.name);
        }
    }
    if !missed.is_empty() && !arguments.no_limits {
        bail!("a limit is missed: {}", missed.join(", "));
    }
    Ok(())
}

struct Guest<'a> {
    machine: BareMachine,
    directory: &'a Path,
    elf: PathBuf,
    tracewire: &'a Path,
    plugin: &'a Path,
}

impl Guest<'_> {
    /// Hits a second.
    fn speed(&self, way: Way, thousands: u32) -> Result<f64> {
        let qemu = self.qemu(way);
        let proxy = match way {
            Way::Inside | Way::Tracepoint => Some(self.proxy(&qemu.socket, &qemu)?),
            Way::Breakpoint | Way::Dprintf => None,
        };
        let address = match &proxy {
            Some(proxy) => proxy.address.clone(),
            None => qemu.socket.display().to_string(),
        };
        let seconds = self.seconds(way, &address, thousands)?;
        Ok(f64::from(thousands * HITS) / seconds)
    }

    fn qemu(&self, way: Way) -> Qemu {
        match way {
            Way::Inside => (self.machine).start_with_plugin(&self.elf, self.directory, self.plugin),
            _ => self.machine.start(&self.elf, self.directory),
        }
    }

    /// Round trips between the proxy and the stub at each hit.
    fn round_trips(&self, way: Way) -> Result<f64> {
        let trips = |thousands| {
            let qemu = self.qemu(way);
            let relay = Relay::start(&qemu.socket, self.directory.join("relay.socket"))?;
            let proxy = self.proxy(&relay.socket, &qemu)?;
            self.seconds(way, &proxy.address, thousands)?;
            Ok::<_, anyhow::Error>(relay.trips.load(Ordering::Relaxed))
        };
        // What is there beside hits is the same in both.
        let (few, many) = (trips(1)?, trips(3)?);
        Ok((many as f64 - few as f64) / f64::from(2 * HITS))
    }

    fn proxy(&self, upstream: &Path, qemu: &Qemu) -> Result<Proxy> {
        let plugin = qemu.control.as_deref();
        let plugin = plugin.map(|control| [Path::new("--qemu-plugin"), control]);
        let mut child = Command::new(self.tracewire)
            .args(["proxy", ":0", "--upstream"])
            .arg(format!("unix:{}", upstream.display()))
            .args(["--architecture", self.machine.name])
            .args(plugin.into_iter().flatten())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().context("a pipe")?;
        let mut proxy = Proxy {
            child,
            address: String::new(),
        };
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("target remote"));
        let line = line.context("the proxy does not start")?;
        proxy.address = line.rsplit(' ').next().context("an address")?.to_owned();
        // The rest is read, so that the server does not wait.
        thread::spawn(move || lines.for_each(drop));
        Ok(proxy)
    }

    /// The time that GDB measures.
    fn seconds(&self, way: Way, address: &str, thousands: u32) -> Result<f64> {
        let what = match way {
            Way::Inside | Way::Tracepoint => "trace work\nactions\ncollect n, total\nend\ntstart\n",
            Way::Breakpoint => {
                "break work\ncommands\nsilent\nprintf \"%d %d\\n\", n, total\ncontinue\nend\n"
            }
            Way::Dprintf => "dprintf work,\"%d %d\\n\", n, total\n",
        };
        let script = self.directory.join("script.gdb");
        let ignored = thousands - 1;
        std::fs::write(
            &script,
            format!(
                "target remote {address}\ntbreak hundred_done\ncontinue\n{what}break hundred_done\nset $end = $bpnum\n\
                 ignore $end {ignored}\npython import time\npython start = time.monotonic()\ncontinue\n\
                 python print('= seconds', time.monotonic() - start)\n\
                 delete\ntstatus\ntstop\n"
            ),
        )?;
        let gdb = Gdb::multiarch().program(&self.elf);
        let said = gdb.script(&script).run();
        let seconds = said.output.lines().find_map(|line| {
            let seconds = line.strip_prefix("= seconds ")?;
            seconds.parse().ok()
        });
        let all = || anyhow!("{}: {}", self.machine.name, said.all());
        let seconds: f64 = seconds.ok_or_else(all)?;
        let hits = match way {
            Way::Inside | Way::Tracepoint => said.output.lines().find_map(|line| {
                let frames = line.strip_prefix("Collected ")?;
                frames.split(' ').next()?.parse().ok()
            }),
            Way::Breakpoint | Way::Dprintf => {
                let pair = |line: &&str| line.split(' ').all(|one| one.parse::<i64>().is_ok());
                u32::try_from(said.output.lines().filter(pair).count()).ok()
            }
        };
        ensure!(hits == Some(thousands * HITS), "{hits:?} hits: {}", all());
        Ok(seconds)
    }
}

/// The proxy, which ends with this.
struct Proxy {
    child: Child,
    address: String,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Between the proxy and the stub: counts how often the proxy sends something after the stub has.
struct Relay {
    socket: PathBuf,
    trips: Arc<AtomicU64>,
}

impl Relay {
    fn start(stub: &Path, socket: PathBuf) -> Result<Self> {
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)?;
        let stub = UnixStream::connect(stub)?;
        let trips = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&trips);
        thread::spawn(move || -> std::io::Result<()> {
            let (client, _) = listener.accept()?;
            let has_answered = Arc::new(AtomicBool::new(true));
            let (to_client, from_stub) = (client.try_clone()?, stub.try_clone()?);
            let answers = Arc::clone(&has_answered);
            thread::spawn(move || {
                copy(from_stub, to_client, &|| {
                    answers.store(true, Ordering::SeqCst)
                });
            });
            copy(client, stub, &|| {
                if has_answered.swap(false, Ordering::SeqCst) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            Ok(())
        });
        Ok(Self { socket, trips })
    }
}

/// Copies to the end of a connection; `passes` is called for each part before it is sent.
fn copy(mut from: UnixStream, mut to: UnixStream, passes: &dyn Fn()) {
    let mut part = [0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut part) {
        passes();
        if to.write_all(&part[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
