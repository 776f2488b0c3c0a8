//! A program that works and checks its work, under any tracing.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::support::Built;

/// Builds it, with so many threads, each checking after so many calls of `mix`.
pub fn build(threads: usize, rounds: usize) -> Built {
    let settings = [format!("-DTHREADS={threads}"), format!("-DROUNDS={rounds}")];
    let [threads, rounds] = settings.each_ref().map(String::as_str);
    Built::new(
        include_str!("../programs/checked.c"),
        &["-O1", "-pthread", threads, rounds],
    )
}

/// It runs.
pub struct Working {
    child: Child,
    input: ChildStdin,
    reported: BufReader<ChildStdout>,
}

impl Working {
    pub fn start(built: &Built) -> Self {
        let mut child = Command::new(&built.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let input = child.stdin.take().expect("stdin");
        let mut reported = BufReader::new(child.stdout.take().expect("stdout"));
        reported.read_line(&mut String::new()).expect("text");
        Self {
            child,
            input,
            reported,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until each of its threads but the first has worked.
    pub fn wait_for_work(&mut self, threads: usize) {
        /// A check takes a few microseconds.
        const ENOUGH: u64 = 2_000_000;
        loop {
            assert_eq!(self.ended(), None);
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).expect("it runs");
            // The nanoseconds that a thread has run come first (Documentation/scheduler/sched-stats.rst).
            let has_worked = |task: &std::fs::DirEntry| {
                let line = std::fs::read_to_string(task.path().join("schedstat"));
                let line = line.expect("it runs");
                let time = line.split_whitespace().next();
                time.expect("a time").parse::<u64>().expect("a number") >= ENOUGH
            };
            let tasks = tasks.map(|task| task.expect("a thread"));
            let first = self.id().to_string();
            let others = tasks.filter(|task| *task.file_name() != *first);
            if others.filter(has_worked).count() == threads {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Sends it SIGSTOP, and waits until all its threads have stopped.
    pub fn stop(&self) {
        let id = Pid::from_raw(self.id().cast_signed());
        kill(id, Signal::SIGSTOP).expect("it is there");
        let how = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(id), how).expect("a child");
        assert_eq!(status, WaitStatus::Stopped(id, Signal::SIGSTOP));
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("asked")
    }

    /// Tells it to end: all of its work must be right, unless it is already dead.
    #[track_caller]
    pub fn finish(self) -> Result<(), ExitStatus> {
        let Self {
            mut child,
            input,
            mut reported,
        } = self;
        drop(input);
        let mut line = String::new();
        reported.read_line(&mut line).expect("text");
        let status = child.wait().expect("ended");
        if !status.success() {
            return Err(status);
        }
        assert_eq!(line, "ended, 0 wrong, 0 idle\n");
        Ok(())
    }
}
