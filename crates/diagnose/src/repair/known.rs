//! Which tracepoints may have frames.

use std::collections::HashSet;

use tracewire_model::{DefinitionContent, DefinitionRecord};
use tracewire_tracefile::Description;

/// The description's facts about tracepoints with frames.
pub(super) struct Known {
    /// All of them.
    pub(super) numbers: HashSet<i32>,
    /// Those that collect nothing.
    pub(super) bare: HashSet<i32>,
    /// Of these, those that were hit, as far as is known.
    pub(super) hit_and_bare: HashSet<i32>,
}

impl Known {
    pub(super) fn of(description: &Description) -> Self {
        let mut numbers = HashSet::new();
        let mut collecting = HashSet::new();
        let mut hit = HashSet::new();
        let mut never_hit = HashSet::new();
        // A definition may be lost while its other lines are not.
        let pieces = description
            .lines()
            .filter_map(|line| DefinitionRecord::parse(line.text.strip_prefix(b"tp ")?).ok());
        for DefinitionRecord {
            number, content, ..
        } in pieces
        {
            numbers.insert(number.0);
            match content {
                DefinitionContent::Actions(_) | DefinitionContent::StepActions(_) => {
                    collecting.insert(number.0);
                }
                DefinitionContent::Usage(usage) => {
                    let by_hits = if usage.hits == 0 {
                        &mut never_hit
                    } else {
                        &mut hit
                    };
                    by_hits.insert(number.0);
                }
                _ => {}
            }
        }
        let bare: HashSet<_> = numbers.difference(&collecting).copied().collect();
        let was_hit = |number: &&i32| hit.contains(number) || !never_hit.contains(number);
        let hit_and_bare = bare.iter().filter(was_hit).copied().collect();
        Self {
            numbers,
            bare,
            hit_and_bare,
        }
    }
}
