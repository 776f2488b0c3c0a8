//! Recorded executions, served to real GDB.

#[path = "../../target-replay/tests/support/mod.rs"]
mod support;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;
use support::fixture::{Log, MACHINES, files, unpacked};
use support::naive::{Naive, image, segments};
use tracewire_exec_trace::recording::{Image, ImagePiece, OpenOptions, Recording};
use tracewire_model::{Address, TracepointNumber};
use tracewire_server::{Clients, Listener, SessionLog, replay};
use tracewire_target_replay::{Execution, Recorded, Replay, thread_of};
use tracewire_test_support::assert_clean;
use tracewire_tracefile::{Search, TraceFile};

/// Only the first client.
const FIRST: Clients<'static> = Clients {
    once: true,
    token: None,
};

/// The debugger for a machine; `None` if there is none.
fn debugger(machine: &str) -> Option<String> {
    match machine {
        "nios2" => std::env::var("TRACEWIRE_NIOS2_GDB").ok(),
        _ => Some("gdb-multiarch".to_owned()),
    }
}

/// GDB's output when it connects to the recording and executes these commands.
fn gdb(gdb: &str, program: &Path, execution: &(impl Execution + Sync), commands: &str) -> String {
    let listener = Listener::bind(&":0".parse().unwrap()).unwrap();
    let script = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "set width 0\nset height 0\nset confirm off\nset pagination off\ntarget remote {listener}\n{commands}\ndetach\n"
    );
    std::fs::write(script.path(), text).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            replay::serve(
                &listener,
                execution,
                None,
                |_| {},
                &SessionLog::none(),
                FIRST,
            )
        });
        let output = Command::new(gdb)
            .args(["-nx", "-batch", "-x"])
            .arg(script.path())
            .arg(program)
            .output()
            .unwrap_or_else(|error| panic!("{gdb}: {error}"));
        server.join().unwrap().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    })
}

/// A recording, and the expected results by other means.
struct Fixture {
    machine: &'static str,
    gdb: String,
    program: PathBuf,
    /// The served recording.
    served: Recorded,
    naive: Naive,
    log: Log,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// `None` if there is no debugger for the machine.
    fn of(machine: &'static str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (program, trace) = files(machine, folder.path());
        let image = image(&unpacked(machine, "elf"));
        let place = |(address, bytes)| ImagePiece {
            address: Address(address),
            bytes,
            is_writable: true,
        };
        let options = OpenOptions {
            architecture: Some(machine.parse().unwrap()),
            image: Image::new(segments(&unpacked(machine, "elf")).into_iter().map(place)),
            ..OpenOptions::default()
        };
        let recording = Recording::open(&trace, &options).unwrap();
        Some(Self {
            machine,
            gdb: debugger(machine)?,
            program,
            served: Recorded::new(recording).unwrap(),
            naive: Naive::new(machine.parse().unwrap(), &unpacked(machine, "trace"), image),
            log: Log::of(machine),
            _folder: folder,
        })
    }

    fn all() -> impl Iterator<Item = Self> {
        MACHINES.into_iter().filter_map(Self::of)
    }

    fn gdb(&self, commands: &str) -> String {
        gdb(&self.gdb, &self.program, &self.served, commands)
    }

    fn symbol(&self, name: &str) -> u64 {
        use object::{Object, ObjectSymbol};
        let elf = unpacked(self.machine, "elf");
        let file = object::File::parse(elf.as_slice()).unwrap();
        file.symbol_by_name(name).unwrap().address()
    }

    /// A number in memory at an instant, from the log.
    fn number(&self, instant: u64, address: u64, size: u64) -> u64 {
        let memory = &self.log.0[instant as usize].memory;
        let bytes: Vec<u8> = (address..address + size).map(|at| memory[&at]).collect();
        self.naive.machine().byte_order().unsigned(&bytes).unwrap()
    }

    /// The instruction before an instant that last changed the number, from the log.
    fn last_writer(&self, instant: u64, address: u64) -> Option<u64> {
        let now = self.number(instant, address, 4);
        (0..instant)
            .rev()
            .find(|at| self.number(*at, address, 4) != now)
    }

    /// How `total` is written for a debugger that has no types.
    fn total(&self) -> &'static str {
        match self.machine {
            "nios2" => "*(int *)0x2000",
            _ => "total",
        }
    }
}

/// The instruction numbers in the output of `monitor when`.
fn places(said: &str) -> Vec<u64> {
    said.lines()
        .filter_map(|line| line.split_once("Instruction "))
        .filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .collect()
}

const GO: &str = "maintenance flush register-cache";

#[test]
fn registers_and_memory_are_as_they_were_at_a_thousand_instants() {
    for recorded in Fixture::all() {
        let mut random = Rng::with_seed(0x0123_4567_89ab_cdef);
        let end = recorded.naive.instructions();
        let layout = recorded.naive.machine().layout();
        let mut addresses: Vec<u64> = recorded.log.0[0].memory.keys().copied().collect();
        addresses.sort_unstable();
        let mut commands = String::new();
        let mut wanted = Vec::new();
        for _ in 0..1000 {
            let instant = random.u64(..end);
            let logged = &recorded.log.0[instant as usize];
            let (mut format, mut arguments) = (String::new(), String::new());
            let mut ask = |what: String, bits: u32, value: u64| {
                format.push_str(" %llx");
                write!(arguments, ", (unsigned long long){what}").unwrap();
                wanted.push((instant, what, bits, value));
            };
            // GDB aborts a script if a value is unavailable.
            let block = Replay::at(&recorded.naive, instant).registers(thread_of(0));
            for register in layout.registers() {
                let place = (register.offset as usize, register.size() as usize);
                if let Some(value) = logged.registers.get(&register.name)
                    && block.get(place.0, place.1).is_some()
                {
                    ask(format!("${}", register.name), register.bits, *value);
                }
            }
            for _ in 0..8 {
                let address = addresses[random.usize(..addresses.len())];
                let mut known = [None];
                recorded
                    .naive
                    .memory(0, instant, Address(address), &mut known);
                if known[0].is_some() {
                    let value = u64::from(logged.memory[&address]);
                    ask(format!("*(unsigned char *){address}"), 8, value);
                }
            }
            writeln!(
                commands,
                "monitor goto {instant}\n{GO}\nprintf \"={format}\\n\"{arguments}"
            )
            .unwrap();
        }
        let said = recorded.gdb(&commands);
        let mut printed = said
            .lines()
            .filter_map(|line| line.strip_prefix("= "))
            .flat_map(|line| line.split(' '));
        assert!(
            wanted.len() > 10_000,
            "{}: {}",
            recorded.machine,
            wanted.len()
        );
        for (instant, what, bits, value) in &wanted {
            let number = printed
                .next()
                .map(|word| u64::from_str_radix(word, 16).unwrap());
            let number = number.map(|number| number & u64::MAX >> (64 - bits));
            assert_eq!(
                number,
                Some(*value),
                "{} {instant} {what}",
                recorded.machine
            );
        }
    }
}

#[test]
fn backwards_to_the_writer() {
    for recorded in Fixture::all() {
        let mut random = Rng::with_seed(0xfeed_beef_1234_5678);
        let total = recorded.symbol("total");
        let end = recorded.naive.instructions();
        let mut commands = format!("watch {}\n", recorded.total());
        let mut writers = Vec::new();
        while writers.len() < 20 {
            let instant = random.u64(..end);
            let Some(writer) = recorded.last_writer(instant, total) else {
                continue;
            };
            writers.push(writer);
            let again = "delete\nwatch";
            writeln!(
                commands,
                "monitor goto {instant}\n{GO}\n{again} {}\nreverse-continue\nmonitor when",
                recorded.total()
            )
            .unwrap();
        }
        let said = recorded.gdb(&commands);
        let shown: Vec<u64> = places(&said).into_iter().skip(1).step_by(2).collect();
        assert_eq!(shown, writers, "{}: {said}", recorded.machine);
    }
}

#[test]
fn stepping_and_running_both_ways() {
    for recorded in Fixture::all() {
        let said = recorded.gdb(
            "break add\ncontinue\nmonitor when\nstepi\nmonitor when\nreverse-stepi\nmonitor when\n\
             continue\nmonitor when\nreverse-continue\nmonitor when\nbt\nreverse-finish\nmonitor when\n\
             delete\ncontinue\nmonitor when\nreverse-continue\nmonitor unknown zero\nmaintenance flush register-cache\n\
             monitor when\nstepi 10\nmonitor when\nreverse-stepi 4\nmonitor when\ninfo threads",
        );
        let machine = recorded.machine;
        // Where GDB puts a breakpoint on a function without lines is not tested.
        let places = places(&said);
        let [first, stepped, back, second, again, call, start, ten, six] = places[..] else {
            panic!("{machine}: {places:?}\n{said}");
        };
        assert_eq!(
            (stepped, back, again),
            (first + 1, first, first),
            "{machine}"
        );
        assert!(second > first && call < first, "{machine}: {places:?}");
        // GDB steps over MIPS's branch and the instruction in its delay slot together.
        let wanted = if machine.starts_with("mips") { 11 } else { 10 };
        assert_eq!((start, ten, six), (0, wanted, wanted - 4), "{machine}");
        let entry = recorded.symbol("add");
        let entered = recorded
            .naive
            .last_visit(Address(entry), first + 1)
            .unwrap();
        let calls = [entered - 1, entered.saturating_sub(2)];
        assert!(calls.contains(&call), "{machine}: {places:?} {entered}");
        assert!(said.contains("after all"), "{machine}: {said}");
        assert!(said.contains("in main ()"), "{machine}: {said}");
        let ends = said.matches("No more reverse-execution history").count();
        assert_eq!(ends, 2, "{machine}: {said}");
        assert!(said.contains("\"cpu 0\""), "{machine}: {said}");
    }
}

#[test]
fn tracepoints_after_the_fact() {
    for recorded in Fixture::all() {
        let machine = recorded.machine;
        let (total, entry) = (recorded.symbol("total"), recorded.symbol("add"));
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("saved.tf");
        let said = recorded.gdb(&format!(
            "trace *{entry}\nactions\ncollect $pc, {expression}\nend\n\
             trace *{entry} if {expression} == 0\npasscount 1\ntstart\ncontinue\ntstop\ntstatus\n\
             tfind start\ntdump\necho first\\n\noutput/x (unsigned int){expression}\necho \\n\n\
             tfind 3\necho third\\n\noutput/x (unsigned int){expression}\necho \\n\n\
             tfind none\ntsave {}\ninfo tracepoints",
            saved.display(),
            expression = recorded.total()
        ));
        let hits: Vec<u64> = (0..recorded.naive.instructions())
            .filter(|number| recorded.naive.instruction(*number).unwrap().address.0 == entry)
            .collect();
        let value = |hit: usize| format!("{:#x}", recorded.number(hits[hit], total, 4));
        let after = |word: &str| {
            let mut lines = said.lines().skip_while(|line| *line != word);
            lines.nth(1).unwrap_or_default().to_owned()
        };
        // The second tracepoint ends the run on machines whose program begins with 0 in `total`.
        let zero = hits.iter().any(|hit| recorded.number(*hit, total, 4) == 0);
        if zero {
            assert!(
                said.contains("Trace stopped by tracepoint 2."),
                "{machine}: {said}"
            );
        } else {
            let all = format!("Collected {} trace frames", hits.len());
            assert!(said.contains(&all), "{machine}: {said}");
            assert_eq!(after("third"), value(3), "{machine}: {said}");
        }
        assert_eq!(after("first"), value(0), "{machine}: {said}");
        assert_clean(&saved);
        let file = TraceFile::open(&saved).unwrap();
        assert!(file.frame_count() > 0, "{machine}");
        // The run is timed by the clock of its frames.
        let status = file.description().status().unwrap().fields.clone();
        let (start, stop) = (status.start_time.unwrap(), status.stop_time.unwrap());
        let last = recorded.naive.instructions() - 1;
        let times = [0, last].map(|number| recorded.naive.instruction(number).unwrap().time);
        assert_eq!(start, times[0], "{machine}");
        assert!((start..=times[1]).contains(&stop), "{machine} {stop}");
        for time in file.frames().filter_map(|frame| frame.timestamp()) {
            assert!((start..=stop).contains(&time), "{machine} {time}");
        }
        assert!(!said.contains("stopped -"), "{machine}: {said}");
        for (frame, hit) in file
            .find_all(Search::Tracepoint(TracepointNumber(1)), None)
            .zip(0..)
        {
            let mut bytes = vec![None; 4];
            frame.read_memory(Address(total), &mut bytes);
            let bytes: Vec<u8> = bytes.into_iter().collect::<Option<_>>().unwrap();
            let order = recorded.naive.machine().byte_order();
            assert_eq!(
                order.unsigned(&bytes),
                Some(recorded.number(hits[hit], total, 4)),
                "{machine} {hit}"
            );
        }
    }
}
