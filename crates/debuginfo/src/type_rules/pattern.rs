//! Patterns of type names.

/// A type's name in which `*` stands for any text, and `\*` for a star.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    /// The parts between the stars.
    parts: Vec<String>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let mut parts = vec![String::new()];
        let text = squeezed(text);
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            let is_star = c == '\\' && characters.next_if_eq(&'*').is_some();
            match (c, parts.last_mut()) {
                ('*', _) => parts.push(String::new()),
                (_, Some(part)) => part.push(if is_star { '*' } else { c }),
                (_, None) => {}
            }
        }
        Self { parts }
    }

    /// Whether it is the name, given squeezed. A part is taken where it is found first, which is as good as any other place,
    /// so the time is linear in the length of the name for each part.
    pub(super) fn matches(&self, name: &str) -> bool {
        let [first, between @ .., last] = &self.parts[..] else {
            return self.parts.first().is_some_and(|only| only == name);
        };
        let Some(mut rest) = name.strip_prefix(first.as_str()) else {
            return false;
        };
        for part in between {
            let Some(found) = rest.find(part.as_str()) else {
                return false;
            };
            rest = rest.get(found + part.len()..).unwrap_or("");
        }
        rest.ends_with(last.as_str())
    }
}

/// A name without the spaces that compilers set differently: those that are not between two words.
pub(super) fn squeezed(name: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut squeezed = String::with_capacity(name.len());
    let mut is_after_space = false;
    for c in name.chars() {
        if c.is_whitespace() {
            is_after_space = true;
            continue;
        }
        if is_after_space && is_word(c) && squeezed.chars().next_back().is_some_and(is_word) {
            squeezed.push(' ');
        }
        is_after_space = false;
        squeezed.push(c);
    }
    squeezed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        let fits = |pattern: &str, name: &str| Pattern::new(pattern).matches(&squeezed(name));
        assert!(fits(
            "std::vector<*>",
            "std::vector<int, std::allocator<int> >"
        ));
        assert!(!fits("std::vector<*>", "std::vector<int>::iterator"));
        assert!(fits("&str", "&str"));
        assert!(!fits("&str", "&string"));
        assert!(fits("a<*, b>", "a<int,b>"));
        assert!(!fits("a<*, b>", "a<b>"));
        assert!(fits("*b*b*", "abab"));
        assert!(!fits("ab*ba", "aba"));
        assert!(fits("unsigned  int", "unsigned int"));
        assert!(fits("\\*a*", "*a.b"));
        assert!(!fits("\\*a*", "a.b"));
    }
}
