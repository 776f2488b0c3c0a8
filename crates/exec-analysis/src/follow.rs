//! Following calls and returns: which function an instruction is in, and who called it.
//!
//! A call puts its return address on a stack; whoever comes to that address by a return has come back, from as many
//! calls as lie above. So recursion, `longjmp` and functions that never return are all followed without knowing
//! anything of the program. A jump to the start of another function is a tail call: it takes its caller's place. An
//! instruction that stands where the one before could not go is the start of an interrupt, which returns as a call
//! does.

use std::collections::HashMap;

use tracewire_exec_trace::machine::{DelaySlot, Flow, FlowKind, Machine};
use tracewire_exec_trace::record::{Address, CpuNumber, Instruction};
use tracewire_exec_trace::recording::{Code, CodeId, ReadError, Step};

use crate::functions::{FunctionId, Functions};

/// The deepest stack that is followed; calls beyond it count for the function on top.
const DEEPEST: usize = 1 << 16;

/// What happens on a cpu's stack of calls before an instruction executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// A function is entered.
    Enter(FunctionId),
    /// The function on top is left.
    Leave,
}

/// What is known of an instruction of the program.
#[derive(Clone, Copy)]
struct Known {
    flow: Flow,
    /// The address behind it; none where its length is not known.
    next: Option<u64>,
}

struct Frame {
    function: FunctionId,
    return_to: Option<u64>,
}

#[derive(Default)]
struct Cpu {
    number: CpuNumber,
    frames: Vec<Frame>,
    /// The branch that is to come into effect, and where the execution goes if it does not.
    branch: Option<(Flow, Option<u64>)>,
    /// The delay slot that comes before that.
    slot: Option<u64>,
    /// Where the next instruction stands if no branch is.
    next: Option<u64>,
}

/// Follows the calls of all cpus.
pub struct Follower {
    machine: &'static Machine,
    functions: Functions,
    known: HashMap<CodeId, Known>,
    cpus: Vec<Cpu>,
}

/// Where an instruction may go, as [`Machine::flow`], of what a recording knows of it.
#[must_use]
pub fn flow_of(machine: &Machine, address: Address, code: &Code) -> Option<Flow> {
    machine.flow(&Instruction {
        time: tracewire_exec_trace::record::Time::ZERO,
        cpu: None,
        taken: true,
        id: None,
        address,
        address_digits: 16,
        opcode: code.opcode,
        set: code.set,
        mode: code.mode.as_bytes(),
        security: code.security,
        disassembly: code.disassembly.as_bytes(),
    })
}

impl Follower {
    /// From the start of a trace.
    #[must_use]
    pub fn new(machine: &'static Machine, functions: Functions) -> Self {
        Self {
            machine,
            functions,
            known: HashMap::new(),
            cpus: Vec::new(),
        }
    }

    /// The functions, those seen so far too.
    #[must_use]
    pub const fn functions(&self) -> &Functions {
        &self.functions
    }

    fn known(&mut self, step: &Step<'_>) -> Result<Known, ReadError> {
        let id = step.code_id();
        if let Some(known) = self.known.get(&id) {
            return Ok(*known);
        }
        let code = step.code()?;
        let flow = flow_of(self.machine, step.address(), &code).filter(|_| step.is_taken());
        let known = Known {
            flow: flow.unwrap_or(Flow {
                kind: FlowKind::Next,
                is_conditional: false,
                target: None,
                delay_slot: DelaySlot::None,
            }),
            next: code
                .opcode
                .map(|opcode| step.address().0.wrapping_add(u64::from(opcode.size()))),
        };
        self.known.insert(id, known);
        Ok(known)
    }

    /// Takes the next instruction, and tells what happened on the stack of its cpu before it. The first instruction of
    /// a cpu enters the function that it is in.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn step(&mut self, step: &Step<'_>, tell: &mut impl FnMut(Move)) -> Result<(), ReadError> {
        let known = self.known(step)?;
        let number = step.cpu();
        let at = match self.cpus.iter().position(|cpu| cpu.number == number) {
            Some(at) => at,
            None => {
                self.cpus.push(Cpu {
                    number,
                    ..Cpu::default()
                });
                self.cpus.len() - 1
            }
        };
        let cpu = &mut self.cpus[at];
        let pc = step.address();
        if cpu.frames.is_empty() {
            cpu.push(&mut self.functions, pc, None, tell);
        } else if cpu.slot == Some(pc.0) {
            // The delay slot is the caller's.
            cpu.slot = None;
            return Ok(());
        } else {
            cpu.come(&mut self.functions, pc, tell);
        }
        cpu.slot = None;
        cpu.branch = None;
        cpu.next = known.next;
        if !known.flow.is_next() {
            let has_slot = known.flow.delay_slot != DelaySlot::None;
            cpu.slot = known.next.filter(|_| has_slot);
            // All delay slots are four bytes long.
            let behind = if has_slot {
                known.next.map(|next| next.wrapping_add(4))
            } else {
                known.next
            };
            cpu.branch = Some((known.flow, behind));
        }
        Ok(())
    }
}

impl Cpu {
    fn push(
        &mut self,
        functions: &mut Functions,
        pc: Address,
        return_to: Option<u64>,
        tell: &mut impl FnMut(Move),
    ) {
        if self.frames.len() >= DEEPEST {
            return;
        }
        let function = functions.entered(pc);
        self.frames.push(Frame {
            function,
            return_to,
        });
        tell(Move::Enter(function));
    }

    /// Comes to an instruction that is no delay slot.
    fn come(&mut self, functions: &mut Functions, pc: Address, tell: &mut impl FnMut(Move)) {
        let Some((flow, behind)) = self.branch else {
            if self.next.is_none_or(|next| next == pc.0) {
                self.fall_into(functions, pc, tell);
            } else if !self.come_back(pc, tell) {
                self.push(functions, pc, self.next, tell);
            }
            return;
        };
        let goes_on = behind == Some(pc.0);
        match flow.kind {
            FlowKind::Call if goes_on && flow.target != Some(pc) => {}
            FlowKind::Call => self.push(functions, pc, behind, tell),
            FlowKind::Next => self.fall_into(functions, pc, tell),
            FlowKind::Jump if goes_on && flow.is_conditional => {}
            FlowKind::Jump => {
                // Some returns look like any jump through a register; a jump whose target is in its code is none.
                let to_caller = self.frames.last().and_then(|frame| frame.return_to);
                if flow.target.is_none() && to_caller == Some(pc.0) {
                    self.come_back(pc, tell);
                } else {
                    self.fall_into(functions, pc, tell);
                }
            }
            FlowKind::Return if goes_on && flow.is_conditional => {}
            FlowKind::Return => {
                if !self.come_back(pc, tell) {
                    self.leave_start(functions, pc, tell);
                }
            }
            FlowKind::Anywhere => {
                if !self.come_back(pc, tell) && !goes_on {
                    self.push(functions, pc, behind, tell);
                }
            }
        }
    }

    /// Comes back to where a call was, if there is one.
    fn come_back(&mut self, pc: Address, tell: &mut impl FnMut(Move)) -> bool {
        let place = self
            .frames
            .iter()
            .rposition(|frame| frame.return_to == Some(pc.0));
        let Some(place) = place else { return false };
        for _ in self.frames.drain(place..) {
            tell(Move::Leave);
        }
        true
    }

    /// Goes on in the same function, unless this is the start of another one.
    fn fall_into(&mut self, functions: &mut Functions, pc: Address, tell: &mut impl FnMut(Move)) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        if !functions.is_entry(pc) {
            return;
        }
        let function = functions.entered(pc);
        // A function may jump to its own start.
        if function != frame.function {
            frame.function = function;
            tell(Move::Leave);
            tell(Move::Enter(function));
        }
    }

    /// Returns from the function in which the trace began, to one that called it before.
    fn leave_start(&mut self, functions: &mut Functions, pc: Address, tell: &mut impl FnMut(Move)) {
        for _ in self.frames.drain(..) {
            tell(Move::Leave);
        }
        self.push(functions, pc, None, tell);
    }
}
