//! Requests: the client's messages.

use std::fmt;

use crate::PacketError;
use crate::family::breakpoint::BreakpointRequest;
use crate::family::features::FeatureRequest;
use crate::family::file::FileRequest;
use crate::family::file_io::FileIoRequest;
use crate::family::memory::MemoryRequest;
use crate::family::process::ProcessRequest;
use crate::family::register::RegisterRequest;
use crate::family::resume::ResumeRequest;
use crate::family::setting::SettingRequest;
use crate::family::thread::ThreadRequest;
use crate::family::transfer::{Operation, TransferRequest};
use crate::reply::ReplyKind;
use crate::tracepoint::TraceRequest;

macro_rules! families {
    ($( $(#[$meta:meta])* $variant:ident($type:ident), )*) => {
        /// A request, by its family.
        ///
        /// The order is the order in which families are tried: the most frequent ones are first, and no prefix of a family is the
        /// beginning of another family's.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Request {
            $( $(#[$meta])* $variant($type), )*
            /// A packet that is not known. A stub answers it with an empty reply.
            Unknown(Vec<u8>),
        }

        impl Request {
            /// Reads a request. What no packet here starts with is [`Request::Unknown`].
            ///
            /// # Errors
            /// When a known packet does not follow its grammar. A stub answers it with an error.
            pub fn parse(payload: &[u8]) -> Result<Self, PacketError> {
                $(
                    if let Some(request) = $type::scan(payload) {
                        return request.map(Self::$variant);
                    }
                )*
                Ok(Self::Unknown(payload.to_vec()))
            }

            /// Appends the request as GDB 13 spells it, escaped where it carries binary data.
            pub fn print(&self, out: &mut Vec<u8>) {
                match self {
                    $( Self::$variant(request) => request.print(out), )*
                    Self::Unknown(payload) => out.extend_from_slice(payload),
                }
            }

            /// The letters the request starts with; empty for one that is not known.
            #[must_use]
            pub const fn prefix(&self) -> &'static str {
                match self {
                    $( Self::$variant(request) => request.prefix(), )*
                    Self::Unknown(_) => "",
                }
            }

            /// The letters that each known request starts with.
            pub fn prefixes() -> impl Iterator<Item = &'static str> {
                [$( $type::PREFIXES ),*].into_iter().flatten().copied()
            }

            /// The meaning of the request, in a line.
            #[must_use]
            pub fn explain(&self) -> String {
                match self {
                    $( Self::$variant(request) => request.explain(), )*
                    Self::Unknown(payload) => {
                        format!("unknown request `{}`", crate::explain::shortened(payload))
                    }
                }
            }
        }

        #[cfg(test)]
        impl crate::field::Sample for Request {
            fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
                use proptest::strategy::{Strategy, Union};
                Union::new(vec![$( $type::strategy().prop_map(Self::$variant).boxed() ),*]).boxed()
            }
        }

        $(
            impl From<$type> for Request {
                fn from(request: $type) -> Self {
                    Self::$variant(request)
                }
            }
        )*
    };
}

families! {
    /// Memory.
    Memory(MemoryRequest),
    /// Registers.
    Register(RegisterRequest),
    /// Letting the program run.
    Resume(ResumeRequest),
    /// Breakpoints and watchpoints.
    Breakpoint(BreakpointRequest),
    /// Tracepoints.
    Trace(TraceRequest),
    /// Threads.
    Thread(ThreadRequest),
    /// Objects read and written in windows.
    Transfer(TransferRequest),
    /// Files of the target's system.
    File(FileRequest),
    /// Processes.
    Process(ProcessRequest),
    /// Settings.
    Setting(SettingRequest),
    /// The features of each side.
    Feature(FeatureRequest),
    /// Answers to system calls of the program.
    FileIo(FileIoRequest),
}

impl Request {
    /// The request as bytes; see [`Self::print`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.print(&mut out);
        out
    }

    /// Which kind of reply answers the request.
    #[must_use]
    pub fn reply_kind(&self) -> ReplyKind {
        use ReplyKind as Kind;
        match self {
            Self::Memory(request) => match request {
                MemoryRequest::Read { .. } => Kind::Memory,
                MemoryRequest::ReadBinary { .. } => Kind::BinaryMemory,
                MemoryRequest::Checksum { .. } => Kind::Checksum,
                MemoryRequest::Search { .. } => Kind::Search,
                MemoryRequest::FetchTags { .. } => Kind::Tags,
                MemoryRequest::Write { .. }
                | MemoryRequest::WriteBinary { .. }
                | MemoryRequest::StoreTags { .. }
                | MemoryRequest::FlashErase { .. }
                | MemoryRequest::FlashWrite { .. }
                | MemoryRequest::FlashDone => Kind::Done,
            },
            Self::Register(request) => match request {
                RegisterRequest::ReadAll | RegisterRequest::Read { .. } => Kind::Registers,
                RegisterRequest::WriteAll { .. } | RegisterRequest::Write { .. } => Kind::Done,
            },
            Self::Resume(ResumeRequest::Supported) => Kind::ResumeActions,
            Self::Resume(ResumeRequest::Interrupt) | Self::Breakpoint(_) | Self::Setting(_) => {
                Kind::Done
            }
            // The program goes on after its system call is answered.
            Self::Resume(_) | Self::FileIo(_) => Kind::Stop,
            Self::Trace(request) => trace_reply(request),
            Self::Thread(request) => match request {
                ThreadRequest::Current => Kind::CurrentThread,
                ThreadRequest::FirstThreads | ThreadRequest::MoreThreads => Kind::Threads,
                ThreadRequest::Describe { .. } => Kind::ThreadDescription,
                ThreadRequest::ThreadLocalAddress { .. }
                | ThreadRequest::InformationBlockAddress { .. } => Kind::Address,
                ThreadRequest::OldList { .. } | ThreadRequest::OldDescribe { .. } => Kind::Anything,
                ThreadRequest::SelectForResuming { .. }
                | ThreadRequest::Select { .. }
                | ThreadRequest::IsAlive { .. } => Kind::Done,
            },
            Self::Transfer(TransferRequest::Transfer { window }) => match window.operation {
                Operation::Read { .. } => Kind::Chunk,
                Operation::Write { .. } => Kind::Written,
            },
            Self::File(_) => Kind::File,
            Self::Process(request) => match request {
                ProcessRequest::WhyStopped
                | ProcessRequest::NextStop
                | ProcessRequest::Run { .. }
                | ProcessRequest::Attach { .. }
                | ProcessRequest::Kill
                | ProcessRequest::Restart { .. } => Kind::Stop,
                ProcessRequest::Attached { .. } => Kind::Attached,
                ProcessRequest::Offsets => Kind::Offsets,
                ProcessRequest::Symbol { .. } => Kind::Symbol,
                ProcessRequest::Monitor { .. } => Kind::Monitor,
                ProcessRequest::ExtendedMode
                | ProcessRequest::Detach { .. }
                | ProcessRequest::KillOne { .. }
                | ProcessRequest::MustReplyEmpty => Kind::Done,
            },
            Self::Feature(_) => Kind::Features,
            Self::Unknown(_) => Kind::Anything,
        }
    }
}

fn trace_reply(request: &TraceRequest) -> ReplyKind {
    use ReplyKind as Kind;
    match request {
        TraceRequest::SelectFrame { .. } => Kind::Frame,
        TraceRequest::Status => Kind::TraceStatus,
        TraceRequest::Usage { .. } => Kind::TracepointUsage,
        TraceRequest::VariableValue { .. } => Kind::VariableValue,
        TraceRequest::FirstPiece | TraceRequest::MorePieces => Kind::DefinitionRecord,
        TraceRequest::FirstVariable | TraceRequest::MoreVariables => Kind::Variable,
        TraceRequest::FirstMarkers | TraceRequest::MoreMarkers | TraceRequest::MarkersAt { .. } => {
            Kind::Markers
        }
        TraceRequest::Buffer { .. } => Kind::TraceBuffer,
        TraceRequest::MinimumFastLength => Kind::Length,
        TraceRequest::Initialize
        | TraceRequest::Actions { .. }
        | TraceRequest::Define { .. }
        | TraceRequest::Source { .. }
        | TraceRequest::Variable { .. }
        | TraceRequest::ReadOnly { .. }
        | TraceRequest::Enable { .. }
        | TraceRequest::Disable { .. }
        | TraceRequest::Start
        | TraceRequest::Stop
        | TraceRequest::Disconnected { .. }
        | TraceRequest::Circular { .. }
        | TraceRequest::BufferSize { .. }
        | TraceRequest::Notes { .. }
        | TraceRequest::Save { .. }
        | TraceRequest::Relocated { .. }
        | TraceRequest::RelocationFailed { .. } => Kind::Done,
    }
}

/// The explanation, in a line.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explain())
    }
}
