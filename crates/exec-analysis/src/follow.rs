//! Following calls and returns: the function and the caller of each instruction.
//!
//! A call puts its return address into the link register or on the stack, and jumps. Either one instruction does both, or a jump
//! finds the address after itself there (`mov lr, pc; bx r3`). A return arrives at a return address with the stack pointer of its
//! call, and ends all calls above. So recursion, `longjmp` and functions that never return are followed without knowing the
//! program. A jump to the start of another function is a tail call: it replaces its caller. An instruction that the previous one
//! cannot reach is the start of an interrupt, which returns as a call does.
//!
//! If the trace has no stack pointer, only the return address decides.

use std::collections::HashMap;

use tracewire_arch::{DelaySlot, Flow, FlowKind, InstructionCode, Machine};
use tracewire_exec_trace::record::{AccessKind, Address, CpuNumber};
use tracewire_exec_trace::recording::{Code, CodeId, Effect, ReadError, Recording, Step};

use crate::functions::{FunctionId, Functions};

/// The deepest stack that is followed; calls beyond it count for the function on top.
const DEEPEST: usize = 1 << 16;

/// The bits of an address that AArch64's pointer authentication leaves as they are.
const UNSIGNED: u64 = (1 << 48) - 1;

/// A change of a cpu's stack of calls before an instruction executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// A function is entered.
    Enter {
        /// The function.
        function: FunctionId,
        /// The instruction that called it, jumped to it or was interrupted; none at the start of the trace.
        from: Option<Address>,
    },
    /// The function on top ends.
    Leave,
}

/// Facts about an instruction of the program.
#[derive(Clone, Copy)]
struct Known {
    flow: Flow,
    /// The address after it; none where its length is not known.
    next: Option<u64>,
    /// The value that it puts into the link register, if the code contains it and it does not jump.
    link: Option<u64>,
}

/// A register's role, by calling convention.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Stack,
    Link,
    Other,
}

/// How a call began.
#[derive(Clone, Copy)]
enum Origin {
    /// The trace began, or the program did.
    Start,
    /// A call.
    Call,
    /// An exception or an interrupt, with the stack pointer of the interrupted code.
    Exception(Option<u64>),
}

/// An exception or an interrupt that begins.
struct Exception {
    /// Where it comes back to, where that is known.
    return_to: Option<u64>,
}

struct Frame {
    function: FunctionId,
    /// Its first instruction that was seen.
    entry: u64,
    return_to: Option<u64>,
    /// The stack pointer at its first instruction.
    stack: Option<u64>,
    origin: Origin,
}

/// A branch that comes into effect with the next instruction.
struct Branch {
    flow: Flow,
    /// The address after it: where execution continues if it is not taken, and returns to if it is a call.
    behind: Option<u64>,
}

struct Cpu {
    number: CpuNumber,
    frames: Vec<Frame>,
    branch: Option<Branch>,
    /// The delay slot that comes before that.
    slot: Option<u64>,
    /// Where the next instruction is if no branch is.
    next: Option<u64>,
    /// The instruction before, delay slots left out.
    last: Option<Address>,
    /// The stack pointer.
    stack: Option<u64>,
    /// The return address, where the machine's calls put it.
    link: Option<u64>,
    /// Whether it was neither put there by a call nor loaded from memory: it is an address in this function.
    link_is_computed: bool,
    /// Whether calls put the return address into a register.
    has_link_register: bool,
}

/// Follows the calls of all cpus.
pub struct Follower<'a> {
    recording: &'a Recording,
    machine: &'static Machine,
    functions: Functions,
    known: HashMap<CodeId, Known>,
    /// By the recording's numbers of registers.
    roles: Vec<Role>,
    /// Whether the trace reports accesses to memory.
    has_memory: bool,
    cpus: Vec<Cpu>,
}

/// The control flow of an instruction, as [`Machine::flow`], from its code in a recording.
#[must_use]
pub fn flow_of(machine: &Machine, address: Address, code: &Code) -> Option<Flow> {
    machine.flow(&instruction_code(address, code)?)
}

fn instruction_code(address: Address, code: &Code) -> Option<InstructionCode> {
    Some(InstructionCode {
        address,
        address_digits: 16,
        opcode: code.opcode?,
        set: code.set,
    })
}

/// The roles of a recording's registers.
fn roles(recording: &Recording, machine: &Machine) -> Vec<Role> {
    let (stack, link) = (machine.stack_pointer(), machine.return_address());
    let role = |name: &str| match machine.locate(name.as_bytes()) {
        Some([part]) if part.register_bit == 0 && part.value_bit == 0 => {
            if part.register == stack {
                Role::Stack
            } else if Some(part.register) == link {
                Role::Link
            } else {
                Role::Other
            }
        }
        _ => Role::Other,
    };
    (recording.register_names().iter())
        .map(|name| role(name))
        .collect()
}

impl<'a> Follower<'a> {
    /// From the start of a trace, or from any instruction of it.
    #[must_use]
    pub fn new(recording: &'a Recording, machine: &'static Machine, functions: Functions) -> Self {
        Self {
            recording,
            machine,
            functions,
            known: HashMap::new(),
            roles: roles(recording, machine),
            has_memory: recording.summary().memory_accesses > 0,
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
            link: instruction_code(step.address(), &code)
                .and_then(|code| self.machine.computed_link(&code))
                .filter(|_| step.is_taken())
                .map(|link| link.0),
        };
        self.known.insert(id, known);
        Ok(known)
    }

    /// The cpu of a step, with the registers that it has before its first one.
    fn cpu(&mut self, step: &Step<'_>) -> Result<usize, ReadError> {
        let number = step.cpu();
        if let Some(at) = self.cpus.iter().position(|cpu| cpu.number == number) {
            return Ok(at);
        }
        let registers = self.recording.registers_at(number, step.number())?;
        let value = |wanted: Role| {
            (self.roles.iter().zip(&registers))
                .filter(|(role, _)| **role == wanted)
                .find_map(|(_, value)| value.known())
        };
        self.cpus.push(Cpu {
            number,
            frames: Vec::new(),
            branch: None,
            slot: None,
            next: None,
            last: None,
            stack: value(Role::Stack),
            link: value(Role::Link),
            link_is_computed: false,
            has_link_register: self.machine.return_address().is_some(),
        });
        Ok(self.cpus.len() - 1)
    }

    /// Processes the next instruction, and reports what happened on the stack of its cpu before it. The first instruction of a cpu
    /// enters its function.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn step(&mut self, step: &Step<'_>, tell: &mut impl FnMut(Move)) -> Result<(), ReadError> {
        let known = self.known(step)?;
        let at = self.cpu(step)?;
        let cpu = &mut self.cpus[at];
        let pc = step.address();
        // A delay slot is the caller's.
        if cpu.slot.take() != Some(pc.0) || cpu.frames.is_empty() {
            if cpu.frames.is_empty() {
                let function = self.functions.around(pc);
                cpu.enter(function, pc, None, Origin::Start, tell);
            } else {
                cpu.come(&mut self.functions, pc, tell);
            }
            cpu.last = Some(pc);
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
                cpu.branch = Some(Branch {
                    flow: known.flow,
                    behind,
                });
            }
        }
        // The value from the code; the trace may report the same.
        let cpu = &mut self.cpus[at];
        if let Some(link) = known.link {
            (cpu.link, cpu.link_is_computed) = (Some(link), true);
        } else if known.flow.kind == FlowKind::Call && cpu.has_link_register {
            let behind = cpu.branch.as_ref().and_then(|branch| branch.behind);
            (cpu.link, cpu.link_is_computed) = (behind, false);
        }
        self.take_effects(step, known.flow.kind);
        Ok(())
    }

    /// Keeps what an instruction did to the registers that calls use.
    fn take_effects(&mut self, step: &Step<'_>, kind: FlowKind) {
        let mut has_read = !self.has_memory;
        let mut linked = None;
        let (roles, cpus) = (&self.roles, &mut self.cpus);
        let of = |cpus: &mut Vec<Cpu>, number: CpuNumber| {
            cpus.iter().position(|cpu| cpu.number == number)
        };
        step.effects(|effect| match effect {
            Effect::Register(write) => {
                let role = roles.get(write.register.0 as usize);
                let role = role.copied().unwrap_or(Role::Other);
                if role == Role::Other {
                    return;
                }
                let Some(at) = of(cpus, write.cpu) else {
                    return;
                };
                let value = write.number().filter(|_| write.part.is_none());
                let cpu = &mut cpus[at];
                if role == Role::Stack {
                    cpu.stack = value;
                    if let [root] = &mut cpu.frames[..] {
                        root.stack = root.stack.or(value);
                    }
                } else {
                    let is_signed = |(old, new): (u64, u64)| (old ^ new) & UNSIGNED == 0;
                    if !cpu.link.zip(value).is_some_and(is_signed) {
                        linked = Some(at);
                    }
                    cpu.link = value;
                }
            }
            Effect::Access(access) => {
                has_read |= access.kind == AccessKind::Read;
                // Without a link register, the return address is what was last put on the stack.
                if access.kind == AccessKind::Write
                    && let Some(at) = of(cpus, step.cpu())
                    && !cpus[at].has_link_register
                    && cpus[at].stack == Some(access.address.0)
                {
                    cpus[at].link = access.word();
                }
            }
        });
        if let Some(at) = linked {
            self.cpus[at].link_is_computed = !has_read && kind != FlowKind::Call;
        }
    }
}

impl Cpu {
    /// Puts a function on the stack.
    fn enter(
        &mut self,
        function: FunctionId,
        pc: Address,
        return_to: Option<u64>,
        origin: Origin,
        tell: &mut impl FnMut(Move),
    ) {
        if self.frames.len() >= DEEPEST {
            return;
        }
        if let Origin::Exception(_) = origin {
            // The machine may have another stack for it.
            self.stack = None;
        }
        self.frames.push(Frame {
            function,
            entry: pc.0,
            return_to,
            stack: self.stack,
            origin,
        });
        tell(Move::Enter {
            function,
            from: self.last,
        });
    }

    /// Removes frames from the stack until this many are left.
    fn leave(&mut self, left: usize, tell: &mut impl FnMut(Move)) {
        for _ in self.frames.drain(left..) {
            tell(Move::Leave);
        }
    }

    fn call(
        &mut self,
        functions: &mut Functions,
        pc: Address,
        return_to: Option<u64>,
        tell: &mut impl FnMut(Move),
    ) {
        let function = functions.entered(pc);
        self.link_is_computed = false;
        self.enter(function, pc, return_to, Origin::Call, tell);
    }

    /// Comes to an instruction that is no delay slot.
    fn come(&mut self, functions: &mut Functions, pc: Address, tell: &mut impl FnMut(Move)) {
        let Some(Branch { flow, behind }) = self.branch.take() else {
            if self.next.is_none_or(|next| next == pc.0) {
                self.fall_into(functions, pc, tell);
            } else if !self.come_back(pc, tell) {
                self.interrupt(functions, pc, self.next, tell);
            }
            return;
        };
        let goes_on = behind == Some(pc.0);
        match flow.kind {
            FlowKind::Call if goes_on && flow.target != Some(pc) => {}
            FlowKind::Call => self.call(functions, pc, behind, tell),
            FlowKind::Next => self.fall_into(functions, pc, tell),
            FlowKind::Jump | FlowKind::Return if goes_on && flow.is_conditional => {}
            FlowKind::Jump if self.is_linked(behind, goes_on) => {
                self.call(functions, pc, behind, tell);
            }
            FlowKind::Jump if flow.target.is_some() => {
                if !self.restart(functions, pc, None, tell) {
                    self.fall_into(functions, pc, tell);
                }
            }
            FlowKind::Jump => {
                // Some returns look like any jump through a register.
                let top = self.frames.len().saturating_sub(1);
                let returns = self.frames.get(top).map(|frame| frame.return_to);
                if returns == Some(Some(pc.0)) && self.is_over(top) {
                    self.leave(top, tell);
                } else {
                    self.go(functions, pc, false, tell);
                }
            }
            FlowKind::Return => {
                if self.come_back(pc, tell) {
                } else if self.is_linked(behind, goes_on) {
                    self.call(functions, pc, behind, tell);
                } else {
                    self.go(functions, pc, !self.link_is_computed, tell);
                }
            }
            FlowKind::Anywhere => {
                if !self.come_back(pc, tell) && !goes_on {
                    self.interrupt(functions, pc, behind, tell);
                }
            }
        }
    }

    /// Whether a jump leaves its own return address where calls put it.
    fn is_linked(&self, behind: Option<u64>, goes_on: bool) -> bool {
        // Bit 0 selects the instruction set to return to.
        let mask = if self.has_link_register { !1 } else { !0 };
        let link = self.link.map(|link| link & mask);
        !goes_on && behind.is_some() && link == behind
    }

    /// Whether a call is over by the stack pointer, if it is known: the call's part of the stack is released, and its caller's is
    /// not.
    fn is_over(&self, at: usize) -> bool {
        let Some(frame) = self.frames.get(at) else {
            return false;
        };
        let Some(stack) = self.stack else { return true };
        if let Origin::Exception(_) = frame.origin {
            return true;
        }
        let caller = at.checked_sub(1).and_then(|at| self.frames.get(at));
        frame.stack.is_none_or(|entry| entry <= stack)
            && caller
                .and_then(|caller| caller.stack)
                .is_none_or(|entry| entry >= stack)
    }

    /// Comes back to where a call was, if there is one.
    fn come_back(&mut self, pc: Address, tell: &mut impl FnMut(Move)) -> bool {
        let mut places = (0..self.frames.len())
            .rev()
            .filter(|at| self.frames[*at].return_to == Some(pc.0));
        // Of several, as recursion has, the one that the stack pointer fits. It fits none where a function changes
        // the stack.
        let Some(first) = places.next() else {
            return false;
        };
        let place = std::iter::once(first)
            .chain(places)
            .find(|at| self.is_over(*at));
        let place = place.unwrap_or(first);
        if let Origin::Exception(stack) = self.frames[place].origin {
            self.stack = stack;
        }
        self.leave(place, tell);
        true
    }

    /// Continues in the same function, unless this is the start of another one.
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
            tell(Move::Enter {
                function,
                from: self.last,
            });
        }
    }

    /// Continues at an address that is not in the code and not after a call: within the function, in another one, out of several
    /// (`longjmp`), or from the function in which the trace began to its caller.
    fn go(
        &mut self,
        functions: &mut Functions,
        pc: Address,
        is_return: bool,
        tell: &mut impl FnMut(Move),
    ) {
        if self.restart(functions, pc, None, tell) {
            return;
        }
        let here = functions.at(pc);
        let executing = self.frames.len() - 1;
        let left = match self.stack {
            Some(stack) => {
                let is_gone = |frame: &Frame| frame.stack.is_some_and(|entry| entry < stack);
                let mut left = executing + 1;
                while left > 0 && is_gone(&self.frames[left - 1]) {
                    left -= 1;
                }
                // With a link register, a function that called others has put that on the stack: its stack
                // pointer is not that of its start any more.
                while self.has_link_register
                    && left > usize::from(executing > 0)
                    && (left <= executing || is_return)
                    && let frame = &self.frames[left - 1]
                    && frame.stack == Some(stack)
                    && (here.is_none() || here != Some(frame.function))
                {
                    left -= 1;
                }
                // If none is left, this is another stack.
                if left == 0 && !is_return {
                    executing + 1
                } else {
                    left
                }
            }
            None if !is_return => executing + 1,
            None if executing > 0 && here == Some(self.frames[executing].function) => executing + 1,
            None => 0,
        };
        self.leave(left, tell);
        if self.frames.is_empty() {
            let function = functions.entered(pc);
            self.enter(function, pc, None, Origin::Start, tell);
        } else {
            self.fall_into(functions, pc, tell);
        }
    }

    /// Begins an exception or an interrupt, which comes back to an address.
    fn interrupt(
        &mut self,
        functions: &mut Functions,
        pc: Address,
        return_to: Option<u64>,
        tell: &mut impl FnMut(Move),
    ) {
        let exception = Exception { return_to };
        if !self.restart(functions, pc, Some(exception), tell) {
            let function = functions.entered(pc);
            let origin = Origin::Exception(self.stack);
            self.enter(function, pc, return_to, origin, tell);
        }
    }

    /// Begins again what began at this address, if this is not a call within it: the program, after its end or a
    /// reset, or an exception whose handler never came back.
    fn restart(
        &mut self,
        functions: &mut Functions,
        pc: Address,
        exception: Option<Exception>,
        tell: &mut impl FnMut(Move),
    ) -> bool {
        let began = self.frames.iter().position(|frame| {
            let then = match (frame.origin, &exception) {
                (Origin::Call, _) | (Origin::Exception(_), None) => return false,
                (Origin::Start, _) => frame.stack,
                (Origin::Exception(stack), Some(_)) => stack,
            };
            frame.entry == pc.0
                && match (then, self.stack) {
                    (Some(then), Some(now)) => now >= then,
                    // A jump to the first instruction may be that of a loop.
                    _ => exception.is_some() && matches!(frame.origin, Origin::Start),
                }
        });
        let Some(began) = began else { return false };
        if exception.is_none() && began + 1 == self.frames.len() {
            return false;
        }
        let (return_to, origin) = match (self.frames[began].origin, exception) {
            (Origin::Exception(_), Some(Exception { return_to })) => {
                (return_to, Origin::Exception(self.stack))
            }
            _ => (None, Origin::Start),
        };
        self.leave(began, tell);
        let function = functions.entered(pc);
        self.enter(function, pc, return_to, origin, tell);
        true
    }
}
