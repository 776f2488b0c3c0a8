//! From events to calls.

use std::collections::HashMap;

use tracewire_model::{Address, ThreadId};

use crate::threads::{Closed, ThreadCalls};
use crate::tree::CallTree;

/// A function whose calls are followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The address of its first instruction.
    pub address: Address,
}

/// The role of an instruction in the calls of its function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteRole {
    /// The first instruction.
    Entry,
    /// The first instruction, to which the function jumps back.
    EntryAndLoop,
    /// The first instruction, which returns or jumps to another function.
    EntryAndExit,
    /// It returns, or jumps to another function.
    Exit,
    /// It comes before the function returns in all cases. The stack pointer is not that of the entry.
    EarlyExit,
    /// It may jump to another function, or stay in its own.
    MayExit,
}

/// A place in a function that makes events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The function, by its index.
    pub function: usize,
    /// The role of the site.
    pub role: SiteRole,
}

/// A thread has passed a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, in ticks; 0 where the thread may not read the clock.
    pub time: u64,
    /// The stack pointer.
    pub stack: u64,
    /// The site, by its index.
    pub site: usize,
}

/// One call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The thread.
    pub thread: ThreadId,
    /// The function, by its index.
    pub function: usize,
    /// The function that called it, as far as functions are followed.
    pub caller: Option<usize>,
    /// How deep it is below the first functions of its thread, which have 0.
    pub depth: usize,
    /// When it began, in ticks.
    pub begun: u64,
    /// When it ended, in ticks. Of one that was left, when that was noticed.
    pub ended: u64,
    /// How it ended.
    pub end: End,
}

/// How a call has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By a return, or by a jump to another function.
    Exit,
    /// By an exception, `longjmp`, or an exit that was not seen.
    Left,
    /// It has not.
    Open,
}

/// Which calls are kept one by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedCalls {
    /// Those of this function only.
    pub function: Option<String>,
    /// Those as deep as this.
    pub depth: usize,
    /// So many at most, the ones that end first.
    pub most: usize,
}

/// Follows the calls of threads.
#[derive(Debug)]
pub struct Follower {
    sites: Vec<Site>,
    threads: HashMap<ThreadId, ThreadCalls>,
    tree: CallTree,
    /// How often each function was entered.
    entered: Vec<u64>,
    listed: Option<ListedCalls>,
    calls: Vec<Call>,
    /// Calls that are not in the list, for it is full.
    unlisted: u64,
    unmatched: u64,
}

impl Follower {
    /// One for these functions.
    #[must_use]
    pub fn new(functions: Vec<Function>) -> Self {
        Self {
            sites: Vec::new(),
            threads: HashMap::new(),
            entered: vec![0; functions.len()],
            tree: CallTree::new(functions),
            listed: None,
            calls: Vec::new(),
            unlisted: 0,
            unmatched: 0,
        }
    }

    /// Keeps threads apart in the tree.
    pub const fn keep_threads(&mut self) {
        self.tree.keep_threads();
    }

    /// Keeps calls one by one.
    pub fn list(&mut self, listed: ListedCalls) {
        self.listed = Some(listed);
    }

    /// Adds a function, and gives its index.
    pub fn add_function(&mut self, function: Function) -> usize {
        self.tree.functions.push(function);
        self.entered.push(0);
        self.tree.functions.len() - 1
    }

    /// The functions.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.tree.functions
    }

    /// Adds a site, and gives its index.
    pub fn add_site(&mut self, site: Site) -> usize {
        self.sites.push(site);
        self.sites.len() - 1
    }

    /// Whether a site is only an exit.
    #[must_use]
    pub fn is_exit(&self, site: usize) -> bool {
        let site = self.sites.get(site);
        site.is_some_and(|site| site.role == SiteRole::Exit)
    }

    /// A function's exit is seen at an instruction before it.
    pub fn exits_early(&mut self, site: usize) {
        if let Some(site) = self.sites.get_mut(site) {
            site.role = SiteRole::EarlyExit;
        }
    }

    /// How often each function was entered, by its index.
    #[must_use]
    pub fn entered(&self) -> &[u64] {
        &self.entered
    }

    /// How many exits there were whose entry is not known: of calls that had begun before.
    #[must_use]
    pub const fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// How many calls are not in the list, for it is full.
    #[must_use]
    pub const fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// The calls that are kept and have ended, in the order of their beginnings.
    pub fn take_calls(&mut self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut self.calls);
        calls.sort_by_key(|call| (call.begun, call.depth));
        calls
    }

    /// The sites of a function make no events any more, for it is called too often.
    pub fn switched_down(&mut self, function: usize) {
        self.tree.switched_down.push(function);
    }

    /// Follows events of a thread. With `follows_gap`, some before them were lost.
    pub fn follow(&mut self, thread: ThreadId, events: &[Event], follows_gap: bool) {
        let mut calls = self.threads.remove(&thread).unwrap_or_default();
        if follows_gap {
            calls.lose_events();
        }
        for event in events {
            let Some(site) = self.sites.get(event.site).copied() else {
                debug_assert!(false, "site {} is one of ours", event.site);
                continue;
            };
            let time = calls.time_of(event.time);
            let function = site.function;
            match site.role {
                SiteRole::Entry => self.enter(&mut calls, thread, function, event.stack, time),
                SiteRole::EntryAndLoop => {
                    if !calls.loops(function, event.stack) {
                        self.enter(&mut calls, thread, function, event.stack, time);
                    }
                }
                SiteRole::EntryAndExit => {
                    self.enter(&mut calls, thread, function, event.stack, time);
                    self.leave(&mut calls, thread, function, event.stack, time);
                }
                SiteRole::Exit => self.leave(&mut calls, thread, function, event.stack, time),
                SiteRole::EarlyExit => {
                    self.rise(&mut calls, thread, event.stack, time);
                    match calls.close_innermost(function, time) {
                        Some(closed) => self.close(thread, closed, End::Exit),
                        None => self.unmatched += 1,
                    }
                }
                SiteRole::MayExit => {
                    self.rise(&mut calls, thread, event.stack, time);
                    calls.may_leave(function, event.stack, time);
                }
            }
        }
        self.threads.insert(thread, calls);
    }

    /// A thread has ended, and all its events have been followed.
    pub fn end_thread(&mut self, thread: ThreadId) {
        if let Some(mut calls) = self.threads.remove(&thread) {
            let last = calls.last_time();
            self.close_all(thread, &mut calls, last, End::Left);
        }
    }

    /// Ends the open calls at this time, and returns the tree. The list of calls has them then, too.
    #[must_use]
    pub fn finish(mut self, now: u64) -> CallTree {
        self.close_open(now);
        self.tree.finish();
        self.tree
    }

    /// Ends the open calls at this time.
    pub fn close_open(&mut self, now: u64) {
        for (thread, mut calls) in std::mem::take(&mut self.threads) {
            let end = now.max(calls.last_time());
            self.close_all(thread, &mut calls, end, End::Open);
        }
    }

    fn enter(
        &mut self,
        calls: &mut ThreadCalls,
        thread: ThreadId,
        function: usize,
        stack: u64,
        time: u64,
    ) {
        calls.choose(stack);
        while let Some(closed) = calls.close_below(stack, true, time) {
            self.close(thread, closed, End::Left);
        }
        let parent = calls.innermost();
        let node = self.tree.enter(parent, thread, function);
        if let Some(node) = self.tree.node_mut(node) {
            node.calls += 1;
        }
        if let Some(entered) = self.entered.get_mut(function) {
            *entered += 1;
        }
        calls.open(function, node, stack, time);
    }

    fn leave(
        &mut self,
        calls: &mut ThreadCalls,
        thread: ThreadId,
        function: usize,
        stack: u64,
        time: u64,
    ) {
        self.rise(calls, thread, stack, time);
        match calls.close_call(function, stack, time) {
            Some(closed) => self.close(thread, closed, End::Exit),
            None => self.unmatched += 1,
        }
    }

    /// The thread is in a call that began at this stack position: calls below it were left.
    fn rise(&mut self, calls: &mut ThreadCalls, thread: ThreadId, stack: u64, time: u64) {
        calls.choose(stack);
        while let Some(closed) = calls.close_below(stack, false, time) {
            self.close(thread, closed, End::Left);
        }
    }

    fn close_all(&mut self, thread: ThreadId, calls: &mut ThreadCalls, time: u64, end: End) {
        while let Some(closed) = calls.close_any(time) {
            self.close(thread, closed, end);
        }
    }

    fn close(&mut self, thread: ThreadId, closed: Closed, end: End) {
        let Some(node) = self.tree.node_mut(closed.node) else {
            debug_assert!(false, "a call has a node");
            return;
        };
        let took = closed.ended.saturating_sub(closed.begun);
        node.total += took;
        node.own += took.saturating_sub(closed.inner);
        let (depth, parent) = (node.depth, node.parent);
        let Some(listed) = &self.listed else {
            return;
        };
        let function = self.tree.functions.get(closed.function);
        let is_wanted = (listed.function.as_ref())
            .is_none_or(|wanted| function.is_some_and(|function| function.name == *wanted));
        if depth > listed.depth || !is_wanted {
            return;
        }
        if self.calls.len() >= listed.most {
            self.unlisted += 1;
            return;
        }
        let caller = parent.and_then(|parent| self.tree.nodes().get(parent));
        self.calls.push(Call {
            thread,
            function: closed.function,
            caller: caller.map(|caller| caller.function),
            depth,
            begun: closed.begun,
            ended: closed.ended,
            end,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: ThreadId = ThreadId(7);

    /// A follower of functions `f0` to `f2`, each with sites of these roles.
    fn follower(roles: &[SiteRole]) -> Follower {
        let function = |index: u64| Function {
            name: format!("f{index}"),
            address: Address(index),
        };
        let mut follower = Follower::new((0..3).map(function).collect());
        for function in 0..3 {
            for role in roles {
                follower.add_site(Site {
                    function,
                    role: *role,
                });
            }
        }
        follower
    }

    fn folded(follower: Follower, now: u64) -> String {
        let mut text = Vec::new();
        let tree = follower.finish(now);
        tree.write_folded(&mut text, |ticks| ticks)
            .expect("written");
        String::from_utf8(text).expect("text")
    }

    const fn event(time: u64, stack: u64, site: usize) -> Event {
        Event { time, stack, site }
    }

    #[test]
    fn a_jump_back_to_the_entry_is_no_call() {
        let mut follower = follower(&[SiteRole::EntryAndLoop, SiteRole::Exit]);
        let events = [
            event(1, 0x1000, 0),
            event(3, 0x1000, 0),
            event(5, 0x0f00, 2),
            event(6, 0x0f00, 3),
            event(9, 0x1000, 1),
        ];
        follower.follow(THREAD, &events, false);
        assert_eq!(follower.entered(), [1, 1, 0]);
        assert_eq!(folded(follower, 9), "f0 7\nf0;f1 1\n");
    }

    #[test]
    fn a_jump_that_may_lead_elsewhere_ends_a_call_if_no_exit_follows() {
        let mut follower = follower(&[SiteRole::Entry, SiteRole::MayExit, SiteRole::Exit]);
        let events = [
            event(1, 0x1000, 0),
            event(2, 0x0f00, 3),
            event(5, 0x0f00, 4),
            event(8, 0x1000, 2),
        ];
        follower.follow(THREAD, &events, false);
        assert_eq!(folded(follower, 9), "f0 4\nf0;f1 3\n");
    }

    #[test]
    fn what_is_open_before_lost_events_may_have_ended_then() {
        let mut follower = follower(&[SiteRole::Entry, SiteRole::Exit]);
        follower.follow(THREAD, &[event(1, 0x1000, 0), event(3, 0x0f00, 2)], false);
        follower.follow(THREAD, &[event(90, 0x1000, 1)], true);
        assert_eq!(follower.unmatched(), 0);
        assert_eq!(folded(follower, 100), "f0 89\n");
    }

    #[test]
    fn exits_of_calls_that_had_begun_before_are_counted() {
        let mut follower = follower(&[SiteRole::Entry, SiteRole::Exit]);
        let events = [
            event(1, 0x0f00, 1),
            event(2, 0x1000, 3),
            event(3, 0x1100, 0),
        ];
        follower.follow(THREAD, &events, false);
        assert_eq!(follower.unmatched(), 2);
        assert_eq!(folded(follower, 5), "f0 2\n");
    }

    #[test]
    fn single_calls_are_kept_up_to_a_limit() {
        let mut follower = follower(&[SiteRole::Entry, SiteRole::Exit]);
        follower.list(ListedCalls {
            function: Some("f1".to_owned()),
            depth: 1,
            most: 1,
        });
        let mut events = vec![event(1, 0x1000, 0)];
        for turn in 1..3 {
            events.extend([event(10 * turn, 0x0f00, 2), event(10 * turn + 4, 0x0f00, 3)]);
        }
        follower.follow(THREAD, &events, false);
        follower.close_open(50);
        let call = Call {
            thread: THREAD,
            function: 1,
            caller: Some(0),
            depth: 1,
            begun: 10,
            ended: 14,
            end: End::Exit,
        };
        assert_eq!(follower.take_calls(), [call]);
        assert_eq!(follower.unlisted(), 1);
    }
}
