//! The sections of an execution trace.

use std::io::{self, Write};

use maud::{Markup, html};

use super::{Sections, facts, scrolled, tiles};
use crate::chart;
use crate::execution::{Accesses, Calls, CoveredFile, Execution, History};
use crate::words::{counted, grouped, number};

/// Writes the page of an execution trace.
pub(crate) fn write(execution: &Execution, out: &mut impl Write) -> io::Result<()> {
    let mut sections = Sections::default();
    sections.add("trace", "The trace", trace(execution));
    sections.add(
        "calls",
        "Calls",
        execution
            .calls
            .as_ref()
            .map(|all| calls(all, execution.instructions)),
    );
    sections.add("coverage", "Coverage", coverage(execution));
    sections.add("memory", "Memory", memory(execution));
    sections.add("source", "Source", source(execution));
    let summary = tiles(&[
        ("Instructions", grouped(execution.instructions)),
        ("Addresses", grouped(execution.addresses as u64)),
        ("Reads", grouped(execution.accesses.reads.iter().sum())),
        ("Writes", grouped(execution.accesses.writes.iter().sum())),
    ]);
    super::write(out, &execution.title, &summary, &sections, None)
}

fn trace(execution: &Execution) -> Markup {
    let mut all = execution.facts.clone();
    all.extend(
        execution
            .programs
            .iter()
            .map(|program| ("program", program.clone())),
    );
    html! {
        (facts(&all))
        @if execution.programs.is_empty() {
            p.faint { "Functions are called by their addresses: no program was named." }
        }
        @if let Some(note) = execution.note { p.warning { "Note: " (note) "." } }
    }
}

/// A cell with a number and its share of all as a bar.
fn share(count: u64, all: u64) -> Markup {
    html! {
        td.share {
            span.mark style=(format!("width:{:.2}%", count as f64 / all.max(1) as f64 * 55.0)) {}
            span { (chart::percent(count, all)) }
        }
    }
}

fn calls(calls: &Calls, all: u64) -> Markup {
    html! {
        h3 { "Who called whom" }
        @if calls.rows.len() < calls.all {
            p.faint { "The " (calls.rows.len()) " of " (grouped(calls.all as u64)) " rows with the most instructions." }
        }
        (scrolled("Who called whom", &html! {
            table.ranking {
                thead { tr {
                    th scope="col" { "Function" } th.number scope="col" { "Instructions" } th scope="col" { "Share" }
                    th.number scope="col" { "Own" } th.number scope="col" { "Calls" }
                } }
                tbody {
                    @for row in &calls.rows {
                        tr {
                            th.value scope="row" style=(format!("padding-left:{:.1}em", 0.5 + row.depth.min(30) as f64)) {
                                (row.function)
                                @if row.depth == 0 && calls.several_cpus { span.faint { " cpu " (row.cpu) } }
                            }
                            td.number { (grouped(row.total)) }
                            (share(row.total, all))
                            td.number { (grouped(row.own)) }
                            td.number { (grouped(row.calls)) }
                        }
                    }
                }
            }
        }))
        h3 { "Which functions take the instructions" }
        (scrolled("Functions by their own instructions", &html! {
            table.ranking {
                thead { tr {
                    th scope="col" { "Function" } th.number scope="col" { "Own" } th scope="col" { "Share" }
                    th.number scope="col" { "With what it called" } th.number scope="col" { "Calls" }
                } }
                tbody {
                    @for one in &calls.profile {
                        tr {
                            th.value scope="row" { (one.function) }
                            td.number { (grouped(one.own)) }
                            (share(one.own, all))
                            td.number { (grouped(one.total)) }
                            td.number { (grouped(one.calls)) }
                        }
                    }
                }
            }
        }))
    }
}

fn coverage(execution: &Execution) -> Option<Markup> {
    (!execution.coverage.is_empty()).then(|| html! {
        (scrolled("Executed bytes of functions", &html! {
            table.ranking {
                thead { tr {
                    th scope="col" { "Function" } th.number scope="col" { "Address" } th.number scope="col" { "Bytes" }
                    th.number scope="col" { "Executed" } th scope="col" { "Share" } th.number scope="col" { "Entered" }
                } }
                tbody {
                    @for one in &execution.coverage {
                        @let size = one.end.0.saturating_sub(one.start.0);
                        tr {
                            th.value scope="row" { (one.name) }
                            td.number { (one.start) }
                            td.number { (grouped(size)) }
                            td.number { (grouped(one.executed)) }
                            (share(one.executed.min(size), size))
                            td.number { (grouped(one.entries)) }
                        }
                    }
                }
            }
        }))
    })
}

fn memory(execution: &Execution) -> Option<Markup> {
    let accesses = &execution.accesses;
    let is_any = !accesses.pages.is_empty() || !execution.memory.is_empty();
    is_any.then(|| {
        html! {
            @for one in &execution.memory { (history(one, execution.instructions)) }
            @if !accesses.pages.is_empty() { (over_time(accesses, execution.instructions)) }
        }
    })
}

fn over_time(accesses: &Accesses, instructions: u64) -> Markup {
    let at = |share: f64| grouped((instructions as f64 * share) as u64);
    html! {
        h3 { "Accesses over the instructions" }
        div.cards {
            @for (name, counts) in [("Reads", &accesses.reads), ("Writes", &accesses.writes)] {
                div.card {
                    h4 { (name) }
                    (chart::timeline(counts, &format!("{name} over the instructions: {} in all", counts.iter().sum::<u64>()), &at))
                }
            }
        }
        h3 { "Busiest pages of memory" }
        @if accesses.is_cut { p.warning { "The trace has more pages than are counted." } }
        (scrolled("Busiest pages of memory", &html! {
            table.ranking {
                thead { tr {
                    th scope="col" { "Page of 4 KiB" } th.number scope="col" { "Reads" } th.number scope="col" { "Writes" }
                } }
                tbody {
                    @for (page, reads, writes) in &accesses.pages {
                        tr { th.value scope="row" { (format!("{page:#x}")) } td.number { (grouped(*reads)) } td.number { (grouped(*writes)) } }
                    }
                }
            }
        }))
    }
}

fn history(history: &History, instructions: u64) -> Markup {
    let place = &history.place;
    html! {
        h3 { "History of " span.value { (place.name) } }
        p.faint {
            (format!("{:#x}", place.first)) ", " (counted(place.last - place.first + 1, "byte")) ". "
            (counted(history.all as u64, "instruction")) " accessed it."
        }
        @if !history.values.is_empty() {
            div.card {
                (chart::steps(
                    &history.values,
                    (0.0, instructions as f64),
                    &format!("Value of {} over the instructions", place.name),
                    &|at| grouped(at as u64),
                    &number,
                ))
            }
        }
        @if !history.lines.is_empty() {
            details open[history.lines.len() <= 40] {
                summary { "The instructions" }
                pre.code tabindex="0" role="region" aria-label={ "Instructions that accessed " (place.name) } {
                    @for line in &history.lines {
                        @match line {
                            Some(line) => (line),
                            None => "       …",
                        }
                        "\n"
                    }
                }
            }
        }
    }
}

fn source(execution: &Execution) -> Option<Markup> {
    let is_any = !execution.source.is_empty() || !execution.missing_source.is_empty();
    is_any.then(|| {
        html! {
            @for file in &execution.source { (covered(file)) }
            @if !execution.missing_source.is_empty() {
                p { "Source files that are not on the machine that made this report:" }
                ul { @for name in &execution.missing_source { li.value { (name) } } }
            }
        }
    })
}

fn covered(file: &CoveredFile) -> Markup {
    let lines = &file.coverage.lines;
    let hit = lines.values().filter(|count| **count > 0).count();
    let (first, last) = file.shown;
    html! {
        h3 { span.value { (file.name) } }
        p { (hit) " of " (counted(lines.len() as u64, "line")) " with code executed." }
        @if file.is_newer { p.warning { "The file was written after the program was built: its lines may be others." } }
        details open[last - first < 60] {
            summary { "Lines " (first) " to " (last) }
            pre.code tabindex="0" role="region" aria-label=(file.name) {
                @for (number, line) in (1u64..).zip(file.source.lines()).skip(first as usize - 1).take_while(|(number, _)| *number <= last) {
                    span.line { (number) }
                    span.times.missing[lines.get(&number) == Some(&0)] {
                        @if let Some(count) = lines.get(&number) { (grouped(*count)) }
                    }
                    "  " (line) "\n"
                }
            }
        }
    }
}
