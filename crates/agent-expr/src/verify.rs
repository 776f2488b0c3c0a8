//! Whether a program can be evaluated without surprise, found without evaluating it.

use std::collections::BTreeSet;

use crate::evaluation::STACK_LIMIT;
use crate::instruction::{DecodeError, Instruction, PROGRAM_LIMIT, instructions};
use crate::opcode::Opcode;

/// A checked program, and its accesses.
///
/// Every instruction decodes; every jump lands on one; no path runs off the end. At each instruction the stack has the same depth
/// on every path, and it never under- or overflows. The remaining errors depend on the target: a division by zero, unreadable
/// memory, a missing register, a loop without end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    code: Box<[u8]>,
    stack: usize,
    result: bool,
    loops: bool,
    reads_memory: bool,
    collects_memory: bool,
    prints: bool,
    registers: BTreeSet<u16>,
    variables_read: BTreeSet<u16>,
    variables_set: BTreeSet<u16>,
    variables_collected: BTreeSet<u16>,
}

impl Verified {
    /// The program itself.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// The most cells on the stack at any instant.
    #[must_use]
    pub const fn stack(&self) -> usize {
        self.stack
    }

    /// Whether every way to an `end` leaves a result on the stack, as a condition must.
    #[must_use]
    pub const fn has_result(&self) -> bool {
        self.result
    }

    /// Whether a jump goes back. A program without has no more steps than bytes.
    #[must_use]
    pub const fn has_loops(&self) -> bool {
        self.loops
    }

    /// Whether a value is loaded from memory.
    #[must_use]
    pub const fn reads_memory(&self) -> bool {
        self.reads_memory
    }

    /// Whether memory or a string is collected.
    #[must_use]
    pub const fn collects_memory(&self) -> bool {
        self.collects_memory
    }

    /// Whether something is printed.
    #[must_use]
    pub const fn prints(&self) -> bool {
        self.prints
    }

    /// The registers whose values it takes.
    #[must_use]
    pub const fn registers(&self) -> &BTreeSet<u16> {
        &self.registers
    }

    /// The trace state variables whose values it takes.
    #[must_use]
    pub const fn variables_read(&self) -> &BTreeSet<u16> {
        &self.variables_read
    }

    /// The trace state variables it sets.
    #[must_use]
    pub const fn variables_set(&self) -> &BTreeSet<u16> {
        &self.variables_set
    }

    /// The trace state variables it collects.
    #[must_use]
    pub const fn variables_collected(&self) -> &BTreeSet<u16> {
        &self.variables_collected
    }
}

/// Why a program must not be evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Bytes that are no instruction, even where no path leads.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// No instructions.
    #[error("the program is empty")]
    Empty,
    /// Longer than jumps reach.
    #[error("the program is {length} bytes long, {PROGRAM_LIMIT} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// An operation that has a number but no meaning.
    #[error("reserved opcode `{opcode}` at offset {offset}")]
    Reserved {
        /// Where.
        offset: usize,
        /// Which.
        opcode: Opcode,
    },
    /// A jump into the middle of an instruction, or out of the program.
    #[error("the jump at offset {offset} goes to {target}, where no instruction starts")]
    BadJump {
        /// Where the jump is.
        offset: usize,
        /// Where it goes.
        target: usize,
    },
    /// A path after the last instruction.
    #[error("the program runs off its end after offset {offset}")]
    RunsOff {
        /// The last instruction.
        offset: usize,
    },
    /// Fewer cells on the stack than the instruction takes.
    #[error("`{opcode}` at offset {offset} needs {needs} values on the stack, there are {depth}")]
    StackUnderflow {
        /// Where.
        offset: usize,
        /// Which.
        opcode: Opcode,
        /// How many it needs.
        needs: usize,
        /// How many there are.
        depth: usize,
    },
    /// More cells than the stack has.
    #[error("the stack overflows at offset {offset}: more than {STACK_LIMIT} values")]
    StackOverflow {
        /// Where.
        offset: usize,
    },
    /// Two paths come with different depths.
    #[error("offset {offset} is reached with {one} and with {other} values on the stack")]
    DepthMismatch {
        /// Where the paths join.
        offset: usize,
        /// The depth on the first path.
        one: usize,
        /// The depth on the second.
        other: usize,
    },
}

/// Checks a program by following every path through it once.
///
/// # Errors
/// The first flaw found; see [`VerifyError`].
pub fn verify(program: &[u8]) -> Result<Verified, VerifyError> {
    if program.is_empty() {
        return Err(VerifyError::Empty);
    }
    if program.len() > PROGRAM_LIMIT {
        return Err(VerifyError::TooLong {
            length: program.len(),
        });
    }
    let code = instructions(program).collect::<Result<Vec<_>, _>>()?;
    let mut facts = Verified {
        code: program.into(),
        stack: 0,
        result: true,
        loops: false,
        reads_memory: false,
        collects_memory: false,
        prints: false,
        registers: BTreeSet::new(),
        variables_read: BTreeSet::new(),
        variables_set: BTreeSet::new(),
        variables_collected: BTreeSet::new(),
    };
    for instruction in &code {
        facts.note(instruction)?;
    }
    facts.follow(&code)?;
    Ok(facts)
}

impl Verified {
    /// Notes the accesses of the instruction, even if no path leads there.
    fn note(&mut self, instruction: &Instruction<'_>) -> Result<(), VerifyError> {
        let &Instruction {
            offset,
            opcode,
            operand,
        } = instruction;
        if opcode.is_reserved() {
            return Err(VerifyError::Reserved { offset, opcode });
        }
        // Operands of these are two bytes wide.
        let number = operand.number() as u16;
        match opcode {
            Opcode::Reg => _ = self.registers.insert(number),
            Opcode::GetV => _ = self.variables_read.insert(number),
            Opcode::SetV => _ = self.variables_set.insert(number),
            Opcode::TraceV => _ = self.variables_collected.insert(number),
            Opcode::Ref8 | Opcode::Ref16 | Opcode::Ref32 | Opcode::Ref64 => {
                self.reads_memory = true;
            }
            Opcode::Trace | Opcode::TraceQuick | Opcode::Trace16 | Opcode::TraceNz => {
                self.collects_memory = true;
            }
            Opcode::Printf => self.prints = true,
            Opcode::Goto | Opcode::IfGoto => {
                self.loops |= usize::from(number) <= offset;
            }
            _ => {}
        }
        Ok(())
    }

    fn follow(&mut self, code: &[Instruction<'_>]) -> Result<(), VerifyError> {
        // The depth with which each instruction is reached, once it is.
        let mut depths: Vec<Option<usize>> = vec![None; code.len()];
        let mut pending = vec![0];
        if let Some(depth) = depths.first_mut() {
            *depth = Some(0);
        }
        while let Some(index) = pending.pop() {
            let (Some(instruction), Some(Some(depth))) = (code.get(index), depths.get(index))
            else {
                continue;
            };
            let (offset, depth) = (instruction.offset, *depth);
            let (needs, leaves) = instruction.stack_effect();
            let below = depth
                .checked_sub(needs)
                .ok_or(VerifyError::StackUnderflow {
                    offset,
                    opcode: instruction.opcode,
                    needs,
                    depth,
                })?;
            let after = below + leaves;
            if after > STACK_LIMIT {
                return Err(VerifyError::StackOverflow { offset });
            }
            self.stack = self.stack.max(after);

            let jump = match instruction.opcode {
                Opcode::Goto | Opcode::IfGoto => {
                    let target = instruction.operand.number() as usize;
                    let index = code.binary_search_by_key(&target, |other| other.offset);
                    Some(index.map_err(|_| VerifyError::BadJump { offset, target })?)
                }
                _ => None,
            };
            let next = match instruction.opcode {
                Opcode::Goto => None,
                Opcode::End => {
                    self.result &= depth > 0;
                    None
                }
                _ => Some(index + 1),
            };
            for index in jump.into_iter().chain(next) {
                match depths.get_mut(index) {
                    None => return Err(VerifyError::RunsOff { offset }),
                    Some(reached @ None) => {
                        *reached = Some(after);
                        pending.push(index);
                    }
                    Some(Some(one)) if *one != after => {
                        return Err(VerifyError::DepthMismatch {
                            offset: code.get(index).map_or(offset, |other| other.offset),
                            one: *one,
                            other: after,
                        });
                    }
                    Some(Some(_)) => {}
                }
            }
        }
        Ok(())
    }
}
