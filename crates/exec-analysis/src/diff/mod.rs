//! Compares two traces that should have the same execution: a model and the register transfer level, two builds of a processor, two
//! runs.
//!
//! Instructions are matched by their addresses, for each cpu separately. If they differ, the next place within a window is searched
//! from which both continue in the same way. Written values are compared location by location: each register and each byte of
//! memory must get the same values in the same order. Different locations may be written in another order, and by another
//! instruction of the window. A value that a location already has need not be written by both; digits that one trace does not have
//! match any. Times, numbers and texts of instructions are not compared, nor whether a skipped instruction without an effect is
//! reported (`IS`).

mod stream;
mod values;

use std::collections::VecDeque;
use std::fmt;

use tracewire_arch::Machine;
use tracewire_exec_trace::record::{Address, CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{ReadError, Recording};

use stream::{Item, Names, Stream};
use values::Values;

/// How traces are compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many instructions of each trace are looked through to find them together again, and how much later a value
    /// may be written.
    pub window: usize,
    /// Where to begin: both traces at their first instruction at this address.
    pub from: Option<Address>,
    /// Registers that are not compared, by any of their names.
    pub ignored: Vec<String>,
    /// After how many differences to stop.
    pub most: usize,
}

impl Default for Options {
    /// A window of 64, from the start, everything, 10 differences.
    fn default() -> Self {
        Self {
            window: 64,
            from: None,
            ignored: Vec::new(),
            most: 10,
        }
    }
}

/// An instruction of both traces, or of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which cpu.
    pub cpu: CpuNumber,
    /// The number in the first trace.
    pub left: Option<InstructionNumber>,
    /// The number in the second.
    pub right: Option<InstructionNumber>,
    /// The address in the first trace, else in the second.
    pub address: Address,
}

/// A difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// The traces execute other instructions.
    Way {
        /// Where the second one goes.
        right: Address,
        /// How many instructions the first and the second one execute before they come together again; none where they
        /// do not within the window.
        apart: Option<(usize, usize)>,
    },
    /// A location gets another value; `None` if one trace does not write it.
    Value {
        /// The register, or the address of the byte.
        location: Location,
        /// In the first trace.
        left: Option<String>,
        /// In the second.
        right: Option<String>,
    },
    /// A load reads another value from the same place.
    Read {
        /// The address.
        address: Address,
        /// In the first trace.
        left: String,
        /// In the second.
        right: String,
    },
    /// One trace ends, and the other continues.
    End {
        /// Whether it is the first that ends.
        is_left: bool,
    },
}

/// A place that has a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Location {
    /// A register, by GDB's name where it has one, else the trace's.
    Register(String),
    /// A byte of memory.
    Memory(Address),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(name) => f.write_str(name),
            Self::Memory(address) => write!(f, "memory at {address}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nothing = || "nothing".to_owned();
        match self {
            Self::Way { right, apart } => {
                write!(f, "the ways part: the second trace is at {right}")?;
                match apart {
                    Some((left, right)) => write!(
                        f,
                        "; together again {left} instructions later in the first and {right} in the second"
                    ),
                    None => f.write_str("; they do not come together within the window"),
                }
            }
            Self::Value {
                location,
                left,
                right,
            } => write!(
                f,
                "{location} gets {} in the first trace and {} in the second",
                left.clone().unwrap_or_else(nothing),
                right.clone().unwrap_or_else(nothing)
            ),
            Self::Read {
                address,
                left,
                right,
            } => write!(
                f,
                "{left} is read at {address} in the first trace, {right} in the second"
            ),
            Self::End { is_left: true } => {
                f.write_str("the first trace ends here, the second goes on")
            }
            Self::End { is_left: false } => {
                f.write_str("the second trace ends here, the first goes on")
            }
        }
    }
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The differences, in order for each cpu.
    pub differences: Vec<(Place, Difference)>,
    /// How many instructions of the first trace were found in the second.
    pub compared: u64,
}

/// How many instructions must be the same for ways to have come together.
const TOGETHER: usize = 4;

/// Compares two recordings.
///
/// # Errors
/// When the file of one is damaged.
pub fn diff(left: &Recording, right: &Recording, options: &Options) -> Result<Outcome, ReadError> {
    // Both are of one machine, whatever each of them looks like.
    let machine = left
        .architecture()
        .or(right.architecture())
        .map(Machine::of);
    let mut outcome = Outcome::default();
    for (cpu, of_right) in pairs(left, right) {
        let mut names = Names::new(&options.ignored);
        let mut comparison = Comparison {
            cpu,
            left: Stream::new(left, cpu, machine, &mut names),
            right: Stream::new(right, of_right, machine, &mut names),
            values: Values::new(options.window as u64),
            options,
            outcome: &mut outcome,
            names: &names,
        };
        comparison.run()?;
    }
    Ok(outcome)
}

/// The cpus of two traces that are compared: those of one number. The numbers of threads are others in each run, so threads are paired in
/// the order of their numbers.
fn pairs(left: &Recording, right: &Recording) -> Vec<(CpuNumber, CpuNumber)> {
    let (left_cpus, right_cpus) = (&left.summary().cpus, &right.summary().cpus);
    let are_threads = left.format().is_perf() && right.format().is_perf();
    if are_threads && left_cpus.len() == right_cpus.len() {
        return left_cpus
            .iter()
            .copied()
            .zip(right_cpus.iter().copied())
            .collect();
    }
    let mut cpus = left_cpus.clone();
    cpus.extend(right_cpus);
    cpus.sort_unstable();
    cpus.dedup();
    cpus.into_iter().map(|cpu| (cpu, cpu)).collect()
}

struct Comparison<'a> {
    cpu: CpuNumber,
    left: Stream<'a>,
    right: Stream<'a>,
    values: Values,
    options: &'a Options,
    outcome: &'a mut Outcome,
    names: &'a Names,
}

impl Comparison<'_> {
    fn run(&mut self) -> Result<(), ReadError> {
        if let Some(from) = self.options.from {
            self.left.skip_to(from)?;
            self.right.skip_to(from)?;
        }
        let window = self.options.window.max(1);
        while self.outcome.differences.len() < self.options.most {
            self.left.fill(window + TOGETHER)?;
            self.right.fill(window + TOGETHER)?;
            let (left, right) = (self.left.items.front(), self.right.items.front());
            match (left, right) {
                (None, None) => break,
                (Some(left), Some(right)) if left.is_same(right) => self.take(1, 1),
                (Some(left), Some(right)) => {
                    let place = self.place(Some(left), Some(right));
                    let right = right.address;
                    let apart = self.meet(window);
                    if let Some((a, b)) = apart
                        && self.is_reordered(a, b)
                    {
                        self.take(a, b);
                        continue;
                    }
                    self.tell(place, Difference::Way { right, apart });
                    match apart {
                        Some((a, b)) => self.pass(a, b),
                        None => return Ok(()),
                    }
                }
                (left, right) => {
                    let is_left = left.is_none();
                    let place = self.place(left, right);
                    self.tell(place, Difference::End { is_left });
                    break;
                }
            }
            self.report_values(false);
        }
        self.report_values(true);
        Ok(())
    }

    fn place(&self, left: Option<&Item>, right: Option<&Item>) -> Place {
        Place {
            cpu: self.cpu,
            left: left.map(|item| item.number),
            right: right.map(|item| item.number),
            address: left.or(right).map_or(Address(0), |item| item.address),
        }
    }

    fn tell(&mut self, place: Place, difference: Difference) {
        // A word of memory that differs is one difference, not four.
        let is_same_word = |(of, before): &(Place, Difference)| match (before, &difference) {
            (
                Difference::Value {
                    location: Location::Memory(before),
                    ..
                },
                Difference::Value {
                    location: Location::Memory(now),
                    ..
                },
            ) => (of.left, of.right) == (place.left, place.right) && before.0 / 8 == now.0 / 8,
            _ => false,
        };
        if self.outcome.differences.len() < self.options.most
            && !self
                .outcome
                .differences
                .iter()
                .rev()
                .take(8)
                .any(is_same_word)
        {
            self.outcome.differences.push((place, difference));
        }
    }

    fn report_values(&mut self, is_end: bool) {
        for (place, key, left, right) in self.values.differences(is_end) {
            let place = Place {
                cpu: self.cpu,
                ..place
            };
            let location = self.names.location(key);
            self.tell(
                place,
                Difference::Value {
                    location,
                    left,
                    right,
                },
            );
        }
    }

    /// Takes instructions that are the same ones, perhaps in another order.
    fn take(&mut self, left: usize, right: usize) {
        let lefts: Vec<Item> = self.left.items.drain(..left).collect();
        let mut rights: VecDeque<Item> = self.right.items.drain(..right).collect();
        for item in &lefts {
            let same = rights.iter().position(|other| item.is_same(other));
            let other = same.and_then(|at| rights.remove(at));
            self.outcome.compared += 1;
            let place = self.place(Some(item), other.as_ref());
            if let Some(other) = &other {
                for (address, left, right) in item.reads_that_differ(other) {
                    self.tell(
                        place,
                        Difference::Read {
                            address,
                            left,
                            right,
                        },
                    );
                }
            }
            self.values.write(true, item, place);
            if let Some(other) = &other {
                self.values.write(false, other, place);
            }
        }
        self.values.go_on(lefts.len() as u64);
    }

    /// Skips instructions that only one trace has. Each trace continues with the values that they wrote.
    fn pass(&mut self, left: usize, right: usize) {
        for item in self.left.items.drain(..left) {
            self.values.set(&item, true);
        }
        for item in self.right.items.drain(..right) {
            self.values.set(&item, false);
        }
    }

    /// How many instructions lie before the next place from which both traces go the same way: as few as possible.
    fn meet(&self, window: usize) -> Option<(usize, usize)> {
        let (left, right) = (&self.left.items, &self.right.items);
        let is_together = |a: usize, b: usize| {
            let rest = (left.len() - a).min(right.len() - b).min(TOGETHER);
            let same = |at: usize| left[a + at].is_same(&right[b + at]);
            rest > 0 && (0..rest).all(same)
        };
        let most = |items: &VecDeque<Item>| items.len().min(window + 1);
        (1..=most(left) + most(right))
            .find_map(|sum| {
                (0..=sum)
                    .map(|a| (a, sum - a))
                    .filter(|(a, b)| *a < most(left) && *b < most(right))
                    .find(|(a, b)| is_together(*a, *b))
            })
            .or_else(|| {
                // Both end within the window: the ends are together.
                let both_end = left.len() <= window && right.len() <= window;
                (both_end && left.len() == right.len()).then_some((left.len(), right.len()))
            })
    }

    /// Whether the next instructions are the same ones in another order.
    fn is_reordered(&self, left: usize, right: usize) -> bool {
        let sorted = |items: &VecDeque<Item>, count: usize| {
            let mut keys: Vec<_> = items.iter().take(count).map(|item| item.address).collect();
            keys.sort_unstable();
            keys
        };
        left == right && sorted(&self.left.items, left) == sorted(&self.right.items, right)
    }
}
