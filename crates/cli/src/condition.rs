//! What is said of a list that has no frame, because of a condition.

use tracewire_views::{Condition, words};

/// Says that no frame has fitted, and why, if the condition was unknown of all. Without a condition, no frame is a line of a list.
pub fn explain_nothing(condition: &Condition<'_>) {
    if !condition.is_given() {
        message!(
            "tracewire: nothing to show: the condition of each span is false, or its entry was not seen"
        );
        return;
    }
    match condition.unknown() {
        Some(reason) => {
            let shown = words::printable_lines(&reason.to_string());
            message!("tracewire: --where could be worked out for no frame: {shown}");
        }
        None => message!("tracewire: --where is true of no frame"),
    }
}
