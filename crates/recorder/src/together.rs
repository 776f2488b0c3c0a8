//! The processes of a run wait for each other, so that their threads are stopped at the same time, and for one reason at once.
//!
//! A busy thread stops when it next gets a processor. Where 400 threads want two processors, that takes most of a second, and each
//! system call that one of them makes for the tracer takes as long. Once all of them have been asked to stop, each stops as soon as
//! it is chosen, and the processors are free for what is to be done.
//!
//! What is to be done to stopped processes is done in *windows*, in which all of them are stopped. In a window they take turns, until
//! its time is over. The others go on with the next window, after all have run for a moment. So no thread is stopped for longer than
//! the short wait for the others and a window, however many processes there are, unless what is done to its process takes longer by
//! itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::meanwhile::{WorkOfRun, processors};

/// How long a process waits for others while its threads are stopped.
const STOPPED: Duration = Duration::from_millis(15);
/// How long it waits while they run.
const RUNNING: Duration = Duration::from_secs(1);
/// How long after the first process has come to a window turns begin there, besides the first turn.
const TURNS: Duration = Duration::from_millis(16);
/// How long a window lasts at most.
const WINDOW: Duration = Duration::from_millis(24);
/// How long threads run between windows.
const BETWEEN: Duration = Duration::from_millis(10);

/// Where processes wait for each other while they run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Gate {
    /// They are about to be attached to.
    Come,
    /// Their symbols are read.
    Read,
    /// Their threads have left the pads.
    Empty,
}

/// What is done to processes that are stopped together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Work {
    /// They are attached to, and the loading of libraries is followed.
    Attach,
    /// The tracepoints are put in.
    PutIn,
    /// The tracepoints are taken out.
    TakeOut,
    /// Everything else is taken out.
    Leave,
}

/// Processes of one thread that are stopped, and go on.
pub(crate) trait Halting {
    /// Stops all threads.
    fn halt(&mut self);
    /// Lets them run.
    fn go(&mut self);
}

/// The processes of a run that wait for each other.
#[derive(Debug, Default)]
pub(crate) struct Together {
    state: Mutex<State>,
    changed: Condvar,
    work: WorkOfRun,
}

#[derive(Debug, Default)]
struct State {
    gates: BTreeMap<Gate, GateState>,
    works: BTreeMap<Work, Windows>,
    readers: Readers,
}

/// The threads that read symbols. The first one is alone: the others mostly need the files that it reads, and find them read.
#[derive(Clone, Copy, Debug, Default)]
struct Readers {
    reading: usize,
    /// One of them is done.
    has_read: bool,
}

impl Readers {
    /// Whether another one has to wait.
    fn are_enough(self) -> bool {
        self.reading >= if self.has_read { at_once() } else { 1 }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct GateState {
    /// How many are still to come.
    awaited: usize,
    /// How many wait.
    waiting: usize,
    is_open: bool,
}

impl GateState {
    /// One less is to come.
    const fn expect_less(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited == 0 && self.waiting > 0 {
            self.is_open = true;
        }
    }
}

/// The windows for one kind of work.
#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    /// How many processes are expected.
    expected: usize,
    /// The number of the window that is open, or next.
    number: u64,
    /// When the first one came to it.
    first: Option<Instant>,
    opened: Option<Instant>,
    /// How many have come to this window.
    come: usize,
    /// How many of these still want a turn.
    wanting: usize,
    /// How many have it.
    working: usize,
    /// Whether anyone has had it.
    had_turn: bool,
    /// Nobody wanted a turn any more when the last window closed.
    was_last: bool,
}

impl Windows {
    fn close(&mut self) {
        self.was_last = self.wanting == 0;
        self.number += 1;
        (self.first, self.opened) = (None, None);
        (self.come, self.wanting, self.working) = (0, 0, 0);
        self.had_turn = false;
    }

    /// For how long turns still begin. The first process has been stopped for longer than the window is open.
    fn turns_left(&self) -> Duration {
        let stopped = self.first.map_or(Duration::ZERO, |first| first.elapsed());
        TURNS.saturating_sub(stopped)
    }
}

/// What a process does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// It has its turn, in this window.
    Turn(u64),
    /// The window is closed, and there is another one.
    Window,
    /// All have had their turn.
    Over,
}

/// Which way a process goes with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It is attached to with others, and left with others.
    Whole,
    /// It is left with others.
    End,
}

impl Way {
    const fn gates(self) -> &'static [Gate] {
        match self {
            Self::Whole => &[Gate::Come, Gate::Read, Gate::Empty],
            Self::End => &[Gate::Empty],
        }
    }

    const fn works(self) -> &'static [Work] {
        match self {
            Self::Whole => &[Work::Attach, Work::PutIn, Work::TakeOut, Work::Leave],
            Self::End => &[Work::TakeOut, Work::Leave],
        }
    }
}

impl Together {
    /// A process is to be waited for from now on.
    pub fn join(self: &Arc<Self>, way: Way) -> Arc<Place> {
        let ahead = Ahead {
            gates: way.gates().to_vec(),
            works: way.works().to_vec(),
            turn: None,
        };
        let mut state = self.lock();
        for gate in &ahead.gates {
            state.gates.entry(*gate).or_default().awaited += 1;
        }
        for work in &ahead.works {
            state.works.entry(*work).or_default().expected += 1;
        }
        drop(state);
        Arc::new(Place {
            together: Arc::clone(self),
            ahead: Mutex::new(ahead),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does not wait for a process any more.
    fn expect_less(&self, ahead: &Ahead) {
        let mut state = self.lock();
        for gate in &ahead.gates {
            state.gates.entry(*gate).or_default().expect_less();
        }
        for work in &ahead.works {
            let windows = state.works.entry(*work).or_default();
            windows.expected = windows.expected.saturating_sub(1);
        }
        if let Some((work, number)) = ahead.turn {
            give_back(&mut state, work, number);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn wait(&self, gate: Gate) {
        let mut state = self.lock();
        let own = state.gates.entry(gate).or_default();
        own.waiting += 1;
        own.expect_less();
        if own.is_open {
            self.changed.notify_all();
        }
        let is_closed =
            |state: &mut State| (state.gates.get(&gate)).is_some_and(|gate| !gate.is_open);
        let waited = self.changed.wait_timeout_while(state, RUNNING, is_closed);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let own = state.gates.entry(gate).or_default();
        own.waiting -= 1;
        if timeout.timed_out() {
            // What they have waited for is over, for all of them.
            own.is_open = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Reads symbols in turn with the others. A thread that gets no memory is never done, so none waits for long.
    fn read<R>(&self, read: impl FnOnce() -> R) -> R {
        let state = self.lock();
        let waited =
            (self.changed).wait_timeout_while(state, RUNNING, |state| state.readers.are_enough());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.readers.reading += 1;
        drop(state);
        let result = read();
        let mut state = self.lock();
        state.readers.reading -= 1;
        state.readers.has_read = true;
        drop(state);
        self.changed.notify_all();
        result
    }

    /// Comes to a window with a stopped process, and waits for a turn or for the end of the window.
    fn come(&self, work: Work, wants: bool) -> Next {
        let mut state = self.lock();
        let windows = state.works.entry(work).or_default();
        windows.first.get_or_insert_with(Instant::now);
        windows.come += 1;
        windows.wanting += usize::from(wants);
        let number = windows.number;
        self.changed.notify_all();
        self.wait_in(state, work, number, wants)
    }

    /// Waits in a window.
    fn wait_in(
        &self,
        mut state: MutexGuard<'_, State>,
        work: Work,
        number: u64,
        wants: bool,
    ) -> Next {
        let come = Instant::now();
        loop {
            let windows = state.works.entry(work).or_default();
            if windows.number != number {
                return match windows.was_last && !wants {
                    true => Next::Over,
                    false => Next::Window,
                };
            }
            if windows.opened.is_none()
                && (windows.come >= windows.expected || come.elapsed() >= STOPPED)
            {
                windows.opened = Some(Instant::now());
                self.changed.notify_all();
            }
            let limit = match windows.opened {
                None => STOPPED.saturating_sub(come.elapsed()),
                Some(opened) => {
                    let (open, turns_left) = (opened.elapsed(), windows.turns_left());
                    let has_turns = !turns_left.is_zero() || !windows.had_turn;
                    if wants && has_turns && windows.working < at_once() {
                        windows.wanting -= 1;
                        windows.working += 1;
                        windows.had_turn = true;
                        return Next::Turn(number);
                    }
                    let is_done = windows.working == 0 && (windows.wanting == 0 || !has_turns);
                    if is_done || open >= WINDOW {
                        windows.close();
                        self.changed.notify_all();
                        continue;
                    }
                    match turns_left.is_zero() {
                        true => WINDOW - open,
                        false => turns_left,
                    }
                }
            };
            // At least so long that it does not spin.
            let limit = limit.max(Duration::from_micros(100));
            let waited = self.changed.wait_timeout(state, limit);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The turn of a process is over. Waits for the end of its window.
    fn work_is_done(&self, work: Work, number: u64) -> Next {
        let mut state = self.lock();
        if !give_back(&mut state, work, number) {
            // It has taken longer than its window. The others have theirs without its threads, too.
            return Next::Window;
        }
        self.changed.notify_all();
        self.wait_in(state, work, number, false)
    }
}

/// Ends a turn. Whether its window is still open.
fn give_back(state: &mut State, work: Work, number: u64) -> bool {
    let windows = state.works.entry(work).or_default();
    let is_open = windows.number == number;
    if is_open {
        windows.working -= 1;
    }
    is_open
}

/// How many have a turn at the same time: a thread of the tracer and one of the program take turns at what they do.
fn at_once() -> usize {
    processors().div_ceil(2)
}

/// The place of a process among those that wait for each other.
#[derive(Debug)]
pub(crate) struct Place {
    together: Arc<Together>,
    ahead: Mutex<Ahead>,
}

/// What a process has not come to yet.
#[derive(Debug, Default)]
struct Ahead {
    gates: Vec<Gate>,
    works: Vec<Work>,
    /// The turn that it has, and the number of the window.
    turn: Option<(Work, u64)>,
}

impl Place {
    /// Waits until the others have come here too, or will not, or take too long.
    pub fn wait(&self, gate: Gate) {
        let mut ahead = self.ahead();
        let is_ahead = ahead.gates.contains(&gate);
        ahead.gates.retain(|other| *other != gate);
        drop(ahead);
        if is_ahead {
            self.together.wait(gate);
        }
    }

    /// What is known of the work beside the programs of the run.
    pub fn work(&self) -> WorkOfRun {
        self.together.work.clone()
    }

    /// Reads symbols, when few enough of the others do so.
    pub fn read<R>(&self, read: impl FnOnce() -> R) -> R {
        self.together.read(read)
    }

    /// Waits for the turn of processes that are stopped, in a window in which those of the others are, too.
    pub fn begin(&self, work: Work, processes: &mut dyn Halting) {
        if !self.ahead().works.contains(&work) {
            return;
        }
        loop {
            if let Next::Turn(number) = self.together.come(work, true) {
                self.ahead().turn = Some((work, number));
                return;
            }
            pause(processes);
        }
    }

    /// The turn of processes is over. Waits until those of the others are. The processes are then stopped.
    pub fn end(&self, processes: &mut dyn Halting) {
        let Some((work, number)) = self.ahead().turn.take() else {
            return;
        };
        let mut next = self.together.work_is_done(work, number);
        while next == Next::Window {
            pause(processes);
            next = self.together.come(work, false);
        }
        self.ahead().works.retain(|other| *other != work);
        let is_over = Ahead {
            works: vec![work],
            ..Ahead::default()
        };
        self.together.expect_less(&is_over);
    }

    /// The others wait for it no longer.
    pub fn leave(&self) {
        let ahead = std::mem::take(&mut *self.ahead());
        self.together.expect_less(&ahead);
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets processes run for a moment.
fn pause(processes: &mut dyn Halting) {
    processes.go();
    std::thread::sleep(BETWEEN);
    processes.halt();
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often it was let run.
    #[derive(Default)]
    struct Counting(usize);

    impl Halting for Counting {
        fn halt(&mut self) {}

        fn go(&mut self) {
            self.0 += 1;
        }
    }

    fn together(count: usize, way: Way) -> Vec<Arc<Place>> {
        let together = Arc::new(Together::default());
        (0..count).map(|_| together.join(way)).collect()
    }

    #[test]
    fn a_gate_opens_when_all_have_come_and_for_nobody_else() {
        let places = together(2, Way::Whole);
        std::thread::scope(|scope| {
            for place in &places {
                scope.spawn(|| place.wait(Gate::Read));
            }
        });
        let gates = places[0].together.lock().gates.clone();
        assert!(gates[&Gate::Read].is_open);
        assert!(!gates[&Gate::Empty].is_open);
    }

    #[test]
    fn who_leaves_is_not_waited_for() {
        let places = together(2, Way::Whole);
        places[1].leave();
        places[0].wait(Gate::Read);
        let mut process = Counting::default();
        places[0].begin(Work::Leave, &mut process);
        places[0].end(&mut process);
        assert_eq!(process.0, 0, "there is one window");
        assert_eq!(places[0].together.lock().works[&Work::Leave].expected, 0);
    }

    #[test]
    fn the_end_of_one_process_opens_nothing_for_those_that_come_later() {
        let together = Arc::new(Together::default());
        drop(together.join(Way::Whole));
        assert!(!together.lock().gates[&Gate::Empty].is_open);
    }

    #[test]
    fn the_first_one_reads_alone_and_the_others_together() {
        let together = Together::default();
        let are_enough = || together.lock().readers.are_enough();
        together.read(|| assert!(are_enough(), "the first one"));
        assert!(!are_enough(), "nobody reads");
        together.read(|| assert_eq!(are_enough(), at_once() == 1, "another one"));
    }

    #[test]
    fn turns_are_taken_in_windows_of_limited_length() {
        let places = together(12, Way::End);
        let working = Mutex::new(0);
        let windows: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (places.iter())
                .map(|place| {
                    let working = &working;
                    scope.spawn(move || {
                        let mut process = Counting::default();
                        place.begin(Work::Leave, &mut process);
                        *working.lock().expect("no thread has panicked") += 1;
                        assert!(*working.lock().expect("the same") <= at_once());
                        std::thread::sleep(TURNS / 3 * 2);
                        *working.lock().expect("the same") -= 1;
                        place.end(&mut process);
                        process.0
                    })
                })
                .collect();
            let counts = threads
                .into_iter()
                .map(|thread| thread.join().expect("it ends"));
            counts.max().unwrap_or(0)
        });
        assert!(windows > 0, "one window is too short for all");
        assert_eq!(places[0].together.lock().works[&Work::Leave].expected, 0);
    }

    #[test]
    fn who_takes_long_holds_nobody_up() {
        let places = together(2, Way::End);
        let (sender, receiver) = std::sync::mpsc::channel();
        let places = &places;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut process = Counting::default();
                places[0].begin(Work::Leave, &mut process);
                receiver.recv().expect("the other one is done");
                places[0].end(&mut process);
            });
            scope.spawn(move || {
                let mut process = Counting::default();
                places[1].begin(Work::Leave, &mut process);
                places[1].end(&mut process);
                sender.send(()).expect("the other one waits");
            });
        });
    }
}
