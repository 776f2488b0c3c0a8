//! Names of functions, types and variables, taken apart and compared as GDB compares them.

/// The components of a qualified name: `ns::f<a::b>(c::d)` is `ns`, `f<a::b>(c::d)`.
pub(crate) fn components(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut depth = 0usize;
    let bytes = name.as_bytes();
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        // `operator<`, `operator()` and their like are names, not brackets.
        if byte == b'o' && is_operator(name, index) {
            index += "operator".len();
            while bytes.get(index) == Some(&b' ') {
                index += 1;
            }
            let rest = name.get(index..).unwrap_or("");
            index += operator_length(rest);
            continue;
        }
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if index > 0 && bytes.get(index - 1) == Some(&b'-') => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(index + 1) == Some(&b':') => {
                parts.extend(name.get(start..index));
                start = index + 2;
                index += 1;
            }
            _ => {}
        }
        index += 1;
    }
    parts.extend(name.get(start..));
    parts
}

fn is_operator(name: &str, index: usize) -> bool {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    name.get(index..)
        .is_some_and(|rest| rest.starts_with("operator"))
        && !index
            .checked_sub(1)
            .and_then(|before| name.as_bytes().get(before))
            .is_some_and(word)
        && !name
            .as_bytes()
            .get(index + "operator".len())
            .is_some_and(word)
}

/// The length of the operator at the start.
fn operator_length(text: &str) -> usize {
    const OPERATORS: [&str; 15] = [
        "()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">", "&&", "||",
    ];
    OPERATORS
        .iter()
        .find(|operator| text.starts_with(**operator))
        .map_or(0, |operator| operator.len())
}

/// Where the template arguments and the parameters of one component start: the length of its plain name.
fn plain_length(component: &str) -> usize {
    if is_operator(component, 0) {
        let mut length = "operator".len();
        let spaces = component
            .get(length..)
            .map_or(0, |rest| rest.len() - rest.trim_start().len());
        let operator = operator_length(component.get(length + spaces..).unwrap_or(""));
        if operator > 0 {
            length += spaces + operator;
        }
        let rest = component.get(length..).unwrap_or("");
        return length + rest.find(['<', '(']).unwrap_or(rest.len());
    }
    // `(anonymous namespace)`, `{lambda(int)#1}`, `{closure#0}`, `<impl T for U>` are names as a whole.
    if component.starts_with(['(', '{', '<']) {
        let mut depth = 0usize;
        for (index, character) in component.char_indices() {
            match character {
                '(' | '{' | '<' => depth += 1,
                ')' | '}' | '>' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return index + 1;
                    }
                }
                _ => {}
            }
        }
        return component.len();
    }
    let mut receiver = 0usize;
    let mut before = ' ';
    for (index, character) in component.char_indices() {
        match character {
            // `main.(*Order).Total` of Go.
            '(' if receiver > 0 || before == '.' => receiver += 1,
            ')' if receiver > 0 => receiver -= 1,
            '<' | '(' if receiver == 0 => return index,
            _ => {}
        }
        before = character;
    }
    component.len()
}

/// A component without template arguments and parameters.
pub(crate) fn plain(component: &str) -> &str {
    component
        .get(..plain_length(component))
        .unwrap_or(component)
}

/// The template arguments of a component, with their brackets; empty if there are none.
fn template_arguments(component: &str) -> &str {
    let rest = component.get(plain_length(component)..).unwrap_or("");
    if !rest.starts_with('<') {
        return "";
    }
    rest.get(..closing(rest)).unwrap_or(rest)
}

/// The parameters of a component and what follows them (`const`), empty if there are none.
pub(crate) fn parameters(component: &str) -> &str {
    let rest = component.get(plain_length(component)..).unwrap_or("");
    let rest = rest
        .get(template_arguments(component).len()..)
        .unwrap_or("");
    rest.find('(')
        .and_then(|start| rest.get(start..))
        .unwrap_or("")
}

/// Where the bracket that a text starts with is closed: one past it.
fn closing(text: &str) -> usize {
    let mut depth = 0usize;
    let mut before = ' ';
    for (index, character) in text.char_indices() {
        match character {
            '<' | '(' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
        before = character;
    }
    text.len()
}

/// A text without the spaces that mean nothing: those not between two words.
pub(crate) fn squeezed(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    let mut space = false;
    for character in text.chars() {
        if character.is_whitespace() {
            space = true;
            continue;
        }
        let word = |c: char| c.is_alphanumeric() || c == '_';
        if space && word(character) && squeezed.chars().next_back().is_some_and(word) {
            squeezed.push(' ');
        }
        space = false;
        squeezed.push(character);
    }
    squeezed
}

/// A requested name, for comparison with the qualified names of the program.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    components: Vec<String>,
    parameters: String,
    /// Whether it must be the whole name (`-qualified`, or a leading `::`).
    whole: bool,
}

impl Pattern {
    pub(crate) fn new(name: &str) -> Self {
        let name = name.trim();
        let (name, whole) = match name.strip_prefix("::") {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        let parts = components(name);
        let last = parts.last().copied().unwrap_or("");
        Self {
            parameters: squeezed(parameters(last)),
            components: parts
                .iter()
                .map(|part| squeezed(without_parameters(part)))
                .collect(),
            whole,
        }
    }

    /// The plain name of the last component.
    pub(crate) fn base(&self) -> &str {
        self.components.last().map_or("", |last| plain(last))
    }

    /// The requested parameters, squeezed; empty without any.
    pub(crate) fn parameters(&self) -> &str {
        &self.parameters
    }

    /// How many components it has.
    pub(crate) fn length(&self) -> usize {
        self.components.len()
    }

    /// Whether it is a single plain word.
    pub(crate) fn is_word(&self) -> bool {
        self.components.len() == 1
    }

    /// Whether the pattern names the qualified name, given without parameters: its components are the last ones
    /// of the name, template arguments compared only where the pattern has them.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let parts = components(name);
        let Some(skipped) = parts.len().checked_sub(self.components.len()) else {
            return false;
        };
        if self.whole && skipped > 0 {
            return false;
        }
        parts
            .iter()
            .skip(skipped)
            .zip(&self.components)
            .all(|(part, wanted)| agrees(part, wanted))
    }

    /// Whether the pattern names a function of Rust by its readable name: `Shape::area` and `<Shape as Area>::area` are
    /// `<rsx::Shape as rsx::Area>::area`.
    pub(crate) fn matches_rust(&self, name: &str) -> bool {
        self.matches_rust_at(name, 0)
    }

    fn matches_rust_at(&self, name: &str, depth: usize) -> bool {
        if depth > DEEPEST_TYPE {
            return false;
        }
        let parts = components(name);
        let Some(skipped) = parts.len().checked_sub(self.components.len()) else {
            return self.matches_with_type(&parts);
        };
        let ends = !(self.whole && skipped > 0)
            && (parts.iter().skip(skipped).zip(&self.components)).all(|(part, wanted)| {
                match (type_and_trait(part), type_and_trait(wanted)) {
                    (Some((type_name, of_trait)), Some((wanted_type, wanted_trait))) => {
                        let names = |wanted: &str, name: &str| {
                            Self::new(wanted).matches_rust_at(name, depth + 1)
                                || squeezed(wanted) == squeezed(name)
                        };
                        names(wanted_type, type_name)
                            && wanted_trait.is_none_or(|wanted| {
                                of_trait.is_some_and(|name| names(wanted, name))
                            })
                    }
                    // The older scheme of linker's names does not number closures.
                    _ if wanted == "{{closure}}" && part.starts_with("{closure#") => true,
                    _ => agrees(part, wanted),
                }
            });
        ends || self.matches_with_type(&parts)
    }

    /// As [`matches`](Self::matches), with the path of the type instead of the trait that it implements.
    fn matches_with_type(&self, parts: &[&str]) -> bool {
        path_of(parts).is_some_and(|path| self.matches(&path))
    }

    /// A word that every linker's name has which the pattern may be about; none if there is no such word.
    pub(crate) fn word(&self) -> Option<&str> {
        let is_name = |part: &&String| {
            !part.starts_with(['{', '<', '(']) && !is_operator(part, 0) && !part.contains(' ')
        };
        let name = plain(self.components.iter().rfind(is_name)?);
        name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .max_by_key(|word| word.len())
            .filter(|word| !word.is_empty())
    }

    /// Whether the pattern is the qualified name, given without parameters, in every part.
    pub(crate) fn is_exactly(&self, name: &str) -> bool {
        let parts = components(name);
        parts.len() == self.components.len()
            && parts
                .iter()
                .zip(&self.components)
                .all(|(part, wanted)| squeezed(without_parameters(part)) == *wanted)
    }
}

/// The path of a method of Rust with that of its type: `rsx::Shape::area` for `<rsx::Shape as rsx::Area>::area`. None where the name
/// has no type in brackets.
pub(crate) fn rust_path(name: &str) -> Option<String> {
    path_of(&components(name))
}

fn path_of(parts: &[&str]) -> Option<String> {
    let at = parts
        .iter()
        .rposition(|part| type_and_trait(part).is_some())?;
    let (type_name, _) = type_and_trait(parts.get(at)?)?;
    let path: Vec<&str> = (components(type_name).into_iter())
        .chain(parts.get(at + 1..)?.iter().copied())
        .collect();
    Some(path.join("::"))
}

/// How deep types nest in the readable name of a Rust function that are looked at.
const DEEPEST_TYPE: usize = 16;

/// Whether a component matches `wanted`, which is squeezed. Template arguments are compared only if `wanted` has them.
fn agrees(part: &str, wanted: &str) -> bool {
    let part = squeezed(without_parameters(part));
    plain(&part) == plain(wanted)
        && (template_arguments(wanted).is_empty()
            || template_arguments(&part) == template_arguments(wanted))
}

/// `TYPE` and `TRAIT` of a component `<TYPE as TRAIT>` or `<TYPE>`. For a reference, its target.
fn type_and_trait(component: &str) -> Option<(&str, Option<&str>)> {
    let inner = component.strip_prefix('<')?;
    if plain_length(component) != component.len() {
        return None;
    }
    let inner = inner.strip_suffix('>')?;
    let mut depth = 0usize;
    let mut found = None;
    for (index, character) in inner.char_indices() {
        match character {
            '<' | '(' | '[' => depth += 1,
            '>' if inner
                .get(..index)
                .is_some_and(|before| before.ends_with('-')) => {}
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            'a' if depth == 0
                && inner
                    .get(index..)
                    .is_some_and(|rest| rest.starts_with("as ")) =>
            {
                let before = inner.get(..index).unwrap_or("");
                if before.ends_with([' ', ']', ')', '>']) {
                    found = Some((before.trim_end(), inner.get(index + 3..)));
                    break;
                }
            }
            _ => {}
        }
    }
    let (mut type_name, of_trait) = found.unwrap_or((inner, None));
    while let Some(referred) = ["&", "mut "]
        .iter()
        .find_map(|start| type_name.strip_prefix(start))
    {
        type_name = referred.trim_start();
    }
    Some((type_name, of_trait.map(str::trim)))
}

/// A readable name without the type that the function returns, which the demanglers print of instances of templates:
/// `f<int>(int)` of `void f<int>(int)`.
pub(crate) fn without_return_type(name: &str) -> &str {
    if THUNKS.iter().any(|words| name.starts_with(words)) {
        return name;
    }
    let mut depth = 0usize;
    let mut start = 0;
    let mut before = ' ';
    let mut named = 0;
    for (index, character) in name.char_indices() {
        let rest = name.get(index..).unwrap_or("");
        if index < named {
            before = character;
            continue;
        }
        match character {
            'o' if depth == 0 && is_operator(name, index) => {
                return name.get(start..).unwrap_or(name);
            }
            '(' if rest.starts_with(ANONYMOUS) => named = index + ANONYMOUS.len(),
            // A function that returns a reference to an array has its name in the middle of it: `int (&f(char)) [6]`.
            '(' if depth == 0
                && before == ' '
                && (rest.starts_with("(&") || rest.starts_with("(*")) =>
            {
                return within_declarator(rest).unwrap_or(name);
            }
            '(' if depth == 0 && before != '.' => {
                return name.get(start..).filter(|_| index > start).unwrap_or(name);
            }
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 && character.is_whitespace() => {
                let next = rest.trim_start();
                if !next.starts_with('(') || next.starts_with(ANONYMOUS) {
                    start = name.len() - next.len();
                }
            }
            _ => {}
        }
        before = character;
    }
    // Without parameters it is no readable name of a template's instance.
    name
}

/// The words before the name of a thunk's function, or of a copy for transactions.
const THUNKS: [&str; 5] = [
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
    "transaction clone for ",
    "non-transaction clone for ",
];

/// The name and the parameters in a declarator in brackets.
fn within_declarator(text: &str) -> Option<&str> {
    let inner = text.get(1..closing(text) - 1)?;
    let inner = inner.trim_start_matches(['&', '*']);
    inner.ends_with(')').then_some(inner)
}

const ANONYMOUS: &str = "(anonymous namespace)";

/// The last word of a qualified name, without template arguments and parameters: `Ring<int>::push<long>` is `push`.
#[must_use]
pub fn plain_name(name: &str) -> &str {
    components(name).last().map_or(name, |last| plain(last))
}

/// A component, or a whole qualified name, without its parameters.
pub(crate) fn without_parameters(name: &str) -> &str {
    let last_start = components(name)
        .last()
        .map_or(0, |last| name.len() - last.len());
    let last = name.get(last_start..).unwrap_or("");
    let length = last_start + plain_length(last) + template_arguments(last).len();
    name.get(..length).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart() {
        assert_eq!(
            components("a::b<c::d>::e(f::g)"),
            ["a", "b<c::d>", "e(f::g)"]
        );
        assert_eq!(components("a::operator<"), ["a", "operator<"]);
        assert_eq!(components("a::operator()(int)"), ["a", "operator()(int)"]);
        assert_eq!(components("main::{closure#0}"), ["main", "{closure#0}"]);
        assert_eq!(
            components("(anonymous namespace)::f"),
            ["(anonymous namespace)", "f"]
        );
        assert_eq!(plain("f<int>(char)"), "f");
        assert_eq!(plain("operator<<<int>(char)"), "operator<<");
        assert_eq!(plain("operator()(int)"), "operator()");
        assert_eq!(parameters("f<g(int)>(char) const"), "(char) const");
        assert_eq!(
            without_parameters("a::f<g(int)>(char) const"),
            "a::f<g(int)>"
        );
        assert_eq!(
            squeezed("f ( unsigned  int , char * )"),
            "f(unsigned int,char*)"
        );
    }

    #[test]
    fn patterns_match_as_in_gdb() {
        assert!(Pattern::new("f").matches("ns::f"));
        assert!(Pattern::new("f").matches("ns::f<int>"));
        assert!(!Pattern::new("::f").matches("ns::f"));
        assert!(Pattern::new("f<int>").matches("ns::f<int>"));
        assert!(!Pattern::new("f<char>").matches("ns::f<int>"));
        assert!(!Pattern::new("s::f").matches("ns::f"));
        assert_eq!(Pattern::new("ns::f(int, char)").parameters(), "(int,char)");
        assert_eq!(Pattern::new("ns::f(int, char)").base(), "f");
    }

    #[test]
    fn names_of_other_languages_come_apart() {
        assert_eq!(plain("main.(*Order).Total"), "main.(*Order).Total");
        assert_eq!(plain("net/http.(*conn).serve"), "net/http.(*conn).serve");
        assert!(Pattern::new("main.(*A).f").matches("main.(*A).f"));
        assert!(!Pattern::new("main.(*A).f").matches("main.(*B).f"));
        assert_eq!(
            type_and_trait("<rsx::Shape as rsx::Area>"),
            Some(("rsx::Shape", Some("rsx::Area")))
        );
        assert_eq!(type_and_trait("<[T]as a::B>"), Some(("[T]", Some("a::B"))));
        assert_eq!(
            type_and_trait("<&mut rsx::Alias>"),
            Some(("rsx::Alias", None))
        );
        assert_eq!(type_and_trait("f<int>"), None);
        let area = "<rsx::Shape as rsx::Area>::area";
        for name in [
            area,
            "<Shape as Area>::area",
            "Shape::area",
            "rsx::Shape::area",
            "area",
            "<Shape>::area",
        ] {
            assert!(Pattern::new(name).matches_rust(area), "{name}");
        }
        for name in [
            "Area::area",
            "<Shape as Volume>::area",
            "Shape",
            "hape::area",
        ] {
            assert!(!Pattern::new(name).matches_rust(area), "{name}");
        }
        assert!(Pattern::new("Shelf::add").matches_rust("<store::Shelf<T>>::add"));
        for closure in ["rsx::main::{{closure}}", "rsx::main::{closure#1}"] {
            assert!(Pattern::new("main::{{closure}}").matches_rust(closure));
        }
        assert!(!Pattern::new("main::{closure#0}").matches_rust("rsx::main::{closure#1}"));
        assert_eq!(Pattern::new("rsx::main::{{closure}}").word(), Some("main"));
        assert_eq!(Pattern::new("shop::Item::~Item").word(), Some("Item"));
        assert_eq!(Pattern::new("operator()").word(), None);
    }

    #[test]
    fn what_a_function_returns_is_no_part_of_its_name() {
        for (name, rest) in [
            ("void f<int>(int)", "f<int>(int)"),
            ("char const* ns::f<a b>(int) const", "ns::f<a b>(int) const"),
            ("f(int)", "f(int)"),
            ("f (int)", "f (int)"),
            ("operator new(unsigned long)", "operator new(unsigned long)"),
            ("a::operator bool() const", "a::operator bool() const"),
            (
                "int (anonymous namespace)::f<int>(int)",
                "(anonymous namespace)::f<int>(int)",
            ),
            (
                "(anonymous namespace)::f(int)",
                "(anonymous namespace)::f(int)",
            ),
            (
                "<rsx::Shape as rsx::Area>::area",
                "<rsx::Shape as rsx::Area>::area",
            ),
            ("main.(*Order).Total", "main.(*Order).Total"),
            (
                "int const (&f<char (&) [6]>(int)) [6]",
                "f<char (&) [6]>(int)",
            ),
            ("int (&f", "int (&f"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_return_type(name), rest);
        }
    }

    #[test]
    fn strange_names_do_no_harm() {
        for name in [
            "",
            "::",
            "<",
            ">",
            "((((",
            "operator",
            "a::",
            "é<",
            "operator<é",
            "->",
            "{",
        ] {
            let _ = components(name);
            let _ = plain(name);
            let _ = parameters(name);
            let _ = without_parameters(name);
            let _ = Pattern::new(name).matches(name);
            let _ = Pattern::new(name).matches_rust(name);
            let _ = type_and_trait(name);
            let _ = without_return_type(name);
        }
    }
}
