//! The forms of a location.

use super::name_pattern::NamePattern;
use crate::error::LocationError;

/// A location, taken apart.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    Address(AddressForm),
    Marker(String),
    Line(u64),
    FileLine(String, u64),
    FileFunction(String, String),
    Function {
        name: String,
        /// The name is the whole qualified one.
        whole: bool,
    },
    /// All functions of a pattern.
    Pattern {
        /// The source file, or the module, that they are in.
        within: Option<String>,
        pattern: NamePattern,
    },
}

/// `*BASE+OFFSET`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AddressForm {
    pub(crate) base: AddressBase,
    pub(crate) offset: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AddressBase {
    Number(u64),
    Name(String),
}

/// Takes a location apart.
pub(crate) fn parse(location: &str) -> Result<Form, LocationError> {
    let text = location.trim();
    let wrong = |reason: &str| LocationError::Syntax {
        location: location.to_owned(),
        reason: reason.to_owned(),
    };
    if text.is_empty() {
        return Err(wrong("it is empty"));
    }
    if let Some(rest) = text.strip_prefix('*') {
        return address(rest).map(Form::Address).ok_or_else(|| {
            wrong("after `*` there must be an address or a function, and `+` or `-` an offset")
        });
    }
    if text.starts_with('-') {
        return explicit(text, &wrong);
    }
    if let Some(line) = number(text) {
        return Ok(Form::Line(line));
    }
    if text.starts_with('+') {
        return Err(wrong("a line is counted from the start of the file"));
    }
    let text = unquoted(text);
    let pattern = |text: &str, within: Option<&str>| {
        let pattern = NamePattern::parse(text)?;
        Some(match pattern {
            Ok(pattern) => Ok(Form::Pattern {
                within: within.map(str::to_owned),
                pattern,
            }),
            Err(reason) => Err(wrong(&reason)),
        })
    };
    if text.starts_with('/')
        && let Some(pattern) = pattern(text, None)
    {
        return pattern;
    }
    if let Some((file, rest)) = split_file(text) {
        let file = unquoted(file.trim());
        let rest = unquoted(rest.trim());
        if file.is_empty() || rest.is_empty() {
            return Err(wrong("something is missing beside the `:`"));
        }
        if let Some(pattern) = pattern(rest, Some(file)) {
            return pattern;
        }
        return Ok(match number(rest) {
            Some(line) => Form::FileLine(file.to_owned(), line),
            None => Form::FileFunction(file.to_owned(), rest.to_owned()),
        });
    }
    if let Some(pattern) = pattern(text, None) {
        return pattern;
    }
    Ok(Form::Function {
        name: text.to_owned(),
        whole: false,
    })
}

/// GDB's explicit locations: `-function NAME`, `-source FILE -line N`, `-qualified NAME`; its `-probe…` and the
/// markers' `-m`.
fn explicit(text: &str, wrong: &dyn Fn(&str) -> LocationError) -> Result<Form, LocationError> {
    let (mut source, mut function, mut line, mut whole) = (None, None, None, false);
    let mut rest = text;
    while let Some(option) = rest.trim_start().strip_prefix('-') {
        let (name, after) = option
            .split_once(char::is_whitespace)
            .unwrap_or((option, ""));
        let (value, next) = value(after);
        match name {
            "m" | "probe" | "probe-stap" if !value.is_empty() => {
                return Ok(Form::Marker(value.to_owned()));
            }
            "qualified" | "q" | "qua" => {
                whole = true;
                // It may be alone before `-function`, or before the name itself.
                if !value.starts_with('-') && function.is_none() {
                    function = Some(value);
                    rest = next;
                } else {
                    rest = after;
                }
                continue;
            }
            "function" | "fun" | "func" => function = Some(value),
            "source" | "sou" => source = Some(value),
            "line" | "li" => {
                line = Some(number(value).ok_or_else(|| wrong("`-line` takes a number"))?);
            }
            _ => {
                return Err(wrong(
                    "known are -function, -source, -line, -qualified, -probe, -probe-stap, -m",
                ));
            }
        }
        rest = next;
    }
    match (source, function.filter(|name| !name.is_empty()), line) {
        (Some(file), None, Some(line)) => Ok(Form::FileLine(file.to_owned(), line)),
        (None, None, Some(line)) => Ok(Form::Line(line)),
        (Some(file), Some(function), None) => {
            Ok(Form::FileFunction(file.to_owned(), function.to_owned()))
        }
        (None, Some(function), None) => Ok(Form::Function {
            name: function.to_owned(),
            whole,
        }),
        _ => Err(wrong("it takes -function, or -line, and perhaps -source")),
    }
}

/// The value of an option, and what follows it: up to the next option, quotes removed.
fn value(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text
        .match_indices(" -")
        .map(|(index, _)| index)
        .next()
        .unwrap_or(text.len());
    let (value, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    (unquoted(value.trim()), rest)
}

fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// A text without the quotes that it is in as a whole.
fn unquoted(text: &str) -> &str {
    ['\'', '"']
        .iter()
        .find_map(|&quote| {
            let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
            (!inner.contains(quote)).then_some(inner)
        })
        .unwrap_or(text)
}

/// `FILE:REST`, at the first single colon outside brackets and quotes.
fn split_file(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut quote = None;
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'<' | b'{' | b'[') => depth += 1,
            (None, b')' | b'>' | b'}' | b']') => depth = depth.saturating_sub(1),
            (None, b':') if bytes.get(index + 1) == Some(&b':') => index += 1,
            (None, b':') if depth == 0 => {
                return Some((text.get(..index)?, text.get(index + 1..)?));
            }
            _ => {}
        }
        index += 1;
    }
    None
}

fn address(text: &str) -> Option<AddressForm> {
    let text = text.trim();
    let text = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .unwrap_or(text)
        .trim();
    let (text, offset) = match text.rfind(['+', '-']) {
        // An `operator+` or `->` is not an offset.
        Some(at) => match integer(text.get(at + 1..)?.trim()) {
            Some(offset) => {
                let offset = i64::try_from(offset).ok()?;
                let negative = text.get(at..)?.starts_with('-');
                (
                    text.get(..at)?.trim(),
                    if negative { -offset } else { offset },
                )
            }
            None => (text, 0),
        },
        None => (text, 0),
    };
    if let Some(number) = integer(text) {
        return Some(AddressForm {
            base: AddressBase::Number(number),
            offset,
        });
    }
    let name = unquoted(text.strip_prefix('&').unwrap_or(text).trim());
    let starts_well = name
        .chars()
        .next()
        .is_some_and(|first| first.is_alphabetic() || "_:<({~".contains(first));
    starts_well.then(|| AddressForm {
        base: AddressBase::Name(name.to_owned()),
        offset,
    })
}

fn integer(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => number(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> Form {
        Form::Function {
            name: name.to_owned(),
            whole: false,
        }
    }

    #[test]
    fn every_form_is_told_from_the_others() {
        let file_line = |file: &str, line| Form::FileLine(file.to_owned(), line);
        let at = |base, offset| Form::Address(AddressForm { base, offset });
        let name = |name: &str| AddressBase::Name(name.to_owned());
        for (text, form) in [
            ("main", function("main")),
            (
                "ns::Class<a::b>::f(int, ns::T)",
                function("ns::Class<a::b>::f(int, ns::T)"),
            ),
            ("'ns::f(int)'", function("ns::f(int)")),
            ("ns::f[abi:cxx11](int)", function("ns::f[abi:cxx11](int)")),
            ("12", Form::Line(12)),
            ("a/b.c:12", file_line("a/b.c", 12)),
            ("\"a b.c\":12", file_line("a b.c", 12)),
            ("\"a b.c:12\"", file_line("a b.c", 12)),
            (
                "b.c:ns::f",
                Form::FileFunction("b.c".to_owned(), "ns::f".to_owned()),
            ),
            ("*0x401000", at(AddressBase::Number(0x0040_1000), 0)),
            ("*main+4", at(name("main"), 4)),
            ("*&main - 0x10", at(name("main"), -16)),
            ("-m app:start", Form::Marker("app:start".to_owned())),
            (
                "-probe-stap app:start",
                Form::Marker("app:start".to_owned()),
            ),
            ("-function main", function("main")),
            ("-source a.c -line 3", file_line("a.c", 3)),
        ] {
            let found = parse(text).expect(text);
            assert_eq!(format!("{found:?}"), format!("{form:?}"), "{text}");
        }
        assert!(matches!(
            parse("-qualified f"),
            Ok(Form::Function { name, whole: true }) if name == "f"
        ));
        for (text, file) in [
            ("Cart::*", None),
            ("/^a::b/", None),
            ("a.c:*", Some("a.c")),
            ("libc.so.6:/^str/", Some("libc.so.6")),
        ] {
            assert!(
                matches!(parse(text), Ok(Form::Pattern { within, .. }) if within.as_deref() == file),
                "{text}"
            );
        }
        assert!(matches!(parse("/home/a.c:12"), Ok(Form::FileLine(_, 12))));
        for wrong in [
            "", "  ", "*", "+3", "-line x", "-frob", ":3", "a.c:", "*+", "/(/",
        ] {
            assert!(
                matches!(parse(wrong), Err(LocationError::Syntax { .. })),
                "{wrong}"
            );
        }
    }
}
