//! The sections of a run.

use std::io::{self, Write};

use maud::{Markup, html};
use tracewire_views::{AggregateRow, AggregateView, StatusInfo, table, words::bytes};

use super::{Sections, facts, scrolled, tiles};
use crate::chart;
use crate::distribution::Distribution;
use crate::numbers::Numbers;
use crate::run::{Run, SlowSpan, TracepointReport};
use crate::words::{counted, exact, grouped, number, time, times_between};

/// How many bars a histogram has.
const BARS: usize = 30;

/// How many of the values that came most often are listed.
const TOP: usize = 10;

/// Up to how many different numbers are listed one by one, where they are far apart.
const FEW: usize = 8;

/// How many rows a table of counts has.
const COUNT_ROWS: usize = 50;

/// Writes the page of a run.
pub(crate) fn write(run: &Run, out: &mut impl Write) -> io::Result<()> {
    let mut sections = Sections::default();
    sections.add("asked", "What was asked", asked(run));
    sections.add("time", "Hits over time", over_time(run));
    sections.add("values", "Values", values(run));
    sections.add("spans", "Spans", spans(run));
    sections.add(
        "counts",
        "Counts",
        (!run.aggregates.is_empty()).then(|| counts(&run.aggregates)),
    );
    sections.add("hits", "Hits", (run.hits > 0).then(|| hits(run)));
    sections.add("source", "Source", source(run));
    let data = (run.hits > 0).then_some(&run.data);
    super::write(out, &run.title, &summary(run), &sections, data)
}

fn summary(run: &Run) -> Markup {
    let mut all = Vec::new();
    // A tracepoint that only counts has no frames.
    if run.hits > 0 || run.aggregates.is_empty() {
        all.push(("Hits", grouped(run.hits)));
    }
    all.push(("Tracepoints", grouped(run.tracepoints.len() as u64)));
    if run.parts.len() > 1 {
        all.push(("Trace files", grouped(run.parts.len() as u64)));
    }
    if run.threads > 0 {
        all.push(("Threads", grouped(run.threads as u64)));
    }
    if let Some(length) = run.length().filter(|_| run.hits > 0) {
        all.push(("From start to last hit", length));
    }
    let dates = run
        .parts
        .iter()
        .filter_map(|part| part.info.status.as_ref()?.start_us);
    if let Some(date) = dates.min().and_then(tracewire_views::words::date) {
        all.push(("Begun", date));
    }
    let made = run.parts.iter().filter_map(|part| {
        let status = part.info.status.as_ref()?;
        let (frames, created) = status.kept_and_made(part.info.frames)?;
        created.checked_sub(frames)
    });
    let lost: u64 = made.sum();
    if lost > 0 {
        all.push(("Frames discarded", grouped(lost)));
    }
    tiles(&all)
}

fn asked(run: &Run) -> Markup {
    let rows = html! {
        table {
            thead { tr {
                th.number scope="col" { "TP" }
                th scope="col" { "Location" } th scope="col" { "Condition" } th scope="col" { "Actions" }
                th scope="col" { "Served by" } th.number scope="col" { "Hits" }
            } }
            tbody { @for tracepoint in &run.tracepoints { (asked_row(tracepoint)) } }
        }
    };
    html! {
        @if run.tracepoints.is_empty() {
            p { "The file has no tracepoint." }
        } @else {
            (scrolled("Tracepoints", &rows))
        }
        @for part in &run.parts {
            @let title = match part.process {
                Some(process) => format!("{} (process {process})", part.name),
                None => part.name.clone(),
            };
            h3 { (title) }
            (facts(&part_facts(part)))
            @for note in &part.notes { p.warning { (note) } }
            @for problem in &part.info.problems { p.warning { "Line " (problem.line) " of the file: " (problem.message) } }
            @if part.info.ending == "cut" {
                p.warning { "The file is cut off. The " (counted(part.info.frames, "frame")) " before that are whole." }
            }
            @if !part.info.modules.is_empty() {
                details {
                    summary { "Program and libraries: " (grouped(part.info.modules.len() as u64)) }
                    (scrolled("Program and libraries", &html! {
                        table {
                            thead { tr {
                                th scope="col" { "File" } th scope="col" { "Build id" } th scope="col" { "Loaded at" }
                            } }
                            tbody {
                                @for module in &part.info.modules {
                                    tr {
                                        th.value scope="row" { (module.path) }
                                        td.value { (module.build_id.as_deref().unwrap_or("none")) }
                                        td.value { (module.start) }
                                    }
                                }
                            }
                        }
                    }))
                }
            }
        }
    }
}

fn asked_row(tracepoint: &TracepointReport) -> Markup {
    let locations = match tracepoint.locations.as_slice() {
        [] => tracepoint.name(),
        locations => locations.join(", "),
    };
    html! {
        tr {
            th.number scope="row" { (tracepoint.number) }
            td.value {
                (locations)
                @if let Some(place) = &tracepoint.place { div.faint { (place) } }
                @if tracepoint.is_disabled { div.faint { "disabled" } }
                @if tracepoint.pass_count > 0 { div.faint { "passcount " (tracepoint.pass_count) } }
            }
            td.value { (tracepoint.conditions.join(" or ")) }
            td.value { @for command in &tracepoint.commands { div { (command) } } }
            td { @for mechanism in &tracepoint.mechanisms { div { (mechanism) } } }
            td.number {
                @if tracepoint.hits == 0 && tracepoint.has_counts {
                    span.faint { "in the counts" }
                } @else {
                    (grouped(tracepoint.hits))
                }
                @if tracepoint.skipped > 0 { div.faint { (grouped(tracepoint.skipped)) " skipped" } }
            }
        }
    }
}

fn part_facts(part: &crate::run::Part) -> Vec<(&'static str, String)> {
    let info = &part.info;
    let mut all = Vec::new();
    if let Some(module) = info.modules.first() {
        all.push(("Program", module.path.clone()));
        all.extend(module.build_id.iter().map(|id| ("Build id", id.clone())));
    }
    if let Some(parent) = part.parent {
        all.push(("Child of process", parent.to_string()));
    }
    let machine = info.architecture.as_deref().unwrap_or("unknown machine");
    all.push(("Machine", format!("{machine}, {}-endian", info.byte_order)));
    if let Some(status) = &info.status {
        all.extend(status_facts(status, info.frames));
    }
    all
}

/// What is said of the run of a file with so many frames.
fn status_facts(status: &StatusInfo, found: u64) -> Vec<(&'static str, String)> {
    let mut all = vec![("Run", table::stop_words(status))];
    if let Some(start) = status.start_us.filter(|start| *start != 0) {
        let lasted = status.stop_us.and_then(|stop| stop.checked_sub(start));
        let lasted =
            lasted.map(|lasted| format!("lasted {}", tracewire_views::words::duration(lasted)));
        let words: Vec<_> = tracewire_views::words::date(start)
            .into_iter()
            .chain(lasted)
            .collect();
        if !words.is_empty() {
            all.push(("Time", words.join(", ")));
        }
    }
    if let Some((frames, created)) = status.kept_and_made(found) {
        all.push((
            "Frames",
            format!("{} kept of {} made", grouped(frames), grouped(created)),
        ));
    }
    if let Some(size) = status.buffer_size {
        let kind = match status.circular {
            Some(true) => ", circular",
            Some(false) => ", linear",
            None => "",
        };
        all.push(("Buffer", format!("{}{kind}", bytes(size))));
    }
    for (name, words) in [("User", &status.user), ("Notes", &status.notes)] {
        all.extend(
            words
                .iter()
                .filter(|words| !words.is_empty())
                .map(|words| (name, words.clone())),
        );
    }
    all
}

fn tracepoint_heading(tracepoint: &TracepointReport) -> Markup {
    html! {
        h3 { "Tracepoint " (tracepoint.number) ": " span.value { (tracepoint.name()) } }
    }
}

fn over_time(run: &Run) -> Option<Markup> {
    let (start, last) = run.times?;
    let (first, last) = (run.data.time_start_ns as f64, (last - start) as f64);
    let mut hit = run.charted();
    hit.retain(|one| one.over_time.iter().any(|count| *count > 0));
    if hit.is_empty() {
        return None;
    }
    // As the table of hits counts.
    let words = times_between(first, last);
    let at = |share: f64| words(first + (last - first) * share);
    Some(html! {
        p.faint { "Time counts from the start of the run." }
        @if run.uncharted() > 0 {
            p.warning {
                "Of the tracepoints that were hit, the " (hit.len()) " with the most hits have charts. "
                (grouped(run.uncharted() as u64)) " have none."
            }
        }
        div.cards {
            @for tracepoint in hit {
                div.card {
                    (tracepoint_heading(tracepoint))
                    p { (counted(tracepoint.hits, "hit")) }
                    (chart::timeline(
                        &tracepoint.over_time,
                        &format!("Hits of tracepoint {} over time: {} in all", tracepoint.number, tracepoint.hits),
                        &at,
                    ))
                }
            }
        }
    })
}

fn values(run: &Run) -> Option<Markup> {
    let with_values: Vec<_> = (run.charted().into_iter())
        .filter(|tracepoint| tracepoint.values.iter().next().is_some())
        .collect();
    (!with_values.is_empty()).then(|| html! {
        @for tracepoint in with_values {
            (tracepoint_heading(tracepoint))
            div.cards { @for one in tracepoint.values.iter() { (distribution(one)) } }
            @if tracepoint.values.is_cut {
                p.warning { "There are more parts of values, without a chart. The table of hits has all values." }
            }
        }
    })
}

fn distribution(one: &Distribution) -> Markup {
    let numbers = &one.numbers;
    html! {
        div.card {
            h4.value { (one.name) }
            @if numbers.total() > 0 { (number_chart(numbers, &one.name)) }
            @let texts = one.top_texts(TOP);
            @if !texts.is_empty() {
                @let rows: Vec<_> = texts.iter().map(|(text, count)| ((*text).to_owned(), *count)).collect();
                (chart::ranking("Value", &rows, one.total))
                @if one.different_texts() > rows.len() {
                    p.faint {
                        "The first " (rows.len()) " of " (grouped(one.different_texts() as u64))
                        @if one.other_texts > 0 { " and more" }
                        " different values."
                    }
                }
            }
            @if !one.missing.is_empty() {
                @let rows: Vec<_> = one.missing.iter().map(|(why, count)| (why.clone(), *count)).collect();
                (chart::ranking("No value", &rows, one.total))
            }
        }
    }
}

fn number_chart(numbers: &Numbers, name: &str) -> Markup {
    let Some((least, most)) = numbers.ends() else {
        return html! {};
    };
    let median = numbers.quantile(0.5).map_or_else(String::new, exact);
    let summary = match least == most {
        true => format!("always {}", exact(least)),
        false => format!(
            "{} to {}, median {median}, mean {}",
            exact(least),
            exact(most),
            number(numbers.mean())
        ),
    };
    let is_sparse = numbers
        .different()
        .is_some_and(|different| different <= FEW)
        && most.value() - least.value() >= BARS as f64;
    html! {
        p { (summary) }
        @if least == most {
        } @else if is_sparse {
            @let rows: Vec<_> = numbers.counts().map(|(value, count)| (exact(value), count)).collect();
            (chart::ranking("Value", &rows, numbers.total()))
        } @else if let Some(histogram) = numbers.histogram(BARS) {
            (chart::histogram(&histogram, &format!("Distribution of {name}: {summary}"), &number))
        }
    }
}

fn spans(run: &Run) -> Option<Markup> {
    let with_spans: Vec<_> = (run.charted().into_iter())
        .filter(|tracepoint| !tracepoint.endings.is_empty())
        .collect();
    (!with_spans.is_empty()).then(|| {
        html! {
            div.cards { @for tracepoint in with_spans { (latency(tracepoint)) } }
            @if !run.slowest.is_empty() {
                h3 { "The slowest" }
                (scrolled("The slowest spans", &slowest(run)))
            }
        }
    })
}

fn latency(tracepoint: &TracepointReport) -> Markup {
    let durations = &tracepoint.durations;
    let at = |share: f64| {
        durations
            .quantile(share)
            .map_or(0.0, crate::numbers::Number::value)
    };
    let quantiles = [
        ("median", 0.5),
        ("90 %", 0.9),
        ("99 %", 0.99),
        ("longest", 1.0),
    ];
    let words: Vec<_> = quantiles
        .iter()
        .map(|(name, share)| format!("{name} {}", time(at(*share))))
        .collect();
    html! {
        div.card {
            (tracepoint_heading(tracepoint))
            @if durations.total() > 0 {
                (facts(&quantiles.map(|(name, share)| (name, time(at(share))))))
                @if let Some(histogram) = durations.histogram(BARS).filter(|_| durations.different() != Some(1)) {
                    (chart::histogram(
                        &histogram,
                        &format!("How long spans of tracepoint {} took: {}", tracepoint.number, words.join(", ")),
                        &time,
                    ))
                }
                @if durations.is_coarse() { p.faint { "Times are rounded down by less than 0.1 %." } }
            }
            @let endings: Vec<_> = (tracepoint.endings.iter())
                .map(|(end, count)| (ending_words(end).to_owned(), *count))
                .collect();
            (chart::ranking("Ended by", &endings, tracepoint.hits))
        }
    }
}

fn ending_words(end: &str) -> &str {
    match end {
        "return" => "return",
        "exception" => "exception",
        "longjmp" => "longjmp",
        "thread-exit" => "the thread's end",
        "process-exit" => "the process's end",
        "left" => "not known",
        "open" => "not ended",
        other => other,
    }
}

fn slowest(run: &Run) -> Markup {
    let several = run.slowest.iter().any(|span| span.process.is_some());
    html! {
        table {
            thead { tr {
                th.number scope="col" { "Duration" }
                @if several { th.number scope="col" { "Process" } }
                th.number scope="col" { "Frame" } th.number scope="col" { "Thread" }
                th scope="col" { "Where" } th scope="col" { "In" } th scope="col" { "Values" }
            } }
            tbody { @for span in &run.slowest { (slow_row(span, several)) } }
        }
    }
}

fn slow_row(span: &SlowSpan, several: bool) -> Markup {
    html! {
        tr {
            th.number scope="row" { (time(span.duration as f64)) }
            @if several { td.number { (span.process.map_or_else(String::new, |process| process.to_string())) } }
            td.number { (span.frame) }
            td.number { (span.thread.map_or_else(String::new, |thread| thread.to_string())) }
            td.value {
                (span.place)
                @if span.ended != "return" { div.faint { "ended by " (ending_words(span.ended)) } }
                @if !span.stack.is_empty() {
                    details {
                        summary { "Stack of " (span.stack.len()) }
                        ol.stack { @for entry in &span.stack { li { (entry) } } }
                    }
                }
            }
            td.value {
                @for (place, duration) in &span.parents {
                    div { (place) @if let Some(duration) = duration { span.faint { " " (time(*duration as f64)) } } }
                }
            }
            td.value { @for value in &span.values { div { (value.expression) " = " (value.value) } } }
        }
    }
}

fn counts(views: &[AggregateView]) -> Markup {
    html! {
        @for view in views {
            @let rows: Vec<AggregateRow> = view.json().collect();
            @let (tables, notes): (Vec<_>, Vec<_>) =
                rows.iter().partition(|row| row.value.is_some() || row.buckets.is_some());
            @if let Some(row) = rows.first() {
                h3 { "Tracepoint " (row.tracepoint) ": " span.value { (row.aggregate) } }
            }
            @if tables.iter().any(|row| row.buckets.is_some()) {
                div.cards { @for shown in view.histograms().take(COUNT_ROWS) {
                    div.card {
                        @if !shown.key.is_empty() { h4.value { (shown.key.join(", ")) } }
                        (chart::ranking("Range", &shown.ranges, shown.ranges.iter().map(|(_, count)| count).sum()))
                    }
                } }
            } @else if !tables.is_empty() {
                (scrolled(&format!("Counts of {}", view.text()), &count_table(view)))
            } @else {
                p { "Nothing was counted." }
            }
            @if tables.len() > COUNT_ROWS {
                p.faint { "The first " (COUNT_ROWS) " of " (grouped(tables.len() as u64)) " keys. " code { "tracewire show --aggregates" } " has all." }
            }
            @for row in notes {
                @for (hits, why) in [
                    (row.without_room, "found no room for their keys"),
                    (row.unreadable, "had a key or a value that could not be read"),
                ] {
                    @if let Some(hits) = hits { p.warning { (counted(hits, "hit")) " " (why) "." } }
                }
            }
        }
    }
}

fn count_table(view: &AggregateView) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "Key" } th.number scope="col" { "Value" } } }
            tbody {
                @for (key, value) in view.numbers().take(COUNT_ROWS) {
                    tr {
                        th.value scope="row" { @if key.is_empty() { "all" } @else { (key.join(", ")) } }
                        td.number { (value) }
                    }
                }
            }
        }
    }
}

fn hits(run: &Run) -> Markup {
    let rows = run.data.rows.get("frame").map_or(0, Vec::len) as u64;
    html! {
        @if rows < run.hits {
            p.warning {
                "The table has the first " (grouped(rows)) " of " (grouped(run.hits)) " hits. The charts and numbers above are of all."
            }
        }
        noscript { p.warning { "The table of hits needs JavaScript. All else is here without." } }
        div id="table" hidden {
            div.controls {
                label { "Filter" input id="filter" type="search" spellcheck="false" autocomplete="off" aria-describedby="filter-help"; }
                label { "Tracepoint"
                    select id="tracepoint" {
                        option value="" { "all" }
                        @for tracepoint in &run.data.tracepoints {
                            option value=(tracepoint.number) { (tracepoint.number) ": " (tracepoint.name) }
                        }
                    }
                }
                label { "Rows"
                    select id="size" { @for size in [25, 50, 100, 500] { option value=(size) selected[size == 50] { (size) } } }
                }
            }
            p.faint id="filter-help" {
                "Words that a hit must have, or comparisons: " code { "job.size>2" } ", " code { "thread=4711" } ", " code { "duration>1.5ms" }
                ", " code { "order.name~tea" } ". A name with spaces is put in quotes: " code { "\"a + b\">3" } "."
            }
            p id="status" role="status" {}
            div.scroll id="hits-scroll" tabindex="0" role="region" aria-label="Table of hits" { table id="hits-table" {} }
            div.pages {
                button id="first" type="button" { "First" } button id="previous" type="button" { "Previous" }
                button id="next" type="button" { "Next" } button id="last" type="button" { "Last" }
            }
        }
    }
}

fn source(run: &Run) -> Option<Markup> {
    let (here, missing): (Vec<_>, Vec<_>) =
        run.source.iter().partition(|one| one.excerpt.is_some());
    (!run.source.is_empty()).then(|| html! {
        @for one in here {
            @let place = format!("{}:{}", one.file, one.line);
            h3 { span.value { (one.function) } " " span.faint { (place) } }
            p {
                (counted(one.hits, "hit")) " of tracepoint "
                (one.tracepoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
            @if let Some(excerpt) = &one.excerpt {
                @if excerpt.is_newer { p.warning { "The file was written after the program was built: its lines may be others." } }
                pre.code tabindex="0" role="region" aria-label=(place) {
                    @for (number, line) in (excerpt.first..).zip(&excerpt.lines) {
                        @if number == one.line {
                            mark { span.line { (number) } (line) } "\n"
                        } @else {
                            span.line { (number) } (line) "\n"
                        }
                    }
                }
            }
        }
        @if !missing.is_empty() {
            p { "Source files that are not on the machine that made this report:" }
            ul { @for one in missing { li.value { (one.function) " " (one.file) ":" (one.line) } } }
        }
    })
}
