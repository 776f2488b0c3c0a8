//! Charts: SVG for the marks, which is as wide as the page, and HTML around it for the text, whose size is fixed.

use maud::{Markup, html};

use crate::numbers::{Histogram, Scale};
use crate::words::grouped;

mod steps;

pub use steps::{Point, steps};

/// The height of a chart's drawing area, in its own units.
const HEIGHT: f64 = 100.0;

/// How much of its place a bar takes.
const FILLED: f64 = 0.88;

/// A word under the drawing area: where, from 0 to 1, and what.
type Tick = (f64, String);

/// The labels of an axis. Those at its ends are aligned to stay inside it.
fn axis(ticks: &[Tick]) -> Markup {
    html! {
        div.axis aria-hidden="true" {
            @for (at, word) in ticks {
                span.first[*at < 0.04].last[*at > 0.96] style=(format!("left:{:.2}%", at * 100.0)) { (word) }
            }
        }
    }
}

/// A drawing area with the number at its full height.
fn plot(label: &str, width: f64, most: &str, marks: &Markup, ticks: &[Tick]) -> Markup {
    html! {
        div.chart {
            div.most aria-hidden="true" { (most) }
            svg role="img" aria-label=(label) viewBox=(format!("0 0 {width:.0} {HEIGHT}")) preserveAspectRatio="none" {
                line.ground x1="0" x2=(width) y1=(HEIGHT) y2=(HEIGHT) {}
                (marks)
            }
            (axis(ticks))
        }
    }
}

/// Bars side by side: the height and the tooltip of each.
fn bars(bars: &[(u64, String)]) -> Markup {
    let most = bars
        .iter()
        .map(|(count, _)| *count)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    html! {
        @for (at, (count, words)) in bars.iter().enumerate() {
            @if *count > 0 {
                // At least a mark where there is something.
                @let height = (*count as f64 / most * HEIGHT).max(1.5);
                rect.bar x=(format!("{:.2}", at as f64 + (1.0 - FILLED) / 2.0)) y=(format!("{:.2}", HEIGHT - height))
                    width=(FILLED) height=(format!("{height:.2}")) { title { (words) } }
            }
        }
    }
}

/// A histogram. `number` writes the numbers of the axis.
pub fn histogram(histogram: &Histogram, label: &str, number: &dyn Fn(f64) -> String) -> Markup {
    let bins = &histogram.bins;
    // Integers with a bar each have labels under the bars.
    let is_each = histogram.scale == Scale::Linear
        && bins
            .iter()
            .all(|bin| bin.high - bin.low == 1.0 && bin.low.fract() == 0.0);
    let words = bins.iter().map(|bin| {
        let range = match is_each {
            true => number(bin.low),
            false => format!("{} to {}", number(bin.low), number(bin.high)),
        };
        (bin.count, format!("{range}: {}", grouped(bin.count)))
    });
    let words: Vec<_> = words.collect();
    let count = bins.len().max(1) as f64;
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    let mut ticks: Vec<Tick> = Vec::new();
    match histogram.scale {
        Scale::Linear if is_each => {
            let every = bins.len().div_ceil(8).max(1);
            let labelled = bins.iter().enumerate().step_by(every);
            ticks.extend(labelled.map(|(at, bin)| ((at as f64 + 0.5) / count, number(bin.low))));
        }
        Scale::Linear => {
            let every = bins.len().div_ceil(4).max(1);
            let labelled = bins.iter().enumerate().step_by(every);
            ticks.extend(labelled.map(|(at, bin)| (at as f64 / count, number(bin.low))));
            if let Some(last) = bins.last()
                && bins.len().is_multiple_of(every)
            {
                ticks.push((1.0, number(last.high)));
            }
        }
        Scale::Logarithmic => {
            let bounds = bins.iter().map(|bin| bin.low).enumerate();
            let powers: Vec<Tick> = bounds
                .filter(|(_, low)| *low > 0.0 && (low.log10() - low.log10().round()).abs() < 1e-6)
                .map(|(at, low)| (at as f64 / count, number(low)))
                .collect();
            let every = powers.len().div_ceil(6).max(1);
            ticks.extend(powers.into_iter().step_by(every));
            if ticks.len() < 2 {
                ticks = bins
                    .first()
                    .map(|bin| (0.0, number(bin.low)))
                    .into_iter()
                    .collect();
                ticks.extend(bins.last().map(|bin| (1.0, number(bin.high))));
            }
        }
    }
    plot(label, count, &grouped(most), &bars(&words), &ticks)
}

/// Counts of equal stretches of time. `at` writes the time at a share of the whole.
pub fn timeline(counts: &[u64], label: &str, at: &dyn Fn(f64) -> String) -> Markup {
    let width = counts.len().max(1) as f64;
    let words: Vec<_> = (counts.iter().enumerate())
        .map(|(index, count)| {
            let (from, to) = (index as f64 / width, (index + 1) as f64 / width);
            (
                *count,
                format!("{} to {}: {}", at(from), at(to), grouped(*count)),
            )
        })
        .collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let ticks = [0.0, 0.5, 1.0].map(|share| (share, at(share)));
    plot(label, width, &grouped(most), &bars(&words), &ticks)
}

/// A table of values with how often each came, as bars.
pub fn ranking(heading: &str, rows: &[(String, u64)], all: u64) -> Markup {
    let most = rows
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    html! {
        table.ranking {
            thead { tr { th scope="col" { (heading) } th.number scope="col" { "Hits" } th scope="col" { "Share" } } }
            tbody {
                @for (name, count) in rows {
                    tr {
                        th.value scope="row" { (name) }
                        td.number { (grouped(*count)) }
                        td.share {
                            @if *count > 0 {
                                span.mark style=(format!("width:{:.2}%", *count as f64 / most * 52.0)) {}
                            }
                            span { (percent(*count, all)) }
                        }
                    }
                }
            }
        }
    }
}

/// A share in percent.
pub fn percent(part: u64, all: u64) -> String {
    let share = part as f64 * 100.0 / all.max(1) as f64;
    match share {
        share if share == 0.0 || share >= 10.0 => format!("{share:.0} %"),
        share if share < 0.1 => "< 0.1 %".to_owned(),
        share => format!("{share:.1} %"),
    }
}
