//! Values as text, the way GDB's `print` writes them.

mod aggregate;
mod debug;
mod go;
mod plain;
mod rust;
mod scalar;
mod shape;
mod text;
mod walked;

use std::cell::Cell;

pub(super) use plain::PlainKind;

use super::contents::{Known, Place, Value};
use super::datum::{Datum, Parts, Recorder};
use super::state::{State, Watched};
use super::type_name::type_name_in;
use crate::scalar::strip;
use crate::walk::TypeWalks;
use tracewire_debuginfo::{Language, Symbols, Type, TypeId};

/// How values are shown: GDB's `set print …`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// How many elements of an array, characters of a string are shown (`print elements`).
    pub elements: u64,
    /// From how many equal elements on they are shown once (`print repeats`).
    pub repeats: u64,
    /// How deep nested structures are shown (`print max-depth`).
    pub depth: u32,
    /// Whether characters beyond ASCII are shown as they are (a UTF-8 locale) or as octal escapes.
    pub utf8: bool,
}

impl Default for PrintOptions {
    /// GDB's defaults, in a UTF-8 locale.
    fn default() -> Self {
        Self {
            elements: 200,
            repeats: 10,
            depth: 20,
            utf8: true,
        }
    }
}

/// The text for a redacted value.
pub(crate) const REDACTED: &str = "<redacted>";

/// The longest text of one value, in bytes: a type of nested arrays may be small and its text not.
const LONGEST: usize = 4 << 20;

/// The most values that are walked for one: rules may say that a value contains itself.
const MOST_WALKS: usize = 20_000;

/// Reading so many bytes by a rule counts as one walk: rules may say that each value is a large array.
const BYTES_OF_A_WALK: usize = 256;

/// The deepest nesting that is shown; [`PrintOptions::depth`] does not count everything.
const DEEPEST: u32 = 100;

/// Writes one value.
pub(super) struct Printer<'a> {
    symbols: &'a Symbols,
    state: Watched<'a>,
    options: PrintOptions,
    language: Language,
    /// The rules for types, where values are written as their language writes them.
    walks: Option<&'a TypeWalks<'a>>,
    /// How many more values are walked.
    walks_left: Cell<usize>,
    out: String,
    /// The values as data, if that is requested.
    recorder: Option<Recorder>,
    /// The addresses of the static members that are being shown.
    statics: Vec<Place>,
}

/// The context that the members of a value inherit.
#[derive(Clone, Copy)]
struct Context {
    depth: u32,
    /// How many values this one is inside of, whether they count for `depth` or not.
    nesting: u32,
    /// Whether the target of a reference is shown: at the top only.
    follow: bool,
}

impl Context {
    const fn member(self) -> Self {
        Self {
            depth: self.depth + 1,
            nesting: self.nesting + 1,
            follow: false,
        }
    }

    /// The form in which a value is shown.
    const fn inner(self) -> Self {
        Self {
            nesting: self.nesting + 1,
            ..self
        }
    }

    const fn element(self) -> Self {
        Self {
            depth: self.depth + 1,
            nesting: self.nesting + 1,
            follow: self.follow,
        }
    }
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        symbols: &'a Symbols,
        state: &'a dyn State,
        options: PrintOptions,
        language: Language,
    ) -> Self {
        Self {
            symbols,
            state: Watched::new(state),
            options,
            language,
            walks: None,
            walks_left: Cell::new(MOST_WALKS),
            out: String::new(),
            recorder: None,
            statics: Vec::new(),
        }
    }

    /// Writes values as their language writes them, by the rules for their types.
    pub(super) const fn with_walks(mut self, walks: &'a TypeWalks<'a>) -> Self {
        self.walks = Some(walks);
        self
    }

    fn put(&mut self, text: &str) {
        if self.out.len() < LONGEST {
            self.out.push_str(text);
        }
    }

    /// Makes data of the values too.
    pub(super) fn with_data(mut self) -> Self {
        self.recorder = Some(Recorder::new());
        self
    }

    /// Records something about the value that is being printed, if data are requested.
    fn record(&mut self, say: impl FnOnce(&mut Recorder)) {
        if let Some(recorder) = &mut self.recorder {
            say(recorder);
        }
    }

    /// Writes why there is no value.
    fn put_missing(&mut self, why: &str) {
        self.put(why);
        self.record(|recorder| recorder.set(Datum::Missing(why.to_owned())));
    }

    /// The value has parts, which are printed as values.
    fn begin_parts(&mut self, parts: Parts) {
        self.record(|recorder| recorder.parts(parts));
    }

    fn stripped(&self, type_id: TypeId) -> std::sync::Arc<Type> {
        strip(self.symbols, type_id).1
    }

    fn type_name(&self, type_id: TypeId) -> String {
        type_name_in(self.symbols, type_id, self.language)
    }

    pub(super) fn print(self, value: &Value) -> String {
        self.print_with_datum(value).0
    }

    /// The text, and the datum if it is requested.
    pub(super) fn print_with_datum(mut self, value: &Value) -> (String, Option<Datum>) {
        let gone = value.is_unavailable()
            || value.is_redacted()
            || value.is_optimized_out() && !value.synthetic;
        let indirect = match &*self.stripped(value.type_id) {
            Type::Pointer { .. } if matches!(self.language, Language::Rust | Language::Go) => {
                self.walks.is_none()
            }
            Type::Pointer { .. } => !self.is_plain_string(value.type_id),
            Type::Reference { .. } => self.walks.is_none(),
            _ => false,
        };
        if indirect && !gone {
            let name = self.type_name(value.type_id);
            self.put(&format!("({name}) "));
        }
        self.variable(value);
        let datum = self.recorder.take();
        let datum = datum.map(|recorder| recorder.finish(&self.out));
        (self.out, datum)
    }

    pub(super) fn print_variable(mut self, value: &Value) -> String {
        self.variable(value);
        self.out
    }

    fn variable(&mut self, value: &Value) {
        if value.is_optimized_out() && !value.synthetic {
            let in_register = matches!(value.place, Place::Register(_));
            self.put_missing(if in_register {
                "<not saved>"
            } else {
                "<optimized out>"
            });
        } else if value.is_unavailable() {
            self.put_missing("<unavailable>");
        } else {
            let context = Context {
                depth: 0,
                nesting: 0,
                follow: true,
            };
            self.value(value, context);
        }
    }

    /// The separator between two elements.
    fn separator(&self) -> &'static str {
        if self.language == Language::Go {
            " "
        } else {
            ", "
        }
    }

    /// Whether the type is `char *` or the like by its own name, which GDB leaves out.
    fn is_plain_string(&self, type_id: TypeId) -> bool {
        let Type::Pointer {
            target, name: None, ..
        } = *self.symbols.type_of(self.unqualified(type_id))
        else {
            return false;
        };
        match &*self.symbols.type_of(self.unqualified(target)) {
            Type::Base { name, .. } => {
                matches!(name.as_str(), "char" | "wchar_t" | "char16_t" | "char32_t")
            }
            Type::Typedef { name, .. } => {
                matches!(name.as_str(), "wchar_t" | "char16_t" | "char32_t")
            }
            _ => false,
        }
    }

    fn unqualified(&self, mut type_id: TypeId) -> TypeId {
        for _ in 0..8 {
            let Type::Qualified { target, .. } = *self.symbols.type_of(type_id) else {
                break;
            };
            type_id = target;
        }
        type_id
    }

    /// Why the value cannot be shown, if some byte of it is not known.
    fn missing(value: &Value) -> Option<&'static str> {
        Some(match value.missing()? {
            Known::OptimizedOut if value.synthetic => "<synthetic pointer>",
            Known::OptimizedOut => "<optimized out>",
            Known::Redacted => REDACTED,
            _ => "<unavailable>",
        })
    }

    /// A value inside another, or at the top after its prefix.
    fn value(&mut self, value: &Value, context: Context) {
        let start = self.out.len();
        self.record(Recorder::begin);
        self.written(value, context);
        if let Some(recorder) = &mut self.recorder {
            recorder.end(self.out.get(start..).unwrap_or(""));
        }
    }

    fn written(&mut self, value: &Value, context: Context) {
        // A type that contains itself comes from damaged debug information.
        if self.out.len() >= LONGEST || context.nesting > DEEPEST {
            self.put_missing("...");
            return;
        }
        if value.is_redacted() {
            self.put_missing(REDACTED);
            return;
        }
        let found = self.stripped(value.type_id);
        if matches!(
            *found,
            Type::Structure {
                declaration: true,
                ..
            }
        ) {
            self.put_missing("<incomplete type>");
            return;
        }
        if let Some(referent) = &value.referent {
            if self.walks.is_some() {
                self.value(referent, context.element());
                return;
            }
            match referent.place {
                Place::Memory(address) => {
                    self.put(&format!("@{address}"));
                    self.record(|recorder| recorder.set(Datum::Address(address.0)));
                }
                _ => self.put_missing("<synthetic pointer>"),
            }
            if context.follow {
                self.put(": ");
                self.record(Recorder::take_back);
                self.value(referent, context.element());
            }
            return;
        }
        if self.walks.is_some() && self.walked(value, context) {
            return;
        }
        let aggregate = matches!(*found, Type::Structure { .. } | Type::Array { .. });
        if !aggregate && let Some(why) = Self::missing(value) {
            self.put_missing(why);
            return;
        }
        let string = matches!(&*found, Type::Array { element, .. } if self.is_textual(*element));
        if aggregate && !string && context.depth >= self.options.depth {
            self.put_missing("{...}");
            return;
        }
        match (self.language, self.walks.is_some()) {
            (Language::Rust, true) => self.debug(value, &found, context),
            (Language::Rust, false) => self.rust(value, &found, context),
            (Language::Go, true) => self.go(value, &found, context),
            (Language::C | Language::Cpp, _) | (Language::Go, false) => {
                self.c(value, &found, context);
            }
        }
    }

    /// C and C++.
    fn c(&mut self, value: &Value, found: &Type, context: Context) {
        match found {
            Type::Array { element, .. } => self.array(value, *element, context, ("{", "}")),
            Type::Structure { .. } => self.structure(value, found, context),
            _ => self.scalar(value, found, context),
        }
    }
}
