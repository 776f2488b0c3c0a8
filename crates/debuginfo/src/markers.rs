//! The USDT probes of a program.

use tracewire_model::Address;

use crate::location::Marker;
use crate::module::{MarkerNote, Module};
use crate::modules::Modules;
use crate::resolve::name_pattern::NamePattern;

/// Every marker of every module.
pub(crate) fn all(modules: &Modules) -> Vec<Marker> {
    let of_module = |module| {
        Module::markers(module)
            .iter()
            .map(move |note| marker(module, note))
    };
    modules.iter().flat_map(of_module).collect()
}

/// The markers of a name or a pattern.
pub(crate) fn named(modules: &Modules, name: &str) -> Vec<Marker> {
    let name = name.strip_prefix("-m ").map_or(name, str::trim);
    let pattern = NamePattern::parse(name).and_then(Result::ok);
    let is_it = |marker: &Marker| {
        let full = format!("{}:{}", marker.provider, marker.name);
        match &pattern {
            Some(pattern) => pattern.matches(&full) || pattern.matches(&marker.name),
            None => name == full || name == marker.name,
        }
    };
    let mut markers = all(modules);
    markers.retain(is_it);
    markers
}

/// The marker at an address; the first one where there are several.
pub(crate) fn at(modules: &Modules, address: Address) -> Option<Marker> {
    let module = modules.at(address)?;
    let is_there = |note: &&MarkerNote| module.biased(note.address) == address;
    let note = module.markers().iter().find(is_there)?;
    Some(marker(module, note))
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
