//! The program behind a trace file: its symbols, found by the file's module lines or named by the user.

use std::path::{Path, PathBuf};

use tracewire_symbols::{ModuleInfo, Symbols};
use tracewire_tracefile::{Address, Module, TraceFile};

/// The symbols of the program that a trace file was made from.
#[derive(Debug, Default)]
pub struct Program {
    /// The modules whose files could be used.
    pub symbols: Symbols,
    /// What the user should know: files that are missing, or that are not the ones that were traced.
    pub notes: Vec<String>,
}

/// A file that the user named and that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is no usable ELF file.
    #[error(transparent)]
    Symbols(#[from] tracewire_symbols::SymbolError),
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
    /// its build id, else with its name, else of the program itself. The other modules are read from where they
    /// were, if their build ids are right.
    ///
    /// # Errors
    /// When a file that was named cannot be used.
    pub fn of(file: &TraceFile, named: &[PathBuf]) -> Result<Self, ProgramError> {
        let mut program = Self::default();
        let modules = file.description().modules();
        let mut files: Vec<Option<&Path>> = vec![None; modules.len()];
        for path in named {
            let info = look(path)?;
            if modules.is_empty() {
                let bias = if info.relocatable {
                    infer_bias(file, path)?
                } else {
                    0
                };
                program.symbols.add_module(path, bias)?;
                continue;
            }
            let place = place_of(&info, path, modules);
            if let (Some(module), Some(slot)) = (modules.get(place), files.get_mut(place)) {
                check_build_id(&info, path, module)?;
                *slot = Some(path);
            }
        }
        for (module, named) in modules.iter().zip(files) {
            let own = module_path(module);
            let path = named.unwrap_or(&own);
            if named.is_none() {
                let found = look(path).map(|info| check_build_id(&info, path, module));
                match found {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        program
                            .notes
                            .push(format!("{error}; its symbols are not used"));
                        continue;
                    }
                    // The kernel's own module and deleted files have no file to read.
                    Err(_) if !own.is_absolute() => continue,
                    Err(error) => {
                        program
                            .notes
                            .push(format!("{error}; its symbols are not used"));
                        continue;
                    }
                }
            }
            if let Err(error) = program.symbols.add_module(path, module.bias) {
                match named {
                    Some(_) => return Err(error.into()),
                    None => program.notes.push(error.to_string()),
                }
            }
        }
        Ok(program)
    }

    /// Whether nothing is known of the program.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.symbols.modules().is_empty()
    }
}

/// The file a module was loaded from.
#[must_use]
pub fn module_path(module: &Module) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(&module.path))
}

/// What an ELF file is, by itself.
fn look(path: &Path) -> Result<ModuleInfo, tracewire_symbols::SymbolError> {
    let mut symbols = Symbols::new();
    let id = symbols.add_module(path, 0)?;
    match symbols.module(id) {
        Some(info) => Ok(info.clone()),
        None => Err(tracewire_symbols::SymbolError::NotUsable {
            path: path.to_owned(),
            reason: "no module".to_owned(),
        }),
    }
}

/// Which module a file stands for.
fn place_of(info: &ModuleInfo, path: &Path, modules: &[Module]) -> usize {
    let same_build = |module: &Module| {
        !module.build_id.is_empty() && info.build_id.as_ref() == Some(&module.build_id)
    };
    let same_name = |module: &Module| module_path(module).file_name() == path.file_name();
    modules
        .iter()
        .position(same_build)
        .or_else(|| modules.iter().position(same_name))
        .unwrap_or(0)
}

fn check_build_id(info: &ModuleInfo, path: &Path, module: &Module) -> Result<(), ProgramError> {
    let found = info.build_id.as_deref().unwrap_or_default();
    if module.build_id.is_empty() || found == module.build_id {
        return Ok(());
    }
    Err(ProgramError::BuildId {
        path: path.to_owned(),
        found: if found.is_empty() {
            "none".to_owned()
        } else {
            hexadecimal(found)
        },
        expected: hexadecimal(&module.build_id),
        traced: module_path(module),
    })
}

/// Bytes as pairs of digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Where a position-independent program was loaded, for a file that does not say: the tracepoints' locations,
/// looked up in the program, against the addresses they were set at. A tracepoint that names a place which the
/// program has several times settles nothing.
fn infer_bias(file: &TraceFile, path: &Path) -> Result<u64, ProgramError> {
    let mut symbols = Symbols::new();
    symbols.add_module(path, 0)?;
    let default_file = symbols.default_file();
    let mut found: Vec<(u64, usize)> = Vec::new();
    for tracepoint in file.description().tracepoints() {
        let definition = &tracepoint.definition;
        let Some(at) = &definition.source.at else {
            continue;
        };
        let Ok(locations) = symbols.resolve(at, default_file.as_deref()) else {
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
