//! Where the tracepoints are in the modules of a process, and these lookups kept for children that have the same modules.
//!
//! A server may make a child for each request. Each has its parent's modules at the same addresses, so that what was looked up for one
//! of them is true for the next one that has loaded the same objects.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracewire_script::{Resolution, Resolver};

use crate::modules::Modules;
use crate::observer::Warning;

/// How many lookups are kept for the children of a process: so many of them run at once and end.
const MOST_KEPT: usize = 16;

/// The modules that are there, what of them cannot be read, and where the tracepoints are in them.
pub struct Lookup {
    pub modules: Modules,
    pub warnings: Vec<Warning>,
    pub resolver: Resolver,
    pub resolution: Resolution,
}

impl Lookup {
    /// Whether it only found places, and nothing that is to be reported for each process. What is wrong with the files of modules is reported
    /// once.
    fn is_plain(&self) -> bool {
        let Resolution {
            placed: _,
            pending: _,
            problems,
            excessive,
            warnings,
            unselected,
        } = &self.resolution;
        problems.is_empty() && excessive.is_empty() && warnings.is_empty() && unselected.is_empty()
    }
}

/// The lookups for the children of a process that have ended.
#[derive(Clone, Debug, Default)]
pub struct KeptLookups(Arc<Mutex<Vec<Kept>>>);

#[derive(Debug)]
struct Kept {
    of: LookupKey,
    modules: Modules,
    resolver: Resolver,
}

/// What a lookup is true for, and the places that it has found.
#[derive(Debug)]
pub struct LookupKey {
    /// The objects that the dynamic linker has loaded.
    objects: Vec<(u64, u64)>,
    resolution: Resolution,
    lookups: KeptLookups,
}

impl KeptLookups {
    /// Takes the lookup for a child of the process that has loaded these objects. None where it has to be made.
    pub fn take(&self, objects: &[(u64, u64)]) -> Option<(Lookup, LookupKey)> {
        let mut kept = self.locked();
        let is_it = |kept: &Kept| kept.of.objects == objects;
        let place = kept.iter().position(is_it)?;
        let Kept {
            of,
            modules,
            resolver,
        } = kept.swap_remove(place);
        let lookup = Lookup {
            modules,
            warnings: Vec::new(),
            resolver,
            resolution: of.resolution.clone(),
        };
        Some((lookup, of))
    }

    /// What a lookup is true for that may be kept when the child has ended; none if it may not.
    pub fn key(&self, lookup: &Lookup, objects: &[(u64, u64)]) -> Option<LookupKey> {
        // Where the list of objects cannot be read, nothing is known of them.
        (lookup.is_plain() && !objects.is_empty()).then(|| LookupKey {
            objects: objects.to_vec(),
            resolution: lookup.resolution.clone(),
            lookups: self.clone(),
        })
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LookupKey {
    /// Keeps the lookup of a child that has ended with the modules that it began with.
    pub fn keep(self, modules: Modules, resolver: Resolver) {
        let lookups = self.lookups.clone();
        let mut kept = lookups.locked();
        if kept.len() < MOST_KEPT {
            kept.push(Kept {
                of: self,
                modules,
                resolver,
            });
        }
    }
}
