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

/// How long the operator is that stands at the start.
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
    component.find(['<', '(']).unwrap_or(component.len())
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

/// How a name asked for is compared with the qualified names of the program.
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

    /// The parameters asked for, squeezed; empty if none were.
    pub(crate) fn parameters(&self) -> &str {
        &self.parameters
    }

    /// How many components it has.
    pub(crate) fn length(&self) -> usize {
        self.components.len()
    }

    /// Whether it names nothing but one plain word.
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
            .all(|(part, wanted)| {
                let part = squeezed(without_parameters(part));
                plain(&part) == plain(wanted)
                    && (template_arguments(wanted).is_empty()
                        || template_arguments(&part) == template_arguments(wanted))
            })
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
        }
    }
}
