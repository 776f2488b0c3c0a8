//! Where a program was loaded, known from the symbols that the text of `perf script` names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use tracewire_debuginfo::Symbols;
use tracewire_exec_trace::text::{Format, beginning, perf};

/// How much of a text is looked at.
const LOOKED_AT: usize = 4 << 20;

/// How many symbols must agree, or all where there are fewer.
const AGREEING: usize = 8;

/// How far from its own addresses a program was when the trace was made; 0 where nothing says otherwise.
pub fn bias(trace: &Path, program: &Path) -> u64 {
    let (Ok(text), Some(name)) = (beginning(trace, LOOKED_AT), program.file_name()) else {
        return 0;
    };
    if !Format::detect(&text).is_some_and(Format::is_perf) {
        return 0;
    }
    let mut symbols = Symbols::new();
    // The caller reports what cannot be read.
    let Ok(module) = symbols.add_module(program, 0) else {
        return 0;
    };
    let is_meant = |symbol: &perf::Symbol<'_>| {
        Path::new(OsStr::from_bytes(symbol.file)).file_name() == Some(name)
    };
    let mut biases = perf::symbols(&text).filter(is_meant).filter_map(|symbol| {
        let name = std::str::from_utf8(symbol.name).ok()?;
        let own = symbols.symbol_address(module, name)?;
        Some(symbol.address.0.wrapping_sub(own.0))
    });
    let Some(first) = biases.next() else {
        return 0;
    };
    // One of them may be of another process, or a name that several symbols have.
    let mut counts: Vec<(u64, usize)> = vec![(first, 1)];
    for bias in biases {
        match counts.iter().position(|(of, _)| *of == bias) {
            Some(at) => counts[at].1 += 1,
            None if counts.len() < AGREEING => counts.push((bias, 1)),
            None => {}
        }
        if counts.iter().any(|(_, count)| *count >= AGREEING) {
            break;
        }
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map_or(0, |(bias, _)| bias)
}
