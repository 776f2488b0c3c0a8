//! Patterns with `*` and `?`.

/// Whether a pattern matches a whole text: `*` matches any bytes, `?` one byte, and other bytes themselves. The time is at most
/// proportional to the product of the lengths.
///
/// ```
/// use tracewire_model::fits;
///
/// assert!(fits(b"/srv/*/bin/server?", b"/srv/shop/bin/server2"));
/// assert!(!fits(b"/srv/*", b"/usr/srv/x"));
/// ```
#[must_use]
pub fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The last star, and where the text continues after the bytes that it matches.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(c) if *c == b'?' || Some(c) == text.get(from) => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((last, next)) = star else {
                    return false;
                };
                star = Some((last, next + 1));
                at = last + 1;
                from = next + 1;
            }
        }
    }
    pattern
        .get(at..)
        .unwrap_or_default()
        .iter()
        .all(|c| *c == b'*')
}
