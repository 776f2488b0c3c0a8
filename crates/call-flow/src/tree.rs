//! The tree of calls: callers and callees, the number of calls, and their time.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;

use serde_json::{Value, json};
use tracewire_model::{Address, ThreadId};

use crate::{FoldedStacks, Function};

/// The most rows of functions; deeper calls count for the deepest row.
const NODES: usize = 1 << 22;

/// A function called by a certain row of others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The function, by its index.
    pub function: usize,
    /// The thread, where threads are kept apart.
    pub thread: Option<ThreadId>,
    /// Its caller, as an index in [`CallTree::nodes`].
    pub parent: Option<usize>,
    /// How deep it is below the first functions of its thread, which have 0.
    pub depth: usize,
    /// How often it was entered.
    pub calls: u64,
    /// How many ticks its calls took, with those of what they called.
    pub total: u64,
    /// How many ticks they took themselves.
    pub own: u64,
    children: Vec<usize>,
    /// The child that was entered last: often it is the next one, too.
    last_child: Option<(usize, usize)>,
}

/// A tree of calls.
#[derive(Debug)]
pub struct CallTree {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    children: HashMap<(Option<usize>, Option<ThreadId>, usize), usize>,
    pub(crate) functions: Vec<Function>,
    /// Functions whose sites were taken out, by their indices.
    pub(crate) switched_down: Vec<usize>,
    keeps_threads: bool,
}

impl CallTree {
    pub(crate) fn new(functions: Vec<Function>) -> Self {
        Self {
            nodes: Vec::new(),
            roots: Vec::new(),
            children: HashMap::new(),
            functions,
            switched_down: Vec::new(),
            keeps_threads: false,
        }
    }

    pub(crate) const fn keep_threads(&mut self) {
        self.keeps_threads = true;
    }

    /// The node of a function that is called from another node, or first in a thread.
    pub(crate) fn enter(
        &mut self,
        parent: Option<usize>,
        thread: ThreadId,
        function: usize,
    ) -> usize {
        if let Some(above) = parent
            && let Some((known, node)) = self.nodes.get(above).and_then(|node| node.last_child)
            && known == function
        {
            return node;
        }
        let thread = self.keeps_threads.then_some(thread);
        let key = (parent, thread, function);
        let node = match self.children.get(&key) {
            Some(node) => *node,
            None => match parent {
                Some(parent) if self.nodes.len() >= NODES => return parent,
                _ => self.add(key),
            },
        };
        if let Some(above) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
            above.last_child = Some((function, node));
        }
        node
    }

    fn add(&mut self, key: (Option<usize>, Option<ThreadId>, usize)) -> usize {
        let (parent, thread, function) = key;
        let index = self.nodes.len();
        let above = parent.and_then(|parent| self.nodes.get_mut(parent));
        let depth = match above {
            Some(above) => {
                above.children.push(index);
                above.depth + 1
            }
            None => {
                self.roots.push(index);
                0
            }
        };
        self.nodes.push(Node {
            function,
            thread,
            parent,
            depth,
            calls: 0,
            total: 0,
            own: 0,
            children: Vec::new(),
            last_child: None,
        });
        self.children.insert(key, index);
        index
    }

    pub(crate) fn node_mut(&mut self, index: usize) -> Option<&mut Node> {
        self.nodes.get_mut(index)
    }

    /// Orders the children of each node: the longest first.
    pub(crate) fn finish(&mut self) {
        for index in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[index].children);
            self.order(&mut children);
            self.nodes[index].children = children;
        }
        let mut roots = std::mem::take(&mut self.roots);
        self.order(&mut roots);
        self.roots = roots;
    }

    fn order(&self, nodes: &mut [usize]) {
        nodes.sort_by_key(|index| {
            let node = &self.nodes[*index];
            (node.thread, std::cmp::Reverse(node.total), node.function)
        });
    }

    /// The nodes; each is after its parent.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How many calls there are in all.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.nodes.iter().map(|node| node.calls).sum()
    }

    /// The name of a node's function.
    #[must_use]
    pub fn name(&self, node: &Node) -> &str {
        self.functions
            .get(node.function)
            .map_or("??", |function| &function.name)
    }

    /// A function by its index.
    #[must_use]
    pub fn function(&self, index: usize) -> Option<&Function> {
        self.functions.get(index)
    }

    fn address(&self, node: &Node) -> Address {
        self.functions
            .get(node.function)
            .map_or(Address(0), |function| function.address)
    }

    /// Whether the sites of a node's function were taken out while the program ran, for it was called too often.
    #[must_use]
    pub fn is_switched_down(&self, node: &Node) -> bool {
        self.switched_down.contains(&node.function)
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

    /// Writes the tree as text: times, counts, and names indented. Nodes deeper than `depth` and those that took less than `least`
    /// nanoseconds are left out. `nanoseconds` converts ticks.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_text(
        &self,
        out: &mut impl io::Write,
        depth: usize,
        least: u64,
        nanoseconds: impl Fn(u64) -> u64,
    ) -> io::Result<()> {
        writeln!(
            out,
            "{:>10}  {:>10}  {:>10}  function",
            "time", "own", "calls"
        )?;
        for node in self.in_order().filter(|node| node.depth <= depth) {
            let total = nanoseconds(node.total);
            if total < least {
                continue;
            }
            let mut name = String::new();
            let _ = write!(name, "{:1$}{2}", "", node.depth * 2, self.name(node));
            if let (0, Some(thread)) = (node.depth, node.thread) {
                let _ = write!(name, " (thread {thread})");
            }
            if self.is_switched_down(node) {
                name.push_str(" (switched down)");
            }
            writeln!(
                out,
                "{:>10}  {:>10}  {:>10}  {name}",
                time(total),
                time(nanoseconds(node.own)),
                node.calls
            )?;
        }
        Ok(())
    }

    /// The nodes as objects, in the order of the tree, each with the node itself.
    pub fn json(&self, nanoseconds: impl Fn(u64) -> u64) -> impl Iterator<Item = (&Node, Value)> {
        self.in_order().map(move |node| {
            let mut object = json!({
                "depth": node.depth,
                "function": self.name(node),
                "address": self.address(node).to_string(),
                "calls": node.calls,
                "time_ns": nanoseconds(node.total),
                "own_ns": nanoseconds(node.own),
            });
            let mut put = |name: &str, value: Value| {
                if let Some(object) = object.as_object_mut() {
                    object.insert(name.to_owned(), value);
                }
            };
            if let Some(thread) = node.thread {
                put("thread", thread.0.into());
            }
            if self.is_switched_down(node) {
                put("switched_down", true.into());
            }
            (node, object)
        })
    }

    /// Writes the stacks in the form that flame graph tools read: `main;work;leaf 42`, with each function's own nanoseconds.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_folded(
        &self,
        out: &mut impl io::Write,
        nanoseconds: impl Fn(u64) -> u64,
    ) -> io::Result<()> {
        let mut stacks = FoldedStacks::new(out);
        for node in self.in_order() {
            stacks.row(node.depth, self.name(node), nanoseconds(node.own))?;
        }
        Ok(())
    }
}

/// A time in nanoseconds, with the unit in which it has at most three digits before the point.
pub(crate) fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.2} µs", nanoseconds as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.2} s", nanoseconds as f64 / 1e9),
    }
}
