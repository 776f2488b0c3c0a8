//! The events that are reported to a debugger, and the children of the process that it knows.

use std::collections::BTreeSet;

use crate::ptrace::{Tid, bit};

/// Which events of its children and threads a process reports. Children that are not reported run on untraced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reports {
    /// Children by fork: [`StopCause::Forked`](crate::StopCause::Forked).
    pub forks: bool,
    /// Children by vfork: [`StopCause::Vforked`](crate::StopCause::Vforked), and
    /// [`StopCause::VforkDone`](crate::StopCause::VforkDone).
    pub vforks: bool,
    /// Threads: [`StopCause::Created`](crate::StopCause::Created) and
    /// [`Event::ThreadExited`](crate::Event::ThreadExited).
    pub threads: bool,
}

/// Which system calls stop a thread as it enters and as it leaves them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CaughtCalls {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those with these numbers, which are the program's own: a 32-bit program has other ones.
    These(BTreeSet<u32>),
}

impl CaughtCalls {
    pub(crate) fn holds(&self, number: u32) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::These(numbers) => numbers.contains(&number),
        }
    }
}

/// The debugger of a process, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Debugger {
    reports: Reports,
    /// The processes that share the memory and that were reported.
    children: BTreeSet<Tid>,
    caught_calls: CaughtCalls,
    /// The signals that the program may get; `None` until the debugger sets them.
    program_signals: Option<u64>,
    /// The signals that are not reported; none where there is no debugger.
    passed_signals: Option<u64>,
}

impl Debugger {
    /// The debugger state of a child: no children and no caught system calls yet.
    pub(crate) fn of_child(&self) -> Self {
        Self {
            reports: self.reports,
            program_signals: self.program_signals,
            passed_signals: self.passed_signals,
            ..Self::default()
        }
    }

    /// Whether there is a debugger.
    pub(crate) const fn is_there(&self) -> bool {
        self.passed_signals.is_some()
    }

    /// There is a debugger from now on.
    pub(crate) fn come(&mut self) {
        self.passed_signals.get_or_insert(0);
    }

    pub(crate) const fn reports(&self) -> Reports {
        self.reports
    }

    pub(crate) const fn set_reports(&mut self, reports: Reports) {
        self.reports = reports;
    }

    /// The children that share the memory and were reported.
    pub(crate) fn children(&self) -> impl Iterator<Item = Tid> + '_ {
        self.children.iter().copied()
    }

    pub(crate) fn knows_child(&self, child: Tid) -> bool {
        self.children.contains(&child)
    }

    pub(crate) fn add_child(&mut self, child: Tid) {
        self.children.insert(child);
    }

    /// Forgets a child that no longer shares the memory or is detached. Returns whether it was known.
    pub(crate) fn forget_child(&mut self, child: Tid) -> bool {
        self.children.remove(&child)
    }

    pub(crate) fn catch(&mut self, calls: CaughtCalls) {
        self.caught_calls = calls;
    }

    pub(crate) const fn caught_calls(&self) -> &CaughtCalls {
        &self.caught_calls
    }

    /// Whether it catches any system call.
    pub(crate) fn catches_calls(&self) -> bool {
        self.caught_calls != CaughtCalls::None
    }

    /// Sets the signals that are not reported.
    pub(crate) fn pass_signals(&mut self, signals: impl IntoIterator<Item = i32>) {
        self.passed_signals = Some(set_of(signals));
    }

    /// Sets the signals that the program may get.
    pub(crate) fn set_program_signals(&mut self, signals: impl IntoIterator<Item = i32>) {
        self.program_signals = Some(set_of(signals));
    }

    /// Whether the program gets a signal unreported.
    pub(crate) fn passes(&self, signal: i32) -> bool {
        self.passed_signals.unwrap_or(0) & bit(signal) != 0
    }

    /// Whether a thread that is detached with a signal gets it.
    pub(crate) fn lets_have(&self, signal: i32) -> bool {
        !self.is_there()
            || match self.program_signals {
                Some(signals) => signals & bit(signal) != 0,
                None => ![libc::SIGTRAP, libc::SIGINT].contains(&signal),
            }
    }
}

fn set_of(signals: impl IntoIterator<Item = i32>) -> u64 {
    signals
        .into_iter()
        .filter(|signal| (1..=64).contains(signal))
        .fold(0, |set, signal| set | bit(signal))
}
