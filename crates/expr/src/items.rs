//! The items of a `collect` line.

/// Splits the text after `collect` at the commas outside brackets and quotes, and trims each item. Empty items are left out.
#[must_use]
pub fn split_items(list: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (index, c) in list.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                items.extend(list.get(start..index));
                start = index + 1;
            }
            (None, _) => {}
        }
    }
    items.extend(list.get(start..));
    items
        .iter()
        .map(|item| item.trim())
        .filter(|item| !item.is_empty())
        .collect()
}

/// The names that are most like `name`, nearest first; at most three.
pub(crate) fn near<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> = candidates
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, candidate)| *score > 0.8 && !candidate.is_empty())
        .collect();
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    scored.dedup_by(|(_, a), (_, b)| a == b);
    scored
        .into_iter()
        .take(3)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}
