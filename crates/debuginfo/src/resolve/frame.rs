//! The frame at an address that a location means, whose arguments a tracepoint there has.
//!
//! The first instruction of a function may be the first of an inlined copy of another one, and often is with small functions of C++
//! and Rust. GDB stops there in the frame of the function that the location names, as far as copies begin at the address. But it
//! compiles a tracepoint's expressions in the innermost frame. Here a location means the frame of the function that it names, at
//! any address.

use std::sync::Arc;

use tracewire_model::Address;

use crate::dwarf::Die;
use crate::dwarf::block::{Block, BlockKind, BlockTree};
use crate::module::Module;
use crate::modules::Modules;
use crate::scope::Scope;

use super::line::is_named;
use super::prologue::Prologue;

/// The functions and inlined copies at a link-time address.
struct Frames {
    unit: usize,
    tree: Arc<BlockTree>,
    block: usize,
}

impl Frames {
    fn at(module: &Module, address: u64) -> Option<Self> {
        let debug = module.debug();
        let unit = debug.unit_at(address)?;
        let tree = debug.blocks(unit);
        let block = tree.block_at(address)?;
        Some(Self { unit, tree, block })
    }

    /// Innermost first, each with its level and its block.
    fn iter(&self) -> impl Iterator<Item = (u32, &Block)> {
        let blocks = self
            .tree
            .outwards(self.block)
            .filter_map(|index| self.tree.block(index))
            .filter(|block| block.kind != BlockKind::Lexical);
        (0..).zip(blocks)
    }
}

/// The innermost frame of a function, or of a copy of it; outside of every frame where the address is in none.
pub(super) fn of_function(module: &Module, address: u64, function: Die) -> u32 {
    let Some(frames) = Frames::at(module, address) else {
        return Scope::OUTSIDE;
    };
    let is_it = |block: &Block| {
        let own = Die {
            unit: frames.unit,
            offset: block.offset,
        };
        own == function || block.origin == Some(function)
    };
    let found = frames.iter().find(|(_, block)| is_it(block));
    found.map_or(Scope::OUTSIDE, |(level, _)| level)
}

/// The frame at an address of the function that another frame is of.
pub(crate) fn same_function(modules: &Modules, scope: Scope, pc: Address) -> Option<Scope> {
    let module = modules.at(scope.pc)?;
    let frames = Frames::at(module, module.unbiased(scope.pc))?;
    let (_, block) = frames.iter().find(|(level, _)| *level == scope.level)?;
    let function = block.origin.unwrap_or(Die {
        unit: frames.unit,
        offset: block.offset,
    });
    let there = modules.at(pc)?;
    if there.info.id != module.info.id {
        return None;
    }
    let level = of_function(module, module.unbiased(pc), function);
    (level != Scope::OUTSIDE).then_some(Scope { pc, level })
}

/// The line that a frame is at which other frames are in: that of the call that the next inner one is a copy of.
pub(super) fn call_line(
    module: &Module,
    address: u64,
    level: u32,
) -> Option<(Option<String>, u64)> {
    let frames = Frames::at(module, address)?;
    let inner = level.checked_sub(1)?;
    let (_, copy) = frames.iter().find(|(level, _)| *level == inner)?;
    let lines = module.debug().lines(frames.unit);
    let file = copy.call_file.and_then(|number| lines.file(number));
    (copy.call_line != 0).then(|| (file.map(|file| file.name.clone()), copy.call_line))
}

/// The frame of the function that is no copy.
pub(super) fn outermost(module: &Module, address: u64) -> u32 {
    Frames::at(module, address)
        .and_then(|frames| frames.iter().last().map(|(level, _)| level))
        .unwrap_or(0)
}

/// The innermost frame that is at a line: the one with its own code at it, or with its call there. If a prologue was skipped, that
/// of the function.
pub(super) fn of_line(module: &Module, address: u64, file: &str, line: u64, moved: bool) -> u32 {
    let Some(frames) = Frames::at(module, address) else {
        return 0;
    };
    let own = Prologue::new(module).line_at(address);
    let mut current = own.is_some_and(|own| {
        let lines = own.lines.files.get(own.place.file);
        own.place.line == line && lines.is_some_and(|lines| is_named(lines, file))
    });
    let table = module.debug().lines(frames.unit);
    for (level, block) in frames.iter() {
        if current {
            return level;
        }
        let call = block.call_file.and_then(|number| table.file(number));
        current = block.call_line == line && call.is_some_and(|lines| is_named(lines, file));
    }
    if moved { outermost(module, address) } else { 0 }
}
