//! A table of an execution trace: rows that are made while the query runs, and only those that its filters leave.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use tracewire_dataset::{Execution, Piece, Reader, Selection, Table};
use tracewire_exec_trace::recording::Addresses;

use crate::ranges::{Ranges, are_numbers, are_texts, texts};
use crate::virtual_table::{Rows, VirtualTable, external};

/// After how many pieces a thread passes on rows, though they are few. To wake the consumer for each takes as long as to read it.
const PIECES_AT_ONCE: usize = 16;

/// A table of one execution trace.
#[derive(Debug)]
pub(crate) struct ExecutionTable {
    run: String,
    execution: Arc<Execution>,
    table: Table,
}

impl ExecutionTable {
    pub(crate) const fn new(run: String, execution: Arc<Execution>, table: Table) -> Self {
        Self {
            run,
            execution,
            table,
        }
    }
}

impl VirtualTable for ExecutionTable {
    type Rows = Reading;

    fn run(&self) -> &str {
        &self.run
    }

    fn table(&self) -> &Table {
        &self.table
    }

    fn order(&self) -> Option<&str> {
        Reader::order(&self.table)
    }

    fn is_exact(&self, filter: &Expr) -> bool {
        let mut columns = Reader::exact_columns(&self.table).iter();
        columns.any(|column| are_numbers(filter, column) || are_texts(filter, column))
    }

    fn rows(
        &self,
        _: &dyn Session,
        columns: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Reading> {
        let mut reading = Reading {
            execution: Arc::clone(&self.execution),
            table: self.table.clone(),
            columns: columns.to_vec(),
            selection: selection(&self.table, filters),
            pieces: Vec::new(),
            pieces_at_once: match limit {
                Some(_) => 1,
                None => PIECES_AT_ONCE,
            },
        };
        reading.pieces = reading.reader()?.pieces().map_err(external)?;
        Ok(reading)
    }
}

/// What the filters leave of a table.
fn selection(table: &Table, filters: &[Expr]) -> Selection {
    let has = |name: &str| table.schema.index_of(name).is_ok();
    // Of a call, `address` is that of the function's code.
    let is_of_calls = table.name == "calls";
    let code = if is_of_calls { "address" } else { "pc" };
    let addresses = |name: &str| {
        let ranges = Ranges::of(filters, name);
        ranges.known().map(addresses)
    };
    let instructions = match Ranges::of(filters, "instruction").bounds() {
        None => 0..0,
        Some((first, last)) => {
            let first = u64::try_from(first).unwrap_or(0);
            let after = u64::try_from(last).map_or(0, |last| last.saturating_add(1));
            first..after
        }
    };
    let sizes = Ranges::of(filters, "size");
    let sizes = sizes
        .known()
        .map(|_| (1..=8).filter(|size| sizes.has(i64::from(*size))).collect());
    Selection {
        instructions,
        code: has(code).then(|| addresses(code)).flatten(),
        memory: (has("address") && !is_of_calls)
            .then(|| addresses("address"))
            .flatten(),
        sizes: has("size").then_some(sizes).flatten(),
        registers: texts(filters, "register"),
    }
}

/// Addresses, given as the numbers with the same bits.
fn addresses(ranges: &[(i64, i64)]) -> Addresses {
    let unsigned = ranges.iter().flat_map(|(first, last)| {
        let negative =
            (*first < 0).then(|| first.cast_unsigned()..=(*last).min(-1).cast_unsigned());
        let positive = (*last >= 0).then(|| (*first).max(0).cast_unsigned()..=last.cast_unsigned());
        [negative, positive].into_iter().flatten()
    });
    Addresses::new(unsigned.collect())
}

/// What is read. Each thread reads some of the pieces.
#[derive(Debug)]
pub(crate) struct Reading {
    execution: Arc<Execution>,
    table: Table,
    columns: Vec<usize>,
    selection: Selection,
    pieces: Vec<Piece>,
    /// After how many pieces rows are passed on, though they are few.
    pieces_at_once: usize,
}

impl Reading {
    fn reader(&self) -> Result<Reader<'_>> {
        let selection = self.selection.clone();
        Reader::new(&self.execution, &self.table, &self.columns, selection).map_err(external)
    }
}

impl Rows for Reading {
    const NAME: &'static str = "ExecutionScan";

    fn most_parts(&self) -> usize {
        self.pieces.len()
    }

    fn read(
        &self,
        part: usize,
        parts: usize,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<()> {
        let reader = self.reader()?;
        let mut is_wanted = true;
        let pieces: Vec<&Piece> = self.pieces.iter().skip(part).step_by(parts).collect();
        for pieces in pieces.chunks(self.pieces_at_once) {
            let read = reader.read(pieces.iter().copied(), &mut |batch| {
                is_wanted = take(batch);
                is_wanted
            });
            read.map_err(external)?;
            if !is_wanted {
                break;
            }
        }
        Ok(())
    }

    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.execution.recording().len();
        let Selection {
            instructions,
            code,
            memory,
            registers,
            ..
        } = &self.selection;
        let (first, end) = (instructions.start.min(all), instructions.end.min(all));
        write!(f, "instructions={} of {all}", end.saturating_sub(first))?;
        for (what, addresses) in [("code", code), ("memory", memory)] {
            if let Some(addresses) = addresses {
                let ranges = addresses.ranges().iter();
                let shown = ranges.map(|range| match range.start() == range.end() {
                    true => format!("{:#x}", range.start()),
                    false => format!("{:#x} to {:#x}", range.start(), range.end()),
                });
                write!(f, ", {what}=[{}]", shown.collect::<Vec<_>>().join(", "))?;
            }
        }
        if let Some(registers) = registers {
            let shown: Vec<&str> = registers.iter().map(String::as_str).collect();
            write!(f, ", registers=[{}]", shown.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn addresses_have_the_bits_of_numbers() {
        let found = addresses(&[(-2, 3), (i64::MAX, i64::MAX)]);
        let top = 1 << 63;
        assert_eq!(
            found.ranges(),
            [0..=3, top - 1..=top - 1, u64::MAX - 1..=u64::MAX]
        );
    }
}
