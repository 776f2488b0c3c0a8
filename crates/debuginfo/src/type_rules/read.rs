//! Files of rules.

use std::sync::Arc;

use super::pattern::Pattern;
use super::{TypeRule, WalkKind};

/// The longest file.
const LONGEST_TEXT: usize = 1 << 20;
/// The most rules of a file, and the most keys of a rule.
const MOST_RULES: usize = 4096;
const MOST_KEYS: usize = 64;
/// The longest line.
const LONGEST_LINE: usize = 2048;

/// A line of a file of rules that is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {kind}")]
pub struct TypeRuleError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The error.
    pub kind: TypeRuleErrorKind,
}

/// The error in a line of a file of rules.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypeRuleErrorKind {
    /// The file is too long.
    #[error("the file is longer than {LONGEST_TEXT} bytes")]
    LongText,
    /// A line is too long.
    #[error("the line is longer than {LONGEST_LINE} bytes")]
    LongLine,
    /// There are too many rules.
    #[error("the file has more than {MOST_RULES} rules")]
    ManyRules,
    /// A rule has too many keys.
    #[error("the rule has more than {MOST_KEYS} keys")]
    ManyKeys,
    /// A kind or a key before the first `type`.
    #[error("expected `type PATTERN`, found `{0}`")]
    NoType(String),
    /// `type` without a pattern.
    #[error("expected a pattern of a type's name after `type`")]
    NoPattern,
    /// A rule without a kind of walk.
    #[error("the rule has no kind; the kinds are {}", kinds())]
    NoKind,
    /// A word that is no kind of walk.
    #[error("`{0}` is no kind; the kinds are {kinds}", kinds = kinds())]
    UnknownKind(String),
    /// A second kind.
    #[error("the rule is a {0} already")]
    SecondKind(&'static str),
    /// A key that the kind does not have.
    #[error("a {kind} has no key `{key}`; its keys are {keys}")]
    UnknownKey {
        /// The kind.
        kind: &'static str,
        /// The key.
        key: String,
        /// The keys that it has.
        keys: String,
    },
    /// A key that is given twice.
    #[error("`{0}` is given a second time")]
    SecondKey(String),
    /// A key that is needed is not there.
    #[error("a {kind} needs `{key} = EXPRESSION`")]
    MissingKey {
        /// The kind.
        kind: &'static str,
        /// The key, or a list of keys one of which is needed.
        key: &'static str,
    },
    /// A key without an expression.
    #[error("expected `KEY = EXPRESSION`, found `{0}`")]
    NoExpression(String),
}

fn kinds() -> String {
    let words: Vec<&str> = WalkKind::TABLE.iter().map(|(_, word, ..)| *word).collect();
    words.join(", ")
}

/// A rule that is being read.
struct Draft {
    line: usize,
    patterns: Vec<Pattern>,
    kind: Option<WalkKind>,
    expressions: Vec<(String, String)>,
    has_more: bool,
}

impl Draft {
    fn finish(self, file: &Arc<str>) -> Result<TypeRule, (usize, TypeRuleErrorKind)> {
        let fail = |kind| (self.line, kind);
        let Some(kind) = self.kind else {
            return Err(fail(TypeRuleErrorKind::NoKind));
        };
        let has = |key: &str| self.expressions.iter().any(|(known, _)| known == key);
        let (word, needed) = WalkKind::TABLE
            .iter()
            .find(|(known, ..)| *known == kind)
            .map_or(("", &[][..]), |(_, word, needed, _)| (*word, *needed));
        let missing = |key| {
            let kind = word;
            Err(fail(TypeRuleErrorKind::MissingKey { kind, key }))
        };
        if let Some(key) = needed.iter().find(|key| !has(key)) {
            return missing(key);
        }
        if matches!(kind, WalkKind::String | WalkKind::Sequence) && has("length") == has("end") {
            return missing("length` or one `end");
        }
        if kind.has_items() && !(has("element") != has("key") && has("key") == has("value")) {
            return missing("element` or both `key` and `value");
        }
        Ok(TypeRule {
            patterns: self.patterns,
            kind,
            expressions: self.expressions,
            has_more: self.has_more,
            place: (Arc::clone(file), self.line),
        })
    }

    fn key(&mut self, key: &str, expression: &str) -> Result<(), TypeRuleErrorKind> {
        let Some(kind) = self.kind else {
            return Err(TypeRuleErrorKind::NoKind);
        };
        let row = WalkKind::TABLE.iter().find(|(known, ..)| *known == kind);
        let (needed, optional) =
            row.map_or((&[][..], &[][..]), |(.., needed, more)| (*needed, *more));
        if !kind.has_free_keys() && !needed.contains(&key) && !optional.contains(&key) {
            return Err(TypeRuleErrorKind::UnknownKey {
                kind: kind.word(),
                key: key.to_owned(),
                keys: [needed, optional].concat().join(", "),
            });
        }
        if self.expressions.iter().any(|(known, _)| known == key) {
            return Err(TypeRuleErrorKind::SecondKey(key.to_owned()));
        }
        if self.expressions.len() >= MOST_KEYS {
            return Err(TypeRuleErrorKind::ManyKeys);
        }
        self.expressions
            .push((key.to_owned(), expression.to_owned()));
        Ok(())
    }
}

/// Reads a file of rules.
pub(super) fn read(text: &str, name: &str) -> Result<Vec<TypeRule>, TypeRuleError> {
    let file: Arc<str> = name.into();
    let fail = |(line, kind)| TypeRuleError {
        file: name.to_owned(),
        line,
        kind,
    };
    if text.len() > LONGEST_TEXT {
        return Err(fail((1, TypeRuleErrorKind::LongText)));
    }
    let mut rules = Vec::new();
    let mut draft: Option<Draft> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let fail = |kind| fail((number, kind));
        if line.len() > LONGEST_LINE {
            return Err(fail(TypeRuleErrorKind::LongLine));
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_type = line == "type" || line.starts_with("type ") || line.starts_with("type\t");
        if let Some(pattern) = line.strip_prefix("type").filter(|_| is_type) {
            let pattern = pattern.trim();
            if pattern.is_empty() {
                return Err(fail(TypeRuleErrorKind::NoPattern));
            }
            let pattern = Pattern::new(pattern);
            match &mut draft {
                // Another name for the same rule.
                Some(draft) if draft.kind.is_none() => draft.patterns.push(pattern),
                _ => {
                    let next = Draft {
                        line: number,
                        patterns: vec![pattern],
                        kind: None,
                        expressions: Vec::new(),
                        has_more: false,
                    };
                    if let Some(before) = draft.replace(next) {
                        rules.push(before.finish(&file).map_err(self::place(name))?);
                    }
                    if rules.len() >= MOST_RULES {
                        return Err(fail(TypeRuleErrorKind::ManyRules));
                    }
                }
            }
            continue;
        }
        let Some(draft) = &mut draft else {
            return Err(fail(TypeRuleErrorKind::NoType(line.to_owned())));
        };
        match line.split_once('=') {
            Some((key, expression)) if is_key(key.trim()) => {
                let expression = expression.trim();
                if expression.is_empty() {
                    return Err(fail(TypeRuleErrorKind::NoExpression(line.to_owned())));
                }
                draft.key(key.trim(), expression).map_err(fail)?;
            }
            Some(_) => return Err(fail(TypeRuleErrorKind::NoExpression(line.to_owned()))),
            None if line == "..." && draft.kind == Some(WalkKind::Structure) => {
                draft.has_more = true;
            }
            None => {
                let found = WalkKind::TABLE.iter().find(|(_, word, ..)| *word == line);
                let Some((kind, ..)) = found else {
                    return Err(fail(TypeRuleErrorKind::UnknownKind(line.to_owned())));
                };
                if let Some(known) = draft.kind {
                    return Err(fail(TypeRuleErrorKind::SecondKind(known.word())));
                }
                draft.kind = Some(*kind);
            }
        }
    }
    if let Some(last) = draft {
        rules.push(last.finish(&file).map_err(place(name))?);
    }
    Ok(rules)
}

fn place(name: &str) -> impl Fn((usize, TypeRuleErrorKind)) -> TypeRuleError {
    move |(line, kind)| TypeRuleError {
        file: name.to_owned(),
        line,
        kind,
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        match read(text, "my.types") {
            Ok(rules) => panic!("{} rules", rules.len()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn rules_are_read() -> Result<(), TypeRuleError> {
        let text = "# a\ntype a<*>\ntype b\n  sequence\n first = p == q\n length=n\ntype c\nnewtype\nvalue = x\n";
        let rules = read(text, "my.types")?;
        assert_eq!(rules.len(), 2);
        let found: Vec<_> = rules.iter().flat_map(TypeRule::expressions).collect();
        assert_eq!(
            found,
            [("first", "p == q"), ("length", "n"), ("value", "x")]
        );
        assert_eq!(rules[1].to_string(), "my.types:7");
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, wanted) in [
            (
                "first = x",
                "my.types:1: expected `type PATTERN`, found `first = x`",
            ),
            (
                "type",
                "my.types:1: expected a pattern of a type's name after `type`",
            ),
            (
                "type a\nfirst = x",
                "my.types:2: the rule has no kind; the kinds are string, ",
            ),
            (
                "type a\nsequense",
                "my.types:2: `sequense` is no kind; the kinds are string, ",
            ),
            (
                "type a\nstring\nlist",
                "my.types:3: the rule is a string already",
            ),
            (
                "type a\nstring\nfirst = x",
                "my.types:3: a string has no key `first`; its keys are data, length, end",
            ),
            (
                "type a\nstring\ndata = x\ndata = x",
                "my.types:4: `data` is given a second time",
            ),
            (
                "type a\nstring\ndata = x",
                "my.types:1: a string needs `length` or one `end = ",
            ),
            (
                "type a\nlist\nfirst = x",
                "my.types:1: a list needs `next = EXPRESSION`",
            ),
            (
                "type a\nstring\ndata =",
                "my.types:3: expected `KEY = EXPRESSION`, found `data =`",
            ),
        ] {
            let found = error(text);
            assert!(found.starts_with(wanted), "{found}");
        }
    }
}
