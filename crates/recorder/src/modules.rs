//! The program and its libraries as they come and go, with their symbols.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tracewire_debuginfo::{ModuleId, Symbols};
use tracewire_model::Address;
use tracewire_target_linux::{Module as LoadedModule, ModuleKind};
use tracewire_tracefile::Module;

use crate::observer::Warning;

/// A function that a module has which brings LeakSanitizer.
const LEAK_CHECK: &str = "__lsan_do_leak_check";

/// Every module that was there during the run.
#[derive(Debug, Default)]
pub struct Modules {
    /// Those that went, each with the number by which it came.
    past: Vec<(usize, Module)>,
    here: Vec<Known>,
    /// How many have come.
    count: usize,
    symbols: Symbols,
}

/// A module that is there.
#[derive(Clone, Debug)]
struct Known {
    /// By which it came.
    number: usize,
    module: Module,
    /// Its symbols; none for one whose file cannot be read.
    id: Option<ModuleId>,
}

/// What an update found.
#[derive(Debug, Default)]
pub struct Change {
    /// Whether a module came.
    pub came: bool,
    /// The address ranges of modules that went.
    pub gone: Vec<(Address, Address)>,
    /// What of a module that came cannot be read.
    pub warnings: Vec<Warning>,
}

impl Modules {
    /// The symbols of the modules that are there.
    pub const fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The same, to be given what the program has selected.
    pub const fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.symbols
    }

    /// Every module of the run, in the order in which they came.
    pub fn all(&self) -> Vec<Module> {
        let here = self.here.iter().map(|known| (known.number, &known.module));
        let past = self.past.iter().map(|(number, module)| (*number, module));
        let mut all: Vec<(usize, &Module)> = past.chain(here).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, module)| module.clone()).collect()
    }

    /// Takes out the modules that are there, with their symbols, for work in another thread. What stays names them all.
    pub fn take_present(&mut self) -> Self {
        let unread = self
            .here
            .iter()
            .cloned()
            .map(|known| Known { id: None, ..known });
        let unread = unread.collect();
        Self {
            past: Vec::new(),
            here: std::mem::replace(&mut self.here, unread),
            count: self.count,
            symbols: std::mem::take(&mut self.symbols),
        }
    }

    /// Puts back what [`take_present`](Self::take_present) took out, and what has come and gone since. A module that has come
    /// back to its place is the one that it was: a library that is loaded a thousand times is there once.
    pub fn put_back(&mut self, present: Self) {
        let before = self.count;
        self.past.extend(present.past);
        self.here = present.here;
        self.count = present.count;
        self.symbols = present.symbols;
        for known in self.here.iter_mut().filter(|known| known.number >= before) {
            if let Some((number, module)) = take_same(&mut self.past, &known.module) {
                known.number = number;
                known.module.loaded = module.loaded;
            }
        }
    }

    /// Whether the program can load libraries: it has an interpreter.
    pub fn is_dynamic(&self) -> bool {
        let modules = self.symbols.modules();
        modules
            .first()
            .is_some_and(|module| module.interpreter.is_some())
    }

    /// Takes note of the modules there are now. `now` is the time, 0 at the start of the run.
    pub fn update(&mut self, loaded: &[LoadedModule], now: u64) -> Change {
        let mut change = Change::default();
        let gone = self
            .here
            .extract_if(.., |known| !loaded.iter().any(|loaded| known.is(loaded)));
        for mut known in gone {
            known.module.unloaded = now;
            if let Some(id) = known.id {
                self.symbols.remove_module(id);
            }
            change.gone.push((known.module.start, known.module.end));
            self.past.push((known.number, known.module));
        }
        for loaded in loaded {
            if !self.here.iter().any(|known| known.is(loaded)) {
                change.came = true;
                self.add(loaded, now, &mut change.warnings);
            }
        }
        change
    }

    fn add(&mut self, loaded: &LoadedModule, now: u64, warnings: &mut Vec<Warning>) {
        match Whereabouts::of(loaded) {
            Whereabouts::Here => {}
            Whereabouts::Gone => warnings.push(Warning::ModuleReplaced {
                path: loaded.path.clone(),
                file: loaded.file.clone(),
            }),
            Whereabouts::OtherRoot(root) => warnings.push(Warning::OtherRoot(root)),
        }
        let id = if loaded.kind == ModuleKind::Vdso {
            // The kernel's own module has no file.
            None
        } else {
            match self.symbols.add_module(&file_of(loaded), loaded.load_bias) {
                Ok(id) => {
                    if let Some(unread) = self.symbols.unread_debug_information(id) {
                        warnings.push(Warning::Symbols(unread.to_string()));
                    }
                    if self.symbols.symbol_address(id, LEAK_CHECK).is_some() {
                        warnings.push(Warning::LeakSanitizer);
                    }
                    Some(id)
                }
                Err(error) => {
                    warnings.push(Warning::Symbols(format!(
                        "{error}; its names are not known"
                    )));
                    None
                }
            }
        };
        let info = id.and_then(|id| self.symbols.module(id));
        let module = Module {
            bias: loaded.load_bias,
            start: loaded.start,
            end: loaded.end,
            loaded: now,
            unloaded: 0,
            build_id: info
                .and_then(|info| info.build_id.clone())
                .unwrap_or_default(),
            path: loaded.path.as_os_str().as_bytes().to_vec(),
        };
        self.here.push(Known {
            number: self.count,
            module,
            id,
        });
        self.count += 1;
    }
}

/// Takes a module out that went, where nothing else has been in its place since.
fn take_same(past: &mut Vec<(usize, Module)>, new: &Module) -> Option<(usize, Module)> {
    let newest = past
        .iter()
        .enumerate()
        .filter(|(_, (_, module))| module.start < new.end && new.start < module.end)
        .max_by_key(|(_, (number, _))| *number);
    let (place, (_, module)) = newest?;
    let same = module.start == new.start
        && module.end == new.end
        && module.bias == new.bias
        && module.path == new.path
        && module.build_id == new.build_id;
    same.then(|| past.remove(place))
}

/// What distinguishes a file from all others.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Where the file of a program is.
#[derive(PartialEq, Eq, Debug)]
enum Whereabouts {
    /// Where its name says.
    Here,
    /// Where its name says, seen from this root of the process: that of a container.
    OtherRoot(PathBuf),
    /// Its name names it no longer: it was deleted or replaced. `/proc/PID/exe` names it all the same.
    Gone,
}

impl Whereabouts {
    fn of(loaded: &LoadedModule) -> Self {
        let (Some(process), Ok(name)) = (loaded.file.parent(), loaded.path.strip_prefix("/"))
        else {
            return Self::Here;
        };
        if loaded.kind != ModuleKind::Executable || !loaded.file.ends_with("exe") {
            return Self::Here;
        }
        let own = identity(&loaded.file);
        if identity(&loaded.path) == own {
            return Self::Here;
        }
        let root = process.join("root");
        // The kernel may name it from our root, where nothing but the process has it mounted.
        let inside = std::fs::read_link(&root).ok();
        let inside = inside.and_then(|root| loaded.path.strip_prefix(root).ok());
        let mut names = [Some(name), inside].into_iter().flatten();
        match names.any(|name| identity(&root.join(name)) == own) {
            true => Self::OtherRoot(root),
            false => Self::Gone,
        }
    }
}

/// The file's own name, where that still names the file that is loaded; else the name by which the kernel gives it.
fn file_of(loaded: &LoadedModule) -> PathBuf {
    let is_own = || identity(&loaded.path) == identity(&loaded.file);
    if loaded.path == loaded.file || loaded.path.is_absolute() && is_own() {
        loaded.path.clone()
    } else {
        loaded.file.clone()
    }
}

impl Known {
    fn is(&self, loaded: &LoadedModule) -> bool {
        self.module.bias == loaded.load_bias
            && self.module.start == loaded.start
            && self.module.path == loaded.path.as_os_str().as_bytes()
    }
}
