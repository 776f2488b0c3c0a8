//! Matches entries and returns.
//!
//! A call is named by its thread and by the stack pointer at the function's first instruction, which every exit of the function has
//! again. A thread's open spans are a stack. A hit that is higher on it than an open span says that the span was left without a return:
//! by the exception, the `longjmp` or the end of the thread that was seen last.
//!
//! A thread may have several stacks: one for signal handlers (`sigaltstack`), and those of coroutines. A hit far above everything that is
//! open, where nothing has been seen by which functions are left, is on another stack. Its spans are in the span that was open on
//! the stack before. The same holds for spans far below a hit, which nothing has left. A span that was taken for left, and returns after
//! all, has returned.
//!
//! A goroutine of Go is as a thread with one stack, whichever threads run it.

use std::collections::HashMap;
use std::num::NonZero;

use tracewire_model::{Address, FrameNumber, SpanPoint, SpanRole, TracepointNumber};

use super::{Span, SpanEnd};

/// Within how many bytes above an open span a hit is on the same stack, where nothing was seen that leaves functions.
const SAME_STACK: u64 = 32 << 10;

/// How many stacks of a thread are distinguished.
const MOST_STACKS: usize = 4096;

/// Whose calls are matched with one another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Caller {
    /// A thread, by its number.
    Thread(u32),
    /// A goroutine of Go, by its number.
    Goroutine(NonZero<u64>),
}

impl Caller {
    const fn goroutine(self) -> Option<NonZero<u64>> {
        match self {
            Self::Thread(_) => None,
            Self::Goroutine(number) => Some(number),
        }
    }
}

/// A frame of a span tracepoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) frame: FrameNumber,
    pub(super) tracepoint: TracepointNumber,
    pub(super) caller: Caller,
    /// The stack pointer at the function's first instruction.
    pub(super) stack: u64,
    pub(super) time: Option<u64>,
    /// Of a `longjmp`, the stack pointer that it sets.
    pub(super) target: Option<u64>,
    pub(super) point: SpanPoint,
}

/// Where a matcher keeps spans, each with an index.
pub(super) trait SpanStore {
    /// Adds a span that begins, and gives its index. Entries come in their order.
    fn add(&mut self, span: Span) -> usize;

    /// A span; none where it is not kept any more.
    fn get(&self, index: usize) -> Option<&Span>;

    /// As [`get`](Self::get), to be changed.
    fn get_mut(&mut self, index: usize) -> Option<&mut Span>;

    /// The span that begins with a frame.
    fn of_entry(&self, entry: FrameNumber) -> Option<&Span>;
}

/// All spans of a file.
impl SpanStore for Vec<Span> {
    fn add(&mut self, span: Span) -> usize {
        self.push(span);
        self.len() - 1
    }

    fn get(&self, index: usize) -> Option<&Span> {
        self.as_slice().get(index)
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut Span> {
        self.as_mut_slice().get_mut(index)
    }

    fn of_entry(&self, entry: FrameNumber) -> Option<&Span> {
        let at = self.binary_search_by_key(&entry, |span| span.entry);
        SpanStore::get(self, at.ok()?)
    }
}

/// Matches hits as they come.
#[derive(Debug, Default)]
pub(super) struct Matcher<S> {
    pub(super) spans: S,
    threads: HashMap<Caller, Thread>,
    unmatched: u64,
}

#[derive(Debug, Default)]
struct Thread {
    /// A goroutine has no stack but its own.
    has_one_stack: bool,
    stacks: Vec<Stack>,
    /// On which of them the thread was last.
    current: usize,
    departure: Option<Departure>,
    /// The spans that began after it, each by its index: what they are in may turn out to have been left before.
    since: Vec<usize>,
    /// When the last of a departure and its arrivals came, in nanoseconds, as long as another arrival may follow.
    leaving: Option<u64>,
    /// When the thread began to end, if it did.
    exit: Option<Option<u64>>,
    /// The spans that were taken for left, by their place: one may return after all.
    left: HashMap<(u64, Address, TracepointNumber), usize>,
}

/// One of the stacks of a thread.
#[derive(Debug, Default)]
struct Stack {
    open: Vec<OpenSpan>,
    /// On which of the thread's stacks it was before.
    from: usize,
}

/// A call that has not ended. Several tracepoints may be on its function.
#[derive(Clone, Debug)]
struct OpenSpan {
    /// The span of each tracepoint.
    spans: Vec<(TracepointNumber, usize)>,
    stack: u64,
    function: Address,
    /// A jump that may have been to another function.
    may_end: Option<(FrameNumber, Option<u64>)>,
    /// How many hits of the thread's departures came before.
    departures: u64,
}

/// What was seen last by which functions are left without a return.
#[derive(Clone, Copy, Debug)]
struct Departure {
    end: SpanEnd,
    time: Option<u64>,
    stack: u64,
    number: u64,
    /// Whether a hit on the stack came after it.
    is_past: bool,
    /// Whether what it has left is known: a hit above that is on another stack.
    has_arrived: bool,
}

impl<S: SpanStore> Matcher<S> {
    /// Notes a hit.
    pub(super) fn hit(&mut self, hit: &Hit) {
        let thread = self.threads.entry(hit.caller).or_default();
        let is_goroutine = hit.caller.goroutine().is_some();
        thread.has_one_stack = is_goroutine;
        match hit.point.role {
            SpanRole::Entry => thread.enter(hit, false, &mut self.spans),
            SpanRole::EntryAndLoop => thread.enter(hit, true, &mut self.spans),
            SpanRole::EntryAndReturn | SpanRole::EntryAndTailCall => {
                thread.enter(hit, false, &mut self.spans);
                thread.leave(hit, &mut self.spans);
            }
            SpanRole::Return | SpanRole::TailCall => {
                if !thread.leave(hit, &mut self.spans) {
                    self.unmatched += 1;
                }
            }
            SpanRole::MayTailCall => thread.may_leave(hit),
            SpanRole::Exception => thread.depart(hit, SpanEnd::Exception, &mut self.spans),
            SpanRole::Longjmp => {
                thread.depart(hit, SpanEnd::Longjmp, &mut self.spans);
                if let Some(target) = hit.target {
                    thread.land(hit, target, false, &mut self.spans);
                    thread.arrive();
                }
            }
            SpanRole::Landing => {
                thread.land(hit, hit.stack, true, &mut self.spans);
                thread.arrive();
            }
            SpanRole::Resume => thread.land(hit, hit.stack, true, &mut self.spans),
            SpanRole::ThreadExit => thread.depart(hit, SpanEnd::ThreadExit, &mut self.spans),
        }
        // There may be millions, and numbers are not used again.
        if is_goroutine && thread.stacks.iter().all(|stack| stack.open.is_empty()) {
            self.threads.remove(&hit.caller);
        }
    }

    /// Ends what is open at the end of the run.
    pub(super) fn finish(&mut self, process_ended: bool) {
        for thread in self.threads.values() {
            let open = thread.stacks.iter().flat_map(|stack| &stack.open);
            let open = open.flat_map(|open| open.spans.iter().map(move |(_, at)| (open, *at)));
            for (open, index) in open {
                let Some(span) = self.spans.get_mut(index) else {
                    continue;
                };
                if let Some((frame, time)) = open.may_end {
                    end_by_tail_call(span, frame, time);
                } else if let Some(time) = thread.exit {
                    (span.end, span.end_ns) = (SpanEnd::ThreadExit, time);
                } else if process_ended {
                    span.end = SpanEnd::ProcessExit;
                }
            }
        }
    }

    /// How many returns have no entry.
    pub(super) const fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// The frames of jumps that may end spans which are open.
    pub(super) fn possible_ends(&self) -> impl Iterator<Item = FrameNumber> {
        let open = self.threads.values().flat_map(|thread| &thread.stacks);
        let open = open.flat_map(|stack| &stack.open);
        let ends = open.filter_map(|open| open.may_end);
        ends.map(|(frame, _)| frame)
    }

    /// No arrival follows any more after departures and arrivals of these times, in nanoseconds.
    pub(super) fn settle(&mut self, is_over: impl Fn(u64) -> bool) {
        for thread in self.threads.values_mut() {
            if thread.leaving.is_some_and(&is_over) {
                thread.leaving = None;
                thread.since.clear();
            }
        }
    }

    /// The spans of which it is not settled yet what they are in.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = usize> {
        self.threads
            .values()
            .flat_map(|thread| &thread.since)
            .copied()
    }

    /// Forgets the spans that are not kept any more, and the threads that have ended.
    pub(super) fn forget(&mut self) {
        let spans = &self.spans;
        self.threads.retain(|_, thread| {
            let is_kept = |index: &usize| spans.get(*index).is_some();
            thread.since.retain(is_kept);
            thread.left.retain(|_, index| is_kept(index));
            thread.exit.is_none() || thread.stacks.iter().any(|stack| !stack.open.is_empty())
        });
    }
}

fn end_by_tail_call(span: &mut Span, frame: FrameNumber, time: Option<u64>) {
    span.end = SpanEnd::Return;
    span.is_tail_call = true;
    span.exit = Some(frame);
    span.end_ns = time;
}

impl Thread {
    /// Begins a span.
    fn enter(&mut self, hit: &Hit, is_loop: bool, spans: &mut impl SpanStore) {
        let chosen = self.choose(hit.stack);
        if is_loop
            && let Some(top) = self.stacks.get(chosen).and_then(|stack| stack.open.last())
            && (top.stack, top.function) == (hit.stack, hit.point.function)
            && !self.may_have_left(top)
        {
            return;
        }
        let same_call = self.stacks.get_mut(chosen).and_then(|stack| {
            let is_it = |(number, _): &(TracepointNumber, usize)| *number == hit.tracepoint;
            stack.open.last_mut().filter(|top| {
                (top.stack, top.function) == (hit.stack, hit.point.function)
                    && top.may_end.is_none()
                    && !top.spans.iter().any(is_it)
            })
        });
        // Another tracepoint has the same call.
        if let Some(call) = same_call
            && let Some(first) = call.spans.first().and_then(|(_, first)| spans.get(*first))
        {
            let span = Span {
                entry: hit.frame,
                statement: hit.point.statement,
                start_ns: hit.time,
                ..*first
            };
            call.spans.push((hit.tracepoint, spans.add(span)));
            return;
        }
        self.close(chosen, hit.stack, true, spans);
        self.pass_departure(chosen, spans);
        self.arrive();
        let parent = self.parent(chosen);
        let depth = parent.and_then(|parent| spans.get(parent));
        let index = spans.add(Span {
            statement: hit.point.statement,
            entry: hit.frame,
            exit: None,
            function: hit.point.function,
            end: SpanEnd::Open,
            is_tail_call: false,
            start_ns: hit.time,
            end_ns: None,
            parent: depth.map(|parent| parent.entry),
            depth: depth.map_or(0, |parent| parent.depth + 1),
            goroutine: hit.caller.goroutine(),
        });
        let before = std::mem::replace(&mut self.current, chosen);
        self.left
            .remove(&(hit.stack, hit.point.function, hit.tracepoint));
        let departures = self.departure.map_or(0, |departure| departure.number);
        if self.leaving.is_some() {
            self.since.push(index);
        }
        if let Some(stack) = self.stacks.get_mut(chosen) {
            if stack.open.is_empty() && before != chosen {
                stack.from = before;
            }
            stack.open.push(OpenSpan {
                spans: vec![(hit.tracepoint, index)],
                stack: hit.stack,
                function: hit.point.function,
                may_end: None,
                departures,
            });
        }
    }

    /// The span that one on this stack is in.
    fn parent(&self, chosen: usize) -> Option<usize> {
        let last = |stack: usize| self.stacks.get(stack).and_then(|stack| stack.open.last());
        let open = last(chosen).or_else(|| last(self.current))?;
        open.spans.first().map(|(_, index)| *index)
    }

    /// Ends a span by a return or a tail call; false where no entry is known.
    fn leave(&mut self, hit: &Hit, spans: &mut impl SpanStore) -> bool {
        let order = std::iter::once(self.current)
            .chain((0..self.stacks.len()).filter(|index| *index != self.current));
        let mut found = None;
        for index in order {
            let stack = self.stacks.get(index).map_or(&[][..], |stack| &stack.open);
            if let Ok(at) = find(stack, hit.stack)
                && (stack.get(at)).is_some_and(|open| open.function == hit.point.function)
            {
                found = Some((index, at));
                break;
            }
        }
        let Some((chosen, at)) = found else {
            // It was taken for left: by a coroutine that came back.
            let Some(index) = self
                .left
                .remove(&(hit.stack, hit.point.function, hit.tracepoint))
            else {
                return false;
            };
            return end(spans, index, hit);
        };
        self.close(chosen, hit.stack, false, spans);
        self.pass_departure(chosen, spans);
        self.current = chosen;
        let Some(stack) = self.stacks.get_mut(chosen) else {
            return false;
        };
        debug_assert_eq!(stack.open.len(), at + 1, "what is below was closed");
        let Some(open) = stack.open.last_mut() else {
            return false;
        };
        let own = open
            .spans
            .iter()
            .position(|(number, _)| *number == hit.tracepoint);
        let own = own.map(|own| open.spans.remove(own).1);
        if open.spans.is_empty() {
            stack.open.pop();
        }
        self.go_back();
        own.is_some_and(|index| end(spans, index, hit))
    }

    /// From a stack on which nothing is open the thread goes back to the one where it was before, as from a signal handler.
    fn go_back(&mut self) {
        for _ in 0..self.stacks.len() {
            match self.stacks.get(self.current) {
                Some(stack) if stack.open.is_empty() => self.current = stack.from,
                _ => return,
            }
        }
    }

    /// Notes a jump that may be to another function.
    fn may_leave(&mut self, hit: &Hit) {
        let stack = self.stacks.get_mut(self.current);
        let open = stack.and_then(|stack| {
            let at = find(&stack.open, hit.stack).ok()?;
            stack.open.get_mut(at)
        });
        let open = open.filter(|open| open.function == hit.point.function);
        if let Some(open) = open {
            open.may_end = Some((hit.frame, hit.time));
        }
    }

    /// Notes what may leave functions.
    fn depart(&mut self, hit: &Hit, end: SpanEnd, spans: &mut impl SpanStore) {
        let chosen = self.choose(hit.stack);
        // What is below it was left before.
        self.close(chosen, hit.stack, false, spans);
        self.current = chosen;
        if end == SpanEnd::ThreadExit {
            self.exit.get_or_insert(hit.time);
        }
        self.since.clear();
        self.leaving = Some(hit.time.unwrap_or(u64::MAX));
        self.departure = Some(Departure {
            end,
            time: hit.time,
            stack: hit.stack,
            number: self.departure.map_or(0, |departure| departure.number) + 1,
            is_past: false,
            has_arrived: false,
        });
    }

    /// Ends what a departure has left, once it is known where it led: the functions below that place, or at it.
    fn land(&mut self, hit: &Hit, place: u64, inclusive: bool, spans: &mut impl SpanStore) {
        if self.leaving.is_some() {
            self.leaving = Some(hit.time.unwrap_or(u64::MAX));
        }
        // What was entered since, as a destructor, was no arrival.
        if let Some(departure) = &mut self.departure {
            departure.has_arrived = false;
        }
        let chosen = self.choose(place);
        let mut left = self.close(chosen, place, inclusive, spans);
        left.extend(self.pass_departure(chosen, spans));
        self.current = chosen;
        let left: HashMap<FrameNumber, Option<FrameNumber>> = left
            .into_iter()
            .filter_map(|index| spans.get(index))
            .map(|span| (span.entry, span.parent))
            .collect();
        // What began meanwhile was not in them.
        for index in std::mem::take(&mut self.since) {
            let Some(span) = spans.get(index) else {
                continue;
            };
            let mut parent = span.parent;
            while let Some(above) = parent.and_then(|parent| left.get(&parent)) {
                parent = *above;
            }
            let around = parent.and_then(|parent| spans.of_entry(parent));
            let depth = around.map_or(0, |around| around.depth + 1);
            if let Some(span) = spans.get_mut(index) {
                (span.parent, span.depth) = (parent, depth);
            }
        }
    }

    /// Notes that a departure leaves no more functions.
    fn arrive(&mut self) {
        if let Some(departure) = &mut self.departure {
            departure.has_arrived = true;
        }
    }

    /// After a departure the thread is on a stack: what is open on the one it departed from, if that is another one, was left.
    fn pass_departure(&mut self, chosen: usize, spans: &mut impl SpanStore) -> Vec<usize> {
        let Some(departure) = &mut self.departure else {
            return Vec::new();
        };
        if std::mem::replace(&mut departure.is_past, true) || self.current == chosen {
            return Vec::new();
        }
        self.close(self.current, u64::MAX, true, spans)
    }

    /// Whether a departure after the span began may have left it.
    fn may_have_left(&self, open: &OpenSpan) -> bool {
        self.departure.is_some_and(|departure| {
            departure.number > open.departures && departure.stack <= open.stack
        })
    }

    /// Ends the spans of a stack that are below a place, or at it, and gives their indices.
    fn close(
        &mut self,
        chosen: usize,
        place: u64,
        inclusive: bool,
        spans: &mut impl SpanStore,
    ) -> Vec<usize> {
        self.part(chosen, place, inclusive);
        let mut closed = Vec::new();
        let is_left = |open: &mut OpenSpan| open.stack < place || inclusive && open.stack == place;
        let take = |thread: &mut Self| thread.stacks.get_mut(chosen)?.open.pop_if(is_left);
        while let Some(open) = take(self) {
            let departure = self.departure.filter(|_| self.may_have_left(&open));
            for (number, index) in &open.spans {
                let Some(span) = spans.get_mut(*index) else {
                    continue;
                };
                closed.push(*index);
                self.left
                    .insert((open.stack, open.function, *number), *index);
                let may_end = open
                    .may_end
                    .filter(|(_, time)| departure.is_none_or(|departure| departure.time < *time));
                match (may_end, departure) {
                    (Some((frame, time)), _) => end_by_tail_call(span, frame, time),
                    (None, Some(departure)) => {
                        (span.end, span.end_ns) = (departure.end, departure.time);
                    }
                    (None, None) => span.end = SpanEnd::Left,
                }
            }
        }
        closed
    }

    /// Gives the spans far below a place a stack of their own, if nothing was seen that has left them: the stack of a coroutine may be
    /// below that of its thread. Otherwise only a return ends a call.
    fn part(&mut self, chosen: usize, place: u64, inclusive: bool) {
        if self.has_one_stack {
            return;
        }
        let Some(stack) = self.stacks.get(chosen) else {
            return;
        };
        let stays = |open: &OpenSpan| open.stack > place || !inclusive && open.stack == place;
        let first = stack.open.partition_point(stays);
        let mut above = place;
        let far = stack.open.iter().skip(first).position(|open| {
            let distance = above.saturating_sub(open.stack);
            above = open.stack;
            distance > SAME_STACK && !self.may_have_left(open)
        });
        let Some(far) = far else {
            return;
        };
        let unused = |(index, stack): (usize, &Stack)| {
            (index != chosen && index != self.current && stack.open.is_empty()).then_some(index)
        };
        let unused = self.stacks.iter().enumerate().find_map(unused);
        if unused.is_none() && self.stacks.len() >= MOST_STACKS {
            return;
        }
        let own = unused.unwrap_or(self.stacks.len());
        if own == self.stacks.len() {
            self.stacks.push(Stack::default());
        }
        let apart = self.stacks.get_mut(chosen);
        let apart = apart.map_or_else(Vec::new, |stack| stack.open.split_off(first + far));
        if let Some(stack) = self.stacks.get_mut(own) {
            stack.open = apart;
            stack.from = chosen;
        }
    }

    /// On which stack a place is.
    fn choose(&mut self, place: u64) -> usize {
        if self.has_one_stack {
            if self.stacks.is_empty() {
                self.stacks.push(Stack::default());
            }
            return 0;
        }
        let distance = |Stack { open: stack, .. }: &Stack| {
            let below = find(stack, place).unwrap_or_else(|below| below);
            let near = [below.checked_sub(1), Some(below)];
            let near = near.into_iter().flatten().filter_map(|at| stack.get(at));
            near.map(|open| open.stack.abs_diff(place)).min()
        };
        let nearest = self
            .stacks
            .iter()
            .enumerate()
            .filter_map(|(index, stack)| Some((distance(stack)?, index)))
            .min();
        let Some((_, nearest)) = nearest else {
            if self.stacks.is_empty() {
                self.stacks.push(Stack::default());
            }
            return self.current;
        };
        let bottom = self
            .stacks
            .get(nearest)
            .and_then(|stack| stack.open.first());
        let has_arrived = self.departure.is_none_or(|departure| departure.has_arrived);
        let is_elsewhere = bottom.is_some_and(|bottom| {
            place > bottom.stack.saturating_add(SAME_STACK)
                && (has_arrived || !self.may_have_left(bottom))
        });
        if !is_elsewhere {
            return nearest;
        }
        let empty = self.stacks.iter().position(|stack| stack.open.is_empty());
        empty.unwrap_or_else(|| {
            if self.stacks.len() >= MOST_STACKS {
                return nearest;
            }
            self.stacks.push(Stack::default());
            self.stacks.len() - 1
        })
    }
}

/// Where the span of a place on the stack is among those that are open, which go down; else how many are above it.
fn find(stack: &[OpenSpan], place: u64) -> Result<usize, usize> {
    stack.binary_search_by(|open| place.cmp(&open.stack))
}

fn end(spans: &mut impl SpanStore, index: usize, hit: &Hit) -> bool {
    let Some(span) = spans.get_mut(index) else {
        return false;
    };
    span.end = SpanEnd::Return;
    span.is_tail_call = matches!(
        hit.point.role,
        SpanRole::TailCall | SpanRole::EntryAndTailCall
    );
    span.exit = Some(hit.frame);
    span.end_ns = hit.time;
    true
}
