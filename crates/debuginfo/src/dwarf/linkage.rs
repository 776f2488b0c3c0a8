//! The functions of a module by their names for the linker. The index of names does not have these.

use super::index::{Name, NameKind, hash};
use super::{DebugInformation, Die};

/// Functions by the hashes of their names for the linker.
#[derive(Debug)]
pub(super) struct LinkageNames {
    sorted: Vec<(u64, Die)>,
}

impl LinkageNames {
    fn read(debug: &DebugInformation) -> Self {
        let is_function =
            |name: &Name| matches!(name.kind, NameKind::Function | NameKind::AbstractFunction);
        let mut sorted: Vec<(u64, Die)> = (debug.index().iter())
            .filter(is_function)
            .filter_map(|name| {
                let die = name.die();
                let linkage_name = debug.linkage_name(die.unit, &debug.entry(die)?)?;
                Some((hash(&linkage_name), die))
            })
            .collect();
        sorted.sort_unstable();
        Self { sorted }
    }
}

impl DebugInformation {
    /// The functions with this linkage name, their own or that of the entry that they complete; in the order of the file. All
    /// functions are read the first time.
    pub(crate) fn functions_linked_as(&self, wanted: &str) -> Vec<Name> {
        let known = self.linkage_names.get_or_init(|| LinkageNames::read(self));
        let key = hash(wanted);
        let start = known.sorted.partition_point(|(hash, _)| *hash < key);
        let same = known.sorted.iter().skip(start);
        same.take_while(|(hash, _)| *hash == key)
            .filter(|(_, die)| {
                let entry = self.entry(*die);
                entry
                    .and_then(|entry| self.linkage_name(die.unit, &entry))
                    .is_some_and(|name| name == wanted)
            })
            .filter_map(|(_, die)| self.index().at(*die))
            .collect()
    }
}
