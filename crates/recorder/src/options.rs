//! What is to be recorded, of a process or of all processes of a run.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracewire_debuginfo::{DebugFileSource, ReadFiles, TypeRules};
use tracewire_experiment::{FrameRates, Mechanism, PadNeeds};
use tracewire_expr::CollectLimits;
use tracewire_jump_pad::JumpPads;
use tracewire_model::Redactions;
use tracewire_script::{Excessive, Script};
use tracewire_target_linux::Process;

use crate::buffer::BufferSize;
use crate::limits::{FrameLimit, SharedBudget};
use crate::lookup::KeptLookups;
use crate::oversight::Oversight;
use crate::selection::ProcessSelection;
use crate::start::KeepGoing;
use crate::together::Place;
use crate::trigger::Trigger;

/// What is to be recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordOptions {
    pub script: Script,
    pub output: PathBuf,
    pub buffer: Option<BufferSize>,
    /// Whether the output is a lean recording.
    pub lean: bool,
    pub duration: Option<Duration>,
    pub expiry: Option<Duration>,
    /// What all processes of the run share.
    pub frame_limit: Option<FrameLimit>,
    pub trigger: Option<Trigger>,
    pub rates: FrameRates,
    pub budget: SharedBudget,
    /// Whether the cost of hits is reported before tracepoints are put in.
    pub tell_costs: bool,
    pub mechanism: Mechanism,
    pub pending: bool,
    pub keep_going: bool,
    pub type_rules: Option<Arc<TypeRules>>,
    pub collect_limits: CollectLimits,
    pub redactions: Redactions,
    pub confirm: Confirm,
    pub debug_files: Option<Arc<dyn DebugFileSource>>,
    pub names_folder: Option<PathBuf>,
    pub follow_forks: bool,
    /// What may be recorded, and the logs of it.
    pub oversight: Oversight,
    /// For how long the first process is recorded alone.
    pub canary: Option<Duration>,
    /// For how long the frames of a process go to one file.
    pub rotation: Option<Duration>,
    /// Which processes are recorded that start during the run.
    pub later: Option<ProcessSelection>,
    /// What was read of files, for all processes of a run.
    pub read_files: ReadFiles,
    /// What was looked up for other children of the same process.
    pub lookups: KeptLookups,
    /// Where the process waits for the others of its run.
    pub place: Option<Arc<Place>>,
}

/// For how many locations memory is had before they are known. Where there are more, it is had again.
const EXPECTED_LOCATIONS: usize = 1024;

impl RecordOptions {
    /// The size of the buffer for frames, and whether it is circular.
    pub fn buffer_size(&self) -> BufferSize {
        self.buffer.unwrap_or_else(|| {
            let circular = self.script.settings.circular == Some(true);
            BufferSize::of(&self.script, None, circular)
        })
    }

    /// Has a stopped process map the memory that pads will probably need.
    pub fn prepare_pads(&self, process: &mut Process) {
        let BufferSize { size, circular } = self.buffer_size();
        if self.mechanism == Mechanism::Trap || circular {
            return;
        }
        let needs = PadNeeds {
            buffer: Some(size),
            circular,
            watched: self.trigger.is_some(),
            tracepoints: self.script.tracepoints.len().max(EXPECTED_LOCATIONS),
            counts: false,
            budget: None,
        };
        if let Some(layout) = JumpPads::expected_layout(&needs) {
            process.prepare_pads(layout);
        }
    }

    pub fn keep_going(&self) -> KeepGoing {
        if self.keep_going {
            return KeepGoing::All;
        }
        let patterns = (self.script.tracepoints.iter())
            .filter(|tracepoint| tracepoint.is_at_pattern())
            .map(|tracepoint| tracepoint.number);
        KeepGoing::Of(patterns.collect())
    }
}

type Question = dyn Fn(&[Excessive]) -> bool + Send + Sync;

/// Whether patterns with very many places are meant.
#[derive(Clone)]
pub(crate) struct Confirm(Arc<Question>);

impl Confirm {
    pub fn new(question: impl Fn(&[Excessive]) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(question))
    }

    pub fn ask(&self, excessive: &[Excessive]) -> bool {
        (self.0)(excessive)
    }

    /// The same, asked once for all processes of a run.
    pub fn once(self) -> Self {
        let answer = Mutex::new(None);
        Self(Arc::new(move |excessive| {
            let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
            *answer.get_or_insert_with(|| self.ask(excessive))
        }))
    }
}

impl Default for Confirm {
    fn default() -> Self {
        Self(Arc::new(|_| false))
    }
}

impl fmt::Debug for Confirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confirm")
    }
}
