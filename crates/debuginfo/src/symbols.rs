//! The set of modules of one program, and everything that is asked of it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracewire_arch::Architecture;
use tracewire_model::Address;

use crate::dwarf::Die;
use crate::dwarf::index::NameKind;
use crate::error::{LocationError, SymbolError};
use crate::frame::{CfaRule, UnwindRow};
use crate::function;
use crate::location::{Function, FunctionPlace, Marker, ResolvedLocation, SourcePlace};
use crate::location_expression::{BaseTypeOffset, LocationExpression, VariableLocation};
use crate::module::demangle;
use crate::module::{
    DebugFileSource, ElfSymbolKind, Image, MarkerNote, Module, ModuleFile, ModuleId, ModuleInfo,
    code_address,
};
use crate::redaction::Redacted;
use crate::resolve::frame;
use crate::resolve::matching::NamePattern;
use crate::scope::{Scope, ScopeVariables};
use crate::type_rules::TypeRules;
use crate::types::table::TypeTable;
use crate::types::{Language, TypeId};

/// The modules of one program: what is where, by name, line and address. Read lazily and cached; used from one
/// thread at a time.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Every module that was ever added, by its number: types read from it stay.
    modules: Vec<Loaded>,
    /// Those that are there, in the order in which they were added.
    present: Vec<ModuleId>,
    /// What was read of files: a library that is closed and opened again, or a program that executes itself, is read once.
    files: ReadFiles,
    /// The modules of each file by their biases. One that comes back to its place is the same module.
    places: HashMap<(usize, u64), ModuleId>,
    machine: Option<Architecture>,
    pub(crate) types: RefCell<TypeTable>,
    /// What the resolvers of indirect functions have selected.
    pub(crate) selected: HashMap<Address, BTreeSet<Address>>,
    /// Of functions, whether jumps in the place of calls may lead from them to themselves.
    pub(crate) jumps_to_itself: RefCell<HashMap<(ModuleId, Die), bool>>,
    /// For how many functions that are not there names close to theirs were looked for.
    suggestions: Cell<u32>,
    /// The rules for types that were given; without any the built-in ones.
    type_rules: Option<Arc<TypeRules>>,
    /// What is not recorded.
    pub(crate) redacted: Redacted,
    /// Where debug information can be had that is not on this machine.
    debug_files: Option<Arc<dyn DebugFileSource>>,
    /// The folder in which the names of large debug information are kept.
    names_folder: Option<Arc<Path>>,
}

/// For how many functions that are not there close names are suggested. Each search compares all names, and nobody reads
/// thousands of suggestions.
const MOST_SUGGESTIONS: u32 = 20;

#[derive(Debug)]
struct Loaded {
    module: Module,
    /// Whether it is there.
    present: bool,
}

/// What tells a file, as it is, from all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct FileIdentity {
    device: u64,
    inode: u64,
    length: u64,
    /// When it was changed last, in seconds and nanoseconds.
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// What was read of files, which may be used for several programs: a file is read again only if it has changed.
#[derive(Clone, Debug, Default)]
pub struct ReadFiles(Arc<Mutex<HashMap<(PathBuf, FileIdentity), ModuleFile>>>);

impl ReadFiles {
    /// Reads a file, unless it was read before.
    ///
    /// # Errors
    /// As [`ModuleFile::read`].
    pub fn read(&self, path: &Path) -> Result<ModuleFile, SymbolError> {
        let key = FileIdentity::of(path).map(|identity| (path.to_owned(), identity));
        let known = key.as_ref().and_then(|key| self.known().get(key).cloned());
        if let Some(file) = known {
            return Ok(file);
        }
        let file = ModuleFile::read(path)?;
        // It may have changed while it was read: then it is read again the next time.
        let key = key.filter(|(path, identity)| FileIdentity::of(path) == Some(*identity));
        Ok(match key {
            // Another thread may have read it meanwhile.
            Some(key) => self.known().entry(key).or_insert(file).clone(),
            None => file,
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(PathBuf, FileIdentity), ModuleFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Symbols {
    /// Has the files of modules that are added from now on come from those that were read before, and read for others.
    pub fn read_files_from(&mut self, files: ReadFiles) {
        self.files = files;
    }

    /// Whether names close to one more that is not there are to be looked for.
    pub(crate) fn may_suggest(&self) -> bool {
        let count = self.suggestions.get();
        self.suggestions.set(count.saturating_add(1));
        count < MOST_SUGGESTIONS
    }

    /// Keeps the names in the debug information of the modules that are added from now on in a folder, which need not be there: from
    /// the second time on, a large module that has none of the names asked for is not read.
    pub fn keep_names_in(&mut self, folder: &Path) {
        self.names_folder = Some(Arc::from(folder));
    }

    /// Has the debug information of the modules that are added from now on, where it is not on this machine, come from a source.
    pub fn take_debug_files_from(&mut self, source: Arc<dyn DebugFileSource>) {
        self.debug_files = Some(source);
    }

    /// No modules yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an ELF file. The first module added is the program itself; libraries follow. `bias` is what the
    /// loader added to the file's addresses: 0 for a program linked to a fixed address or not loaded.
    ///
    /// # Errors
    /// When the file cannot be read or is not an ELF executable or library of a known machine. Damaged debug
    /// information is no error here: what can be read of it is used.
    pub fn add_module(&mut self, path: &Path, bias: u64) -> Result<ModuleId, SymbolError> {
        let file = self.files.read(path)?;
        self.add_file(&file, bias)
    }

    /// Adds an ELF file whose bytes are at hand; `path` is how it is called.
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

    /// Adds an ELF file that is open; what is read of it is read once for all that it is added to.
    ///
    /// # Errors
    /// When there are too many modules.
    pub fn add_file(&mut self, file: &ModuleFile, bias: u64) -> Result<ModuleId, SymbolError> {
        if let Some(source) = &self.debug_files {
            file.take_debug_files_from(source);
        }
        if let Some(folder) = &self.names_folder {
            file.keep_names(folder);
        }
        let place = (file.identity(), bias);
        let before = self.places.get(&place).copied();
        let id = match before.and_then(|id| self.modules.get_mut(id.0 as usize)) {
            Some(gone) if !gone.present => {
                gone.present = true;
                gone.module.info.id
            }
            _ => {
                let Ok(number) = u32::try_from(self.modules.len()) else {
                    return Err(SymbolError::NotUsable {
                        path: file.path().to_owned(),
                        reason: "too many modules".to_owned(),
                    });
                };
                let id = ModuleId(number);
                self.modules.push(Loaded {
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

    /// Takes a module out (a library that was closed). Types read from it stay readable. Whether it was there.
    pub fn remove_module(&mut self, module: ModuleId) -> bool {
        let Some(place) = self.present.iter().position(|id| *id == module) else {
            return false;
        };
        self.present.remove(place);
        if let Some(gone) = self.modules.get_mut(module.0 as usize) {
            gone.present = false;
            let module = &gone.module;
            self.selected
                .retain(|resolver, _| !module.contains(*resolver));
        }
        true
    }

    /// The modules, in the order they were added.
    #[must_use]
    pub fn modules(&self) -> Vec<&ModuleInfo> {
        self.loaded().map(|module| &module.info).collect()
    }

    /// The address of a module's ELF symbol.
    #[must_use]
    pub fn symbol_address(&self, module: ModuleId, name: &str) -> Option<Address> {
        let module = self.module_of(module)?;
        let symbol = module.elf_symbols().named(name).next()?;
        Some(module.biased(symbol.address))
    }

    /// One module.
    #[must_use]
    pub fn module(&self, module: ModuleId) -> Option<&ModuleInfo> {
        Some(&self.module_of(module)?.info)
    }

    /// What debug information a module refers to that cannot be read ([`ModuleFile::unread_debug_information`]).
    #[must_use]
    pub fn unread_debug_information(&self, module: ModuleId) -> Option<String> {
        self.module_of(module)?.file().unread_debug_information()
    }

    pub(crate) fn module_of(&self, module: ModuleId) -> Option<&Module> {
        let loaded = self.modules.get(module.0 as usize)?;
        loaded.present.then_some(&loaded.module)
    }

    /// A module, taken out or not.
    pub(crate) fn any_module(&self, module: ModuleId) -> Option<&Module> {
        Some(&self.modules.get(module.0 as usize)?.module)
    }

    /// The modules that are there.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = &Module> {
        self.present.iter().filter_map(|id| self.any_module(*id))
    }

    /// The module that an address is in.
    pub(crate) fn module_with(&self, address: Address) -> Option<&Module> {
        self.loaded().find(|module| module.contains(address))
    }

    /// The module that an address is in.
    #[must_use]
    pub fn module_at(&self, address: Address) -> Option<ModuleId> {
        Some(self.module_with(address)?.info.id)
    }

    /// The program's machine: the first module's, else the one that was said ([`Symbols::set_architecture`]).
    #[must_use]
    pub fn architecture(&self) -> Option<Architecture> {
        let module = self.loaded().next();
        module
            .map(|module| module.info.architecture)
            .or(self.machine)
    }

    /// Says which machine a program is of that has no modules: its byte order and registers count in expressions.
    pub const fn set_architecture(&mut self, machine: Architecture) {
        self.machine = Some(machine);
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

    /// Reads memory that the program cannot write, from the files: text and constants. Either all the bytes or
    /// none, and then `false`.
    #[must_use]
    pub fn read_only_memory(&self, address: Address, bytes: &mut [u8]) -> bool {
        self.module_with(address).is_some_and(|module| {
            module
                .image()
                .read_at(module.unbiased(address), bytes, true)
        })
    }

    /// The places that a location names, by address; at least one. See the crate's front page for the forms.
    /// `default_file` is the file of a line number alone. A function is its place past the prologue, as in GDB.
    ///
    /// # Errors
    /// When the location names nothing; [`LocationError::may_come_later`] tells whether a library that is opened
    /// later may have it.
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
        self.resolve_location(location, default_file, place)
    }

    /// Every marker of every module.
    #[must_use]
    pub fn markers(&self) -> Vec<Marker> {
        let markers = |module: &Module| {
            let one = |note| marker(module, note);
            module.markers().iter().map(one).collect::<Vec<_>>()
        };
        self.loaded().flat_map(markers).collect()
    }

    /// The markers of a name: `PROVIDER:NAME` or `NAME`, also as a pattern (`python:*`, `/^gc/`), with or without `-m`.
    #[must_use]
    pub fn markers_named(&self, name: &str) -> Vec<Marker> {
        let name = name.strip_prefix("-m ").map_or(name, str::trim);
        let pattern = NamePattern::parse(name).and_then(Result::ok);
        let is_it = |marker: &Marker| {
            let full = format!("{}:{}", marker.provider, marker.name);
            match &pattern {
                Some(pattern) => pattern.matches(&full) || pattern.matches(&marker.name),
                None => name == full || name == marker.name,
            }
        };
        let mut markers = self.markers();
        markers.retain(is_it);
        markers
    }

    /// The marker at an address; the first one where there are several.
    #[must_use]
    pub fn marker_at(&self, address: Address) -> Option<Marker> {
        let module = self.module_with(address)?;
        let is_there = |note: &&MarkerNote| module.biased(note.address) == address;
        let note = module.markers().iter().find(is_there)?;
        Some(marker(module, note))
    }

    /// The source place of an address, or of a frame there; `None` when no module has the address or nothing is known of
    /// it.
    #[must_use]
    pub fn place(&self, scope: impl Into<Scope>) -> Option<SourcePlace> {
        let scope = scope.into();
        let mut place = self.read_place(scope.pc)?;
        // Of a function that has no frame at the address, the function there.
        let level = usize::try_from(scope.level).unwrap_or(usize::MAX);
        for caller in place.callers.drain(..level.min(place.callers.len())) {
            place.function = Some(caller.function).filter(|name| !name.is_empty());
            place.file = caller.file;
            place.line = caller.line;
        }
        Some(place)
    }

    /// The file of the function `main`: GDB's default for a line number alone.
    #[must_use]
    pub fn default_file(&self) -> Option<String> {
        let main = self.main()?;
        let (file, _) = function::declared_at(main.0.debug(), main.1);
        file
    }

    /// The arguments and local variables of a frame; at an address, of its innermost one.
    #[must_use]
    pub fn variables_at(&self, scope: impl Into<Scope>) -> ScopeVariables {
        self.read_variables(scope.into())
    }

    /// The frame at another address of the function that a frame is of; where the address is not in it, the innermost one.
    #[must_use]
    pub fn same_function(&self, scope: Scope, pc: Address) -> Scope {
        if pc == scope.pc {
            return scope;
        }
        frame::same_function(self, scope, pc).unwrap_or_else(|| pc.into())
    }

    /// The expression that gives the frame base of the function at `pc` (`DW_AT_frame_base`; resolved at `pc` if
    /// it is a list), for `DW_OP_fbreg`.
    #[must_use]
    pub fn frame_base(&self, pc: Address) -> Option<LocationExpression> {
        self.read_frame_base(pc)
    }

    /// The rule for the canonical frame address at `pc`, for `DW_OP_call_frame_cfa`.
    #[must_use]
    pub fn cfa(&self, pc: Address) -> Option<CfaRule> {
        Some(self.unwind(pc)?.cfa)
    }

    /// The rules to find the caller's frame from `pc`.
    #[must_use]
    pub fn unwind(&self, pc: Address) -> Option<UnwindRow> {
        let module = self.module_with(pc)?;
        module
            .frames()
            .row(module.info.id, module.info.bias, module.unbiased(pc))
    }

    /// The base type that a typed operation of an expression names.
    #[must_use]
    pub fn base_type_at(
        &self,
        expression: &LocationExpression,
        offset: BaseTypeOffset,
    ) -> Option<TypeId> {
        let module = self.any_module(expression.module)?;
        let unit = expression.unit?;
        Some(self.type_id(module, Die { unit, offset }))
    }

    /// The object that a `DW_OP_implicit_pointer` of an expression points to: the variable it names, with its
    /// location at `pc`, or the procedure's expression for the operand of a `DW_OP_call`.
    #[must_use]
    pub fn implicit_pointer_target(
        &self,
        expression: &LocationExpression,
        target: gimli::DebugInfoOffset<usize>,
        pc: Address,
    ) -> Option<(TypeId, VariableLocation)> {
        self.read_referred(expression, target, pc)
    }

    /// Every function with debug information, and every function symbol without.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        self.read_functions()
    }

    /// Where the function begins that a location names, of whose places this is one; none where it names a line, an
    /// address or an inlined copy.
    #[must_use]
    pub fn entry_of(&self, location: &str, place: &ResolvedLocation) -> Option<Address> {
        let last = location.rsplit(':').next().unwrap_or(location).trim();
        if last.starts_with('*') || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let function = self.read_function_at(place.address)?;
        let named = place.function.as_ref()?;
        (function.name == *named).then_some(function.entry)
    }

    /// Whether an address is that of the first instruction of a (not inlined) function with debug information.
    #[must_use]
    pub fn is_entry(&self, pc: Address) -> bool {
        self.code_at(pc).is_some_and(|place| place.at_entry())
    }

    /// The (not inlined) function that an address is in.
    #[must_use]
    pub fn function_at(&self, pc: Address) -> Option<Function> {
        self.read_function_at(pc)
    }

    /// The ELF symbol that covers an address, and how far into it the address is: what GDB shows as
    /// `<symbol+offset>`. C++ and Rust names are demangled.
    #[must_use]
    pub fn symbol_at(&self, address: Address) -> Option<(String, u64)> {
        let module = self.module_with(address)?;
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

    /// The language of the unit that an address is in; without one, of the unit that has `main`, or C.
    #[must_use]
    pub fn language_at(&self, pc: Option<Address>) -> Language {
        if let Some(module) = pc.and_then(|pc| self.module_with(pc))
            && let Some(pc) = pc
            && let Some(unit) = module.debug().unit_at(module.unbiased(pc))
        {
            return module.debug().facts(unit).language;
        }
        self.main().map_or(Language::C, |(module, main)| {
            module.debug().facts(main.unit).language
        })
    }

    /// The function `main` of the program, if it has debug information.
    pub(crate) fn main(&self) -> Option<(&Module, Die)> {
        let module = self.loaded().next()?;
        let main = module
            .named("main")
            .into_iter()
            .filter(|name| name.kind == NameKind::Function && !name.local)
            // C's `main` is alone, Rust's in its crate; others of the name are deeper.
            .min_by_key(|name| module.debug().index().scopes(name).len())?;
        Some((module, main.die()))
    }

    /// Every source file that has code, as the debug information names it.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        let mut files = std::collections::BTreeSet::new();
        for module in self.loaded() {
            let debug = module.debug();
            for unit in 0..debug.unit_count() {
                let lines = debug.lines(unit);
                files.extend(
                    lines
                        .files
                        .iter()
                        .filter(|file| !file.entries.is_empty())
                        .map(|file| file.name.clone()),
                );
            }
        }
        files.into_iter().collect()
    }
}

fn marker(module: &Module, note: &MarkerNote) -> Marker {
    Marker {
        provider: note.provider.clone(),
        name: note.name.clone(),
        address: module.biased(note.address),
        arguments: note.arguments.clone(),
        semaphore: note.semaphore.map(|address| module.biased(address)),
        module: module.info.id,
    }
}

/// The upper bound of a variable-length array.
#[derive(Clone, Debug)]
pub enum ArrayBound {
    /// The last index, as a number.
    Last(i64),
    /// Where the last index is found, and its type.
    LastAt(VariableLocation, TypeId),
    /// The expression leaves the last index itself, not its place.
    LastIs(LocationExpression),
    /// The expression leaves the number of elements itself, not its place.
    CountIs(LocationExpression),
    /// Where the number of elements is found, and its type.
    CountAt(VariableLocation, TypeId),
}
