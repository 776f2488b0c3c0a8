//! A place in code, with the blocks around it.

use std::sync::Arc;

use tracewire_model::Address;

use crate::dwarf::block::{Block, BlockTree};
use crate::dwarf::{DebugInformation, Die};
use crate::module::Module;
use crate::modules::Modules;
use crate::scope::Scope;

/// A place in code that has debug information.
pub(crate) struct CodePlace<'a> {
    pub(crate) module: &'a Module,
    pub(crate) unit: usize,
    pub(crate) tree: Arc<BlockTree>,
    /// The innermost block; none if the unit has no function there.
    pub(crate) block: Option<usize>,
    /// The link-time address.
    pub(crate) address: u64,
}

impl<'a> CodePlace<'a> {
    /// The place of an address.
    pub(crate) fn at(modules: &'a Modules, pc: Address) -> Option<Self> {
        let module = modules.at(pc)?;
        let address = module.unbiased(pc);
        let debug = module.debug();
        let unit = debug.unit_at(address)?;
        let tree = debug.blocks(unit);
        let block = tree.block_at(address);
        Some(Self {
            module,
            unit,
            tree,
            block,
            address,
        })
    }

    /// The place of a frame: the block is the innermost of that frame's.
    pub(crate) fn of_frame(modules: &'a Modules, scope: Scope) -> Option<Self> {
        let mut place = Self::at(modules, scope.pc)?;
        place.block = place
            .block
            .and_then(|block| place.tree.frame_block(block, scope.level));
        Some(place)
    }

    pub(crate) fn debug(&self) -> &'a DebugInformation {
        self.module.debug()
    }

    /// The entry of a block of the unit.
    pub(crate) fn die(&self, block: &Block) -> Die {
        Die {
            unit: self.unit,
            offset: block.offset,
        }
    }

    /// The (not inlined) function.
    pub(crate) fn function(&self) -> Option<&Block> {
        self.tree.block(self.tree.function_at(self.address)?)
    }

    pub(crate) fn at_entry(&self) -> bool {
        self.function()
            .is_some_and(|function| function.entry() == self.address)
    }

    /// The blocks whose variables are the frame's, innermost first.
    pub(crate) fn frame(&self) -> Vec<&Block> {
        self.block.map_or_else(Vec::new, |block| {
            self.tree
                .frame(block)
                .into_iter()
                .filter_map(|block| self.tree.block(block))
                .collect()
        })
    }
}
