//! The symbols of one program, and what other crates ask of them: each answer is made by the file of its subject.

mod code;
mod values;

use std::path::Path;
use std::sync::Arc;

use tracewire_arch::Architecture;
use tracewire_model::{Address, Redactions};

use crate::call_site::TailCalls;
use crate::error::SymbolError;
use crate::indirect::Selected;
use crate::module::{Cache, DebugFileSource, Image, ModuleFile, ModuleId, ModuleInfo, ReadFiles};
use crate::modules::Modules;
use crate::redaction::Redacted;
use crate::resolve::{Resolution, Suggestions};
use crate::type_rules::TypeRules;
use crate::types::{TypeTable, Types};

/// The modules of one program, with lookups by name, line and address. Read lazily and cached; used from one thread at a time.
#[derive(Debug, Default)]
pub struct Symbols {
    modules: Modules,
    /// The types that were read.
    types: TypeTable,
    /// The selections of indirect functions' resolvers.
    selected: Selected,
    tail_calls: TailCalls,
    suggestions: Suggestions,
    /// The rules for types that were given; without any the built-in ones.
    type_rules: Option<Arc<TypeRules>>,
    /// The redacted names and types.
    redacted: Redacted,
}

/// The program: its modules and its settings.
impl Symbols {
    /// No modules yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has the files of modules that are added from now on come from those that were read before, and read for others.
    pub fn read_files_from(&mut self, files: ReadFiles) {
        self.modules.read_files_from(files);
    }

    /// Keeps the names in the debug information of modules that are added from now on in a directory, which is created if needed.
    /// From the second time on, a large module without any of the names looked up is not read.
    pub fn keep_names_in(&mut self, folder: &Path) {
        self.modules.keep_in(Cache::Folder(Arc::from(folder)));
    }

    /// As [`Symbols::keep_names_in`], with the files of such a folder by their names. Nothing is written.
    pub fn take_kept_files(&mut self, files: impl IntoIterator<Item = (String, Vec<u8>)>) {
        let files = files.into_iter().map(|(name, bytes)| (name, bytes.into()));
        self.modules
            .keep_in(Cache::Memory(Arc::new(files.collect())));
    }

    /// Has the debug information of the modules that are added from now on, where it is not on this machine, come from a source.
    pub fn take_debug_files_from(&mut self, source: Arc<dyn DebugFileSource>) {
        self.modules.take_debug_files_from(source);
    }

    /// Adds an ELF file. The first module added is the program itself; libraries follow. `bias` is the difference between its
    /// addresses in memory and in the file: 0 for a program linked to a fixed address or not loaded.
    ///
    /// # Errors
    /// When the file cannot be read or is not an ELF executable or library of a known machine. Damaged debug information is no
    /// error: the readable part is used.
    pub fn add_module(&mut self, path: &Path, bias: u64) -> Result<ModuleId, SymbolError> {
        self.modules.add(path, bias)
    }

    /// Adds an ELF file from its bytes; `path` is its name.
    ///
    /// # Errors
    /// As [`Symbols::add_module`].
    pub fn add_module_bytes(
        &mut self,
        path: &Path,
        bytes: Vec<u8>,
        bias: u64,
    ) -> Result<ModuleId, SymbolError> {
        let image = Image::parse(path, bytes.into())?;
        self.add_file(&ModuleFile::new(image), bias)
    }

    /// Adds an open ELF file; data read from it is shared by everything that it is added to.
    ///
    /// # Errors
    /// When there are too many modules.
    pub fn add_file(&mut self, file: &ModuleFile, bias: u64) -> Result<ModuleId, SymbolError> {
        self.modules.add_file(file, bias)
    }

    /// Removes a module (a library that was closed). Types read from it stay readable. Returns whether it was loaded.
    pub fn remove_module(&mut self, module: ModuleId) -> bool {
        let Some(gone) = self.modules.remove(module) else {
            return false;
        };
        self.selected.forget(gone);
        true
    }

    /// The modules, in the order they were added.
    #[must_use]
    pub fn modules(&self) -> Vec<&ModuleInfo> {
        self.modules.iter().map(|module| &module.info).collect()
    }

    /// One module.
    #[must_use]
    pub fn module(&self, module: ModuleId) -> Option<&ModuleInfo> {
        Some(&self.modules.get(module)?.info)
    }

    /// The module that an address is in.
    #[must_use]
    pub fn module_at(&self, address: Address) -> Option<ModuleId> {
        Some(self.modules.at(address)?.info.id)
    }

    /// The address of a module's ELF symbol.
    #[must_use]
    pub fn symbol_address(&self, module: ModuleId, name: &str) -> Option<Address> {
        let module = self.modules.get(module)?;
        let symbol = module.elf_symbols().named(name).next()?;
        Some(module.biased(symbol.address))
    }

    /// The debug information that a module refers to and that cannot be read ([`ModuleFile::unread_debug_information`]).
    #[must_use]
    pub fn unread_debug_information(&self, module: ModuleId) -> Option<String> {
        self.modules.get(module)?.file().unread_debug_information()
    }

    /// The program's machine: that of the first module, else the one that was set ([`Symbols::set_architecture`]).
    #[must_use]
    pub fn architecture(&self) -> Option<Architecture> {
        self.modules.architecture()
    }

    /// Sets the machine of a program without modules: its byte order and registers count in expressions.
    pub const fn set_architecture(&mut self, machine: Architecture) {
        self.modules.set_architecture(machine);
    }

    /// Reads memory that the program cannot write, from the files: text and constants. Either all the bytes or
    /// none, and then `false`.
    #[must_use]
    pub fn read_only_memory(&self, address: Address, bytes: &mut [u8]) -> bool {
        self.modules.at(address).is_some_and(|module| {
            module
                .image()
                .read_at(module.unbiased(address), bytes, true)
        })
    }

    /// How values of types with certain names are walked: the built-in rules, unless others were given.
    #[must_use]
    pub fn type_rules(&self) -> Arc<TypeRules> {
        match &self.type_rules {
            Some(rules) => Arc::clone(rules),
            None => TypeRules::builtin(),
        }
    }

    /// Gives the rules in whose terms values are collected and shown.
    pub fn set_type_rules(&mut self, rules: Arc<TypeRules>) {
        self.type_rules = Some(rules);
    }

    /// Gives the patterns of names whose values are neither collected nor shown.
    pub fn set_redactions(&mut self, patterns: Arc<Redactions>) {
        self.redacted = Redacted::new(patterns);
    }

    const fn types(&self) -> Types<'_> {
        Types::new(&self.modules, &self.types)
    }

    const fn resolution(&self) -> Resolution<'_> {
        Resolution::new(self.types(), &self.selected, &self.suggestions)
    }
}
