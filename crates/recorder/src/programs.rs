//! Programs that are known before the run begins, and do not change: their symbols, and what is resolved in them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use tracewire_arch::{Architecture, StandardRegisters};
use tracewire_debuginfo::{ModuleId, Symbols};
use tracewire_model::{RegisterNumber, TracepointDefinition};
use tracewire_script::{Pending, Resolution, Resolver, ScriptError};
use tracewire_tracefile::Module;

use crate::error::RecordError;
use crate::observer::{Observer, RecordEvent};
use crate::options::RecordOptions;
use crate::{prepare, registers};

/// Symbols without programs, which take what options say of files and names.
pub fn no_symbols(options: &RecordOptions) -> Symbols {
    let mut symbols = Symbols::new();
    if let Some(source) = &options.debug_files {
        symbols.take_debug_files_from(source.clone());
    }
    if let Some(folder) = &options.names_folder {
        symbols.keep_names_in(folder);
    }
    if let Some(rules) = &options.type_rules {
        symbols.set_type_rules(rules.clone());
    }
    symbols.set_redactions(Arc::new(options.redactions.clone()));
    symbols
}

/// Adds a program, loaded so far from where its file says.
pub fn add(symbols: &mut Symbols, path: &Path, bias: u64) -> Result<ModuleId, RecordError> {
    (symbols.add_module(path, bias)).map_err(|error| RecordError::Program {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Looks the tracepoints up. What is not found is an error, or left out: no library comes later.
pub fn resolve(
    resolver: &mut Resolver,
    symbols: &Symbols,
    options: &RecordOptions,
    observer: &mut dyn Observer,
) -> Result<Resolution, RecordError> {
    let resolution = prepare::resolve(resolver, symbols, &options.confirm);
    if !resolution.excessive.is_empty() {
        return Err(RecordError::Excessive(resolution.excessive));
    }
    let pending = resolution.pending.iter().map(Pending::as_error);
    let mut known = HashSet::new();
    let problems: Vec<ScriptError> = (resolution.problems.iter().cloned())
        .chain(pending)
        .filter(|problem| known.insert(problem.to_string()))
        .collect();
    if !problems.is_empty() {
        if !options.keep_going || resolution.placed.is_empty() {
            return Err(RecordError::Script(problems));
        }
        observer.event(RecordEvent::Problems(&problems));
    }
    if !resolution.warnings.is_empty() {
        observer.event(RecordEvent::ResolveWarnings(&resolution.warnings));
    }
    Ok(resolution)
}

/// The smallest set of registers that has all that is collected, and all that expressions read.
pub fn register_set(
    machine: Architecture,
    definitions: &[TracepointDefinition],
) -> Option<StandardRegisters> {
    let asked: Vec<RegisterNumber> = definitions.iter().flat_map(registers::named_by).collect();
    let sets = StandardRegisters::all(machine);
    sets.into_iter().find(|set| {
        let layout = set.layout();
        asked
            .iter()
            .all(|number| layout.by_number(*number).is_some())
    })
}

/// The programs, for readers of the file.
pub fn modules(symbols: &Symbols) -> Vec<Module> {
    let modules = symbols.modules().into_iter().map(|module| {
        let (start, end) = module.range;
        let build_id = module.build_id.clone().unwrap_or_default();
        Module::of_file(&module.path, build_id, module.bias, start..end)
    });
    modules.collect()
}
