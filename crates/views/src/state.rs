//! A trace frame as something that expressions are evaluated on.

use std::cell::OnceCell;
use std::ops::Range;

use tracewire_expr::State;
use tracewire_model::{Address, RegisterNumber};
use tracewire_tracefile::{Frame, TraceFile};

/// The data of a frame, in the form of [`tracewire_expr::evaluate`].
#[derive(Clone, Debug)]
pub(crate) struct FrameState<'a> {
    file: &'a TraceFile,
    frame: Frame<'a>,
    pc: Address,
    /// How long the span took that the frame is of.
    duration: Option<u64>,
    /// What the call returned that the frame is the entry of.
    returned: Option<i64>,
    /// The memory with two contents, once it is computed.
    differing: OnceCell<Vec<Range<u64>>>,
}

impl<'a> FrameState<'a> {
    /// The state of a frame; `None` where its program counter is not known.
    pub(crate) fn new(file: &'a TraceFile, frame: Frame<'a>) -> Option<Self> {
        let pc = frame
            .program_counter()
            .or_else(|| file.tracepoint_address(frame.tracepoint()))?;
        Some(Self {
            file,
            frame,
            pc,
            duration: None,
            returned: None,
            differing: OnceCell::new(),
        })
    }

    /// With a value for `$duration`.
    pub(crate) fn with_duration(mut self, duration: Option<u64>) -> Self {
        self.duration = duration;
        self
    }

    /// With a value for [`RETURNED`].
    pub(crate) fn with_returned(mut self, returned: Option<i64>) -> Self {
        self.returned = returned;
        self
    }
}

/// The variable for what a call returned, in expressions on its entry.
pub(crate) const RETURNED: &str = "__tracewire_returned";

impl State for FrameState<'_> {
    fn pc(&self) -> Address {
        self.pc
    }

    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>> {
        if let Some(bytes) = self.frame.register(register) {
            return Some(bytes.to_vec());
        }
        // A frame without registers still has the thread's address.
        let layout = self.file.layout()?;
        let counter = layout.program_counter()?;
        (counter.number == register).then(|| {
            let bytes = match self.file.byte_order() {
                tracewire_model::ByteOrder::Little => self.pc.0.to_le_bytes().to_vec(),
                tracewire_model::ByteOrder::Big => self.pc.0.to_be_bytes().to_vec(),
            };
            let size = usize::try_from(counter.size())
                .unwrap_or(0)
                .min(bytes.len());
            match self.file.byte_order() {
                tracewire_model::ByteOrder::Little => bytes[..size].to_vec(),
                tracewire_model::ByteOrder::Big => bytes[bytes.len() - size..].to_vec(),
            }
        })
    }

    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]) {
        let mut found = vec![None; bytes.len()];
        self.frame.read_memory(address, &mut found);
        for ((byte, known), found) in bytes.iter_mut().zip(known).zip(found) {
            if let Some(found) = found {
                *byte = found;
                *known = true;
            }
        }
    }

    fn memory_differs(&self, address: Address, length: usize) -> bool {
        let differing = self.differing.get_or_init(|| self.frame.differing_memory());
        let end = address.0.saturating_add(length as u64);
        differing
            .iter()
            .any(|range| range.start < end && address.0 < range.end)
    }

    /// A trace state variable; or a register if no variable has its name, for machines whose registers expressions do not know.
    fn variable(&self, name: &str) -> Option<i64> {
        if name == RETURNED {
            return self.returned;
        }
        let variables = self.file.description().variables();
        if let Some(variable) = variables.iter().find(|variable| variable.name == name) {
            return self.frame.variable(variable.number);
        }
        let value = match name {
            "pc" => Some(self.pc.0),
            "duration" if self.duration.is_some() => self.duration,
            _ => self.frame.register_value_named(name),
        };
        value.map(u64::cast_signed)
    }
}
