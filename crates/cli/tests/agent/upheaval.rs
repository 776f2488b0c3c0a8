//! Programs that start and end at random, while the agent and its recorders are killed, ended, upgraded and reconfigured.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tracewire_test_support::{copy_program, setting};

use crate::agent::{Agent, Place, TRACEWIRE, recorders, wait};
use crate::program::{self, Counted};
use crate::runs::{Archive, has_own_code};

/// Places at which the agent, one of its recorders or a rescue ends by SIGKILL.
const FAIL_POINTS: [&str; 24] = [
    "agent/turn",
    "agent/start",
    "agent/started",
    "agent/recover",
    "agent/rescued",
    "agent/rescue-reported",
    "agent/repaired",
    "agent/finished",
    "agent/keep",
    "agent/placed",
    "agent/catalogued",
    "agent/counted",
    "rotate/made",
    "rotate/continued",
    "rotate/described",
    "rotate/finished",
    "spool/finish",
    "spool/in-place",
    "record/started",
    "record/stopped",
    "record/detached",
    "rescue/attached",
    "rescue/written",
    "rescue/cleared",
];

/// More calls than a program makes at once.
const CALLS: u64 = 500;

/// A program, and when it is to end.
struct Life {
    program: Counted,
    until: Instant,
    number: u64,
}

struct Upheaval<'a> {
    random: Rng,
    built: &'a Path,
    folder: &'a Path,
    place: Place,
    lives: Vec<Life>,
    begun: u64,
    ended: u64,
    acts: [u64; 6],
}

impl Upheaval<'_> {
    fn begin_life(&mut self) {
        self.begun += 1;
        let folder = self.folder.join(format!("life-{}", self.begun));
        fs::create_dir(&folder).unwrap();
        let threads = 1 + self.random.usize(..3);
        let program = Counted::start(self.built, &folder, threads, 100_000);
        program.begin();
        let time = Duration::from_millis(200 + self.random.u64(..8000));
        self.lives.push(Life {
            program,
            until: Instant::now() + time,
            number: self.begun,
        });
    }

    /// Ends the programs that are due, and checks whether another one has ended.
    fn end_lives(&mut self, all: bool) {
        let now = Instant::now();
        let (ending, going): (Vec<_>, Vec<_>) = std::mem::take(&mut self.lives)
            .into_iter()
            .partition(|life| all || life.until <= now);
        self.lives = going;
        for life in ending {
            let process = life.program.id();
            let (status, _) = life.program.finish();
            assert!(
                status.success(),
                "process {process}: {status}; {}",
                self.place.messages()
            );
            let folder = self.folder.join(format!("life-{}", life.number));
            fs::remove_dir_all(folder).unwrap();
            self.ended += 1;
        }
        for life in &mut self.lives {
            let ended = life.program.ended();
            assert!(ended.is_none(), "{ended:?}: {}", self.place.messages());
        }
    }

    /// The agent as it is started next: this executable or another copy of it, perhaps with a place at which it ends.
    fn start(&mut self) -> Agent {
        let copies = [
            Path::new(TRACEWIRE).to_owned(),
            self.folder.join("upgraded"),
        ];
        let program = &copies[self.random.usize(..2)];
        let mut command = self.place.command(program);
        if self.random.bool() {
            let point = self.random.choice(FAIL_POINTS).unwrap();
            let count = 1 + self.random.u64(..4);
            command.env("TRACEWIRE_FAIL_POINT", format!("{point}:{count}"));
        }
        self.place.start_by(&mut command)
    }

    /// Something happens to the agent.
    fn act(&mut self, agent: Agent) -> Agent {
        let act = self.random.u64(..6);
        self.acts[usize::try_from(act).unwrap()] += 1;
        let live = self.place.directory().join("live");
        match act {
            0 => agent.kill(),
            // With all its recorders.
            1 => {
                let recorders = recorders(&live);
                agent.kill();
                kill(&recorders);
            }
            2 => {
                kill(&recorders(&live));
                return agent;
            }
            3 => {
                let status = agent.end();
                let messages = self.place.messages();
                // A fail point may have come first.
                assert!(
                    status.success() || status.code().is_none(),
                    "{status}: {messages}"
                );
            }
            4 => {
                agent.signal(libc::SIGHUP);
                return agent;
            }
            _ => {
                // Whether it is there to answer or not.
                let added = [
                    "add",
                    "--process",
                    "nothing-has-this-name",
                    "-t",
                    "main",
                    "more",
                ];
                self.place.ask(&added);
                self.place.ask(&["remove", "more"]);
                return agent;
            }
        }
        self.start()
    }
}

fn kill(processes: &[i32]) {
    for process in processes {
        // SAFETY: kill takes plain numbers. Those of recorders were looked up just now.
        unsafe { libc::kill(*process, libc::SIGKILL) };
    }
}

#[test]
fn programs_are_recorded_and_unharmed_whatever_becomes_of_the_agent() {
    let seconds = setting("TRACEWIRE_AGENT_SECONDS", 8);
    let programs = setting("TRACEWIRE_AGENT_PROGRAMS", 5);
    let seed = setting("TRACEWIRE_AGENT_SEED", 1);
    // The files of one check must not be removed before the next one, or they could not be compared. Unfinished files count, too.
    let limit: u64 = if seconds > 60 { 256 << 20 } else { 64 << 20 };
    let folder = tempfile::tempdir().unwrap();
    let built = program::build(folder.path());
    copy_program(Path::new(TRACEWIRE), &folder.path().join("upgraded"));
    let place = Place::new(folder.path());
    place.configure(&format!(
        "rotate = \"1s\"\nlimits = {{ size = \"{limit}\" }}\n[[probe]]\nname = \"calls\"\nprocess = {built:?}\n\
         tracepoints = \"hit : thread, seq, check\"\n"
    ));
    let archive = Archive::begin(place.directory(), folder.path().join("archive"));
    let mut upheaval = Upheaval {
        random: Rng::with_seed(seed),
        built: &built,
        folder: folder.path(),
        place,
        lives: Vec::new(),
        begun: 0,
        ended: 0,
        acts: [0; 6],
    };
    let directory = upheaval.place.directory();
    let mut agent = upheaval.start();
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut next_act = Instant::now();
    while Instant::now() < until {
        while upheaval.lives.len() < usize::try_from(programs).unwrap() {
            upheaval.begin_life();
        }
        upheaval.end_lives(false);
        if agent.child.try_wait().unwrap().is_some() {
            agent = upheaval.start();
        } else if next_act <= Instant::now() {
            next_act = Instant::now() + Duration::from_millis(500 + upheaval.random.u64(..2000));
            agent = upheaval.act(agent);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // The last one has no fail point, records the remaining programs, and ends in order.
    agent.kill();
    let agent = upheaval.place.start();
    let messages = || upheaval.place.messages();
    let living: Vec<u32> = upheaval
        .lives
        .iter()
        .map(|life| life.program.id())
        .collect();
    wait("all are recorded", || {
        living
            .iter()
            .all(|process| upheaval.place.records("calls", *process))
    });
    // So that each of them has frames: its threads pause between calls.
    for life in &upheaval.lives {
        life.program.wait_for(CALLS, || false);
    }
    let status = agent.end();
    assert!(status.success(), "{status}: {}", messages());
    let (archive, largest) = archive.end();
    for process in &living {
        assert!(has_own_code(*process), "process {process}: {}", messages());
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
    }
    assert!(recorders(&directory).is_empty(), "{}", messages());
    assert_eq!(
        fs::read_dir(directory.join("live")).unwrap().count(),
        0,
        "{}",
        messages()
    );
    let mut frames = archive.frames();
    let counts = upheaval.place.counts("calls");
    let missing = frames.missing();
    let lost = counts["lost"].as_u64().unwrap();
    assert!(
        missing <= lost,
        "{missing} frames are missing, and {lost} counted: {}",
        messages()
    );
    assert_eq!(counts["frames"], frames.count, "{}", messages());
    assert_eq!(counts["files"], frames.files, "{}", messages());
    for process in living {
        assert!(
            !frames.of(process, 0).is_empty(),
            "process {process}: {}",
            messages()
        );
    }
    // A file that was being added during one check is removed at the next.
    assert!(
        largest <= limit + limit / 4,
        "{largest} bytes of {limit}: {}",
        messages()
    );
    upheaval.end_lives(true);
    let [killed, all_killed, recorders_killed, ended, reloaded, asked] = upheaval.acts;
    println!(
        "{} programs; the agent killed {killed} times, with its recorders {all_killed}, its recorders {recorders_killed}, ended {ended}, \
         reloaded {reloaded}, asked {asked}; {} frames in {} files, {lost} lost and counted, {missing} missing; {} processes ended before \
         they were rescued; at most {largest} bytes of {limit}",
        upheaval.ended, frames.count, frames.files, counts["gone"],
    );
}
