//! Which reply a request is answered with.

macro_rules! reply_kinds {
    ($( $(#[$meta:meta])* $kind:ident = $name:literal, )*) => {
        /// The kind of reply to a request. An empty reply, `E`, and in most places `OK`, are possible for all kinds.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ReplyKind {
            $( $(#[$meta])* $kind, )*
        }

        impl ReplyKind {
            /// The name a malformed reply is given by.
            pub(super) const fn name(self) -> &'static str {
                match self {
                    $( Self::$kind => $name, )*
                }
            }
        }
    };
}

reply_kinds! {
    /// `OK`; or a `qRelocInsn` question.
    Done = "reply",
    /// A stop reply, output, or a system call.
    Stop = "stop reply",
    /// Hexadecimal bytes.
    Memory = "reply to m",
    /// `b` and bytes.
    BinaryMemory = "reply to x",
    /// Hexadecimal bytes, some unavailable.
    Registers = "reply to g or p",
    /// `C` and a number.
    Checksum = "reply to qCRC",
    /// `1,address` or `0`.
    Search = "reply to qSearch",
    /// `m` and hexadecimal bytes.
    Tags = "reply to qMemTags",
    /// `vCont` and letters.
    ResumeActions = "reply to vCont?",
    /// `QC` and a thread.
    CurrentThread = "reply to qC",
    /// `m` and threads, or `l`.
    Threads = "reply to qfThreadInfo",
    /// Hexadecimal text.
    ThreadDescription = "reply to qThreadExtraInfo",
    /// An address.
    Address = "reply to qGetTLSAddr",
    /// `1` or `0`.
    Attached = "reply to qAttached",
    /// Offsets or segments.
    Offsets = "reply to qOffsets",
    /// `qSymbol:` and a name.
    Symbol = "reply to qSymbol",
    /// Output, or hexadecimal text.
    Monitor = "reply to qRcmd",
    /// `m` or `l` and bytes.
    Chunk = "reply to qXfer",
    /// A number.
    Written = "reply to qXfer write",
    /// `F`, a result, data.
    File = "reply to vFile",
    /// Features.
    Features = "reply to qSupported",
    /// `F` and `T`.
    Frame = "reply to QTFrame",
    /// `T` and fields.
    TraceStatus = "reply to qTStatus",
    /// `V`, two numbers.
    TracepointUsage = "reply to qTP",
    /// `V` and a number, or `U`.
    VariableValue = "reply to qTV",
    /// A piece of a tracepoint, or `l`.
    DefinitionRecord = "reply to qTfP",
    /// A variable, or `l`.
    Variable = "reply to qTfV",
    /// Markers, or `l`.
    Markers = "reply to qTfSTM",
    /// Hexadecimal bytes, or `l`.
    TraceBuffer = "reply to qTBuffer",
    /// A number.
    Length = "reply to qTMinFTPILen",
    /// An unknown kind.
    Anything = "reply",
}
