//! Source lines: the lines of a function, and the file on disk that has them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::code_place::CodePlace;
use crate::dwarf::block::BlockKind;
use crate::location::Function;
use crate::module::Module;

impl Function {
    /// The lines with code of the function itself, in the file that declares it: not those of functions inlined into it.
    pub(crate) fn lines(&self, module: &Module) -> Vec<u64> {
        let mut found = BTreeSet::new();
        let Some(file) = &self.file else {
            return Vec::new();
        };
        let debug = module.debug();
        for (start, end) in &self.ranges {
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
}

impl CodePlace<'_> {
    /// Where the source file is that the debug information of the code here names so, with its directories as far as they are known.
    pub(crate) fn source_path(&self, name: &str) -> Option<PathBuf> {
        let table = self.debug().lines(self.unit);
        let file = table.files.iter().find(|file| file.name == name)?;
        Some(PathBuf::from(&file.path))
    }
}
