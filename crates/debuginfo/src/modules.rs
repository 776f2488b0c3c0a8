//! The modules of one program and their addresses.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use tracewire_arch::Architecture;
use tracewire_model::Address;

use crate::dwarf::Die;
use crate::dwarf::index::NameKind;
use crate::dwarf::line::names_file;
use crate::error::SymbolError;
use crate::module::{
    Cache, DebugFileSource, ElfSymbolKind, Module, ModuleFile, ModuleId, ReadFiles, code_address,
    demangle,
};
use crate::types::Language;

/// The modules of a program, and how those are read that are added.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// Every module that was ever added, by its number: types read from it remain valid.
    all: Vec<Loaded>,
    /// The loaded ones, in the order in which they were added.
    present: Vec<ModuleId>,
    /// Files that were read: a library that is closed and opened again, or a program that executes itself, is read once.
    files: ReadFiles,
    /// The modules of each file by their biases. One that comes back to its place is the same module.
    places: HashMap<(usize, u64), ModuleId>,
    machine: Option<Architecture>,
    /// Where debug information can be had that is not on this machine.
    debug_files: Option<Arc<dyn DebugFileSource>>,
    /// Where what was read of large modules is kept.
    cache: Option<Cache>,
}

#[derive(Debug)]
struct Loaded {
    module: Module,
    /// Whether it is there.
    present: bool,
}

impl Modules {
    pub(crate) fn read_files_from(&mut self, files: ReadFiles) {
        self.files = files;
    }

    pub(crate) fn keep_in(&mut self, cache: Cache) {
        self.cache = Some(cache);
    }

    pub(crate) fn take_debug_files_from(&mut self, source: Arc<dyn DebugFileSource>) {
        self.debug_files = Some(source);
    }

    /// Reads a file, unless it was read before, and adds it.
    pub(crate) fn add(&mut self, path: &Path, bias: u64) -> Result<ModuleId, SymbolError> {
        let file = self.files.read(path)?;
        self.add_file(&file, bias)
    }

    pub(crate) fn add_file(
        &mut self,
        file: &ModuleFile,
        bias: u64,
    ) -> Result<ModuleId, SymbolError> {
        if let Some(source) = &self.debug_files {
            file.take_debug_files_from(source);
        }
        if let Some(cache) = &self.cache {
            file.keep_in(cache);
        }
        let place = (file.identity(), bias);
        let before = self.places.get(&place).copied();
        let id = match before.and_then(|id| self.all.get_mut(id.0 as usize)) {
            Some(gone) if !gone.present => {
                gone.present = true;
                gone.module.info.id
            }
            _ => {
                let Ok(number) = u32::try_from(self.all.len()) else {
                    return Err(SymbolError::NotUsable {
                        path: file.path().to_owned(),
                        reason: "too many modules".to_owned(),
                    });
                };
                let id = ModuleId(number);
                self.all.push(Loaded {
                    module: Module::new(id, file.clone(), bias),
                    present: true,
                });
                self.places.insert(place, id);
                id
            }
        };
        self.present.push(id);
        Ok(id)
    }

    /// Removes a module, which stays readable; `None` if it is not loaded.
    pub(crate) fn remove(&mut self, module: ModuleId) -> Option<&Module> {
        let place = self.present.iter().position(|id| *id == module)?;
        self.present.remove(place);
        let gone = self.all.get_mut(module.0 as usize)?;
        gone.present = false;
        Some(&gone.module)
    }

    /// A module that is there.
    pub(crate) fn get(&self, module: ModuleId) -> Option<&Module> {
        let loaded = self.all.get(module.0 as usize)?;
        loaded.present.then_some(&loaded.module)
    }

    /// A module, taken out or not.
    pub(crate) fn any(&self, module: ModuleId) -> Option<&Module> {
        Some(&self.all.get(module.0 as usize)?.module)
    }

    /// The loaded modules, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Module> {
        self.present.iter().filter_map(|id| self.any(*id))
    }

    /// The module that an address is in.
    pub(crate) fn at(&self, address: Address) -> Option<&Module> {
        self.iter().find(|module| module.contains(address))
    }

    /// The modules that a name names: `libc.so.6`, `libc`, a path or the end of one.
    pub(crate) fn named(&self, name: &str) -> Vec<&Module> {
        self.iter()
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

    /// The modules, for a message.
    pub(crate) fn searched(&self) -> String {
        let names: Vec<String> = self
            .iter()
            .map(|module| module.info.path.display().to_string())
            .collect();
        match names.as_slice() {
            [] => "any program: none is loaded".to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] if rest.len() == 1 => format!("{first} or one library"),
            [first, rest @ ..] => format!("{first} or its {} libraries", rest.len()),
        }
    }

    /// The program's machine: that of the first module, else the one that was set.
    pub(crate) fn architecture(&self) -> Option<Architecture> {
        let module = self.iter().next();
        module
            .map(|module| module.info.architecture)
            .or(self.machine)
    }

    pub(crate) const fn set_architecture(&mut self, machine: Architecture) {
        self.machine = Some(machine);
    }

    /// The language of the unit that an address is in; without one, of the unit that has `main`, or C.
    pub(crate) fn language_at(&self, pc: Option<Address>) -> Language {
        if let Some(language) = pc.and_then(|pc| self.unit_language(pc)) {
            return language;
        }
        self.main().map_or(Language::C, |(module, main)| {
            module.debug().facts(main.unit).language
        })
    }

    /// The language of the unit that an address is in.
    pub(crate) fn unit_language(&self, pc: Address) -> Option<Language> {
        let module = self.at(pc)?;
        let unit = module.debug().unit_at(module.unbiased(pc))?;
        Some(module.debug().facts(unit).language)
    }

    /// The function `main` of the program, if it has debug information.
    pub(crate) fn main(&self) -> Option<(&Module, Die)> {
        let module = self.iter().next()?;
        let main = module
            .named("main")
            .into_iter()
            .filter(|name| name.kind == NameKind::Function && !name.local)
            // C's `main` has no scope, Rust's is in its crate; others of the name are deeper.
            .min_by_key(|name| module.debug().index().scopes(name).len())?;
        Some((module, main.die()))
    }

    /// The readable name of the ELF symbol that covers an address, and how far into it the address is.
    pub(crate) fn symbol_at(&self, address: Address) -> Option<(String, u64)> {
        let module = self.at(address)?;
        let address = module.unbiased(address);
        let symbol = module.elf_symbol_at(address)?;
        let (name, address) = match symbol.kind {
            ElfSymbolKind::Data => (demangle::readable_with_hash(symbol.name), address),
            _ => (
                demangle::readable(symbol.name),
                code_address(module.info.architecture, address),
            ),
        };
        Some((name, address.wrapping_sub(symbol.address)))
    }

    /// Every source file that has code, as the debug information names it.
    pub(crate) fn source_files(&self) -> Vec<String> {
        let mut files = BTreeSet::new();
        for module in self.iter() {
            let debug = module.debug();
            for unit in 0..debug.unit_count() {
                let lines = debug.lines(unit);
                let with_code = lines.files.iter().filter(|file| !file.entries.is_empty());
                files.extend(with_code.map(|file| file.name.clone()));
            }
        }
        files.into_iter().collect()
    }
}
