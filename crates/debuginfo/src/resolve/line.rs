//! Locations that name lines.

use std::collections::HashSet;

use crate::dwarf::line::{FileLines, FileName, names_file};
use crate::error::LocationError;
use crate::function::block_name;
use crate::location::ResolvedLocation;
use crate::module::Module;
use crate::module::known_names::Kind;

use super::function::{best, located};
use super::prologue::Prologue;
use super::{Resolution, frame};

/// One line table entry for the requested line; the address is a link-time one.
struct Found<'a> {
    module: &'a Module,
    unit: usize,
    file: String,
    address: u64,
}

impl Resolution<'_> {
    /// Every place of a line: GDB's `create_sals_line_offset`. Where the line has no code, the next line that has.
    pub(crate) fn resolve_line(
        &self,
        file: &str,
        line: u64,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        let mut places = Vec::new();
        let mut next_line = None;
        let mut file_found = false;
        for module in self.modules.iter() {
            for unit in units_with_file(module, file) {
                file_found = true;
                let lines = module.debug().lines(unit);
                for lines in lines.files.iter().filter(|lines| is_named(lines, file)) {
                    let found = exact(module, unit, lines, line);
                    if found.is_empty() {
                        next_line = next_line.into_iter().chain(line_after(lines, line)).min();
                    }
                    places.extend(found);
                }
            }
        }
        if !file_found {
            return Err(self.no_file(file));
        }
        let no_line = || LocationError::NoLine {
            file: file.to_owned(),
            line,
        };
        let mut line = line;
        if places.is_empty() {
            line = next_line.ok_or_else(no_line)?;
            for module in self.modules.iter() {
                for unit in units_with_file(module, file) {
                    let lines = module.debug().lines(unit);
                    for lines in lines.files.iter().filter(|lines| is_named(lines, file)) {
                        places.extend(exact(module, unit, lines, line));
                    }
                }
            }
        }
        // The optimizer scatters a line: one place a block is enough.
        let mut blocks = HashSet::new();
        let mut locations = Vec::new();
        for found in places {
            let debug = found.module.debug();
            let place = Prologue::new(found.module);
            // The unit that GDB takes for the address may be another than the line table's. Code of a unit that is
            // in none of its functions counts as one block, too.
            let unit = debug.unit_at(found.address);
            if let Some(unit) = unit {
                let block = debug.blocks(unit).block_at(found.address);
                if !blocks.insert((found.module.info.id, unit, block)) {
                    continue;
                }
            }
            let unit = unit.unwrap_or(found.unit);
            let tree = debug.blocks(unit);
            let block = tree.block_at(found.address);
            let function = block.and_then(|block| {
                tree.outwards(block)
                    .filter_map(|index| tree.block(index))
                    .find_map(|block| match block.kind {
                        crate::dwarf::block::BlockKind::Lexical => None,
                        _ => block_name(debug, unit, block),
                    })
            });
            let address = if is_assembler(&found.file) {
                found.address
            } else {
                place.skip(found.address)
            };
            if address == found.address {
                locations.push(ResolvedLocation {
                    address: found.module.biased(address),
                    function,
                    level: frame::of_line(found.module, address, file, line, false),
                    file: Some(found.file),
                    line,
                    module: found.module.info.id,
                    known_to_gdb: true,
                    selected_for: None,
                    marker: None,
                    elsewhere_in_gdb: false,
                });
            } else {
                let level = frame::of_line(found.module, address, file, line, true);
                locations.push(located(found.module, address, true, function, level));
            }
        }
        if locations.is_empty() {
            return Err(no_line());
        }
        Ok(locations)
    }

    pub(crate) fn no_file(&self, file: &str) -> LocationError {
        let mut names = HashSet::new();
        for module in self.modules.iter() {
            let debug = module.debug();
            for unit in 0..debug.unit_count() {
                for FileName { name, .. } in debug.file_names(unit).iter() {
                    names.insert(name.clone());
                }
            }
        }
        let modules = self
            .modules
            .iter()
            .map(|module| module.info.path.display().to_string());
        names.extend(modules);
        let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let wanted = last(file);
        LocationError::NoFile {
            name: file.to_owned(),
            searched: self.modules.searched(),
            near: best(names.into_iter().filter_map(|name| {
                let short = last(&name);
                Some((crate::dwarf::nearness(&wanted, &short)?, short))
            })),
        }
    }
}

fn is_assembler(file: &str) -> bool {
    [".s", ".S", ".sx"].iter().any(|end| file.ends_with(end))
}

/// The entries for exactly this line that are statements.
fn exact<'a>(module: &'a Module, unit: usize, lines: &FileLines, line: u64) -> Vec<Found<'a>> {
    lines
        .entries
        .iter()
        .filter(|entry| entry.is_statement && entry.line == line && line > 0)
        .map(|entry| Found {
            module,
            unit,
            file: lines.name.clone(),
            address: entry.address,
        })
        .collect()
}

/// The next line that has code.
fn line_after(lines: &FileLines, line: u64) -> Option<u64> {
    lines
        .entries
        .iter()
        .filter(|entry| entry.is_statement && entry.line > line)
        .map(|entry| entry.line)
        .min()
}

/// The units whose line table has a file of that name.
pub(crate) fn units_with_file(module: &Module, file: &str) -> Vec<usize> {
    if !module.may_have(Kind::File, file) {
        return Vec::new();
    }
    let debug = module.debug();
    (0..debug.unit_count())
        .filter(|&unit| {
            debug
                .file_names(unit)
                .iter()
                .any(|FileName { name, path }| names_file(name, file) || names_file(path, file))
        })
        .collect()
}

pub(super) fn is_named(lines: &FileLines, file: &str) -> bool {
    names_file(&lines.name, file) || names_file(&lines.path, file)
}
