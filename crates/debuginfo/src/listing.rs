//! Source lines: which a function has, and in which file of the disk they are.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tracewire_model::Address;

use crate::dwarf::block::BlockKind;
use crate::location::Function;
use crate::symbols::Symbols;

impl Symbols {
    /// The lines of a function that have code of its own, of the file that declares it: not those of what was inlined into it.
    #[must_use]
    pub fn lines_of(&self, function: &Function) -> Vec<u64> {
        let mut found = BTreeSet::new();
        let (Some(module), Some(file)) = (self.module_of(function.module), &function.file) else {
            return Vec::new();
        };
        let debug = module.debug();
        for (start, end) in &function.ranges {
            let (start, end) = (module.unbiased(*start), module.unbiased(*end));
            let Some(unit) = debug.unit_at(start) else {
                continue;
            };
            let tree = debug.blocks(unit);
            let table = debug.lines(unit);
            let own_file = table.files.iter().filter(|lines| lines.name == *file);
            for lines in own_file {
                let from = lines.entries.partition_point(|entry| entry.address < start);
                let entries = lines.entries.iter().skip(from);
                let entries = entries
                    .take_while(|entry| entry.address < end)
                    .filter(|entry| entry.is_statement && entry.line > 0);
                for entry in entries {
                    let innermost = tree.block_at(entry.address).and_then(|block| {
                        tree.outwards(block)
                            .filter_map(|index| tree.block(index))
                            .find(|block| block.kind != BlockKind::Lexical)
                    });
                    // The first instruction may be of an inlined copy already.
                    if entry.address == start
                        || innermost.is_some_and(|block| block.kind == BlockKind::Function)
                    {
                        found.insert(entry.line);
                    }
                }
            }
        }
        found.into_iter().collect()
    }

    /// Where the source file is that the debug information of the code at an address names so, with its directories as far as they are
    /// known.
    #[must_use]
    pub fn source_path(&self, pc: Address, name: &str) -> Option<PathBuf> {
        let code = self.code_at(pc)?;
        let table = code.debug().lines(code.unit);
        let file = table.files.iter().find(|file| file.name == name)?;
        Some(PathBuf::from(&file.path))
    }
}
