//! The items of a `collect` line.

/// Splits what follows `collect` at the commas that stand outside brackets and quotes, and trims each item. Empty
/// items are left out.
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
