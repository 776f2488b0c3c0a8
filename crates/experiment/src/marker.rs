//! The data of a static tracepoint's probe: its arguments, as text.

use std::collections::BTreeMap;

use tracewire_agent_expr::{Context, Evaluation, Verified};
use tracewire_model::{Address, RegisterNumber, ThreadId};

use crate::error::TargetError;
use crate::target::{Hit, HitHandler, LookAround, MemoryRead, Outcome, StoppedThread};

/// One argument of a marker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkerValue {
    /// A program that leaves the number, extended to 64 bits; `None` if it cannot be read.
    pub program: Option<Verified>,
    /// Whether it is a signed number.
    pub signed: bool,
}

/// A thread at a USDT probe, with access to the probe's data.
pub struct Marked<'m> {
    thread: &'m mut dyn StoppedThread,
    values: &'m [MarkerValue],
}

impl<'m> Marked<'m> {
    /// The thread, and the marker's arguments in order.
    pub fn new(thread: &'m mut dyn StoppedThread, values: &'m [MarkerValue]) -> Self {
        Self { thread, values }
    }
}

impl StoppedThread for Marked<'_> {
    fn id(&self) -> ThreadId {
        self.thread.id()
    }

    fn is_alone(&self) -> bool {
        self.thread.is_alone()
    }

    fn cpu(&mut self) -> u32 {
        self.thread.cpu()
    }

    fn timestamp(&self) -> u64 {
        self.thread.timestamp()
    }

    fn timestamp_ns(&self) -> Option<u64> {
        self.thread.timestamp_ns()
    }

    fn register(&mut self, register: RegisterNumber) -> Option<u64> {
        self.thread.register(register)
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        self.thread.register_block()
    }

    fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        self.thread.read_memory(pieces);
    }

    /// `arg1=-5 arg2=93824992235520`: numbers as the program's types have them, `?` for one that cannot be read. They are
    /// counted as SystemTap counts them; GDB's `$_probe_arg0` is the first.
    fn static_data(&mut self) -> Option<Vec<u8>> {
        let values: Vec<String> = (1..)
            .zip(self.values)
            .map(|(number, value)| {
                let result = value.program.as_ref().and_then(|program| {
                    Evaluation::new()
                        .evaluate(program.code(), &mut Reading(&mut *self.thread))
                        .ok()
                        .flatten()
                });
                match result {
                    Some(result) if value.signed => {
                        format!("arg{number}={}", result.cast_signed())
                    }
                    Some(result) => format!("arg{number}={result}"),
                    None => format!("arg{number}=?"),
                }
            })
            .collect();
        Some(values.join(" ").into_bytes())
    }
}

/// A handler of hits that is shown marked threads at markers.
pub struct MarkedHandler<'h> {
    inner: &'h mut dyn HitHandler,
    markers: &'h BTreeMap<Address, Vec<MarkerValue>>,
}

impl<'h> MarkedHandler<'h> {
    /// The handler, and the arguments of its probes.
    pub fn new(
        inner: &'h mut dyn HitHandler,
        markers: &'h BTreeMap<Address, Vec<MarkerValue>>,
    ) -> Self {
        Self { inner, markers }
    }
}

impl HitHandler for MarkedHandler<'_> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        match hit {
            Hit::Tracepoint(address) => match self.markers.get(&address) {
                Some(values) => self.inner.hit(hit, &mut Marked::new(thread, values)),
                None => self.inner.hit(hit, thread),
            },
            Hit::Step(_) | Hit::Write { .. } => self.inner.hit(hit, thread),
        }
    }

    fn looks_around(&self) -> bool {
        self.inner.looks_around()
    }

    fn looks_now(&self) -> bool {
        self.inner.looks_now()
    }

    fn look_around(&mut self) -> LookAround {
        self.inner.look_around()
    }

    fn stops_at(&mut self, address: Address, thread: &mut dyn StoppedThread) -> bool {
        self.inner.stops_at(address, thread)
    }

    fn thread_ended(&mut self, thread: ThreadId) {
        self.inner.thread_ended(thread);
    }
}

/// The registers and memory from which an argument is read.
struct Reading<'t>(&'t mut dyn StoppedThread);

impl Context for Reading<'_> {
    fn register(&mut self, register: u16) -> Option<u64> {
        self.0.register(RegisterNumber(register))
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        let mut piece = [MemoryRead {
            address: Address(address),
            bytes: vec![0; usize::from(size)],
            filled: 0,
        }];
        self.0.read_memory(&mut piece);
        let [MemoryRead { bytes, filled, .. }] = &piece;
        // Probes are only supported on x86, which is little-endian.
        (*filled == bytes.len()).then(|| {
            bytes
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte))
        })
    }

    fn variable(&mut self, _: u16) -> i64 {
        0
    }

    fn set_variable(&mut self, _: u16, _: i64) {}
}
