//! Aggregates for people.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use tracewire_model::AggregateFunction;

use super::{FAINT, STRONG, styled};
use crate::aggregate::AggregateView;
use crate::words::{count, printable};

/// How wide the longest bar of a histogram is.
const BAR: u64 = 40;

/// Aggregates, one table after the other.
#[must_use]
pub fn aggregates(views: &[AggregateView]) -> String {
    let mut text = String::new();
    for view in views {
        if !text.is_empty() {
            text.push('\n');
        }
        let title = format!("Tracepoint {}: {}", view.tracepoint, view.aggregate.text);
        let _ = writeln!(text, "{}", styled(STRONG, printable(&title)));
        match view.aggregate.function {
            AggregateFunction::Histogram(_) => histograms(&mut text, view),
            _ => numbers(&mut text, view),
        }
        if view.rows.is_empty() {
            let _ = writeln!(text, "{}", styled(FAINT, "nothing was counted"));
        }
        for (hits, why) in [
            (view.without_room, "found no room for their keys"),
            (
                view.unreadable,
                "had a key or a value that could not be read",
            ),
        ] {
            if hits > 0 {
                let _ = writeln!(text, "{} {why}", count(hits, "hit"));
            }
        }
    }
    text
}

fn numbers(text: &mut String, view: &AggregateView) {
    let mut rows = Table::new();
    rows.load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    for (mut row, number) in view.numbers() {
        row.insert(0, " ".to_owned());
        row.push(number);
        rows.add_row(row);
    }
    for column in rows.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if let Some(column) = rows.column_mut(0) {
        column.set_padding((0, 1));
    }
    let last = view.aggregate.keys.len() + 1;
    if let Some(column) = rows.column_mut(last) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in rows.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn histograms(text: &mut String, view: &AggregateView) {
    for histogram in view.histograms() {
        if !histogram.key.is_empty() {
            let _ = writeln!(text, "{}", histogram.key.join(", "));
        }
        let lines = histogram.ranges;
        let most = lines
            .iter()
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0)
            .max(1);
        let wide = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let range_width = wide(&mut lines.iter().map(|(range, _)| range.chars().count()));
        let count_width = wide(&mut lines.iter().map(|(_, count)| count.to_string().len()));
        for (range, count) in lines {
            // At least a mark where there is something.
            let bar = (u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most)) as usize;
            let _ = writeln!(
                text,
                "  {range:<range_width$}  {count:>count_width$}  |{:<width$}|",
                "@".repeat(bar),
                width = BAR as usize
            );
        }
    }
}
