//! Names of data that is not recorded: passwords, tokens, keys.

use std::fmt;

use crate::hex::Hex;
use crate::text::{Expected, Scanner, TextError};
use crate::wildcard::fits;

/// The most patterns, and the longest one in bytes.
const MOST_PATTERNS: usize = 1000;
const LONGEST_PATTERN: usize = 100;

/// The patterns that hold unless they are switched off.
const DEFAULTS: &[&str] = &[
    "*password*",
    "*passwd*",
    "*passphrase*",
    "*passcode*",
    "*pwd*",
    "*secret*",
    "*token*",
    "*authorization*",
    "*cookie*",
    "*credential*",
    "*api_key*",
    "*access_key*",
    "*private_key*",
    "*priv_key*",
    "*signing_key*",
    "*encryption_key*",
];

/// Patterns of names. The name of a variable, a parameter, a member, a type or the function of a return value decides whether its
/// bytes are recorded.
///
/// In a pattern, `*` stands for any characters and `?` for one. Case and `_` do not count: `api_key` is `apiKey` and `APIKEY`. A
/// pattern is compared with the last word of a qualified name, without template arguments; one with `::` with all words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Redactions {
    patterns: Vec<Pattern>,
}

/// A pattern as it was given, and as it is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pattern {
    text: String,
    normal: String,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            normal: normal(text),
        }
    }
}

/// A pattern that cannot be one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RedactionError {
    /// It would fit nothing, or it is too long.
    #[error("expected a pattern of 1 to {LONGEST_PATTERN} bytes without control characters")]
    Pattern,
    /// There are too many.
    #[error("expected at most {MOST_PATTERNS} patterns")]
    Many,
}

impl Redactions {
    /// Without any pattern: all is recorded.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The patterns that hold unless they are switched off.
    #[must_use]
    pub fn defaults() -> Self {
        Self {
            patterns: DEFAULTS.iter().map(|text| Pattern::new(text)).collect(),
        }
    }

    /// Adds a pattern.
    ///
    /// # Errors
    /// When it is empty, too long or one too many.
    pub fn add(&mut self, pattern: &str) -> Result<(), RedactionError> {
        let is_good = pattern.chars().any(|c| counts(&c))
            && pattern.len() <= LONGEST_PATTERN
            && !pattern.contains(char::is_control);
        if !is_good {
            return Err(RedactionError::Pattern);
        }
        if self.patterns.len() >= MOST_PATTERNS {
            return Err(RedactionError::Many);
        }
        if !self.patterns().any(|known| known == pattern) {
            self.patterns.push(Pattern::new(pattern));
        }
        Ok(())
    }

    /// Adds the patterns of others.
    pub fn extend(&mut self, others: &Self) {
        for pattern in &others.patterns {
            if self.patterns.len() < MOST_PATTERNS && !self.patterns.contains(pattern) {
                self.patterns.push(pattern.clone());
            }
        }
    }

    /// The patterns, as they were given.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|pattern| pattern.text.as_str())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether there are others than those that hold unless they are switched off.
    #[must_use]
    pub fn has_own(&self) -> bool {
        self.patterns().any(|pattern| !DEFAULTS.contains(&pattern))
    }

    /// The first pattern that fits a name.
    #[must_use]
    pub fn pattern_of(&self, name: &str) -> Option<&str> {
        if self.patterns.is_empty() || name.is_empty() {
            return None;
        }
        let whole = without_arguments(name);
        let last = whole.rsplit("::").next().unwrap_or(&whole);
        // Go's names have points, and Rust's raw ones a mark.
        let last = last.rsplit('.').next().unwrap_or(last);
        let last = last.strip_prefix("r#").unwrap_or(last);
        let (whole, last) = (normal(&whole), normal(last));
        let found = self.patterns.iter().find(|pattern| {
            let is_qualified = pattern.normal.contains("::");
            let text = if is_qualified { &whole } else { &last };
            fits(pattern.normal.as_bytes(), text.as_bytes())
        });
        found.map(|pattern| pattern.text.as_str())
    }

    /// Reads what follows `redact ` in a line of a description.
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse_line(text: &[u8]) -> Result<Self, TextError> {
        Self::scan(&mut Scanner::new(text)).map_err(|expected| expected.in_text(text))
    }

    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut found = Self::none();
        loop {
            let digits = Scanner::new(scanner.rest()).digits().len();
            let bytes = scanner.hex_bytes(digits as u64 / 2)?;
            let pattern = String::from_utf8_lossy(&bytes);
            if found.add(&pattern).is_err() {
                return Err(scanner.expected("a pattern of names"));
            }
            if !scanner.take(",") {
                break;
            }
        }
        scanner.end("the end")?;
        Ok(found)
    }

    /// The lines of a description that have the patterns, each of at most `limit` bytes; none without patterns.
    #[must_use]
    pub fn lines(&self, limit: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for pattern in self.patterns() {
            let word = Hex(pattern.as_bytes()).to_string();
            match lines.last_mut() {
                Some(line) if line.len() + 1 + word.len() <= limit => {
                    line.push(',');
                    line.push_str(&word);
                }
                _ => lines.push(format!("redact {word}")),
            }
        }
        lines
    }
}

/// The patterns with commas between them.
impl fmt::Display for Redactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pattern) in self.patterns().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            f.write_str(pattern)?;
        }
        Ok(())
    }
}

/// Whether a character counts in a name.
const fn counts(character: &char) -> bool {
    *character != '_' && *character != '-'
}

/// A name without what does not count in it.
fn normal(name: &str) -> String {
    if name.is_ascii() {
        let counted = name.bytes().map(char::from).filter(counts);
        return counted.map(|c| c.to_ascii_lowercase()).collect();
    }
    name.chars()
        .filter(counts)
        .flat_map(char::to_lowercase)
        .collect()
}

/// A name without its template arguments.
fn without_arguments(name: &str) -> String {
    let mut depth = 0_usize;
    let mut plain = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::Redactions;

    #[test]
    fn names() {
        let defaults = Redactions::defaults();
        for name in [
            "password",
            "Password",
            "userPassword",
            "m_password_",
            "PASSWD",
            "pwd",
            "apiKey",
            "API_KEY",
            "x_api_key",
            "auth::Token",
            "Secret<alloc::string::String>",
            "app::Credentials",
            "main.authToken",
            "private-key",
            "r#token",
        ] {
            assert!(defaults.pattern_of(name).is_some(), "{name}");
        }
        for name in [
            "pass",
            "key",
            "secretary_of::State",
            "user",
            "vector<Password>",
            "",
            "api",
            "tokio::Runtime",
        ] {
            assert!(defaults.pattern_of(name).is_none(), "{name}");
        }
        let mut own = Redactions::none();
        for pattern in ["p?n", "app::*", "*_id"] {
            own.add(pattern).expect("a pattern");
        }
        for name in [
            "pin",
            "PIN",
            "pan",
            "app::Anything",
            "session_id",
            "sessionId",
            "id",
        ] {
            assert!(own.pattern_of(name).is_some(), "{name}");
        }
        for name in ["pinned", "spin", "other::Anything", "identity"] {
            assert!(own.pattern_of(name).is_none(), "{name}");
        }
        assert!(own.add("").is_err());
        assert!(own.add("_").is_err());
        assert!(own.add("a\nb").is_err());
    }

    #[test]
    fn lines() {
        let mut all = Redactions::defaults();
        for number in 0..100 {
            all.add(&format!("name{number}*")).expect("a pattern");
        }
        let lines = all.lines(200);
        assert!(lines.len() > 5 && lines.iter().all(|line| line.len() <= 200));
        let mut back = Redactions::none();
        for line in lines {
            let rest = line.strip_prefix("redact ").expect("the word");
            back.extend(&Redactions::parse_line(rest.as_bytes()).expect("a line"));
        }
        assert_eq!(back, all);
        assert!(Redactions::parse_line(b"").is_err());
        assert!(Redactions::parse_line(b"zz").is_err());
        assert!(Redactions::none().lines(200).is_empty());
    }
}
