//! How many searches are made for names close to those that are not there.

use std::cell::Cell;

/// For how many unknown functions similar names are suggested. Each search compares all names, and thousands of suggestions help no
/// one.
const MOST_SUGGESTIONS: u32 = 20;

/// For how many unknown functions similar names were searched.
#[derive(Debug, Default)]
pub(crate) struct Suggestions(Cell<u32>);

impl Suggestions {
    /// Whether names close to one more that is not there are to be looked for.
    pub(super) fn may_suggest(&self) -> bool {
        let count = self.0.get();
        self.0.set(count.saturating_add(1));
        count < MOST_SUGGESTIONS
    }
}
