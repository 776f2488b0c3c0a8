//! The open calls of a thread, on each of its stacks.

/// Positions that are no farther than this from an open call are on the same stack, in bytes.
const SAME_STACK: u64 = 1 << 20;
/// Positions at most this far below the innermost call are on the same stack without a further check, in bytes.
const NEAR: u64 = 64 << 10;
/// The most stacks of a thread that are distinguished.
const MOST_STACKS: usize = 1024;

/// The open calls of a thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadCalls {
    /// Open calls for each stack that the thread uses: its own, one for signals, those of coroutines. Stack pointers fall.
    stacks: Vec<Vec<OpenCall>>,
    /// Where the thread is.
    current: usize,
    /// The stack that it was on before, from which the first call on the current one is made.
    came_from: Option<usize>,
    last: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    function: usize,
    node: usize,
    /// The stack pointer at the entry.
    stack: u64,
    begun: u64,
    /// How long the calls took that it made.
    inner: u64,
    /// When it may have ended: at a jump that may leave the function, or before lost events.
    may_end: Option<u64>,
    /// The stack that it was called from, if that is another one.
    outer: Option<usize>,
}

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    pub(crate) function: usize,
    pub(crate) node: usize,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) inner: u64,
}

impl Default for ThreadCalls {
    fn default() -> Self {
        Self {
            stacks: vec![Vec::new()],
            current: 0,
            came_from: None,
            last: 0,
        }
    }
}

impl ThreadCalls {
    /// The time of an event: not before that of the one before, and the same where it has none.
    pub(crate) fn time_of(&mut self, time: u64) -> u64 {
        self.last = self.last.max(time);
        self.last
    }

    pub(crate) const fn last_time(&self) -> u64 {
        self.last
    }

    /// Events were lost: any open call may have ended by now.
    pub(crate) fn lose_events(&mut self) {
        let last = self.last;
        for open in self.stacks.iter_mut().flatten() {
            open.may_end.get_or_insert(last);
        }
    }

    fn here(&self) -> &[OpenCall] {
        self.stacks.get(self.current).map_or(&[], Vec::as_slice)
    }

    /// Selects the stack that contains a position.
    pub(crate) fn choose(&mut self, place: u64) {
        if let [bottom, .., top] | [bottom @ top] = self.here()
            && place <= bottom.stack
            && place.saturating_add(NEAR) >= top.stack
        {
            return;
        }
        let distance = |stack: &Vec<OpenCall>| {
            // Rising, as stack pointers fall.
            let below = stack.partition_point(|open| open.stack > place);
            let near = [below.checked_sub(1), Some(below)];
            let near = near.into_iter().flatten().filter_map(|at| stack.get(at));
            near.map(|open| open.stack.abs_diff(place)).min()
        };
        let nearest = (self.stacks.iter().enumerate())
            .filter_map(|(index, stack)| Some((distance(stack)?, index)))
            .min();
        let Some((distance, nearest)) = nearest else {
            // No call is open.
            self.came_from = None;
            return;
        };
        let chosen = match self.stacks.iter().position(Vec::is_empty) {
            _ if distance <= SAME_STACK => nearest,
            Some(empty) => empty,
            None if self.stacks.len() >= MOST_STACKS => nearest,
            None => {
                self.stacks.push(Vec::new());
                self.stacks.len() - 1
            }
        };
        if chosen != self.current {
            self.came_from = Some(std::mem::replace(&mut self.current, chosen));
        }
    }

    /// The node of the innermost open call.
    pub(crate) fn innermost(&self) -> Option<usize> {
        let own = self.here().last();
        let outer = || {
            let outer = self.came_from?;
            self.stacks.get(outer)?.last()
        };
        own.or_else(outer).map(|open| open.node)
    }

    /// Begins a call on the current stack.
    pub(crate) fn open(&mut self, function: usize, node: usize, stack: u64, time: u64) {
        let is_first = self.here().is_empty();
        let outer = self.came_from.filter(|_| is_first);
        if let Some(calls) = self.stacks.get_mut(self.current) {
            // It has not ended: it calls.
            if let Some(caller) = calls.last_mut() {
                caller.may_end = None;
            }
            calls.push(OpenCall {
                function,
                node,
                stack,
                begun: time,
                inner: 0,
                may_end: None,
                outer,
            });
        }
    }

    /// Whether an entry is a jump back to the first instruction.
    pub(crate) fn loops(&mut self, function: usize, stack: u64) -> bool {
        self.choose(stack);
        let open = (self.stacks.get_mut(self.current)).and_then(|calls| calls.last_mut());
        let open = open.filter(|open| (open.function, open.stack) == (function, stack));
        match open {
            Some(open) => {
                open.may_end = None;
                true
            }
            None => false,
        }
    }

    /// Notes a jump that may lead to another function.
    pub(crate) fn may_leave(&mut self, function: usize, stack: u64, time: u64) {
        let open = (self.stacks.get_mut(self.current)).and_then(|calls| calls.last_mut());
        if let Some(open) = open.filter(|open| (open.function, open.stack) == (function, stack)) {
            open.may_end = Some(time);
        }
    }

    /// Ends the innermost call if it is below a place of the current stack, or at it.
    pub(crate) fn close_below(&mut self, place: u64, inclusive: bool, time: u64) -> Option<Closed> {
        let top = self.here().last()?;
        let is_left = top.stack < place || inclusive && top.stack == place;
        let ended = top.may_end.unwrap_or(time);
        is_left.then(|| self.close(self.current, ended)).flatten()
    }

    /// Ends the call of a function that began at this place; `None` if there is none.
    pub(crate) fn close_call(&mut self, function: usize, stack: u64, time: u64) -> Option<Closed> {
        let top = self.here().last()?;
        let is_it = (top.function, top.stack) == (function, stack);
        is_it.then(|| self.close(self.current, time)).flatten()
    }

    /// Ends the innermost call if it is one of this function.
    pub(crate) fn close_innermost(&mut self, function: usize, time: u64) -> Option<Closed> {
        let is_it = self.here().last()?.function == function;
        is_it.then(|| self.close(self.current, time)).flatten()
    }

    /// Ends an open call: those on stacks that were entered from others first.
    pub(crate) fn close_any(&mut self, time: u64) -> Option<Closed> {
        let is_inner =
            |stack: &Vec<OpenCall>| stack.first().is_some_and(|open| open.outer.is_some());
        let stack = (self.stacks.iter().rposition(is_inner))
            .or_else(|| self.stacks.iter().position(|stack| !stack.is_empty()))?;
        let ended = self.stacks.get(stack)?.last()?.may_end.unwrap_or(time);
        self.close(stack, ended)
    }

    fn close(&mut self, stack: usize, ended: u64) -> Option<Closed> {
        let open = self.stacks.get_mut(stack)?.pop()?;
        let took = ended.saturating_sub(open.begun);
        let outside = open.outer.unwrap_or(stack);
        if let Some(caller) = (self.stacks.get_mut(outside)).and_then(|calls| calls.last_mut()) {
            caller.inner += took;
        }
        Some(Closed {
            function: open.function,
            node: open.node,
            begun: open.begun,
            ended,
            inner: open.inner,
        })
    }
}
