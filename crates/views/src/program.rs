//! The program after a trace file: its symbols, found by the file's module lines or named by the user.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracewire_debuginfo::{
    DebugFileSource, FunctionPlace, LocationError, ModuleFile, SymbolError, Symbols, TypeRules,
};
use tracewire_model::{Address, hex};
use tracewire_tracefile::{Module, TraceFile};

use crate::architecture::architecture_of;

/// How many modules are used, those of all epochs counted.
const MOST_MODULES: usize = 10_000;

/// The symbols of the program that a trace file was made from.
#[derive(Debug)]
pub struct Program {
    /// One for all times, unless modules were at the same addresses at different times (a program that became another one). In
    /// order of time, never empty.
    epochs: Vec<Epoch>,
    /// Messages for the user: files that are missing, or that are not the traced ones.
    pub notes: Vec<String>,
    files: ProgramFiles,
}

/// The paths of a program's files, in addition to those in the trace file.
#[derive(Clone, Debug, Default)]
pub struct ProgramFiles {
    /// Each file replaces the module with its build id, else the one with its name, else the program itself. A directory has the
    /// files of modules at their own paths, as a container's root has, or by their names.
    pub named: Vec<PathBuf>,
    /// Where debug information can be had that is not on this machine.
    pub debug_files: Option<Arc<dyn DebugFileSource>>,
    /// Files that were read, once for all trace files of a run.
    pub read: ReadFiles,
}

/// Files that were read, by their names.
#[derive(Clone, Debug, Default)]
pub struct ReadFiles(Arc<Mutex<HashMap<PathBuf, ModuleFile>>>);

impl ProgramFiles {
    fn read(&self, path: &Path) -> Result<ModuleFile, SymbolError> {
        let mut known = self.read.0.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match known.get(path) {
            Some(file) => return Ok(file.clone()),
            None => ModuleFile::read(path)?,
        };
        known.insert(path.to_owned(), file.clone());
        if let Some(source) = &self.debug_files {
            file.take_debug_files_from(source);
        }
        Ok(file)
    }
}

/// The modules that were there from a time on, in microseconds, to the next epoch.
#[derive(Debug, Default)]
struct Epoch {
    from: u64,
    symbols: Symbols,
}

/// An unknown program.
impl Default for Program {
    fn default() -> Self {
        Self {
            epochs: vec![Epoch::default()],
            notes: Vec::new(),
            files: ProgramFiles::default(),
        }
    }
}

/// A file that the user named and that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is no usable ELF file.
    #[error(transparent)]
    Symbols(#[from] tracewire_debuginfo::SymbolError),
    /// It is not what was traced.
    #[error(
        "{} is not the file that was traced: its build id is {found}, and the trace file says {expected} for {}",
        path.display(), traced.display()
    )]
    BuildId {
        /// The file named.
        path: PathBuf,
        /// Its build id in hexadecimal, or `none`.
        found: String,
        /// The traced file's build id.
        expected: String,
        /// The traced file.
        traced: PathBuf,
    },
}

impl Program {
    /// Finds the program and the libraries. The `named` files come first: each takes the place of the module with
    /// its build id, else with its name, else of the program itself. The other modules are read from the `named` directories, or from
    /// where they were, if their build ids are right.
    ///
    /// # Errors
    /// When a file that was named cannot be used.
    pub fn of(file: &TraceFile, named: &[PathBuf]) -> Result<Self, ProgramError> {
        let files = ProgramFiles {
            named: named.to_owned(),
            ..ProgramFiles::default()
        };
        Self::with_files(file, files)
    }

    /// As [`Program::of`], with a choice of where debug information comes from.
    ///
    /// # Errors
    /// As [`Program::of`].
    pub fn with_files(file: &TraceFile, program_files: ProgramFiles) -> Result<Self, ProgramError> {
        let mut program = Self {
            files: program_files.clone(),
            ..Self::default()
        };
        let modules = file.description().modules();
        let declared = modules.len();
        let modules = modules.get(..MOST_MODULES).unwrap_or(modules);
        if declared > modules.len() {
            program.notes.push(format!(
                "the trace file has {declared} modules; the symbols of the first {MOST_MODULES} are used"
            ));
        }
        let mut files: Vec<Option<ModuleFile>> = vec![None; modules.len()];
        let (directories, named) = by_kind(&program_files.named, modules);
        for path in named {
            let named = program_files.read(path)?;
            if modules.is_empty() {
                let bias = named_bias(file, &named)?;
                if let Some(epoch) = program.epochs.first_mut() {
                    epoch.symbols.add_file(&named, bias)?;
                }
                continue;
            }
            let place = place_of(&named, modules);
            if let (Some(module), Some(slot)) = (modules.get(place), files.get_mut(place)) {
                check_build_id(&named, module)?;
                *slot = Some(named);
            }
        }
        let mut usable = Vec::new();
        // A file that was at several places is read once, also if it has several paths.
        let mut own_files: HashMap<PathBuf, Option<ModuleFile>> = HashMap::new();
        for (module, named) in modules.iter().zip(files) {
            let own = module_path(module);
            let copied = || file_in(&directories, module, &program_files);
            match named.or_else(copied) {
                Some(named) => usable.push((module, named)),
                // The kernel's own module has no file.
                None if !own.is_absolute() => {}
                None => {
                    let real = own.canonicalize().unwrap_or_else(|_| own.clone());
                    let found = own_files.entry(real).or_insert_with(|| {
                        program_files
                            .read(&own)
                            .map_err(|error| program.note(error))
                            .ok()
                    });
                    let Some(found) = found else { continue };
                    match check_build_id(found, module) {
                        Ok(()) => usable.push((module, found.clone())),
                        Err(error) => program.note(error),
                    }
                }
            }
        }
        let redactions = Arc::new(file.description().redactions().clone());
        for (_, file) in &usable {
            program.notes.extend(file.unread_debug_information());
        }
        if !usable.is_empty() {
            program.add_epochs(&usable)?;
        }
        if let Some(machine) = architecture_of(file) {
            for epoch in &mut program.epochs {
                epoch.symbols.set_architecture(machine);
            }
        }
        if !redactions.is_empty() {
            for epoch in &mut program.epochs {
                epoch.symbols.set_redactions(Arc::clone(&redactions));
            }
        }
        Ok(program)
    }

    /// Puts modules into as few sets as can be: one, where no two of them share an address.
    fn add_epochs(&mut self, modules: &[(&Module, ModuleFile)]) -> Result<(), ProgramError> {
        let clash = do_overlap(modules.iter().map(|(module, _)| *module));
        let mut times = vec![0];
        if clash {
            times.extend(
                modules
                    .iter()
                    .flat_map(|(module, _)| [module.loaded, module.unloaded]),
            );
            times.sort_unstable();
            times.dedup();
        }
        self.epochs.clear();
        let mut room = MOST_MODULES;
        for from in times {
            let mut symbols = Symbols::new();
            let here = modules.iter().filter(|(module, _)| {
                !clash || module.loaded <= from && (module.unloaded == 0 || from < module.unloaded)
            });
            // An epoch of no modules takes room too.
            let taken = here.clone().count().max(1);
            if taken > room {
                self.notes.push(format!(
                    "modules came and went too often; no symbols are used from {from} µs on"
                ));
                self.epochs.push(Epoch { from, symbols });
                break;
            }
            room -= taken;
            for (module, file) in here {
                symbols.add_file(file, module.bias)?;
            }
            self.epochs.push(Epoch { from, symbols });
        }
        Ok(())
    }

    /// Sets the rules by which values are shown; without rules they are shown by their members.
    pub fn set_type_rules(&mut self, rules: &Arc<TypeRules>) {
        for epoch in &mut self.epochs {
            epoch.symbols.set_type_rules(Arc::clone(rules));
        }
    }

    /// From which files it was read.
    #[must_use]
    pub const fn program_files(&self) -> &ProgramFiles {
        &self.files
    }

    /// The rules by which values are shown.
    #[must_use]
    pub fn type_rules(&self) -> Arc<TypeRules> {
        self.symbols(None).type_rules()
    }

    fn note(&mut self, error: impl std::fmt::Display) {
        self.notes.push(format!(
            "{error}; its symbols are not used: name the file, or a copy of it, with --elf"
        ));
    }

    /// The symbols as they were at a time in microseconds; without one, at the start.
    #[must_use]
    pub fn symbols(&self, time: Option<u64>) -> &Symbols {
        let time = time.unwrap_or(0);
        let later = self.epochs.partition_point(|epoch| epoch.from <= time);
        let index = later.saturating_sub(1);
        // There is one epoch at least: see the field.
        &self.epochs[index].symbols
    }

    /// The addresses of a location, in the program and in what it became by exec: for a function its start, and the address where
    /// GDB puts a tracepoint on it.
    ///
    /// # Errors
    /// When it has none in any of them.
    pub fn code_places(&self, location: &str) -> Result<Vec<Address>, LocationError> {
        let mut places = BTreeSet::new();
        let mut failed = None;
        for epoch in &self.epochs {
            match epoch.symbols.resolve(location, None) {
                Ok(found) => {
                    for place in found {
                        places.insert(place.address);
                        places.extend(epoch.symbols.entry_of(location, &place));
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if places.is_empty() => Err(error),
            _ => Ok(places.into_iter().collect()),
        }
    }

    /// Whether no two modules were at the same address at different times, so that an address means the same at all times.
    #[must_use]
    pub const fn is_at_all_times(&self) -> bool {
        self.epochs.len() == 1
    }

    /// Whether nothing is known of the program.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.epochs
            .iter()
            .all(|epoch| epoch.symbols.modules().is_empty())
    }

    /// Every source file of the program, once and in order.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        let of_all = self.epochs.iter().flat_map(|epoch| epoch.symbols.files());
        let once: BTreeSet<String> = of_all.collect();
        once.into_iter().collect()
    }
}

/// Whether two of the modules share an address.
fn do_overlap<'m>(modules: impl Iterator<Item = &'m Module>) -> bool {
    let mut ranges: Vec<_> = modules
        .map(|module| (module.start, module.end))
        .filter(|(start, end)| start < end)
        .collect();
    ranges.sort_unstable();
    // Where none overlap, each ends before the next begins.
    ranges.windows(2).any(|pair| match pair {
        [(_, end), (next, _)] => next < end,
        _ => false,
    })
}

/// The file a module was loaded from.
pub(crate) fn module_path(module: &Module) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(&module.path))
}

/// The index of the module that a file replaces.
fn place_of(file: &ModuleFile, modules: &[Module]) -> usize {
    let same_build =
        |module: &Module| !module.build_id.is_empty() && file.build_id() == Some(&module.build_id);
    let same_name = |module: &Module| module_path(module).file_name() == file.path().file_name();
    modules
        .iter()
        .position(same_build)
        .or_else(|| modules.iter().position(same_name))
        .unwrap_or(0)
}

/// The user's paths: directories, if the modules that may be in them are known, and files.
pub(crate) fn by_kind<'n>(
    named: &'n [PathBuf],
    modules: &[Module],
) -> (Vec<&'n Path>, Vec<&'n Path>) {
    let paths = named.iter().map(PathBuf::as_path);
    paths.partition(|path| !modules.is_empty() && path.is_dir())
}

/// The file of a module in one of several directories: at its own path, or by its name.
pub(crate) fn file_in(
    directories: &[&Path],
    module: &Module,
    files: &ProgramFiles,
) -> Option<ModuleFile> {
    let own = module_path(module);
    let inside = own.strip_prefix("/").ok()?;
    let name = Path::new(own.file_name()?);
    let mut found = directories
        .iter()
        .flat_map(|directory| [directory.join(inside), directory.join(name)])
        .filter(|path| path.is_file())
        // One that cannot be read is not the one that was traced.
        .filter_map(|path| files.read(&path).ok());
    found.find(|file| check_build_id(file, module).is_ok())
}

pub(crate) fn check_build_id(file: &ModuleFile, module: &Module) -> Result<(), ProgramError> {
    let found = file.build_id().unwrap_or_default();
    if module.build_id.is_empty() || found == module.build_id {
        return Ok(());
    }
    Err(ProgramError::BuildId {
        path: file.path().to_owned(),
        found: if found.is_empty() {
            "none".to_owned()
        } else {
            hex::text(found)
        },
        expected: hex::text(&module.build_id),
        traced: module_path(module),
    })
}

/// Where a file was loaded that the user named for a trace file which does not say.
pub(crate) fn named_bias(file: &TraceFile, program: &ModuleFile) -> Result<u64, ProgramError> {
    if program.is_relocatable() {
        infer_bias(file, program)
    } else {
        Ok(0)
    }
}

/// Where a position-independent program was loaded, for a file that does not say: the tracepoints' locations,
/// looked up in the program, against the addresses they were set at. A tracepoint that names a place which the
/// program has several times settles nothing.
fn infer_bias(file: &TraceFile, program: &ModuleFile) -> Result<u64, ProgramError> {
    let mut symbols = Symbols::new();
    symbols.add_file(program, 0)?;
    let default_file = symbols.default_file();
    let mut found: Vec<(u64, usize)> = Vec::new();
    for tracepoint in file.description().tracepoints() {
        let definition = &tracepoint.definition;
        let Some(at) = definition.source.location() else {
            continue;
        };
        let place = FunctionPlace::default();
        let Ok(locations) = symbols.resolve_at(&at, default_file.as_deref(), place) else {
            continue;
        };
        for location in locations {
            let bias = definition.address.0.wrapping_sub(location.address.0);
            if bias.is_multiple_of(PAGE) {
                match found.iter_mut().find(|(known, _)| *known == bias) {
                    Some((_, votes)) => *votes += 1,
                    None => found.push((bias, 1)),
                }
            }
        }
    }
    found.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
    if let Some((bias, _)) = found.first() {
        return Ok(*bias);
    }
    // Where the kernel loads such a program when a debugger has it switch address randomisation off.
    let standard = Address(STANDARD_BIAS)..Address(STANDARD_BIAS + (1 << 32));
    let standard = file
        .description()
        .tracepoints()
        .iter()
        .any(|tracepoint| standard.contains(&tracepoint.definition.address));
    Ok(if standard { STANDARD_BIAS } else { 0 })
}

/// The least that a loader shifts a program by.
const PAGE: u64 = 0x1000;

/// Linux on x86-64 without address randomisation.
const STANDARD_BIAS: u64 = 0x5555_5555_4000;
