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
    known: Vec<Known>,
    symbols: Symbols,
}

#[derive(Debug)]
struct Known {
    module: Module,
    /// Its symbols; none for one whose file cannot be read.
    id: Option<ModuleId>,
    here: bool,
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

    /// The same, to be told what the program has selected.
    pub const fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.symbols
    }

    /// Every module of the run, in the order in which they came.
    pub fn all(&self) -> Vec<Module> {
        self.known
            .iter()
            .map(|known| known.module.clone())
            .collect()
    }

    /// The same modules, with no symbols.
    pub fn without_symbols(&self) -> Self {
        let known = self.known.iter().map(|known| Known {
            module: known.module.clone(),
            id: None,
            here: known.here,
        });
        Self {
            known: known.collect(),
            symbols: Symbols::default(),
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
        for known in self.known.iter_mut().filter(|known| known.here) {
            if loaded.iter().any(|loaded| known.is(loaded)) {
                continue;
            }
            known.here = false;
            known.module.unloaded = now;
            if let Some(id) = known.id {
                self.symbols.remove_module(id);
            }
            change.gone.push((known.module.start, known.module.end));
        }
        for loaded in loaded {
            if self
                .known
                .iter()
                .any(|known| known.here && known.is(loaded))
            {
                continue;
            }
            change.came = true;
            self.add(loaded, now, &mut change.warnings);
        }
        change
    }

    fn add(&mut self, loaded: &LoadedModule, now: u64, warnings: &mut Vec<Warning>) {
        if is_gone(loaded) {
            warnings.push(Warning::ModuleReplaced {
                path: loaded.path.clone(),
                file: loaded.file.clone(),
            });
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
        self.known.push(Known {
            module,
            id,
            here: true,
        });
    }
}

/// What distinguishes a file from all others.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Whether the name of the program names it no longer, where the program itself looks: `/proc/PID/exe` does all the same.
fn is_gone(loaded: &LoadedModule) -> bool {
    let (Some(process), Ok(name)) = (loaded.file.parent(), loaded.path.strip_prefix("/")) else {
        return false;
    };
    loaded.kind == ModuleKind::Executable
        && loaded.file.ends_with("exe")
        && identity(&process.join("root").join(name)) != identity(&loaded.file)
}

/// The file's own name, where that still names the file that is loaded; else the name by which the kernel gives it.
fn file_of(loaded: &LoadedModule) -> PathBuf {
    if loaded.path.is_absolute() && identity(&loaded.path) == identity(&loaded.file) {
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
