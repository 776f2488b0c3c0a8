//! The parameters of a C++ function as text, compared as types however they are written: `(const char *, std::string)` and
//! `(char const*, std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >)` are the same.

use super::name::squeezed;
use crate::types::base::canonical_c_name;

/// The deepest nesting of types in a text. Deeper types are compared as text.
const DEEPEST: usize = 32;

/// The inline namespaces of the C++ libraries, which sources do not name.
const INLINE_NAMESPACES: [&str; 2] = ["std::__cxx11::", "std::__1::"];

/// The library's templates over characters that have a name for `char`, and one for `wchar_t` with a `w` before it.
const OF_CHARACTERS: [&str; 9] = [
    "string",
    "string_view",
    "ostream",
    "istream",
    "iostream",
    "stringstream",
    "ostringstream",
    "istringstream",
    "streambuf",
];

/// The expansion of a name: the type of a typedef, the whole name of a class. `None` for any other name.
pub(crate) type Expand<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Without debug information names have no expansion.
pub(crate) fn no_names(_: &str) -> Option<String> {
    None
}

/// Whether two lists of parameters are the same types. Suffixes (`const`) are part of them. In `wanted` names are expanded, and the
/// last arguments of a template may be left out.
pub(crate) fn same_parameters(own: &str, wanted: &str, expand: &Expand<'_>) -> bool {
    let (Some(own), Some(wanted)) = (list(own, &no_names), list(wanted, &no_names)) else {
        return false;
    };
    if own == wanted {
        return true;
    }
    own.0.len() == wanted.0.len() && own.1 == wanted.1 && {
        let expanded = wanted.0.iter().map(|one| canonical(one, expand, 0));
        (own.0.iter().zip(expanded)).all(|(own, wanted)| agree(own.as_bytes(), wanted.as_bytes()))
    }
}

/// The types of a list, and what follows it.
fn list(text: &str, expand: &Expand<'_>) -> Option<(Vec<String>, String)> {
    let text = text.trim();
    let end = text.rfind(')')?;
    let inner = text.get(1..end)?;
    let after = squeezed(text.get(end + 1..)?);
    let types: Vec<String> = (arguments(inner).into_iter())
        .map(|one| parameter(one, expand))
        .collect();
    let none = types.iter().all(|one| one.is_empty() || one == "void");
    Some((if none { Vec::new() } else { types }, after))
}

/// A parameter's type. One that is `const` itself is not to the linker.
fn parameter(text: &str, expand: &Expand<'_>) -> String {
    let one = canonical(text, expand, 0);
    match one.strip_suffix("const") {
        Some(plain) if plain.ends_with([' ', '*']) => plain.trim_end().to_owned(),
        _ => one,
    }
}

/// A type as the demanglers write it, without blanks that mean nothing: `char const*` for `const char *`, `unsigned long` for
/// `long unsigned int`, `std::string` for what that is.
fn canonical(text: &str, expand: &Expand<'_>, depth: usize) -> String {
    let text = text.trim();
    if depth > DEEPEST {
        return squeezed(text);
    }
    let (base, declarator) = text
        .split_at_checked(base_length(text))
        .unwrap_or((text, ""));
    let mut constant = "";
    let mut volatile = "";
    let mut words = Vec::new();
    for word in outer_words(base) {
        match word {
            "const" => constant = " const",
            "volatile" => volatile = " volatile",
            "struct" | "class" | "enum" | "union" | "typename" => {}
            word => words.push(word),
        }
    }
    let joined = words.join(" ");
    let mut name = match canonical_c_name(&joined) {
        Some(usual) => usual.to_owned(),
        None => short_name(without_suffix(&with_arguments(&joined, expand, depth))),
    };
    if let Some(expanded) = expand(&name) {
        name = canonical(&expanded, &no_names, depth + 1);
    }
    squeezed(&format!("{name}{constant}{volatile}{declarator}"))
}

/// How long the part of a type is that its pointers, references, arrays and parameters follow.
fn base_length(text: &str) -> usize {
    outer(text)
        .find(|(_, c)| matches!(c, '*' | '&' | '(' | '['))
        .map_or(text.len(), |(at, _)| at)
}

/// The characters outside brackets, with their places. `(anonymous namespace)` and `{lambda(int)#1}` are names, and the blanks and
/// brackets in them are not outside. A bracket that opens is outside, what closes it is not.
fn outer(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut angles = 0usize;
    let mut closing: Vec<char> = Vec::new();
    let mut named = 0;
    text.char_indices().filter(move |&(at, character)| {
        if at < named {
            return false;
        }
        let outside = angles == 0 && closing.is_empty();
        if text
            .get(at..)
            .is_some_and(|rest| rest.starts_with(ANONYMOUS))
        {
            named = at + ANONYMOUS.len();
            return false;
        }
        match character {
            '<' => angles += 1,
            '>' => angles = angles.saturating_sub(1),
            '(' => closing.push(')'),
            '[' => closing.push(']'),
            '{' => closing.push('}'),
            ')' | ']' | '}' if closing.last() == Some(&character) => {
                closing.pop();
            }
            _ => {}
        }
        outside && !matches!(character, '<' | '{')
    })
}

const ANONYMOUS: &str = "(anonymous namespace)";

/// The words of a text, parted at the blanks outside brackets.
fn outer_words(text: &str) -> Vec<&str> {
    parted(text, char::is_whitespace)
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect()
}

/// The arguments of a list, parted at the commas outside brackets.
fn arguments(text: &str) -> Vec<&str> {
    parted(text, |character| character == ',')
}

fn parted(text: &str, at: impl Fn(char) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (index, character) in outer(text).filter(|(_, character)| at(*character)) {
        parts.extend(text.get(start..index));
        start = index + character.len_utf8();
    }
    parts.extend(text.get(start..));
    parts
}

/// A name with its template arguments made canonical.
fn with_arguments(name: &str, expand: &Expand<'_>, depth: usize) -> String {
    let mut made = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(open) = rest.find('<') {
        let Some(length) = rest.get(open..).and_then(closed_length) else {
            break;
        };
        let inner = rest.get(open + 1..open + length - 1).unwrap_or("");
        let inner: Vec<String> = (arguments(inner).into_iter())
            .map(|one| canonical(one, expand, depth + 1))
            .collect();
        made.push_str(&squeezed(rest.get(..open).unwrap_or("")));
        made.push('<');
        made.push_str(&inner.join(","));
        made.push('>');
        rest = rest.get(open + length..).unwrap_or("");
    }
    made.push_str(&squeezed(rest));
    made
}

/// How long the template arguments are that a text begins with, brackets included.
fn closed_length(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if index > 0 && text.as_bytes().get(index - 1) == Some(&b'-') => {}
            b'>' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// A number without the letters that say its type: the debug information has `2` where the linker's name has `2ul`.
fn without_suffix(name: &str) -> &str {
    let digits = name.strip_prefix('-').unwrap_or(name);
    if digits.starts_with(|c: char| c.is_ascii_digit()) {
        name.trim_end_matches(['u', 'l'])
    } else {
        name
    }
}

/// A name of the C++ library as sources have it.
fn short_name(name: &str) -> String {
    let mut name = name.to_owned();
    for inline in INLINE_NAMESPACES {
        name = name.replace(inline, "std::");
    }
    let Some((template, arguments_text)) = name
        .strip_prefix("std::basic_")
        .and_then(|rest| rest.strip_suffix('>'))
        .and_then(|rest| rest.split_once('<'))
    else {
        return name;
    };
    let mut arguments = arguments(arguments_text).into_iter();
    let prefix = match arguments.next() {
        Some("char") => "",
        Some("wchar_t") => "w",
        _ => return name,
    };
    let usual = |argument: &str| {
        ["std::char_traits<", "std::allocator<"]
            .iter()
            .any(|start| argument.starts_with(start))
    };
    if OF_CHARACTERS.contains(&template) && arguments.all(usual) {
        format!("std::{prefix}{template}")
    } else {
        name
    }
}

/// A squeezed name with the short names of the library's streams and strings instead of the long ones: demanglers differ in which
/// they print.
pub(crate) fn library_names(squeezed_name: &str) -> String {
    let mut name = squeezed_name.to_owned();
    for stream in ["istream", "ostream", "iostream"] {
        name = name
            .replace(
                &format!("std::basic_{stream}<char,std::char_traits<char>>"),
                &format!("std::{stream}"),
            )
            .replace(&format!("::basic_{stream}("), &format!("::{stream}("))
            .replace(&format!("::~basic_{stream}("), &format!("::~{stream}("));
    }
    name.replace(
        "std::basic_string<char,std::char_traits<char>,std::allocator<char>>",
        "std::string",
    )
    .replace("std::string::basic_string(", "std::string::string(")
    .replace("std::string::basic_string<", "std::string::string<")
    .replace("std::nullptr_t", "decltype(nullptr)")
    .replace("std::string::~basic_string(", "std::string::~string(")
}

/// Whether two canonical types are the same, where the last template arguments of the second may be left out.
fn agree(own: &[u8], wanted: &[u8]) -> bool {
    let (mut own, mut wanted) = (own, wanted);
    loop {
        match (own.split_first(), wanted.split_first()) {
            (None, None) => return true,
            (Some((one, own_rest)), Some((other, wanted_rest))) if one == other => {
                (own, wanted) = (own_rest, wanted_rest);
            }
            (Some((b',', rest)), Some((b'>', _))) => {
                // Up to what closes this list.
                let mut depth = 0usize;
                let end = rest.iter().position(|byte| {
                    match byte {
                        b'<' | b'(' => depth += 1,
                        b'>' | b')' if depth == 0 => return true,
                        b'>' | b')' => depth -= 1,
                        _ => {}
                    }
                    false
                });
                let Some(end) = end.and_then(|end| rest.get(end..)) else {
                    return false;
                };
                own = end;
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{no_names, same_parameters};

    #[test]
    fn parameters_are_compared_as_types() {
        let same = |one: &str, other: &str| same_parameters(one, other, &no_names);
        assert!(same(
            "(char const*, unsigned long)",
            "(const char *, long unsigned int)"
        ));
        assert!(same("()", "(void)"));
        assert!(same("(int) const", "( int )const"));
        assert!(!same("(int) const", "(int)"));
        assert!(same("(a<b, c>, int)", "(a<b,c>,int)"));
        assert!(!same("(int)", "(char)"));
        assert!(!same("(int)", "(int, int)"));
        assert!(same(
            "(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)",
            "(std::string const&)"
        ));
        assert!(same(
            "(std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, \
             std::allocator<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > > > const&, int)",
            "(const std::vector<std::string> &, int)"
        ));
        assert!(!same("(std::vector<int, A> )", "(std::vector<char>)"));
        assert!(same("(std::array<int, 2ul>)", "(std::array<int, 2>)"));
        assert!(same(
            "((anonymous namespace)::T const&, void (*)(int))",
            "(const (anonymous namespace)::T &, void(*)(int))"
        ));
        assert!(same(
            "(std::vector<char const*>)",
            "(std::vector<const char *>)"
        ));
    }

    #[test]
    fn names_are_expanded_where_the_debug_information_knows_them() {
        let expand = |name: &str| match name {
            "Text" => Some("char const*".to_owned()),
            "Names" => Some("std::vector<std::string, std::allocator<std::string> >".to_owned()),
            _ => None,
        };
        assert!(same_parameters("(char const*)", "(Text)", &expand));
        assert!(same_parameters(
            "(char const* const&)",
            "(const Text &)",
            &expand
        ));
        assert!(same_parameters(
            "(std::vector<std::string, std::allocator<std::string> >&)",
            "(Names&)",
            &expand
        ));
        assert!(!same_parameters("(char*)", "(Text)", &expand));
    }

    #[test]
    fn strange_texts_do_no_harm() {
        for text in [
            "",
            "(",
            ")",
            "(<)",
            "(>)",
            "(a<b)",
            "(->)",
            "({)",
            "((anonymous namespace)",
            "(é<)",
            "(*",
            "(,,)",
            "(a<>)",
        ] {
            let _ = same_parameters(text, text, &|name: &str| Some(format!("{name}<")));
        }
    }
}
