//! The functions of a unit and the blocks in them: which code and which names each has.

use gimli::{AttributeValue, UnitOffset, constants};

use super::{DebugInformation, Die, Entry, flag};

/// How deep entries may nest.
const DEEPEST: usize = 512;

/// The kind of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockKind {
    Function,
    /// A copy of a function in another.
    Inlined,
    /// Braces.
    Lexical,
}

/// A piece of code with a scope of names; addresses are link-time ones.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) kind: BlockKind,
    pub(crate) offset: UnitOffset<usize>,
    pub(crate) parent: Option<usize>,
    /// Not empty, in the order of the debug information.
    pub(crate) ranges: Vec<(u64, u64)>,
    /// `DW_AT_entry_pc`, as it is written.
    entry_pc: Option<u64>,
    /// Variables, parameters, labels, types and the like that are declared right here, in order.
    pub(crate) names: Vec<UnitOffset<usize>>,
    /// For an inlined copy: where the call was.
    pub(crate) call_file: Option<u64>,
    pub(crate) call_line: u64,
    /// For an inlined copy or a function that completes another entry.
    pub(crate) origin: Option<Die>,
    children: Vec<usize>,
    /// Whether GDB has the block: it leaves out braces that declare nothing.
    declares: bool,
}

impl Block {
    /// Where the block begins, as GDB 13 has it: its start, or the first of several ranges.
    pub(crate) fn entry(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.0)
    }

    /// Where the block is entered: `DW_AT_entry_pc`, as GDB 16 has it, which need not be in the first of several ranges.
    pub(crate) fn entered_at(&self) -> u64 {
        self.entry_pc
            .filter(|&address| self.contains(address))
            .unwrap_or_else(|| self.entry())
    }

    /// One past its last address.
    pub(crate) fn end(&self) -> u64 {
        self.ranges.iter().map(|range| range.1).max().unwrap_or(0)
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.ranges
            .iter()
            .any(|&(start, end)| start <= address && address < end)
    }
}

/// The blocks of a unit.
#[derive(Debug, Default)]
pub(crate) struct BlockTree {
    pub(crate) blocks: Vec<Block>,
    /// (start, end, greatest end so far, block) of every range of every function, by start.
    functions: Vec<(u64, u64, u64, usize)>,
    /// Whether a variable's place changes from pc to pc: then GDB trusts places right from a function's entry.
    pub(crate) has_location_lists: bool,
}

/// Where the walk over the entries is.
#[derive(Clone, Copy)]
enum Context {
    /// Outside functions.
    Outside,
    /// In a function without code.
    Abstract,
    /// In this block.
    Block(usize),
}

impl BlockTree {
    pub(crate) fn read(debug: &DebugInformation, unit: usize) -> Self {
        let mut tree = Self::default();
        tree.walk(debug, unit);
        let mut functions: Vec<(u64, u64, u64, usize)> = tree
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.kind == BlockKind::Function)
            .flat_map(|(index, block)| {
                block
                    .ranges
                    .iter()
                    .map(move |&(start, end)| (start, end, 0, index))
            })
            .collect();
        functions.sort_unstable();
        let mut reach = 0;
        for function in &mut functions {
            reach = reach.max(function.1);
            function.2 = reach;
        }
        tree.functions = functions;
        tree
    }

    fn walk(&mut self, debug: &DebugInformation, unit: usize) {
        let Some(found) = debug.unit(unit) else {
            return;
        };
        let Ok(mut entries) = found.entries_raw(None) else {
            return;
        };
        let mut contexts: Vec<Context> = Vec::new();
        let mut entry = Entry::null();
        while !entries.is_empty() {
            match entries.read_entry(&mut entry) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => return,
            }
            let depth = usize::try_from(entry.depth()).unwrap_or(0);
            contexts.truncate(depth);
            let context = contexts.last().copied().unwrap_or(Context::Outside);
            let inner = self.enter(debug, unit, &entry, context);
            if entry.has_children() && contexts.len() < DEEPEST {
                contexts.push(inner);
            }
        }
    }

    /// Takes an entry in; what its children are in.
    fn enter(
        &mut self,
        debug: &DebugInformation,
        unit: usize,
        entry: &Entry,
        context: Context,
    ) -> Context {
        match entry.tag() {
            constants::DW_TAG_subprogram => {
                let ranges = debug.ranges(unit, entry);
                if ranges.is_empty() {
                    return Context::Abstract;
                }
                let parent = match context {
                    Context::Block(parent) => Some(parent),
                    _ => None,
                };
                if !flag(entry, constants::DW_AT_external) {
                    self.declare(context, None);
                }
                Context::Block(self.push(debug, unit, BlockKind::Function, entry, parent, ranges))
            }
            constants::DW_TAG_inlined_subroutine
            | constants::DW_TAG_lexical_block
            | constants::DW_TAG_try_block
            | constants::DW_TAG_catch_block => {
                let Context::Block(parent) = context else {
                    return context;
                };
                let has_code = entry.has_attr(constants::DW_AT_low_pc)
                    || entry.has_attr(constants::DW_AT_ranges);
                let ranges = debug.ranges(unit, entry);
                if ranges.is_empty() {
                    // Braces without code are ignored.
                    return if has_code || entry.tag() == constants::DW_TAG_inlined_subroutine {
                        Context::Abstract
                    } else {
                        context
                    };
                }
                // An inlined copy without a call site is treated as braces.
                let inlined = entry.tag() == constants::DW_TAG_inlined_subroutine
                    && entry.has_attr(constants::DW_AT_call_line)
                    && entry.has_attr(constants::DW_AT_call_file);
                let kind = if inlined {
                    self.declare(context, None);
                    BlockKind::Inlined
                } else {
                    BlockKind::Lexical
                };
                Context::Block(self.push(debug, unit, kind, entry, Some(parent), ranges))
            }
            constants::DW_TAG_variable
            | constants::DW_TAG_formal_parameter
            | constants::DW_TAG_constant => {
                if matches!(
                    entry.attr_value(constants::DW_AT_location),
                    Some(
                        AttributeValue::LocationListsRef(_)
                            | AttributeValue::DebugLocListsIndex(_)
                            | AttributeValue::SecOffset(_)
                    )
                ) {
                    self.has_location_lists = true;
                }
                self.declare(context, Some(entry.offset()));
                Context::Abstract
            }
            constants::DW_TAG_label
            | constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type
            | constants::DW_TAG_enumeration_type
            | constants::DW_TAG_typedef
            | constants::DW_TAG_base_type
            | constants::DW_TAG_imported_module
            | constants::DW_TAG_imported_declaration => {
                self.declare(context, Some(entry.offset()));
                // Methods of a class of a function are functions of the unit.
                Context::Outside
            }
            constants::DW_TAG_namespace | constants::DW_TAG_module => Context::Outside,
            _ => match context {
                Context::Outside => Context::Outside,
                _ => Context::Abstract,
            },
        }
    }

    fn declare(&mut self, context: Context, name: Option<UnitOffset<usize>>) {
        if let Context::Block(index) = context
            && let Some(block) = self.blocks.get_mut(index)
        {
            block.declares = true;
            block.names.extend(name);
        }
    }

    fn push(
        &mut self,
        debug: &DebugInformation,
        unit: usize,
        kind: BlockKind,
        entry: &Entry,
        parent: Option<usize>,
        ranges: Vec<(u64, u64)>,
    ) -> usize {
        let number = |name| {
            entry.attr_value(name).and_then(|value| match value {
                AttributeValue::FileIndex(file) => Some(file),
                other => other.udata_value(),
            })
        };
        let index = self.blocks.len();
        let entry_pc = entry
            .attr_value(constants::DW_AT_entry_pc)
            .filter(|_| kind == BlockKind::Inlined)
            .and_then(|value| debug.entry_pc(unit, entry, &value));
        self.blocks.push(Block {
            kind,
            offset: entry.offset(),
            parent,
            ranges,
            entry_pc,
            names: Vec::new(),
            call_file: number(constants::DW_AT_call_file),
            call_line: number(constants::DW_AT_call_line).unwrap_or(0),
            origin: debug.origin(unit, entry),
            children: Vec::new(),
            declares: kind != BlockKind::Lexical,
        });
        if let Some(parent) = parent.and_then(|parent| self.blocks.get_mut(parent)) {
            parent.children.push(index);
        }
        index
    }

    pub(crate) fn block(&self, index: usize) -> Option<&Block> {
        self.blocks.get(index)
    }

    /// Every range of every function.
    pub(crate) fn function_ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.functions
            .iter()
            .map(|function| (function.0, function.1))
    }

    /// The innermost function (not an inlined copy) that has the code at an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<usize> {
        let end = self
            .functions
            .partition_point(|function| function.0 <= address);
        self.functions
            .get(..end)?
            .iter()
            .rev()
            .take_while(|function| function.2 > address)
            .find(|function| function.1 > address)
            .map(|function| function.3)
    }

    /// The innermost block that has the code at an address and declares something.
    pub(crate) fn block_at(&self, address: u64) -> Option<usize> {
        let mut innermost = self.function_at(address)?;
        let mut found = innermost;
        loop {
            let inner = self
                .block(innermost)?
                .children
                .iter()
                .copied()
                .find(|&child| {
                    self.block(child).is_some_and(|block| {
                        block.kind != BlockKind::Function && block.contains(address)
                    })
                });
            match inner {
                Some(inner) => innermost = inner,
                None => return Some(found),
            }
            if self.block(innermost)?.declares {
                found = innermost;
            }
        }
    }

    /// A block and those around it, up to the function's own.
    pub(crate) fn outwards(&self, block: usize) -> impl Iterator<Item = usize> {
        let mut next = Some(block);
        std::iter::from_fn(move || {
            let current = next?;
            let block = self.block(current)?;
            next = if block.kind == BlockKind::Function {
                None
            } else {
                block.parent
            };
            Some(current)
        })
    }

    /// The innermost block of a frame at a block: for level 0 the block itself, for each level more the block around one
    /// more inlined copy. None if there are not so many.
    pub(crate) fn frame_block(&self, block: usize, level: u32) -> Option<usize> {
        let mut copies = 0;
        let mut around = None;
        for index in self.outwards(block) {
            if copies == level {
                around = around.or(Some(index));
            }
            if self.block(index)?.kind == BlockKind::Inlined {
                copies += 1;
            }
        }
        around
    }

    /// The blocks from one outwards that share its variables: up to the innermost function or inlined copy.
    pub(crate) fn frame(&self, block: usize) -> Vec<usize> {
        let mut blocks = Vec::new();
        for index in self.outwards(block) {
            let Some(block) = self.block(index) else {
                break;
            };
            if block.declares {
                blocks.push(index);
            }
            if block.kind != BlockKind::Lexical {
                break;
            }
        }
        blocks
    }
}
