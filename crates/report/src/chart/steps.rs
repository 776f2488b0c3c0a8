//! A value that holds until the next one.

use maud::{Markup, html};

use super::{HEIGHT, plot};

/// How many points a line has at most. Of those that share a place, the least and the largest are drawn.
const MOST: usize = 600;

/// A value from an instant on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// The instant.
    pub at: f64,
    /// The value.
    pub value: f64,
}

/// A line of steps from `first` to `last`. The points are in order.
pub fn steps(
    points: &[Point],
    (first, last): (f64, f64),
    label: &str,
    at: &dyn Fn(f64) -> String,
    number: &dyn Fn(f64) -> String,
) -> Markup {
    let values = || points.iter().map(|point| point.value);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if most > least {
        (least, most)
    } else {
        (least - 1.0, least + 1.0)
    };
    let width = MOST as f64;
    let x = |at: f64| (at - first) / (last - first).max(f64::MIN_POSITIVE) * width;
    let y = |value: f64| HEIGHT - 2.0 - (value - low) / (high - low) * (HEIGHT - 4.0);
    let mut path = String::new();
    let mut place = usize::MAX;
    let mut before: Option<f64> = None;
    for point in points {
        let (x, y) = (x(point.at).clamp(0.0, width), y(point.value));
        match before {
            None => path.push_str(&format!("M{x:.1} {y:.1}")),
            // A move in the same place is a vertical line.
            Some(_) if x as usize == place => path.push_str(&format!("V{y:.1}")),
            Some(_) => path.push_str(&format!("H{x:.1}V{y:.1}")),
        }
        place = x as usize;
        before = Some(y);
    }
    if before.is_some() {
        path.push_str(&format!("H{width:.1}"));
    }
    let ticks = [0.0, 0.5, 1.0].map(|share| (share, at(first + (last - first) * share)));
    let range = format!("{} to {}", number(least), number(most));
    plot(
        label,
        width,
        &range,
        &html! { path.line d=(path) {} },
        &ticks,
    )
}
