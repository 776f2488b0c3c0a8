//! The tokens of an expression.

use crate::error::{ExpressionError, ExpressionErrorKind, Span};
use tracewire_debuginfo::Language;

/// The longest expression that is read, in bytes.
const LONGEST_TEXT: usize = 64 * 1024;
/// The most tokens that are read.
const MOST_TOKENS: usize = 4096;

/// A token and where it is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// The kind of a token.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TokenKind {
    /// A name or a keyword.
    Name(String),
    /// A name in single quotes.
    Quoted(String),
    /// `$name`, without the `$`.
    Dollar(String),
    Literal(Literal),
    /// Everything else: operators and brackets.
    Mark(&'static str),
    End,
}

/// A number, a character or a string.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Literal {
    Integer {
        value: u128,
        decimal: bool,
        suffix: String,
    },
    Float {
        value: f64,
        suffix: String,
    },
    Character {
        value: u32,
        prefix: String,
    },
    Text(Vec<u8>),
}

/// Longest first, so that the first that fits is the right one.
const MARKS: &[&str] = &[
    "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "::", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "^=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!",
    "<", ">", "=", "?", ":", ",", ".", "(", ")", "[", "]", "{", "}", "@", ";",
];

/// Splits `text`; the last token is [`TokenKind::End`].
pub(crate) fn tokenize(text: &str, language: Language) -> Result<Vec<Token>, ExpressionError> {
    if text.len() > LONGEST_TEXT {
        let kind = ExpressionErrorKind::TooLarge(format!(
            "the expression is {} bytes long; {LONGEST_TEXT} is the limit",
            text.len()
        ));
        return Err(ExpressionError::new(kind, "", Span::default()));
    }
    let mut lexer = Lexer {
        text,
        position: 0,
        language,
    };
    let mut tokens: Vec<Token> = Vec::new();
    loop {
        lexer.skip_space();
        let start = lexer.position;
        let after_dot = tokens
            .last()
            .is_some_and(|token| token.kind == TokenKind::Mark("."));
        let kind = lexer.token(after_dot)?;
        let end = lexer.position;
        let done = kind == TokenKind::End;
        tokens.push(Token {
            kind,
            span: Span { start, end },
        });
        if done {
            return Ok(tokens);
        }
        if tokens.len() > MOST_TOKENS {
            let kind = ExpressionErrorKind::TooLarge(format!("more than {MOST_TOKENS} tokens"));
            return Err(ExpressionError::new(kind, text, Span { start, end }));
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    position: usize,
    language: Language,
}

fn begins_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn goes_on_name(c: char) -> bool {
    begins_name(c) || c.is_ascii_digit()
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.position += length;
        rest.get(..length).unwrap_or("")
    }

    fn error<T>(&self, start: usize, message: impl Into<String>) -> Result<T, ExpressionError> {
        let end = self.position.max(start);
        let kind = ExpressionErrorKind::Syntax(message.into());
        Err(ExpressionError::new(kind, self.text, Span { start, end }))
    }

    fn token(&mut self, after_dot: bool) -> Result<TokenKind, ExpressionError> {
        let start = self.position;
        let Some(c) = self.peek() else {
            return Ok(TokenKind::End);
        };
        let mut ahead = self.rest().chars().skip(1);
        let next = ahead.next();
        if c.is_ascii_digit()
            || (c == '.'
                && self.language != Language::Rust
                && next.is_some_and(|c| c.is_ascii_digit()))
        {
            return self.number(after_dot);
        }
        if c == '$' {
            self.position += 1;
            let name = self.take_while(|c| goes_on_name(c) || c == '$');
            return Ok(TokenKind::Dollar(name.to_owned()));
        }
        if c == '\'' || c == '"' {
            return self.quoted(String::new());
        }
        if begins_name(c) {
            let name = self.take_while(goes_on_name).to_owned();
            // L'x', u8"text", b"text"
            let literal = matches!(name.as_str(), "L" | "u" | "U" | "u8" | "b")
                && matches!(self.peek(), Some('"' | '\''));
            if literal {
                return self.quoted(name);
            }
            return Ok(TokenKind::Name(name));
        }
        for mark in MARKS {
            if self.rest().starts_with(mark) {
                self.position += mark.len();
                return Ok(TokenKind::Mark(mark));
            }
        }
        self.position += c.len_utf8();
        self.error(start, format!("Invalid character '{c}' in expression."))
    }

    fn number(&mut self, after_dot: bool) -> Result<TokenKind, ExpressionError> {
        let start = self.position;
        let rest = self.rest();
        let (radix, prefix) = match rest.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => (16, 2),
            Some("0b") => (2, 2),
            Some("0o") if self.language == Language::Rust => (8, 2),
            _ => (10, 0),
        };
        self.position += prefix;
        let digits = self.take_while(|c| c.is_digit(radix) || c == '_');
        // `1.5`, `1.`, `1e3`; but not Rust's `x.0.1`, and not a range `1..2`.
        let rest = self.rest();
        let mut ahead = rest.chars().skip(1);
        let fraction = rest.starts_with('.') && {
            let next = ahead.next();
            !next.is_some_and(|c| c == '.' || begins_name(c))
                || matches!(next, Some('e' | 'E' | 'f' | 'l'))
        };
        let exponent = rest.starts_with(['e', 'E'])
            && matches!(ahead.next(), Some(c) if c.is_ascii_digit() || c == '+' || c == '-');
        if radix == 10 && !after_dot && (fraction || exponent) {
            return self.float(start);
        }
        let suffix = self.take_while(goes_on_name).to_owned();
        let digits = digits.replace('_', "");
        // A leading 0 means octal in C.
        let octal = radix == 10
            && digits.len() > 1
            && digits.starts_with('0')
            && !after_dot
            && self.language != Language::Rust;
        let radix = if octal { 8 } else { radix };
        if digits.is_empty()
            || digits.chars().any(|c| !c.is_digit(radix))
            || !self.suffix_fits(&suffix)
        {
            let number = self.text.get(start..self.position).unwrap_or("");
            return self.error(start, format!("Invalid number \"{number}\"."));
        }
        match u128::from_str_radix(&digits, radix) {
            Ok(value) => Ok(TokenKind::Literal(Literal::Integer {
                value,
                decimal: radix == 10,
                suffix,
            })),
            Err(_) => self.error(start, "Numeric constant too large."),
        }
    }

    fn suffix_fits(&self, suffix: &str) -> bool {
        if self.language == Language::Rust {
            return matches!(
                suffix,
                "" | "i8"
                    | "i16"
                    | "i32"
                    | "i64"
                    | "i128"
                    | "isize"
                    | "u8"
                    | "u16"
                    | "u32"
                    | "u64"
                    | "u128"
                    | "usize"
                    | "f32"
                    | "f64"
            );
        }
        matches!(
            suffix.to_ascii_lowercase().as_str(),
            "" | "u" | "l" | "ul" | "lu" | "ll" | "ull" | "llu"
        )
    }

    fn float(&mut self, start: usize) -> Result<TokenKind, ExpressionError> {
        let bytes = self.text.as_bytes();
        let mut seen_exponent = false;
        while let Some(&byte) = bytes.get(self.position) {
            let previous = bytes.get(self.position.wrapping_sub(1)).copied();
            match byte {
                b'0'..=b'9' | b'.' => {}
                b'_' if self.language == Language::Rust => {}
                b'e' | b'E' if !seen_exponent => seen_exponent = true,
                b'+' | b'-' if matches!(previous, Some(b'e' | b'E')) => {}
                _ => break,
            }
            self.position += 1;
        }
        let digits = self
            .text
            .get(start..self.position)
            .unwrap_or("")
            .replace('_', "");
        let suffix = self.take_while(goes_on_name).to_owned();
        let known = matches!(suffix.as_str(), "" | "f" | "F" | "l" | "L" | "f32" | "f64");
        match digits.parse::<f64>() {
            Ok(value) if known => Ok(TokenKind::Literal(Literal::Float { value, suffix })),
            _ => {
                let number = self.text.get(start..self.position).unwrap_or("");
                self.error(start, format!("Invalid number \"{number}\"."))
            }
        }
    }

    /// A character, a string, or a name in single quotes.
    fn quoted(&mut self, prefix: String) -> Result<TokenKind, ExpressionError> {
        let start = self.position;
        let quote = self.peek().unwrap_or('"');
        self.position += 1;
        let inside = self.position;
        let mut bytes: Vec<u8> = Vec::new();
        let mut values: Vec<u32> = Vec::new();
        loop {
            let Some(c) = self.peek() else {
                let what = if quote == '"' {
                    "string"
                } else {
                    "character constant"
                };
                return self.error(start, format!("Unterminated {what} in expression."));
            };
            self.position += c.len_utf8();
            if c == quote {
                break;
            }
            if c == '\\' {
                let value = self.escape(start)?;
                values.push(value);
                match u8::try_from(value) {
                    Ok(byte) => bytes.push(byte),
                    Err(_) => {
                        bytes.extend(char::from_u32(value).unwrap_or('?').to_string().bytes())
                    }
                }
            } else {
                values.push(u32::from(c));
                bytes.extend(c.to_string().bytes());
            }
        }
        if quote == '"' {
            return Ok(TokenKind::Literal(Literal::Text(bytes)));
        }
        match values.as_slice() {
            [value] => Ok(TokenKind::Literal(Literal::Character {
                value: *value,
                prefix,
            })),
            [] => self.error(start, "Empty character constant."),
            _ => Ok(TokenKind::Quoted(
                self.text
                    .get(inside..self.position - 1)
                    .unwrap_or("")
                    .to_owned(),
            )),
        }
    }

    fn escape(&mut self, start: usize) -> Result<u32, ExpressionError> {
        let Some(c) = self.peek() else {
            return self.error(start, "Unterminated string in expression.");
        };
        self.position += c.len_utf8();
        let value = match c {
            'n' => 10,
            't' => 9,
            'r' => 13,
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'v' => 11,
            'e' => 27,
            '0'..='7' => {
                self.position -= 1;
                let rest = self.rest();
                let length = rest
                    .bytes()
                    .take(3)
                    .take_while(|b| matches!(b, b'0'..=b'7'))
                    .count();
                self.position += length;
                u32::from_str_radix(rest.get(..length).unwrap_or("0"), 8).unwrap_or(0)
            }
            'x' => {
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                match u32::from_str_radix(digits, 16) {
                    Ok(value) => value,
                    Err(_) => return self.error(start, "Invalid \\x escape."),
                }
            }
            'u' | 'U' => {
                let braced = self.peek() == Some('{');
                self.position += usize::from(braced);
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                self.position += usize::from(braced && self.peek() == Some('}'));
                match u32::from_str_radix(digits, 16) {
                    Ok(value) => value,
                    Err(_) => return self.error(start, "Invalid \\u escape."),
                }
            }
            other => u32::from(other),
        };
        Ok(value)
    }
}
