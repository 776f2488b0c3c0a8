//! Searches outside quotes and brackets: for commas, the keyword `if`, the colon of a `-t` argument.

/// Walks over `text` and gives the byte offset and the character of everything that is outside quotes,
/// parentheses, brackets and braces. What opens or closes a bracket is not given.
///
/// `'` opens a quotation only where one can start (a character, GDB's quoted names): in C++'s digit separators it is
/// inside a word, and in Rust's lifetimes no other `'` closes it.
pub(crate) fn outside(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut depth = 0_usize;
    let mut quote: Option<char> = None;
    let mut escaped = false;
    let mut previous = ' ';
    text.char_indices().filter(move |&(at, character)| {
        let before = std::mem::replace(&mut previous, character);
        if let Some(open) = quote {
            if escaped {
                escaped = false;
            } else if character == '\\' {
                escaped = true;
            } else if character == open {
                quote = None;
            }
            return false;
        }
        match character {
            '"' => quote = Some('"'),
            '\'' if before.is_alphanumeric() || before == '_' => {}
            '\'' if matches!(before, '&' | '<') && is_lifetime(&text[at..]) => {}
            '\'' => quote = Some('\''),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    })
}

/// Whether a text that begins with `'` begins with a lifetime of Rust, and not with a character or a quoted name.
fn is_lifetime(text: &str) -> bool {
    let after = text[1..].trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    after.len() + 1 < text.len()
        && after
            .chars()
            .next()
            .is_none_or(|c| c.is_whitespace() || matches!(c, ',' | '>' | '+'))
}

/// The positions of the commas that separate a list.
pub(crate) fn commas(text: &str) -> Vec<usize> {
    outside(text)
        .filter(|(_, character)| *character == ',')
        .map(|(at, _)| at)
        .collect()
}

/// How long the location is that a text begins with, where it ends in a regular expression: `/^ngx_/`, `FILE:/_init$/`. Neither a
/// blank is in it, nor a `/` that a blank follows. 0 for every other text.
fn regex_length(text: &str) -> usize {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let word = &text[..end];
    let start = if word.starts_with('/') {
        0
    } else {
        match word.find(":/") {
            Some(at) if !word[..at].ends_with(':') => at + 1,
            _ => return 0,
        }
    };
    if word.len() > start + 1 && word.ends_with('/') {
        end
    } else {
        0
    }
}

/// As [`outside`], without the location that a text begins with where that ends in a regular expression.
fn outside_regex(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let start = regex_length(text);
    outside(&text[start..]).map(move |(at, character)| (start + at, character))
}

/// The start of a separate word outside quotes and brackets; `(` may follow it directly. The text may begin with a location.
pub(crate) fn keyword(text: &str, word: &str) -> Option<usize> {
    let mut previous_blank = true;
    for (at, character) in outside_regex(text) {
        let starts = previous_blank
            && (at == 0 || text[..at].ends_with(char::is_whitespace))
            && text[at..].starts_with(word);
        if starts {
            let next = text[at + word.len()..].chars().next();
            if next.is_none_or(|c| c.is_whitespace() || c == '(') {
                return Some(at);
            }
        }
        previous_blank = character.is_whitespace();
    }
    None
}

/// The position of the colon that separates a `-t` argument, which begins with a location. A blank or the end follows it, and it
/// belongs to no `?`. The colons of `a::b` and `file.c:12` have no blank after them.
pub(crate) fn separating_colon(text: &str) -> Option<usize> {
    let mut questions = 0_usize;
    for (at, character) in outside_regex(text) {
        match character {
            '?' => questions += 1,
            ':' => {
                let next = text[at + 1..].chars().next();
                let double = next == Some(':') || text[..at].ends_with(':');
                if double {
                    continue;
                }
                if questions > 0 {
                    questions -= 1;
                } else if next.is_none_or(char::is_whitespace) {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_and_quotes_part_nothing() {
        assert_eq!(
            commas("a, f(b, c), d[e, 1], \",\", ',', g"),
            [1, 10, 19, 24, 29]
        );
        assert_eq!(commas("x::f<'a>(b), y"), [11]);
        assert_eq!(
            commas("x::f<'a>(b), &'a y, c<'\"', d<'\\'', &'a.c'::e, f"),
            [11, 18, 25, 33, 44]
        );
    }

    #[test]
    fn a_keyword_stands_alone() {
        assert_eq!(keyword("handle if x", "if"), Some(7));
        assert_eq!(keyword("handle if(x)", "if"), Some(7));
        assert_eq!(keyword("iffy.c:3", "if"), None);
        assert_eq!(keyword("f(if x) gif y", "if"), None);
        assert_eq!(keyword("'a if b'", "if"), None);
    }

    #[test]
    fn the_colon_has_a_blank_behind_it() {
        assert_eq!(separating_colon("f : x"), Some(2));
        assert_eq!(separating_colon("sample.c:14: x"), Some(11));
        assert_eq!(separating_colon("a::b"), None);
        assert_eq!(separating_colon("a::b : c::d"), Some(5));
        assert_eq!(separating_colon("f if x ? y : z : w"), Some(15));
        assert_eq!(separating_colon("f if s[0] == ':' "), None);
        assert_eq!(separating_colon("/^a(b|c)?$/ : x"), Some(12));
        assert_eq!(separating_colon("a.c:/[\"']/ : x"), Some(11));
        assert_eq!(keyword("/(if / if x", "if"), None);
        assert_eq!(keyword("/[(]/ if x", "if"), Some(6));
        assert_eq!(keyword("/home/me/a.c:3 if x / y", "if"), Some(15));
    }
}
