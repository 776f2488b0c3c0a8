//! The processes that a client debugs, and which of them it means.

use std::collections::BTreeMap;

use tracewire_arch::X86Registers;
use tracewire_model::ThreadId;
use tracewire_packets::{ThreadSelector, Which};
use tracewire_target_linux::{Process, Reports, Tracees};

/// The processes, the one that is selected and the one that is traced.
#[derive(Debug)]
pub(super) struct Inferiors {
    pub(super) tracees: Tracees,
    /// The processes that the client knows, and whether each was attached to.
    known: BTreeMap<u32, bool>,
    registers: X86Registers,
    /// The process and thread whose registers and memory are used (`Hg`).
    selected: Option<(u32, ThreadId)>,
    /// The threads that run when no `vCont` selects them (`Hc`).
    resumed: ThreadSelector,
    /// The process that the tracepoints are in.
    traced: Option<u32>,
    /// The process that the client has started or attached to last.
    latest: Option<u32>,
    wishes: Wishes,
}

/// The client's settings for every process.
#[derive(Debug, Default)]
struct Wishes {
    /// Signals that are not reported to it.
    passed: Option<Vec<i32>>,
    /// Signals that the program may get.
    wanted: Option<Vec<i32>>,
    reports: Reports,
}

impl Wishes {
    fn apply(&self, process: &mut Process) {
        // Until the client sets them, every signal is reported to it.
        process.pass_signals(self.passed.iter().flatten().copied());
        if let Some(wanted) = &self.wanted {
            process.program_signals(wanted.iter().copied());
        }
        process.set_reports(self.reports);
    }
}

impl Inferiors {
    pub(super) fn new(registers: X86Registers) -> Self {
        Self {
            tracees: Tracees::default(),
            known: BTreeMap::new(),
            registers,
            selected: None,
            resumed: ThreadSelector::ANY,
            traced: None,
            latest: None,
            wishes: Wishes::default(),
        }
    }

    /// The registers that are read of every process.
    pub(super) const fn registers(&self) -> X86Registers {
        self.registers
    }

    /// Adds a stopped process, and selects it.
    pub(super) fn add(&mut self, mut process: Process, attached: bool) {
        process.set_registers(self.registers);
        self.wishes.apply(&mut process);
        process.hold_all();
        let id = process.id();
        let thread = process
            .debugged_threads()
            .next()
            .map_or(id, |(_, thread)| thread);
        self.known.insert(id.0, attached);
        self.tracees.add(process);
        self.selected = Some((id.0, thread));
        self.latest = Some(id.0);
    }

    /// Adds a child that its parent has reported.
    pub(super) fn adopt(&mut self, child: ThreadId, parent: u32) {
        let attached = self.known.get(&parent).copied().unwrap_or(false);
        self.known.insert(child.0, attached);
    }

    /// Removes a process. The returned value contains no thread of another process.
    pub(super) fn remove(&mut self, process: u32) -> Option<Process> {
        self.known.remove(&process);
        self.traced.take_if(|traced| *traced == process);
        self.selected.take_if(|(selected, _)| *selected == process);
        self.tracees.remove(ThreadId(process))
    }

    pub(super) fn ids(&self) -> Vec<u32> {
        self.known.keys().copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether the process was attached to; none when it is not known.
    pub(super) fn was_attached(&self, process: u32) -> Option<bool> {
        self.known.get(&process).copied()
    }

    /// The process that is meant when none is named.
    pub(super) fn current(&self) -> Option<u32> {
        self.selected
            .map(|(process, _)| process)
            .filter(|process| self.known.contains_key(process))
            .or_else(|| self.known.keys().next().copied())
    }

    /// The process that is meant; for a child by vfork, the one whose memory it shares.
    pub(super) fn process(&self) -> Option<&Process> {
        self.of(self.current()?)
    }

    /// As [`process`](Self::process), mutable.
    pub(super) fn process_mut(&mut self) -> Option<&mut Process> {
        let current = self.current()?;
        self.of_mut(current)
    }

    pub(super) fn of(&self, process: u32) -> Option<&Process> {
        self.tracees.get(ThreadId(process))
    }

    pub(super) fn of_mut(&mut self, process: u32) -> Option<&mut Process> {
        self.tracees.get_mut(ThreadId(process))
    }

    /// The process with tracepoints, or the one that would get them.
    pub(super) fn traced(&self) -> Option<u32> {
        self.traced
            .filter(|process| self.known.contains_key(process))
            .or_else(|| self.current())
    }

    pub(super) fn traced_mut(&mut self) -> Option<&mut Process> {
        let traced = self.traced()?;
        self.of_mut(traced)
    }

    /// Whether the process is the one that an interrupt is for: the one that the user has started or attached to last,
    /// as for gdbserver.
    pub(super) fn is_interrupted_first(&self, process: u32) -> bool {
        self.latest
            .is_none_or(|latest| latest == process || !self.known.contains_key(&latest))
    }

    /// From now on tracepoints mean the selected process.
    pub(super) fn trace_current(&mut self) {
        self.traced = self.current();
    }

    /// The threads that are alive, each with its process. Those of a child that has not been reported to the client are
    /// left out.
    pub(super) fn threads(&self) -> Vec<(u32, ThreadId)> {
        self.tracees
            .threads()
            .map(|(process, thread)| (process.0, thread))
            .filter(|(process, _)| self.known.contains_key(process))
            .collect()
    }

    /// The children of a process that have not been reported to the client.
    pub(super) fn unreported_children(&self, process: u32) -> Vec<u32> {
        let children = self.of(process).into_iter().flat_map(Process::new_children);
        children.map(|child| child.0).collect()
    }

    /// The thread that registers are read from.
    pub(super) fn thread(&self) -> Option<ThreadId> {
        let current = self.current()?;
        let threads = self.threads();
        let mut own = threads.iter().filter(|(process, _)| *process == current);
        match self.selected {
            Some(selected) if threads.contains(&selected) => Some(selected.1),
            _ => own.next().map(|(_, thread)| *thread),
        }
    }

    /// The first thread that is meant; none when there is no such.
    pub(super) fn find(&self, selector: &ThreadSelector) -> Option<(u32, ThreadId)> {
        self.threads()
            .into_iter()
            .find(|(process, thread)| selector.matches(*process, thread.0))
    }

    pub(super) fn select(&mut self, process: u32, thread: ThreadId) {
        self.selected = Some((process, thread));
    }

    /// Selects whom `Hg` names; whether there is such a thread.
    pub(super) fn select_named(&mut self, selector: &ThreadSelector) -> bool {
        if selector.thread == Which::Any && selector.process.is_none_or(|which| which == Which::Any)
        {
            // Any will do: the one that is selected already, if it is alive.
            return true;
        }
        let found = self.find(selector);
        if let Some((process, thread)) = found {
            self.select(process, thread);
        }
        found.is_some()
    }

    /// The threads that run when no `vCont` selects them.
    pub(super) const fn resumed(&self) -> ThreadSelector {
        self.resumed
    }

    /// `Hc`.
    pub(super) const fn select_to_resume(&mut self, threads: ThreadSelector) {
        self.resumed = threads;
    }

    /// Signals that are not reported to the client.
    pub(super) fn pass_signals(&mut self, signals: Vec<i32>) {
        self.set(|wishes| wishes.passed = Some(signals));
    }

    /// Signals that programs may get.
    pub(super) fn program_signals(&mut self, signals: Vec<i32>) {
        self.set(|wishes| wishes.wanted = Some(signals));
    }

    /// Whether threads that start and end are reported.
    pub(super) fn report_threads(&mut self, on: bool) {
        self.set(|wishes| wishes.reports.threads = on);
    }

    /// Whether new processes are reported, by `fork` and by `vfork`.
    pub(super) fn report_forks(&mut self, forks: bool, vforks: bool) {
        self.set(|wishes| {
            wishes.reports.forks = forks;
            wishes.reports.vforks = vforks;
        });
    }

    /// Changes the client's settings for every process.
    fn set(&mut self, change: impl FnOnce(&mut Wishes)) {
        change(&mut self.wishes);
        for process in self.tracees.iter_mut() {
            self.wishes.apply(process);
        }
    }

    /// Begins a client's session: nothing is selected yet.
    pub(super) fn begin_session(&mut self) {
        self.tracees.forget_interruption();
        self.selected = None;
        self.resumed = ThreadSelector::ANY;
        self.set(|wishes| wishes.reports = Reports::default());
    }
}
