//! A tracepoint, checked and prepared for compilation.

use tracewire_agent_expr::{Verified, verify};
use tracewire_arch::Register;
use tracewire_experiment::Withheld;
use tracewire_model::{Action, RegisterMask, RegisterNumber};
use tracewire_tracefile::SET_HEADER;

use super::budget::RingCounts;
use super::code::Made;
use super::cost::Prices;
use super::count::PlannedCounting;
use super::frame::{FRAME_HEADER, Needs, VARIABLE};
use super::memory::PIECES;
use super::rate::PlannedRate;
use crate::pad::{CannotCompile, PadOptions, PadTracepoint, PadVariable};

pub(super) enum PlannedAction {
    Memory {
        base: Option<RegisterNumber>,
        offset: u64,
        length: u32,
    },
    Expression(Verified),
}

pub(super) struct Planned {
    /// Its number in the shared memory, and the offset of its block.
    pub(super) index: u32,
    pub(super) block: u64,
    pub(super) number: u16,
    pub(super) pass_count: u64,
    pub(super) condition: Option<Verified>,
    pub(super) registers: Registers,
    pub(super) actions: Vec<PlannedAction>,
    pub(super) condition_needs: Needs,
    pub(super) frame_needs: Needs,
    /// The aggregates, which count before a frame is made.
    pub(super) counting: Option<PlannedCounting>,
    pub(super) makes_frames: bool,
    pub(super) rate: Option<PlannedRate>,
    /// The offsets of its counts in rings.
    pub(super) in_ring: RingCounts,
    /// The cost of its hits, as far as it is known.
    pub(super) prices: Prices,
    /// How long its record gets at most.
    pub(super) reserved: u32,
    pub(super) shrinks: bool,
    pub(super) unbounded: bool,
}

/// The program's registers in a frame.
pub(super) enum Registers {
    None,
    /// A whole register block.
    Block,
    /// Those of a set.
    Set(u32, RegisterMask),
    /// A whole register block in which some are zero, and the note about it.
    Withheld(Withheld),
}

impl Registers {
    /// How many bytes they take in a frame.
    pub(super) fn bytes(&self, options: &PadOptions<'_>) -> u32 {
        match self {
            Self::None => 0,
            Self::Block => 1 + options.registers.layout_64().size(),
            Self::Withheld(withheld) => {
                let masks = withheld.masks().iter().filter(|mask| **mask != 0).count();
                1 + options.registers.layout_64().size() + masks as u32 * VARIABLE
            }
            Self::Set(_, mask) => {
                let registers = options.registers.layout_64().registers().iter();
                let kept = registers.filter(|register| mask.contains(register.number));
                SET_HEADER as u32 + kept.map(Register::size).sum::<u32>()
            }
        }
    }
}

/// The limits of a tracepoint's frames, found by a first pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Bound {
    /// The bytes of the blocks that actions make.
    pub(super) bytes: u64,
    pub(super) pieces: u64,
    /// Not even the most of it is known.
    pub(super) unbounded: bool,
    /// It is often less.
    pub(super) varies: bool,
}

pub(super) fn needs(program: &Verified, options: &PadOptions<'_>, needs: &mut Needs) -> Made {
    for number in program
        .variables_read()
        .iter()
        .chain(program.variables_collected())
        .chain(program.variables_set())
    {
        let number = tracewire_model::VariableNumber(i32::from(*number));
        match options.variables.get(&number) {
            Some(PadVariable::Timestamp) => needs.time = true,
            Some(PadVariable::Thread) => needs.thread = true,
            Some(PadVariable::Cpu) => needs.cpu = true,
            Some(PadVariable::Duration) => {}
            Some(PadVariable::Slot(_)) => {}
            None => return Err(CannotCompile::Variable(number)),
        }
    }
    Ok(())
}

pub(super) fn check(code: &[u8]) -> Made<Verified> {
    let program = verify(code)?;
    if program.prints() {
        return Err(CannotCompile::Prints);
    }
    Ok(program)
}

impl Planned {
    pub(super) fn new(tracepoint: &PadTracepoint<'_>, options: &PadOptions<'_>) -> Made<Self> {
        let definition = tracepoint.definition;
        if definition.step_count > 0 {
            return Err(CannotCompile::Steps);
        }
        let number = definition.number.0;
        let number = u16::try_from(number)
            .ok()
            .filter(|number| (1..=i16::MAX as u16).contains(number))
            .ok_or(CannotCompile::Number(number))?;
        let block = options
            .layout
            .tracepoint(tracepoint.index)
            .ok_or(CannotCompile::Block(tracepoint.index))?;
        let condition = definition.condition.as_deref().map(check).transpose()?;
        let mut condition_needs = Needs::default();
        if let Some(condition) = &condition {
            if !condition.has_result() {
                return Err(CannotCompile::NoResult);
            }
            needs(condition, options, &mut condition_needs)?;
        }
        let counting = PlannedCounting::new(tracepoint, options)?;
        let stamp = options.stamp.is_some();
        let mut frame_needs = Needs {
            time: stamp,
            thread: stamp,
            cpu: stamp,
        };
        let mut asked = options.always_registers;
        let mut actions = Vec::new();
        for action in &definition.actions {
            match action {
                Action::Registers(_) => asked = true,
                &Action::Memory {
                    base,
                    offset,
                    length,
                } => {
                    let limit = options.layout.sizes.frame_limit;
                    let length = u32::try_from(length)
                        .ok()
                        .filter(|length| *length <= limit)
                        .ok_or(CannotCompile::Frame {
                            needed: length,
                            limit,
                        })?;
                    actions.push(PlannedAction::Memory {
                        base,
                        offset,
                        length,
                    });
                }
                Action::Expression(code) => {
                    let program = check(code)?;
                    needs(&program, options, &mut frame_needs)?;
                    actions.push(PlannedAction::Expression(program));
                }
                Action::StaticData => return Err(CannotCompile::StaticData),
            }
        }
        let registers = match tracepoint.kept {
            _ if !asked => Registers::None,
            Some(kept) => Registers::Set(kept.number, kept.registers.clone()),
            None if definition.withholds_registers => Registers::Withheld(Withheld::new(
                options.registers.layout_64(),
                &definition.actions,
            )),
            None => Registers::Block,
        };
        Ok(Self {
            index: tracepoint.index,
            block,
            number,
            pass_count: definition.pass_count,
            condition,
            registers,
            actions,
            condition_needs,
            frame_needs,
            counting,
            makes_frames: definition.makes_frames(),
            rate: PlannedRate::new(tracepoint, options)?,
            in_ring: RingCounts::new(tracepoint.index, options)?,
            prices: Prices::default(),
            reserved: longest(options),
            shrinks: false,
            unbounded: false,
        })
    }

    /// Stores the result of the first pass.
    pub(super) fn settle(&mut self, bound: Bound, options: &PadOptions<'_>) -> Made {
        let limit = options.layout.sizes.frame_limit;
        if !bound.unbounded && bound.pieces > u64::from(PIECES) {
            return Err(CannotCompile::Pieces);
        }
        let needed = bound.bytes + u64::from(self.fixed_bytes(options));
        if needed > u64::from(limit) {
            return Err(CannotCompile::Frame { needed, limit });
        }
        self.unbounded = bound.unbounded;
        self.shrinks = bound.varies || bound.unbounded;
        if !bound.unbounded {
            // At most a frame limit, which has 16 bits.
            self.reserved =
                (options.layout.header_bytes() as u32 + needed as u32).next_multiple_of(8);
        }
        Ok(())
    }

    /// The bytes of every frame.
    fn fixed_bytes(&self, options: &PadOptions<'_>) -> u32 {
        let stamp = options.stamp.map_or(0, |_| 4 * VARIABLE);
        FRAME_HEADER + self.registers.bytes(options) + stamp
    }
}

/// The longest record.
fn longest(options: &PadOptions<'_>) -> u32 {
    (options.layout.header_bytes() as u32 + options.layout.sizes.frame_limit) & !7
}
