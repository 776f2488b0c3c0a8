//! The tree of calls: caller and callee, how often, and how many instructions that took; and the single calls.

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::ops::ControlFlow;
use tracewire_call_flow::FoldedStacks;

use serde_json::{Value, json};
use tracewire_arch::Machine;
use tracewire_debuginfo::Symbols;
use tracewire_exec_trace::record::{Address, CpuNumber, InstructionNumber, Time};
use tracewire_exec_trace::recording::{ReadError, Recording};

use crate::follow::{Follower, Move};
use crate::functions::{FunctionId, Functions};

/// A function called by a certain row of others.
#[derive(Clone, Debug)]
pub struct Node {
    /// The function.
    pub function: FunctionId,
    /// The cpu.
    pub cpu: CpuNumber,
    /// Its caller, as an index in [`CallTree::nodes`].
    pub parent: Option<usize>,
    /// Its depth below the functions in which the trace begins, which have 0.
    pub depth: usize,
    /// How often it was entered.
    pub calls: u64,
    /// Instructions of the function itself.
    pub own: u64,
    /// Instructions, including those of its callees.
    pub total: u64,
    children: Vec<usize>,
}

/// The totals of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name.
    pub function: String,
    /// Its first address.
    pub address: Address,
    /// How often it was entered.
    pub calls: u64,
    /// Instructions of the function itself.
    pub own: u64,
    /// Instructions while it was on the stack. Those of a function that calls itself count once.
    pub total: u64,
}

/// A tree of calls, for each cpu.
#[derive(Debug)]
pub struct CallTree {
    nodes: Vec<Node>,
    functions: Functions,
    roots: Vec<usize>,
    instructions: u64,
}

/// The most rows of functions; deeper calls count for the deepest row.
const NODES: usize = 1 << 22;

#[derive(Default)]
struct Stacks {
    nodes: Vec<Node>,
    children: HashMap<(usize, CpuNumber, FunctionId), usize>,
    roots: Vec<usize>,
    /// For each cpu the nodes on its stack.
    stacks: HashMap<CpuNumber, Vec<usize>>,
}

impl Stacks {
    fn apply(&mut self, cpu: CpuNumber, change: Move) {
        let stack = self.stacks.entry(cpu).or_default();
        let Move::Enter { function, .. } = change else {
            stack.pop();
            return;
        };
        let parent = stack.last().copied();
        let key = (parent.unwrap_or(usize::MAX), cpu, function);
        let node = match self.children.get(&key) {
            Some(node) => *node,
            None if self.nodes.len() >= NODES => parent.unwrap_or(0),
            None => {
                let node = self.nodes.len();
                self.nodes.push(Node {
                    function,
                    cpu,
                    parent,
                    depth: parent.map_or(0, |parent| self.nodes[parent].depth + 1),
                    calls: 0,
                    own: 0,
                    total: 0,
                    children: Vec::new(),
                });
                match parent {
                    Some(parent) => self.nodes[parent].children.push(node),
                    None => self.roots.push(node),
                }
                self.children.insert(key, node);
                node
            }
        };
        self.nodes[node].calls += 1;
        stack.push(node);
    }
}

impl CallTree {
    /// Follows the calls of a range of instructions.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn of(
        recording: &Recording,
        machine: &'static Machine,
        symbols: Option<&Symbols>,
        range: std::ops::Range<u64>,
    ) -> Result<Self, ReadError> {
        let mut follower = Follower::new(recording, machine, Functions::new(symbols));
        let mut stacks = Stacks::default();
        let mut instructions = 0;
        let mut failed = Ok(());
        // Instructions come in rows of one cpu: what they count for is looked up when that changes.
        let mut current: Option<(CpuNumber, usize)> = None;
        recording.for_each_instruction(range, &mut |step| {
            let cpu = step.cpu();
            let mut has_moved = false;
            let stepped = follower.step(step, &mut |change| {
                stacks.apply(cpu, change);
                has_moved = true;
            });
            if let Err(error) = stepped {
                failed = Err(error);
                return ControlFlow::Break(());
            }
            if has_moved || current.is_none_or(|(of, _)| of != cpu) {
                let top = stacks.stacks.get(&cpu).and_then(|stack| stack.last());
                current = top.map(|top| (cpu, *top));
            }
            if let Some((_, node)) = current {
                stacks.nodes[node].own += 1;
            }
            instructions += 1;
            ControlFlow::Continue(())
        })?;
        failed?;
        let mut nodes = stacks.nodes;
        // Every node is after its parent.
        for at in (0..nodes.len()).rev() {
            nodes[at].total += nodes[at].own;
            if let Some(parent) = nodes[at].parent {
                nodes[parent].total += nodes[at].total;
            }
        }
        for at in 0..nodes.len() {
            let mut children = std::mem::take(&mut nodes[at].children);
            children.sort_by_key(|child| std::cmp::Reverse(nodes[*child].total));
            nodes[at].children = children;
        }
        Ok(Self {
            nodes,
            functions: follower.functions().clone(),
            roots: stacks.roots,
            instructions,
        })
    }

    /// The nodes; each is after its parent.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How many instructions there are in all.
    #[must_use]
    pub const fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The name of a node's function.
    #[must_use]
    pub fn name(&self, node: &Node) -> &str {
        self.functions.name(node.function)
    }

    /// The nodes in the order of the tree, callers before callees, the longest first.
    pub fn in_order(&self) -> impl Iterator<Item = &Node> {
        let mut rest: Vec<usize> = self.roots.iter().rev().copied().collect();
        std::iter::from_fn(move || {
            let node = &self.nodes[rest.pop()?];
            rest.extend(node.children.iter().rev());
            Some(node)
        })
    }

    /// Writes the tree as text: counts, and names indented. Nodes deeper than `depth` and those with less than `least` instructions
    /// are left out.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_text(&self, out: &mut impl io::Write, depth: usize, least: u64) -> io::Result<()> {
        writeln!(
            out,
            "{:>12}  {:>12}  {:>10}  function",
            "instructions", "own", "calls"
        )?;
        let several = self
            .roots
            .iter()
            .any(|root| self.nodes[*root].cpu != self.nodes[self.roots[0]].cpu);
        for node in self
            .in_order()
            .filter(|node| node.depth <= depth && node.total >= least)
        {
            let mut name = String::new();
            let _ = write!(name, "{:1$}{2}", "", node.depth * 2, self.name(node));
            if node.depth == 0 && several {
                let _ = write!(name, " (cpu {})", node.cpu);
            }
            writeln!(
                out,
                "{:>12}  {:>12}  {:>10}  {name}",
                node.total, node.own, node.calls
            )?;
        }
        Ok(())
    }

    /// The nodes as objects, in the order of the tree.
    pub fn json(&self) -> impl Iterator<Item = Value> {
        self.in_order().map(|node| {
            json!({
                "cpu": node.cpu.0,
                "depth": node.depth,
                "function": self.name(node),
                "address": self.functions.entry(node.function).to_string(),
                "calls": node.calls,
                "instructions": node.total,
                "own": node.own,
            })
        })
    }

    /// Writes the stacks in the form that flame graph tools read: `main;work;leaf 42`, with each function's own instructions.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_folded(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut stacks = FoldedStacks::new(out);
        for node in self.in_order() {
            stacks.row(node.depth, self.name(node), node.own)?;
        }
        Ok(())
    }

    /// The totals of each function, the one with the most instructions of its own first.
    #[must_use]
    pub fn profile(&self) -> Vec<Profile> {
        let mut profiles: HashMap<FunctionId, Profile> = HashMap::new();
        // The functions above a node: the outermost call of a recursive function counts the instructions.
        let mut above: HashMap<FunctionId, usize> = HashMap::new();
        let mut path: Vec<&Node> = Vec::new();
        for node in self.in_order() {
            while path.len() > node.depth {
                let Some(left) = path.pop() else { break };
                above.entry(left.function).and_modify(|count| *count -= 1);
            }
            let is_first = above.get(&node.function).is_none_or(|count| *count == 0);
            let profile = profiles.entry(node.function).or_insert_with(|| Profile {
                function: self.functions.name(node.function).to_owned(),
                address: self.functions.entry(node.function),
                calls: 0,
                own: 0,
                total: 0,
            });
            profile.calls += node.calls;
            profile.own += node.own;
            if is_first {
                profile.total += node.total;
            }
            *above.entry(node.function).or_default() += 1;
            path.push(node);
        }
        let mut profiles: Vec<Profile> = profiles.into_values().collect();
        profiles.sort_by(|a, b| b.own.cmp(&a.own).then(a.address.cmp(&b.address)));
        profiles
    }
}

/// A call, or the start of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The first instruction of the function.
    pub instruction: InstructionNumber,
    /// When that was.
    pub time: Time,
    /// The cpu.
    pub cpu: CpuNumber,
    /// The depth of the function below those in which the trace begins, which have 0.
    pub depth: usize,
    /// The function.
    pub function: String,
    /// The address of its first instruction.
    pub address: Address,
    /// The function below it on the stack; none at the bottom.
    pub caller: Option<String>,
    /// The instruction that called it, jumped to it or was interrupted; none at the start of the trace.
    pub from: Option<Address>,
}

impl Call {
    /// Source file and line of the call, with debug information.
    #[must_use]
    pub fn line(&self, symbols: Option<&Symbols>) -> Option<(String, u64)> {
        let place = symbols?.place(self.from?)?;
        let file = place.file.filter(|_| place.line > 0)?;
        Some((file, place.line))
    }

    /// As an object.
    #[must_use]
    pub fn json(&self, symbols: Option<&Symbols>) -> Value {
        let mut object = json!({
            "instruction": self.instruction.0,
            "time": self.time.to_string(),
            "cpu": self.cpu.0,
            "depth": self.depth,
            "function": self.function,
            "address": self.address.to_string(),
        });
        let mut put = |name: &str, value: Option<Value>| {
            if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
                object.insert(name.to_owned(), value);
            }
        };
        let line = self.line(symbols);
        put("caller", self.caller.clone().map(Value::from));
        put("from", self.from.map(|from| from.to_string().into()));
        put("file", line.clone().map(|(file, _)| file.into()));
        put("line", line.map(|(_, line)| line.into()));
        object
    }
}

/// Visits the calls of a range of instructions in order, until the visitor breaks.
///
/// # Errors
/// When the recording's file is damaged.
pub fn for_each_call(
    recording: &Recording,
    machine: &'static Machine,
    symbols: Option<&Symbols>,
    range: std::ops::Range<u64>,
    visit: &mut dyn FnMut(Call) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let mut follower = Follower::new(recording, machine, Functions::new(symbols));
    let mut stacks: HashMap<CpuNumber, Vec<FunctionId>> = HashMap::new();
    let mut moves = Vec::new();
    let mut failed = Ok(());
    recording.for_each_instruction(range, &mut |step| {
        if let Err(error) = follower.step(step, &mut |change| moves.push(change)) {
            failed = Err(error);
            return ControlFlow::Break(());
        }
        let stack = match moves.is_empty() {
            true => return ControlFlow::Continue(()),
            false => stacks.entry(step.cpu()).or_default(),
        };
        let name = |function: FunctionId| follower.functions().name(function).to_owned();
        for change in moves.drain(..) {
            let Move::Enter { function, from } = change else {
                stack.pop();
                continue;
            };
            let call = Call {
                instruction: step.number(),
                time: step.time(),
                cpu: step.cpu(),
                depth: stack.len(),
                function: name(function),
                address: step.address(),
                caller: stack.last().copied().map(name),
                from,
            };
            stack.push(function);
            visit(call)?;
        }
        ControlFlow::Continue(())
    })?;
    failed
}
