//! Random programs: the follower's result from their events equals their execution.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tracewire_model::{Address, ThreadId};

use crate::{CallTree, Event, Follower, Function, Site, SiteRole};

const FUNCTIONS: usize = 5;
const STACK: u64 = 0x7fff_0000_0000;
const OTHER_STACK: u64 = 0x5555_0000_8000;
const TICK: u64 = 10;

/// The next action of a program.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It calls a function whose frame has so many words.
    Call(usize, u64),
    /// A signal comes, and its handler runs on a separate stack.
    Signal(usize),
    Return,
    /// It jumps to another function.
    TailCall(usize),
    /// It passes a conditional jump to another function, and does not take it.
    Pass,
    /// This many calls are left at once.
    Throw(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..FUNCTIONS, 1..40_u64).prop_map(|(function, words)| Step::Call(function, words)),
        1 => (0..FUNCTIONS).prop_map(Step::Signal),
        6 => Just(Step::Return),
        2 => (0..FUNCTIONS).prop_map(Step::TailCall),
        1 => Just(Step::Pass),
        1 => (1..4_usize).prop_map(Step::Throw),
    ]
}

/// Totals of the calls by a row of functions: their number, their time, and their own time.
type Calls = BTreeMap<Vec<usize>, (u64, u64, u64)>;

struct Frame {
    function: usize,
    stack: u64,
    words: u64,
    begun: u64,
    inner: u64,
}

#[derive(Default)]
struct Program {
    frames: Vec<Frame>,
    /// Frames that were left, which end with the next event.
    left: Vec<(Vec<usize>, Frame)>,
    events: Vec<Event>,
    calls: Calls,
    now: u64,
    /// A frame on another stack was left: the time when that is noticed is not defined.
    has_left_handler: bool,
}

/// The index of a function's site.
fn site(function: usize, role: SiteRole) -> usize {
    let roles = [SiteRole::Entry, SiteRole::Exit, SiteRole::MayExit];
    let role = roles.iter().position(|known| *known == role);
    function * roles.len() + role.expect("a role of the model")
}

impl Program {
    fn path(&self) -> Vec<usize> {
        self.frames.iter().map(|frame| frame.function).collect()
    }

    fn event(&mut self, stack: u64, function: usize, role: SiteRole) {
        self.now += TICK;
        let site = site(function, role);
        self.events.push(Event {
            time: self.now,
            stack,
            site,
        });
        // The innermost is first, and each is in the next.
        let mut inner = 0;
        for (path, frame) in std::mem::take(&mut self.left) {
            inner = self.end(path, frame.begun, frame.inner + inner);
        }
        if let Some(top) = self.frames.last_mut() {
            top.inner += inner;
        }
    }

    /// Counts the time of a frame that ends now, and gives it.
    fn end(&mut self, path: Vec<usize>, begun: u64, inner: u64) -> u64 {
        let took = self.now - begun;
        let calls = self.calls.entry(path).or_default();
        calls.1 += took;
        calls.2 += took - inner;
        took
    }

    fn enter(&mut self, function: usize, stack: u64, words: u64) {
        self.event(stack, function, SiteRole::Entry);
        self.frames.push(Frame {
            function,
            stack,
            words,
            begun: self.now,
            inner: 0,
        });
        let path = self.path();
        self.calls.entry(path).or_default().0 += 1;
    }

    fn leave(&mut self) -> Option<Frame> {
        let (stack, function) = self
            .frames
            .last()
            .map(|frame| (frame.stack, frame.function))?;
        self.event(stack, function, SiteRole::Exit);
        let path = self.path();
        let frame = self.frames.pop()?;
        let took = self.end(path, frame.begun, frame.inner);
        if let Some(caller) = self.frames.last_mut() {
            caller.inner += took;
        }
        Some(frame)
    }

    fn step(&mut self, step: Step) {
        // The first function is never left: what comes after that would be another root.
        let depth = self.frames.len();
        match step {
            Step::Call(function, words) => {
                let stack = self
                    .frames
                    .last()
                    .map_or(STACK, |top| top.stack - 8 * top.words - 8);
                self.enter(function, stack, words);
            }
            Step::Signal(function) => {
                let is_on_other = self.frames.iter().any(|frame| frame.stack <= OTHER_STACK);
                // A call that was left is noticed at the next event on its own stack.
                if depth > 0 && !is_on_other && self.left.is_empty() {
                    self.enter(function, OTHER_STACK, 8);
                }
            }
            Step::Return if depth > 1 => _ = self.leave(),
            Step::TailCall(function) if depth > 1 => {
                if let Some(frame) = self.leave() {
                    self.enter(function, frame.stack, frame.words);
                }
            }
            Step::Pass => {
                if let Some(top) = self.frames.last() {
                    let (stack, function) = (top.stack, top.function);
                    self.event(stack, function, SiteRole::MayExit);
                    // Only the next event shows that it has not left: it calls.
                    self.step(Step::Call(0, 4));
                }
            }
            Step::Throw(count) if depth > count => {
                for _ in 0..count {
                    let path = self.path();
                    let Some(frame) = self.frames.pop() else {
                        continue;
                    };
                    self.has_left_handler |= frame.stack <= OTHER_STACK;
                    self.left.push((path, frame));
                }
            }
            Step::Return | Step::TailCall(_) | Step::Throw(_) => {}
        }
    }
}

fn follow(program: &Program, parts: &[usize]) -> CallTree {
    let functions = (0..FUNCTIONS).map(|index| Function {
        name: format!("f{index}"),
        address: Address(index as u64),
    });
    let mut follower = Follower::new(functions.collect());
    for function in 0..FUNCTIONS {
        for role in [SiteRole::Entry, SiteRole::Exit, SiteRole::MayExit] {
            let added = follower.add_site(Site { function, role });
            assert_eq!(added, site(function, role));
        }
    }
    let mut rest = program.events.as_slice();
    for part in parts {
        let (now, later) = rest.split_at((*part).min(rest.len()));
        follower.follow(ThreadId(1), now, false);
        rest = later;
    }
    follower.follow(ThreadId(1), rest, false);
    assert_eq!(follower.unmatched(), 0);
    follower.finish(program.now)
}

fn found(tree: &CallTree) -> Calls {
    let mut paths: Vec<Vec<usize>> = Vec::new();
    for node in tree.nodes() {
        let mut path = node
            .parent
            .map_or_else(Vec::new, |parent| paths[parent].clone());
        path.push(node.function);
        paths.push(path);
    }
    let nodes = paths.into_iter().zip(tree.nodes());
    nodes
        .map(|(path, node)| (path, (node.calls, node.total, node.own)))
        .collect()
}

proptest! {
    #[test]
    fn the_tree_is_what_happened(
        steps in prop::collection::vec(step(), 1..200),
        parts in prop::collection::vec(0..20_usize, 0..10),
    ) {
        let mut program = Program::default();
        program.step(Step::Call(0, 4));
        for step in steps {
            program.step(step);
        }
        // An event of the first function ends what was left.
        while program.frames.len() > 1 {
            program.leave();
        }
        let (stack, function) = (program.frames[0].stack, program.frames[0].function);
        program.event(stack, function, SiteRole::Exit);
        let frame = program.frames.pop().expect("the first function");
        program.end(vec![function], frame.begun, frame.inner);
        let tree = follow(&program, &parts);
        let found = found(&tree);
        let calls = |calls: &Calls| -> BTreeMap<Vec<usize>, u64> {
            calls.iter().map(|(path, calls)| (path.clone(), calls.0)).collect()
        };
        prop_assert_eq!(calls(&found), calls(&program.calls));
        if !program.has_left_handler {
            prop_assert_eq!(found, program.calls);
        }
    }
}
