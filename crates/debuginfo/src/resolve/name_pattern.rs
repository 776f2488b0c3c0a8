//! Patterns of names: wildcards (`Cart::*`) and regular expressions (`/^ngx_http_/`).

use regex::{Regex, RegexBuilder};

use crate::dwarf::name::{components, plain, squeezed};

/// How much memory a compiled regular expression may take, in bytes.
const LARGEST_REGEX: usize = 1 << 20;

/// A pattern of names.
#[derive(Clone, Debug)]
pub(crate) struct NamePattern {
    /// As it was written.
    text: String,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// The parts between the `*`.
    Wildcard(Vec<String>),
    Regex(Box<Regex>),
}

impl NamePattern {
    /// Parses a pattern; `None` if the text is no pattern.
    ///
    /// # Errors
    /// The error of a regular expression.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, String>> {
        if let Some(regex) = regex_of(text) {
            let built = RegexBuilder::new(regex)
                .size_limit(LARGEST_REGEX)
                .dfa_size_limit(LARGEST_REGEX)
                .build();
            return Some(match built {
                Ok(regex) => Ok(Self {
                    text: text.to_owned(),
                    form: Form::Regex(Box::new(regex)),
                }),
                Err(error) => Err(regex_problem(&error)),
            });
        }
        let parts = wildcard_parts(text)?;
        Some(Ok(Self {
            text: text.to_owned(),
            form: Form::Wildcard(parts),
        }))
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern has a qualified name, given without parameters, in it.
    pub(crate) fn matches(&self, name: &str) -> bool {
        match &self.form {
            Form::Regex(regex) => regex.is_match(name),
            Form::Wildcard(parts) => {
                let of_components = |name: &str| {
                    let mut start = 0;
                    components(name).into_iter().any(|component| {
                        let rest = name.get(start..).unwrap_or("");
                        start += component.len() + "::".len();
                        has_parts(&squeezed(rest), parts)
                    })
                };
                of_components(name)
                    || (name.contains('<') && {
                        let plain: Vec<&str> = components(name).into_iter().map(plain).collect();
                        of_components(&plain.join("::"))
                    })
            }
        }
    }
}

/// The regular expression of `/REGEX/`.
fn regex_of(text: &str) -> Option<&str> {
    text.strip_prefix('/')?.strip_suffix('/')
}

/// The first line of a regular expression's error, which the crate prints in several.
fn regex_problem(error: &regex::Error) -> String {
    let words = error.to_string();
    let last = words.lines().last().unwrap_or("").trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// The parts between the `*` of a name with wildcards. A `*` in brackets is part of a type, and so is one in a text with blanks; in
/// `operator*` it is the name.
fn wildcard_parts(text: &str) -> Option<Vec<String>> {
    if text.contains("operator") {
        return None;
    }
    let mut depth = 0usize;
    let mut parts = Vec::new();
    let mut start = 0;
    for (index, character) in text.char_indices() {
        match character {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 && character.is_whitespace() => return None,
            '*' if depth == 0 => {
                parts.push(squeezed(text.get(start..index)?));
                start = index + 1;
            }
            _ => {}
        }
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(squeezed(text.get(start..)?));
    Some(parts)
}

/// Whether a text has the parts in order, the first at its start and the last at its end.
fn has_parts(text: &str, parts: &[String]) -> bool {
    let [first, middle @ .., last] = parts else {
        return false;
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else {
        return false;
    };
    for part in middle {
        let Some(at) = rest.find(part.as_str()) else {
            return false;
        };
        rest = rest.get(at + part.len()..).unwrap_or("");
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::NamePattern;

    fn pattern(text: &str) -> NamePattern {
        NamePattern::parse(text)
            .expect("a pattern")
            .expect("a good one")
    }

    #[test]
    fn wildcards_and_regular_expressions_match() {
        let matches = |wanted: &str, name: &str| pattern(wanted).matches(name);
        assert!(matches("Cart::*", "shop::Cart::total"));
        assert!(matches("Cart::*", "shop::Cart<int>::total"));
        assert!(matches("Cart<int>::*", "shop::Cart<int>::total"));
        assert!(!matches("Cart<char>::*", "shop::Cart<int>::total"));
        assert!(matches("Ring<int, 4>::*", "shop::Ring<int, 4>::at"));
        assert!(!matches("Cart::*", "shop::Carton::total"));
        assert!(matches("ngx_*_init", "ngx_http_init"));
        assert!(!matches("ngx_*_init", "ngx_http_init_done"));
        assert!(!matches("tx_*", "ctx_new"));
        assert!(matches("main.(*Order).*", "main.(*Order).Total"));
        assert!(!matches("main.(*Order).*", "main.(*Orders).Total"));
        assert!(matches("/^ngx_http_/", "ngx_http_init"));
        assert!(!matches("/^ngx_http_/", "my_ngx_http_init"));
        assert!(matches("/Cart.*total$/", "shop::Cart::total"));
    }

    #[test]
    fn what_is_no_pattern_stays_a_name() {
        for text in [
            "main",
            "f(char*)",
            "operator*",
            "A::operator*=",
            "<*const T as A>::f",
            "main.(*Order).Total",
            "char* f<int>(int)",
            "/home/me/main.c",
        ] {
            assert!(NamePattern::parse(text).is_none(), "{text}");
        }
        let wrong = NamePattern::parse("/(/")
            .expect("a pattern")
            .expect_err("a bad one");
        assert_eq!(wrong, "unclosed group");
        assert!(
            NamePattern::parse("/a{1000}{1000}{1000}/")
                .expect("a pattern")
                .is_err()
        );
    }
}
