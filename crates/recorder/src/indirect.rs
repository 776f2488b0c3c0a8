//! Tracepoints on GNU indirect functions: what the program has selected by now is looked up, the rest is followed.

use tracewire_experiment::MemoryRead;
use tracewire_model::{Address, ByteOrder};
use tracewire_script::{Resolution, Resolver};
use tracewire_target_linux::Process;

use crate::modules::Modules;
use crate::observer::{Observer, RecordEvent, Warning};

/// Looks up what the program has selected for the indirect functions that tracepoints name, and adds the locations that
/// come of it. The resolvers of the others are followed from here on.
pub fn settle(
    process: &mut Process,
    modules: &mut Modules,
    resolver: &mut Resolver,
    resolution: &mut Resolution,
    observer: &mut dyn Observer,
) {
    if resolution.unselected.is_empty() {
        return;
    }
    if look(process, modules, &resolution.unselected) {
        resolution.extend(resolver.resolve(modules.symbols()));
    }
    for resolver in &resolution.unselected {
        if let Err(error) = process.follow_resolver(*resolver) {
            observer.event(RecordEvent::Warning(Warning::Resolver {
                resolver: *resolver,
                reason: error.to_string(),
            }));
        }
    }
}

/// Reads the slots; whether one holds something that was selected.
fn look(process: &mut Process, modules: &mut Modules, resolvers: &[Address]) -> bool {
    let slots = modules.symbols().indirect_slots(resolvers);
    let Some(size) = modules
        .symbols()
        .architecture()
        .map(|machine| machine.pointer_size())
    else {
        return false;
    };
    let mut reads: Vec<MemoryRead> = slots
        .iter()
        .map(|slot| MemoryRead {
            address: slot.address,
            bytes: vec![0; usize::from(size)],
            filled: 0,
        })
        .collect();
    process.read_memory(&mut reads);
    let mut selected = false;
    for (slot, read) in slots.iter().zip(&reads) {
        let value = ByteOrder::Little.unsigned(&read.bytes);
        if let Some(value) = value.filter(|_| read.filled == read.bytes.len()) {
            selected |= modules.symbols_mut().select_from(slot, Address(value));
        }
    }
    selected
}
