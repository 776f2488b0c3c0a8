//! What `--where` says of a list that has no frame.

use tracewire_views::{Condition, words};

/// Says that no frame has fitted, and why, if the condition was unknown of all.
pub fn explain_nothing(condition: &Condition<'_>) {
    match condition.unknown() {
        Some(reason) => {
            let shown = words::printable_lines(&reason.to_string());
            message!("tracewire: --where could be worked out for no frame: {shown}");
        }
        None => message!("tracewire: --where is true of no frame"),
    }
}
