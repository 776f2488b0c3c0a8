//! Locations: text in, places in the program out.

mod called;
pub(crate) mod code;
pub(crate) mod frame;
pub(crate) mod function;
pub(crate) mod line;
pub(crate) mod matching;
pub(crate) mod name_pattern;
mod parse;
pub(crate) mod place;
mod prologue;
mod readable;
mod signature;
mod suggestions;

pub(crate) use suggestions::Suggestions;

use tracewire_model::Address;

use crate::code_place::CodePlace;
use crate::dwarf::name::Pattern;
use crate::error::LocationError;
use crate::function::{self as functions, source_place};
use crate::indirect::Selected;
use crate::location::{FunctionPlace, ResolvedLocation};
use crate::lookup::Lookup;
use crate::markers;
use crate::module::{ElfSymbolKind, Module};
use crate::modules::Modules;
use crate::types::Types;
use parse::{AddressForm, Form};

/// Whether a location is a pattern of names: wildcards, or a regular expression.
#[must_use]
pub fn is_pattern(location: &str) -> bool {
    matches!(parse::parse(location), Ok(Form::Pattern { .. }))
}

/// Whether a location names functions, and not lines, addresses or probes.
#[must_use]
pub fn names_functions(location: &str) -> bool {
    matches!(
        parse::parse(location),
        Ok(Form::Pattern { .. } | Form::Function { .. } | Form::FileFunction(..))
    )
}

/// Finds the places that locations name.
pub(crate) struct Resolution<'a> {
    types: Types<'a>,
    modules: &'a Modules,
    selected: &'a Selected,
    suggestions: &'a Suggestions,
}

impl<'a> Resolution<'a> {
    pub(crate) const fn new(
        types: Types<'a>,
        selected: &'a Selected,
        suggestions: &'a Suggestions,
    ) -> Self {
        Self {
            types,
            modules: types.modules(),
            selected,
            suggestions,
        }
    }

    /// The places that a location names, by address; at least one.
    pub(crate) fn places(
        &self,
        location: &str,
        default_file: Option<&str>,
        place: FunctionPlace,
    ) -> Result<Vec<ResolvedLocation>, LocationError> {
        let mut found = match parse::parse(location)? {
            Form::Address(form) => vec![self.resolve_address(location, form)?],
            Form::Marker(name) => self.resolve_marker(&name)?,
            Form::Line(line) => {
                let own = match default_file {
                    Some(file) => Some(file.to_owned()),
                    None => functions::default_file(self.modules),
                };
                let file = own.ok_or(LocationError::NoDefaultFile { line })?;
                self.resolve_line(&file, line)?
            }
            Form::FileLine(file, line) => match self.resolve_line(&file, line) {
                // `FUNCTION:LINE` is a line of the function's file.
                Err(LocationError::NoFile { .. }) if self.file_of_function(&file).is_some() => {
                    let file = self.file_of_function(&file).unwrap_or(file);
                    self.resolve_line(&file, line)?
                }
                other => other?,
            },
            Form::FileFunction(file, function) => match self.resolve_in_file(&file, &function) {
                Err(LocationError::NoFile { .. }) if !self.modules.named(&file).is_empty() => {
                    self.resolve_in_modules(&self.modules.named(&file), &function)?
                }
                other => other?,
            },
            Form::Pattern { within, pattern } => {
                self.resolve_pattern(within.as_deref(), &pattern)?
            }
            Form::Function { name, whole } => self.resolve_function(&name, whole)?,
        };
        if names_functions(location) {
            self.settle(&mut found, location, place);
        }
        found.sort_by_key(|location| location.address);
        found.dedup_by_key(|location| location.address);
        Ok(found)
    }

    /// The resolvers of the indirect functions that a location may name.
    pub(crate) fn indirect_functions(&self, location: &str) -> Vec<Address> {
        let of_module = |module: &Module, name: &str| {
            let functions = module.indirect_functions(name);
            let resolvers = functions.iter().map(|symbol| module.biased(symbol.address));
            resolvers.collect::<Vec<_>>()
        };
        match parse::parse(location) {
            Ok(Form::Function { name, .. }) => self
                .modules
                .iter()
                .flat_map(|module| of_module(module, name.trim_start_matches("::")))
                .collect(),
            Ok(Form::FileFunction(file, name)) => (self.modules.named(&file).into_iter())
                .flat_map(|module| of_module(module, &name))
                .collect(),
            Ok(Form::Pattern { within, pattern }) => {
                let Ok(place) = self.places_named(within.as_deref()) else {
                    return Vec::new();
                };
                let mut found = Vec::new();
                for module in place.modules.iter().filter(|_| place.file.is_none()) {
                    let names: std::collections::BTreeSet<&str> = (module.elf_symbols().iter())
                        .filter(|symbol| symbol.kind == ElfSymbolKind::IndirectFunction)
                        .map(|symbol| symbol.name)
                        .filter(|name| pattern.matches(name))
                        .collect();
                    found.extend(names.into_iter().flat_map(|name| of_module(module, name)));
                }
                found
            }
            _ => Vec::new(),
        }
    }

    /// `*0x1234`, `*main+4`, `*&main`.
    fn resolve_address(
        &self,
        location: &str,
        form: AddressForm,
    ) -> Result<ResolvedLocation, LocationError> {
        let of_function = matches!(form.base, parse::AddressBase::Name(_));
        let base = match form.base {
            parse::AddressBase::Number(number) => number,
            parse::AddressBase::Name(name) => match Lookup::new(self.types, None).function(&name) {
                Some((address, _)) => address.0,
                None => {
                    return Err(match self.resolve_function(&name, false) {
                        Err(error) => error,
                        // Only inlined copies: they have no one address.
                        Ok(_) => LocationError::Syntax {
                            location: location.to_owned(),
                            reason: format!("`{name}` has no address of its own"),
                        },
                    });
                }
            },
        };
        let mut located = self.located(Address(base.wrapping_add_signed(form.offset)));
        // `*f+4` is a place of `f`, even if another function is inlined there.
        if of_function
            && let Some(place) = CodePlace::at(self.modules, located.address)
            && place
                .function()
                .map(|function| place.module.biased(function.entry()))
                == Some(Address(base))
        {
            located.level = frame::outermost(place.module, place.address);
        }
        Ok(located)
    }

    /// An address as a location, with its source position.
    fn located(&self, address: Address) -> ResolvedLocation {
        let place = source_place(self.modules, address);
        ResolvedLocation {
            address,
            function: place.as_ref().and_then(|place| place.function.clone()),
            level: 0,
            file: place.as_ref().and_then(|place| place.file.clone()),
            line: place.as_ref().map_or(0, |place| place.line),
            module: place.map_or_else(
                || {
                    let module = self.modules.at(address);
                    module.map_or(crate::ModuleId(0), |module| module.info.id)
                },
                |place| place.module,
            ),
            known_to_gdb: true,
            selected_for: None,
            marker: None,
            elsewhere_in_gdb: false,
        }
    }

    /// `provider:name`, or a name of any provider.
    fn resolve_marker(&self, wanted: &str) -> Result<Vec<ResolvedLocation>, LocationError> {
        let all = markers::all(self.modules);
        let (provider, name) = match wanted.rsplit_once([':', '/']) {
            Some((provider, name)) => (Some(provider), name),
            None => (None, wanted),
        };
        // `objfile:provider:name` is GDB's; the file is compared by its last part.
        let (file, provider) = match provider.and_then(|text| text.rsplit_once(':')) {
            Some((file, provider)) => (Some(file), Some(provider)),
            None => (None, provider),
        };
        let of_file = |module| {
            file.is_none_or(|file| {
                self.modules
                    .get(module)
                    .is_some_and(|module| module.info.path.ends_with(file))
            })
        };
        let found: Vec<ResolvedLocation> = all
            .iter()
            .filter(|marker| {
                marker.name == name
                    && provider.is_none_or(|provider| marker.provider == provider)
                    && of_file(marker.module)
            })
            .map(|marker| ResolvedLocation {
                marker: Some(Box::new(marker.clone())),
                ..self.located(marker.address)
            })
            .collect();
        if found.is_empty() {
            let names = all
                .iter()
                .map(|marker| format!("{}:{}", marker.provider, marker.name));
            return Err(LocationError::NoMarker {
                name: wanted.to_owned(),
                searched: self.modules.searched(),
                near: function::best(names.filter_map(|full| {
                    let short = full.rsplit(':').next().unwrap_or(&full).to_owned();
                    let nearness = crate::dwarf::nearness(wanted, &full)
                        .or_else(|| crate::dwarf::nearness(name, &short))?;
                    Some((nearness, full))
                })),
            });
        }
        Ok(found)
    }

    fn file_of_function(&self, name: &str) -> Option<String> {
        let pattern = Pattern::new(name);
        self.modules.iter().find_map(|module| {
            module.named(pattern.base()).into_iter().find_map(|found| {
                let debug = module.debug();
                let function = found.kind == crate::dwarf::index::NameKind::Function
                    && pattern.matches(&debug.index().qualified(debug, &found));
                if !function {
                    return None;
                }
                functions::declared_at(debug, found.die()).0
            })
        })
    }
}
