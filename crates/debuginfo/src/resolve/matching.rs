//! Locations that name functions by a pattern: wildcards (`Cart::*`) and regular expressions (`/^ngx_http_/`).

use regex::{Regex, RegexBuilder};

use crate::dwarf::Die;
use crate::dwarf::index::{Name, NameKind};
use crate::dwarf::name::{components, plain, rust_path, squeezed, without_parameters};
use crate::error::LocationError;
use crate::location::ResolvedLocation;
use crate::module::{ElfSymbol, ElfSymbolKind, Module, demangle};
use crate::symbols::Symbols;
use crate::types::Language;

use super::function::{at_entry, copies, function_entry, implementation};
use super::line::names_file;

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
    /// What is between the `*`.
    Wildcard(Vec<String>),
    Regex(Box<Regex>),
}

impl NamePattern {
    /// Reads a pattern; none where the text is no pattern.
    ///
    /// # Errors
    /// What is wrong with a regular expression.
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

/// The first line of what is wrong with a regular expression, which the crate shows in several.
fn regex_problem(error: &regex::Error) -> String {
    let words = error.to_string();
    let last = words.lines().last().unwrap_or("").trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// What is between the `*` of a name with wildcards. A `*` in brackets is part of a type, and so is one in a text with blanks; in
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

/// The modules and source files in which a pattern is looked for.
pub(crate) struct Where<'a> {
    pub(crate) modules: Vec<&'a Module>,
    /// Only functions that this file declares.
    pub(crate) file: Option<&'a str>,
}

impl Symbols {
    /// The places of all functions of a pattern, inlined copies among them. `within` is a source file or a module.
    pub(crate) fn resolve_pattern(
        &self,
        within: Option<&str>,
        pattern: &NamePattern,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        let place = self.places_named(within)?;
        let mut found = Vec::new();
        for module in &place.modules {
            self.functions_matching(module, &place, pattern, &mut |die, qualified, has_code| {
                if has_code {
                    found.extend(function_entry(module, die, qualified));
                }
                found.extend(copies(module, die, qualified));
            });
            if place.file.is_some() {
                continue;
            }
            for symbol in module.elf_symbols().iter() {
                match symbol.kind {
                    ElfSymbolKind::Function if symbol_matches(pattern, &symbol) => {
                        let readable = demangle::readable(symbol.name);
                        let name = without_parameters(&readable);
                        found.push(at_entry(module, symbol.address, name, None));
                    }
                    ElfSymbolKind::IndirectFunction if pattern.matches(symbol.name) => {
                        let selected = self.selected.get(&module.biased(symbol.address));
                        for &selected in selected.into_iter().flatten() {
                            let address = module.unbiased(selected);
                            found.push(implementation(module, address, symbol.name));
                        }
                    }
                    _ => {}
                }
            }
        }
        if found.is_empty() {
            return Err(LocationError::NoMatch {
                pattern: pattern.text().to_owned(),
                searched: match within {
                    Some(within) => within.to_owned(),
                    None => self.searched(),
                },
            });
        }
        for location in &mut found {
            location.known_to_gdb = false;
        }
        Ok(found)
    }

    /// What the name of a source file or of a module stands for; without one, all modules.
    pub(crate) fn places_named<'a>(
        &'a self,
        within: Option<&'a str>,
    ) -> Result<Where<'a>, LocationError> {
        let Some(name) = within else {
            return Ok(Where {
                modules: self.loaded().collect(),
                file: None,
            });
        };
        let with_file: Vec<&Module> = self
            .loaded()
            .filter(|module| !super::line::units_with_file(module, name).is_empty())
            .collect();
        if !with_file.is_empty() {
            return Ok(Where {
                modules: with_file,
                file: Some(name),
            });
        }
        let modules = self.modules_named(name);
        if modules.is_empty() {
            return Err(self.no_file(name));
        }
        Ok(Where {
            modules,
            file: None,
        })
    }

    /// The modules that a name names: `libc.so.6`, `libc`, a path or the end of one.
    pub(crate) fn modules_named(&self, name: &str) -> Vec<&Module> {
        self.loaded()
            .filter(|module| {
                let path = module.info.path.to_string_lossy();
                let file = path.rsplit('/').next().unwrap_or(&path);
                names_file(&path, name)
                    || file
                        .strip_prefix(name)
                        .is_some_and(|rest| rest.starts_with(".so"))
            })
            .collect()
    }

    /// Each function of the debug information that a pattern names: its entry, its qualified name, and whether it has code of its
    /// own.
    pub(crate) fn functions_matching(
        &self,
        module: &Module,
        place: &Where<'_>,
        pattern: &NamePattern,
        take: &mut dyn FnMut(Die, &str, bool),
    ) {
        let debug = module.debug();
        let index = debug.index();
        let functions = index
            .iter()
            .filter(|name| matches!(name.kind, NameKind::Function | NameKind::AbstractFunction));
        for name in functions.filter(|name| !name.is_empty()) {
            let qualified = index.qualified(debug, &name);
            if !pattern.matches(&qualified) && !rust_matches(module, &name, &qualified, pattern) {
                continue;
            }
            let declared_there = place.file.is_none_or(|file| {
                let (declared, _) = crate::function::declared_at(debug, name.die());
                declared.is_some_and(|declared| names_file(&declared, file))
            });
            if declared_there {
                take(name.die(), &qualified, name.kind == NameKind::Function);
            }
        }
    }
}

/// Whether a symbol is a function that a pattern names.
pub(crate) fn symbol_matches(pattern: &NamePattern, symbol: &ElfSymbol<'_>) -> bool {
    if symbol.label || demangle::is_part(symbol.name) {
        return false;
    }
    let readable = demangle::readable(symbol.name);
    let name = without_parameters(&readable);
    pattern.matches(name)
        || (demangle::is_rust(symbol.name)
            && rust_path(name).is_some_and(|path| pattern.matches(&path)))
}

/// Whether a pattern names a method of Rust by its type. The debug information has the number of the `impl` in its place.
fn rust_matches(module: &Module, name: &Name, qualified: &str, pattern: &NamePattern) -> bool {
    let debug = module.debug();
    let unit = name.die().unit;
    if !qualified.contains("{impl#") || debug.facts(unit).language != Language::Rust {
        return false;
    }
    let readable = debug
        .entry(name.die())
        .and_then(|entry| debug.linkage_name(unit, &entry))
        .and_then(|linkage_name| demangle::demangle(&linkage_name));
    readable.is_some_and(|readable| {
        pattern.matches(&readable)
            || rust_path(&readable).is_some_and(|path| pattern.matches(&path))
    })
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
