//! Queries about code: locations, functions, lines, probes.

use std::path::PathBuf;

use tracewire_model::Address;

use super::Symbols;
use crate::code_place::CodePlace;
use crate::error::LocationError;
use crate::function::{Functions, default_file, source_place};
use crate::indirect::IndirectSlot;
use crate::location::{Function, FunctionPlace, Marker, ResolvedLocation, SourcePlace};
use crate::markers;
use crate::resolve::frame;
use crate::scope::Scope;
use crate::types::Language;

impl Symbols {
    /// The places that a location names, by address; at least one. See the crate's documentation for the forms. `default_file` is
    /// the file of a line number without one. A function is its place after the prologue, as in GDB.
    ///
    /// # Errors
    /// When the location names nothing; [`LocationError::may_come_later`] returns whether a library that is loaded later may have
    /// it.
    pub fn resolve(
        &self,
        location: &str,
        default_file: Option<&str>,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        self.resolve_at(location, default_file, FunctionPlace::AfterPrologue)
    }

    /// As [`Symbols::resolve`], with a choice of where a tracepoint on a function goes.
    ///
    /// # Errors
    /// As [`Symbols::resolve`].
    pub fn resolve_at(
        &self,
        location: &str,
        default_file: Option<&str>,
        place: FunctionPlace,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        self.resolution().places(location, default_file, place)
    }

    /// The functions that a location names, by address; at least one. Inlined copies are not among them: they are not called.
    ///
    /// # Errors
    /// As [`Symbols::resolve`]; and where it names no function, or one that has inlined copies only.
    pub fn functions_named(&self, location: &str) -> Result<Vec<Function>, LocationError> {
        self.resolution().functions(location)
    }

    /// The resolvers of the indirect functions that a location names and that have no known selection.
    #[must_use]
    pub fn unselected(&self, location: &str) -> Vec<Address> {
        let resolvers = self.resolution().indirect_functions(location);
        self.selected.unknown(resolvers)
    }

    /// Where the modules keep what these resolvers select.
    #[must_use]
    pub fn indirect_slots(&self, resolvers: &[Address]) -> Vec<IndirectSlot> {
        IndirectSlot::of(&self.modules, resolvers)
    }

    /// Notes the value of a slot. Returns whether it is the resolver's selection: it is not if the slot is unfilled, or has a
    /// function of another module.
    pub fn select_from(&mut self, slot: &IndirectSlot, value: Address) -> bool {
        slot.is_filled_with(value) && self.select(slot.resolver, value)
    }

    /// Notes a selection of a resolver. Returns whether it is code of the resolver's own module.
    pub fn select(&mut self, resolver: Address, selected: Address) -> bool {
        self.selected.add(&self.modules, resolver, selected)
    }

    /// Every marker of every module.
    #[must_use]
    pub fn markers(&self) -> Vec<Marker> {
        markers::all(&self.modules)
    }

    /// The markers of a name: `PROVIDER:NAME` or `NAME`, also as a pattern (`python:*`, `/^gc/`), with or without `-m`.
    #[must_use]
    pub fn markers_named(&self, name: &str) -> Vec<Marker> {
        markers::named(&self.modules, name)
    }

    /// The marker at an address; the first one where there are several.
    #[must_use]
    pub fn marker_at(&self, address: Address) -> Option<Marker> {
        markers::at(&self.modules, address)
    }

    /// The source place of an address, or of a frame there; `None` when no module has the address or nothing is known of
    /// it.
    #[must_use]
    pub fn place(&self, scope: impl Into<Scope>) -> Option<SourcePlace> {
        let scope = scope.into();
        let mut place = source_place(&self.modules, scope.pc)?;
        // Of a function that has no frame at the address, the function there.
        let level = usize::try_from(scope.level).unwrap_or(usize::MAX);
        for caller in place.callers.drain(..level.min(place.callers.len())) {
            place.function = Some(caller.function).filter(|name| !name.is_empty());
            place.file = caller.file;
            place.line = caller.line;
        }
        Some(place)
    }

    /// The file of the function `main`: GDB's default for a line number without a file.
    #[must_use]
    pub fn default_file(&self) -> Option<String> {
        default_file(&self.modules)
    }

    /// Every source file that has code, as the debug information names it.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        self.modules.source_files()
    }

    /// Where the source file is that the debug information of the code at an address names so, with its directories as far as they are
    /// known.
    #[must_use]
    pub fn source_path(&self, pc: Address, name: &str) -> Option<PathBuf> {
        CodePlace::at(&self.modules, pc)?.source_path(name)
    }

    /// The lines with code of the function itself, in the file that declares it: not those of functions inlined into it.
    #[must_use]
    pub fn lines_of(&self, function: &Function) -> Vec<u64> {
        let module = self.modules.get(function.module);
        module.map_or_else(Vec::new, |module| function.lines(module))
    }

    /// Every function with debug information, and every function symbol without.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        Functions::new(self.types()).all()
    }

    /// The (not inlined) function that an address is in.
    #[must_use]
    pub fn function_at(&self, pc: Address) -> Option<Function> {
        Functions::new(self.types()).at(pc)
    }

    /// Whether an address is that of the first instruction of a (not inlined) function with debug information.
    #[must_use]
    pub fn is_entry(&self, pc: Address) -> bool {
        CodePlace::at(&self.modules, pc).is_some_and(|place| place.at_entry())
    }

    /// Where the function begins that a location names, of whose places this is one; none where it names a line, an
    /// address or an inlined copy.
    #[must_use]
    pub fn entry_of(&self, location: &str, place: &ResolvedLocation) -> Option<Address> {
        let last = location.rsplit(':').next().unwrap_or(location).trim();
        if last.starts_with('*') || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let function = self.function_at(place.address)?;
        let named = place.function.as_ref()?;
        (function.name == *named).then_some(function.entry)
    }

    /// The frame at another address of the function that a frame is of; where the address is not in it, the innermost one.
    #[must_use]
    pub fn same_function(&self, scope: Scope, pc: Address) -> Scope {
        if pc == scope.pc {
            return scope;
        }
        frame::same_function(&self.modules, scope, pc).unwrap_or_else(|| pc.into())
    }

    /// The ELF symbol that covers an address, and how far into it the address is: what GDB shows as
    /// `<symbol+offset>`. C++ and Rust names are demangled.
    #[must_use]
    pub fn symbol_at(&self, address: Address) -> Option<(String, u64)> {
        self.modules.symbol_at(address)
    }

    /// The language of the unit that an address is in; without one, of the unit that has `main`, or C.
    #[must_use]
    pub fn language_at(&self, pc: Option<Address>) -> Language {
        self.modules.language_at(pc)
    }

    /// Whether an address is in a unit of Go. Code that has no debug information is not.
    #[must_use]
    pub fn is_go_code(&self, pc: Address) -> bool {
        self.modules.unit_language(pc) == Some(Language::Go)
    }
}
