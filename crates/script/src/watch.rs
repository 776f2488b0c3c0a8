//! `watch`: a tracepoint on memory, which is hit by every write there.

use std::sync::Arc;

use tracewire_debuginfo::{ResolvedLocation, Symbols};
use tracewire_expr::{ExpressionError, FixedObject};
use tracewire_model::{OLD_VALUE, VariableDefinition, WatchedObject};

use crate::actions::collect_items;
use crate::error::{Problem, ScriptError};
use crate::model::{ScriptAction, ScriptActionKind, ScriptTracepoint, ScriptTracepointKind};
use crate::parse::Script;
use crate::place::Located;
use crate::resolve::number;
use crate::span::mentions;

/// Whether a script has a `watch`, so that its run has `$old`.
pub(crate) fn has_watch(script: &Script) -> bool {
    let mut tracepoints = script.tracepoints.iter();
    tracepoints.any(|tracepoint| tracepoint.kind == ScriptTracepointKind::Watch)
}

/// Finds the object of a `watch`. Its names are looked up outside of any function.
pub(crate) fn object(
    symbols: &Symbols,
    variables: &[VariableDefinition],
    tracepoint: &ScriptTracepoint,
) -> Result<FixedObject, ExpressionError> {
    let numbers = |name: &str| number(variables, name);
    let nowhere = tracewire_model::Address(0);
    FixedObject::of(symbols, nowhere, tracepoint.location.text(), &numbers)
}

/// The object as the place of a tracepoint; none without a program.
pub(crate) fn location(symbols: &Symbols, object: &FixedObject) -> Option<ResolvedLocation> {
    let module = symbols
        .module_at(object.address)
        .or_else(|| Some(symbols.modules().first()?.id))?;
    Some(ResolvedLocation {
        address: object.address,
        function: None,
        level: 0,
        file: None,
        line: 0,
        module,
        // `watch` is another command to GDB.
        known_to_gdb: false,
        selected_for: None,
        marker: None,
        elsewhere_in_gdb: true,
    })
}

/// The watched object in the form of a trace file.
pub(crate) fn watched(tracepoint: &ScriptTracepoint, object: &FixedObject) -> WatchedObject {
    WatchedObject {
        length: object.length,
        is_signed: object.is_signed,
        expression: tracepoint.location.text().to_owned(),
    }
}

/// The action that collects the new value, and the old one where there is room for it.
pub(crate) fn values(
    tracepoint: &ScriptTracepoint,
    watched: &WatchedObject,
) -> Result<ScriptAction, ScriptError> {
    let old = format!("${OLD_VALUE}");
    let mut items = vec![tracepoint.location.clone()];
    if watched.has_old_value() {
        let place = &tracepoint.location;
        items.push(Located::line(
            &Arc::from(place.file()),
            place.line_number(),
            old,
        ));
    } else if let Some(words) = words_of(tracepoint).find(|words| mentions(words.text(), &old)) {
        return Err(ScriptError::new(words, Problem::NoOldValue(watched.length)));
    }
    Ok(collect_items(None, items))
}

/// All expressions of a tracepoint.
fn words_of(tracepoint: &ScriptTracepoint) -> impl Iterator<Item = &Located> {
    let items = tracepoint.actions.iter();
    let items = items.flat_map(|action| match &action.kind {
        ScriptActionKind::Collect { items, .. } | ScriptActionKind::Evaluate { items } => {
            items.as_slice()
        }
        ScriptActionKind::Switch { .. } | ScriptActionKind::WhileStepping { .. } => &[],
    });
    items.chain(&tracepoint.condition)
}
