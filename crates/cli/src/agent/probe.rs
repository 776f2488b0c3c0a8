//! A probe: the processes, and the tracepoints that are recorded in them.

use std::path::Path;
use std::time::Duration;

/// A probe, as options of `record`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Its name, which is a part of paths.
    pub name: String,
    /// Which processes: sorted.
    pub selection: Vec<String>,
    /// The other options.
    pub words: Vec<String>,
    /// How long it exists, from the time when the agent first had it.
    pub expire: Option<Duration>,
    /// Whether a client has added it, and not the configuration.
    pub is_added: bool,
}

impl Probe {
    /// Whether it chooses the same processes as another one.
    pub fn chooses_as(&self, other: &Self) -> bool {
        self.selection == other.selection
    }

    /// The arguments of `tracewire` that record it into a folder.
    pub fn arguments(&self, folder: &Path, events: &Path, expire: Option<Duration>) -> Vec<String> {
        let mut arguments = vec!["record".to_owned()];
        arguments.extend(self.selection.iter().cloned());
        arguments.extend(self.words.iter().cloned());
        // A tracepoint that cannot be set in one program is reported, and the others are recorded.
        arguments.extend(["--later", "--keep-going"].map(str::to_owned));
        if let Some(expire) = expire {
            arguments.push(format!("--expire={}ms", expire.as_millis().max(1)));
        }
        arguments.push(format!("--events={}", events.display()));
        arguments.push(format!("--output={}", folder.display()));
        arguments
    }
}
