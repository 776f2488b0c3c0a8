//! An experiment that another program runs: its tracepoints looked up here, and handed over as definitions.

use std::path::PathBuf;

use tracewire_experiment::{Definitions, Experiment};
use tracewire_model::{Redactions, Status, StatusFields, StopReason, Tracepoint};
use tracewire_script::Resolver;
use tracewire_tracefile::DescriptionParts;

use crate::buffer::{Buffer, BufferSize};
use crate::error::RecordError;
use crate::observer::{Observer, RecordEvent};
use crate::options::RecordOptions;
use crate::programs;

/// Looks the tracepoints up in programs that are where their files say.
pub fn define(
    named: &[PathBuf],
    options: &RecordOptions,
    observer: &mut dyn Observer,
) -> Result<Definitions, RecordError> {
    if options.script.tracepoints.is_empty() {
        return Err(RecordError::NoTracepoints);
    }
    let mut symbols = programs::no_symbols(options);
    for path in named {
        programs::add(&mut symbols, path, 0)?;
    }
    let architecture = symbols.architecture().ok_or(RecordError::NoMachine)?;
    let mut resolver =
        Resolver::new(options.script.clone()).with_collect_limits(options.collect_limits);
    let resolution = programs::resolve(&mut resolver, &symbols, options, observer)?;
    observer.event(RecordEvent::Placed(&resolution.placed));
    let definitions: Vec<_> = (resolution.placed.into_iter())
        .map(|placed| placed.definition)
        .collect();
    for definition in &definitions {
        let number = definition.number;
        if definition.source.watch.is_some() {
            let reason = "memory cannot be watched there";
            return Err(RecordError::Elsewhere { number, reason });
        }
        Experiment::<Buffer>::verify(definition)
            .map_err(|source| RecordError::Define { number, source })?;
    }
    let set = programs::register_set(architecture, &definitions)
        .ok_or(RecordError::NoRegisters(architecture.name()))?;
    let settings = &options.script.settings;
    let size = options.buffer.unwrap_or_else(|| {
        let circular = settings.circular == Some(true);
        BufferSize::of(&options.script, None, circular)
    });
    let status = StatusFields {
        stop_reason: Some(StopReason::NotRun),
        buffer_size: Some(size.size),
        circular: Some(size.circular),
        notes: settings.notes.clone(),
        user: settings.user.clone(),
        disconnected: settings.disconnected,
        ..StatusFields::default()
    };
    let tracepoints = definitions.into_iter().map(Tracepoint::new);
    Ok(Definitions {
        architecture,
        parts: DescriptionParts {
            register_block_size: set.size(),
            target_xml: Some(set.target_xml()),
            status: Some(Status::from(status)),
            variables: resolver.variables().to_vec(),
            tracepoints: tracepoints.collect(),
            modules: programs::modules(&symbols),
            redactions: Redactions::clone(symbols.redactions()),
            aggregates: Vec::new(),
        },
    })
}
