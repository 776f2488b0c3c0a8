//! A random mix: tracepoints, a buffer, threads.

use fastrand::Rng;
use tracewire_model::{
    Action, Address, RegisterNumber, TracepointDefinition, TracepointKind, TracepointNumber,
};

use crate::program::{PLACES, Program};

/// Where frames go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferChoice {
    pub size: u64,
    pub circular: bool,
}

/// A tracepoint of the mix.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub number: i32,
    pub place: usize,
    pub pass_count: u64,
    pub step_count: u64,
    /// The sequence number of a hit, so many low bits of it, must be this.
    pub condition: Option<(u8, u8)>,
    pub registers: bool,
    /// Whether a debugger requests a jump (`ftrace`).
    pub fast: bool,
}

impl Chosen {
    /// Whether the condition is true of a hit.
    pub fn wants(&self, sequence: u64) -> bool {
        self.condition
            .is_none_or(|(mask, value)| sequence & u64::from(mask) == u64::from(value))
    }

    /// As the experiment takes it.
    pub fn definition(&self, program: &Program) -> TracepointDefinition {
        // tracev 1; end
        let time = Action::Expression(vec![0x2e, 0, 1, 0x27]);
        let thread = |length| Action::Memory {
            base: Some(RegisterNumber(12)),
            offset: 0,
            length,
        };
        let rip = Action::parse_list("R10000").expect("an action");
        let rip = if self.registers { &*rip } else { &[] };
        let actions = [&[thread(16), time.clone()], rip].concat();
        // A step collects less, and is known by that.
        let step_actions = if self.step_count > 0 {
            [&[thread(8), time], rip].concat()
        } else {
            Vec::new()
        };
        TracepointDefinition {
            number: TracepointNumber(self.number),
            address: Address(program.places[self.place]),
            enabled: true,
            kind: if self.fast {
                TracepointKind::Fast { length: 5 }
            } else {
                TracepointKind::Trap
            },
            step_count: self.step_count,
            pass_count: self.pass_count,
            // reg rsi; const8 mask; bit_and; const8 value; equal; end
            condition: self
                .condition
                .map(|(mask, value)| vec![0x26, 0, 4, 0x22, mask, 0x0f, 0x22, value, 0x13, 0x27]),
            actions,
            step_actions,
            counting: tracewire_model::Counting::default(),
            withholds_registers: false,
            free_stack: None,
            source: Default::default(),
        }
    }
}

/// The plan of one run.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Its seed.
    pub seed: u64,
    pub threads: usize,
    pub events: usize,
    /// The call of the first thread at which the program reaches the pause.
    pub pause: Option<u64>,
    pub tracepoints: Vec<Chosen>,
    pub buffer: BufferChoice,
    /// Whether all are traps.
    pub traps: bool,
}

impl Mix {
    /// The mix of a seed. Only a debugger pauses.
    pub fn new(seed: u64, debugger: bool) -> Self {
        let mut random = Rng::with_seed(seed);
        let random = &mut random;
        let threads = 1 + random.usize(..4);
        let most = if random.u8(..3) == 0 { 60 } else { 20 };
        let events = 2 + random.usize(..most);
        let mut tracepoints: Vec<Chosen> = Vec::new();
        for number in 1..=(2 + random.u64(..6)) {
            let step_count = if random.u8(..4) == 0 {
                1 + random.u64(..5)
            } else {
                0
            };
            tracepoints.push(Chosen {
                number: number as i32,
                place: random.usize(..PLACES),
                pass_count: if random.u8(..3) == 0 {
                    1 + random.u64(..2 * events as u64)
                } else {
                    0
                },
                step_count,
                condition: (random.u8(..3) == 0).then(|| {
                    let mask = [1, 3, 7][random.usize(..3)];
                    (mask, random.u8(..=mask))
                }),
                registers: random.u8(..3) == 0,
                fast: debugger && step_count == 0 && random.u8(..3) == 0,
            });
        }
        // A debugger's frame may hold all registers of the machine.
        let least = if debugger { 3000 } else { 400 };
        let buffer = match random.u64(..6) {
            0 => BufferChoice {
                size: least + random.u64(..4000),
                circular: false,
            },
            1 | 2 => BufferChoice {
                size: least + random.u64(..8000),
                circular: true,
            },
            _ => BufferChoice {
                size: 1 << 20,
                circular: false,
            },
        };
        Self {
            seed,
            threads,
            events,
            pause: (debugger && random.u8(..4) == 0).then(|| random.u64(..events as u64)),
            tracepoints,
            buffer,
            traps: !debugger && random.u8(..8) == 0,
        }
    }

    /// The arguments of the program.
    pub fn arguments(&self, results: &str) -> Vec<String> {
        let pause = self.pause.map_or(-1, u64::cast_signed);
        vec![
            results.to_owned(),
            (self.seed | 1).to_string(),
            self.threads.to_string(),
            self.events.to_string(),
            pause.to_string(),
        ]
    }
}
