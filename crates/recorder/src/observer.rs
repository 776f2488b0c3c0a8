//! What a recording reports while it goes on.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tracewire_experiment::{DefineError, InstallError, LocationCost, Served};
use tracewire_model::{Address, TracepointNumber};
use tracewire_script::{Excessive, Pending, Placed, ResolveWarning, ScriptError};

use crate::buffer::Counters;
use crate::policy::Denied;

/// Learns what happens during a recording, when it happens. The program may be stopped meanwhile.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: RecordEvent<'_>);
}

/// An observer for those who read the [`Report`](crate::Report) alone.
impl Observer for () {
    fn event(&mut self, _: RecordEvent<'_>) {}
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn event(&mut self, event: RecordEvent<'_>) {
        (**self).event(event);
    }
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordEvent<'e> {
    /// Jumps of a recorder that was killed were taken out of the program: so many.
    JumpsTakenOver(usize),
    /// Locations were found.
    Placed(&'e [Placed]),
    /// Locations wait for a library.
    Pending(&'e [Pending]),
    /// Tracepoints are about to be put in: what their hits cost at most ([`Recorder::tell_costs`](crate::Recorder::tell_costs)).
    /// Those for which there can be no jump after all are reported once more.
    Costs(&'e [LocationCost]),
    /// Tracepoints were put into the program.
    Installed(&'e [Installed]),
    /// The run begins.
    Begun {
        /// They tell at any time how far it is.
        counters: Arc<Counters>,
        /// The file that the frames are written to as they come; none where it becomes another one meanwhile.
        growing: Option<PathBuf>,
    },
    /// The program has executed another one.
    Exec,
    /// The program has ended, and the run had ended before it, for the reason in the report's status.
    EndedBeforeProgram(&'e tracewire_model::StatusFields),
    /// The run is over; the trace file is written next.
    Over,
    /// Parts of the script cannot be followed and are left out.
    Problems(&'e [ScriptError]),
    /// Locations that are nowhere in the program are left out.
    NotFound(&'e [ScriptError]),
    /// Addresses at which no tracepoint can be put are left out.
    NotInstalled(&'e [InstallError]),
    /// Parts of actions are left out at some addresses.
    ResolveWarnings(&'e [ResolveWarning]),
    /// Something that the user should know.
    Warning(Warning),
}

/// A tracepoint in the program, and what serves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// Its number.
    pub number: TracepointNumber,
    /// Where it is.
    pub address: Address,
    /// A jump or a trap.
    pub served: Served,
}

/// Something that the user should know.
#[derive(Debug)]
#[non_exhaustive]
pub enum Warning {
    /// The file of the program was deleted or replaced since the program was started.
    ModuleReplaced {
        /// Its name.
        path: PathBuf,
        /// The name by which the kernel still gives it.
        file: PathBuf,
    },
    /// A module's symbols, or parts of them, cannot be read.
    Symbols(String),
    /// The program has a root directory of its own, where its files are: `/proc/PID/root`.
    OtherRoot(PathBuf),
    /// The program does not have the rights of the user that its file's set-user-ID bit gives.
    RefusedUser(String),
    /// The program has LeakSanitizer, which does not work under any tracer.
    LeakSanitizer,
    /// A pattern has very many places in what was loaded during the run, and is not set there.
    Excessive(Excessive),
    /// What the program selects for an indirect function is not seen.
    Resolver {
        /// The indirect function's resolver.
        resolver: Address,
        /// Why not.
        reason: String,
    },
    /// The frames of the run have no room for registers that a tracepoint collects.
    RegistersLeftOut {
        /// The tracepoint.
        number: TracepointNumber,
        /// The registers.
        names: Vec<String>,
    },
    /// The experiment refuses a tracepoint that was found during the run.
    NotDefined {
        /// The tracepoint.
        number: TracepointNumber,
        /// Why.
        error: DefineError,
    },
    /// A policy forbids places that were found during the run.
    Denied(Denied),
    /// Tracepoints were not put in, or not taken out.
    Install(InstallError),
    /// The program was not detached from in order.
    Detach(String),
    /// The next trace file of a run was not begun, or the one before was not finished ([`Recorder::rotate`](crate::Recorder::rotate)).
    Rotation(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModuleReplaced { path, file } => write!(
                f,
                "{} has been deleted or replaced since the program was started: its symbols are read by {}; to show \
                 what is recorded, copy that while the program runs, and name the copy with --elf",
                path.display(),
                file.display()
            ),
            Self::OtherRoot(root) => write!(
                f,
                "the program has a root directory of its own, as in a container: to show what is recorded, name that with --elf {}, or \
                 a directory with copies of the program and its libraries",
                root.display()
            ),
            Self::RefusedUser(user) => write!(
                f,
                "the program should run with the rights of {user} and does not, since it is traced by a user without such rights: run as \
                 root, or start it by itself and attach as root with -p"
            ),
            Self::LeakSanitizer => f.write_str(
                "the program has LeakSanitizer, which works under no tracer: if the run lasts until the program exits, it exits with \
                 an error of LeakSanitizer; detect_leaks=0 in ASAN_OPTIONS or LSAN_OPTIONS turns it off",
            ),
            Self::Excessive(excessive) => write!(
                f,
                "tracepoint {}: {excessive} with what has been loaded, and is not set there",
                excessive.number
            ),
            Self::Symbols(words) | Self::Detach(words) | Self::Rotation(words) => {
                f.write_str(words)
            }
            Self::Resolver { resolver, reason } => write!(
                f,
                "what the program selects for the indirect function at {resolver} is not seen: {reason}"
            ),
            Self::RegistersLeftOut { number, names } => write!(
                f,
                "tracepoint {number}: the frames of this run have no room for {}, which it collects; name one of \
                 them in its actions to make room",
                names.join(", ")
            ),
            Self::NotDefined { number, error } => write!(f, "tracepoint {number}: {error}"),
            Self::Denied(denied) => denied.fmt(f),
            Self::Install(error) => error.fmt(f),
        }
    }
}
