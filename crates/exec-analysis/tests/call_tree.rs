//! The tree of calls against the stack of a machine that was made up: random programs with recursion, tail calls,
//! `longjmp`, jump tables, interrupts and restarts, in the instruction sets of several machines.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tracewire_arch::{Architecture, Machine};
use tracewire_exec_analysis::calls::{CallTree, for_each_call};
use tracewire_exec_trace::recording::{OpenOptions, Recording};

/// Functions of the program. Two are not like others: `setjmp` and `longjmp`.
const FUNCTIONS: u64 = 8;
const SETJMP: u64 = FUNCTIONS;
const LONGJMP: u64 = FUNCTIONS + 1;
const BASE: u64 = 0x1_0000;
const SIZE: u64 = 0x1_0000;
/// The size of a function's code for one action.
const BLOCK: u64 = 0x80;
const VECTOR: u64 = 0x100;
const STACK: u64 = 0x80_0000;

const fn start(function: u64) -> u64 {
    BASE + function * SIZE
}

/// An action besides plain instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Action {
    Call(u64),
    /// By an address in a register.
    CallIndirect(u64),
    /// By a jump with the return address put into the link register before, on machines that have one.
    CallByHand(u64),
    Tail(u64),
    TailIndirect(u64),
    Return,
    /// A jump through a register within the function; by the link register where the machine has one and the
    /// function does not need it.
    Table,
    Setjmp,
    Longjmp(u64),
    Interrupt,
    Restart,
}

#[derive(Clone, Debug)]
struct Frame {
    function: String,
    return_to: u64,
    /// The stack pointer at its start.
    entry: u64,
    /// Whether it has put the return address on the stack.
    has_saved: bool,
    /// The interrupted state.
    interrupted: Option<(u64, u64, u64)>,
}

struct Made {
    machine: Architecture,
    text: String,
    time: u64,
    pc: u64,
    stack: u64,
    link: u64,
    frames: Vec<Frame>,
    /// The possible targets of `longjmp`: the number of frames, the address after the call, the stack pointer.
    marks: Vec<(usize, u64, u64)>,
    own: BTreeMap<String, u64>,
    calls: BTreeMap<String, u64>,
    listed: Vec<(u64, usize, String)>,
    /// The code of each function: the place of each action, with the return address on the stack or not. A repeated action uses the
    /// same instructions.
    blocks: BTreeMap<(u64, Action, bool), u64>,
    /// Whether the trace reports registers.
    has_registers: bool,
}

impl Made {
    fn new(machine: Architecture, has_registers: bool) -> Self {
        let mut made = Self {
            machine,
            text: String::new(),
            time: 0,
            pc: start(0),
            stack: STACK,
            link: 0,
            frames: Vec::new(),
            marks: Vec::new(),
            own: BTreeMap::new(),
            calls: BTreeMap::new(),
            listed: Vec::new(),
            blocks: BTreeMap::new(),
            has_registers,
        };
        made.enter(start(0), 0);
        made.set_stack(STACK);
        made
    }

    fn is_x86(&self) -> bool {
        self.machine == Architecture::X86_64
    }

    fn is_arm(&self) -> bool {
        self.machine == Architecture::Arm
    }

    fn has_slots(&self) -> bool {
        self.machine == Architecture::Mips
    }

    fn width(&self) -> u64 {
        u64::from(self.machine.pointer_size())
    }

    /// An instruction that is executed, with its code as the machine's manual has it.
    fn put(&mut self, code: &str) {
        self.time += 1;
        let (time, pc) = (self.time, self.pc);
        writeln!(
            self.text,
            "{time} clk 0 IT ({time}) {pc:08x} {code} A svc : x"
        )
        .unwrap();
        let row: Vec<&str> = self.frames.iter().map(|one| &*one.function).collect();
        *self.own.entry(row.join(";")).or_default() += 1;
        self.pc += code.len() as u64 / 2;
    }

    fn register(&mut self, name: &str, value: u64) {
        if self.has_registers {
            let (time, digits) = (self.time, self.width() as usize * 2);
            writeln!(self.text, "{time} clk R {name} {value:0digits$x}").unwrap();
        }
    }

    fn access(&mut self, kind: &str, address: u64, value: u64) {
        let (time, size) = (self.time, self.width());
        let digits = size as usize * 2;
        writeln!(
            self.text,
            "{time} clk M{kind}{size} {address:08x} {value:0digits$x}"
        )
        .unwrap();
    }

    fn set_stack(&mut self, value: u64) {
        self.put_nop();
        self.stack = value;
        self.stack_register();
    }

    fn stack_register(&mut self) {
        let name = if self.is_x86() { "rsp" } else { "sp" };
        self.register(name, self.stack);
    }

    fn link_register(&mut self, value: u64) {
        self.link = value;
        let name = match self.machine {
            Architecture::Arm => "lr",
            Architecture::Aarch64 => "x30",
            _ => "ra",
        };
        self.register(name, value);
    }

    fn put_nop(&mut self) {
        let nop = match self.machine {
            Architecture::Arm => "e1a00000",
            Architecture::Aarch64 => "d503201f",
            Architecture::Mips => "00000000",
            Architecture::Riscv64 => "00000013",
            _ => "90",
        };
        self.put(nop);
    }

    /// Begins a function, with its stack operations.
    fn enter(&mut self, at: u64, return_to: u64) {
        let function = format!("{at:#x}");
        self.listed
            .push((self.time, self.frames.len(), function.clone()));
        *self.calls.entry(function.clone()).or_default() += 1;
        self.frames.push(Frame {
            function,
            return_to,
            entry: self.stack,
            has_saved: false,
            interrupted: None,
        });
        self.pc = at;
    }

    /// Puts the return address on the stack, as a function does that calls others. Room for it is taken always.
    fn save(&mut self) {
        if self.frames.last().unwrap().has_saved {
            return;
        }
        self.put_nop();
        self.stack -= 0x10 + 0x10 * (start_of(self.pc) / SIZE % 3);
        self.stack_register();
        if !self.is_x86() {
            self.put_nop();
            self.access("W", self.stack, self.link);
        }
        self.frames.last_mut().unwrap().has_saved = true;
    }

    /// Takes the return address from the stack.
    fn restore(&mut self) {
        let Frame {
            has_saved,
            return_to,
            entry,
            ..
        } = self.frames.last().unwrap().clone();
        if !has_saved {
            return;
        }
        if !self.is_x86() {
            self.put_nop();
            self.access("R", self.stack, return_to);
            self.link_register(return_to);
        }
        self.put_nop();
        self.stack = entry;
        self.stack_register();
    }

    fn slot(&mut self) {
        if self.has_slots() {
            self.put_nop();
        }
    }

    fn behind(&self, size: u64) -> u64 {
        self.pc + size + if self.has_slots() { 4 } else { 0 }
    }

    fn call(&mut self, to: u64, is_indirect: bool) {
        let pc = self.pc;
        let offset = to.wrapping_sub(pc);
        let code = match (self.machine, is_indirect) {
            (Architecture::Arm, false) => {
                format!(
                    "{:08x}",
                    0xeb00_0000 | (offset.wrapping_sub(8) >> 2) & 0xff_ffff
                )
            }
            (Architecture::Arm, true) => "e12fff33".into(),
            (Architecture::Aarch64, false) => {
                format!("{:08x}", 0x9400_0000 | (offset >> 2) & 0x3ff_ffff)
            }
            (Architecture::Aarch64, true) => "d63f0200".into(),
            (Architecture::Mips, false) => format!("{:08x}", 0x0c00_0000 | (to >> 2) & 0x3ff_ffff),
            (Architecture::Mips, true) => "0320f809".into(),
            (Architecture::Riscv64, false) => format!("{:08x}", 0x6f | 1 << 7 | jal(offset)),
            (Architecture::Riscv64, true) => "000780e7".into(),
            (_, false) => {
                let offset = (offset.wrapping_sub(5) as u32).swap_bytes();
                format!("e8{offset:08x}")
            }
            (_, true) => "ffd0".into(),
        };
        let return_to = self.behind(code.len() as u64 / 2);
        self.put(&code);
        if self.is_x86() {
            self.push(return_to);
        } else {
            self.link_register(return_to);
        }
        self.slot();
        self.enter(to, return_to);
    }

    fn push(&mut self, value: u64) {
        self.stack -= 8;
        self.stack_register();
        self.access("W", self.stack, value);
    }

    fn call_by_hand(&mut self, to: u64) {
        if self.is_arm() {
            let return_to = self.pc + 8;
            self.put("e1a0e00f");
            self.link_register(return_to);
            // bx r3; ldr pc, [r3].
            let loads = (to / SIZE).is_multiple_of(2);
            self.put(if loads { "e593f000" } else { "e12fff13" });
            if loads {
                self.access("R", 0x50_0000, to);
            }
            self.enter(to, return_to);
        } else if self.is_x86() {
            // push; jmp *%rax.
            let return_to = self.pc + 7;
            self.put("6800000000");
            self.push(return_to);
            self.put("ffe0");
            self.enter(to, return_to);
        } else {
            self.call(to, true);
        }
    }

    fn jump(&mut self, to: u64, is_indirect: bool) {
        let offset = to.wrapping_sub(self.pc);
        let code = match (self.machine, is_indirect) {
            (Architecture::Arm, false) => {
                format!(
                    "{:08x}",
                    0xea00_0000 | (offset.wrapping_sub(8) >> 2) & 0xff_ffff
                )
            }
            (Architecture::Arm, true) => "e12fff13".into(),
            (Architecture::Aarch64, false) => {
                format!("{:08x}", 0x1400_0000 | (offset >> 2) & 0x3ff_ffff)
            }
            (Architecture::Aarch64, true) => "d61f0200".into(),
            (Architecture::Mips, false) => format!("{:08x}", 0x0800_0000 | (to >> 2) & 0x3ff_ffff),
            (Architecture::Mips, true) => "03200008".into(),
            (Architecture::Riscv64, false) => format!("{:08x}", 0x6f | jal(offset)),
            (Architecture::Riscv64, true) => "00078067".into(),
            (_, false) => {
                let offset = (offset.wrapping_sub(5) as u32).swap_bytes();
                format!("e9{offset:08x}")
            }
            (_, true) => "ffe0".into(),
        };
        self.put(&code);
        self.slot();
        self.pc = to;
    }

    /// The instruction that comes back by the link register or the stack.
    fn put_return(&mut self) {
        let code = match self.machine {
            Architecture::Arm => "e12fff1e",
            Architecture::Aarch64 => "d65f03c0",
            Architecture::Mips => "03e00008",
            Architecture::Riscv64 => "00008067",
            _ => "c3",
        };
        self.put(code);
    }

    fn tail(&mut self, to: u64, is_indirect: bool) {
        self.restore();
        self.jump(to, is_indirect);
        let depth = self.frames.len();
        self.marks.retain(|mark| mark.0 < depth);
        let function = format!("{to:#x}");
        self.listed
            .push((self.time, self.frames.len() - 1, function.clone()));
        *self.calls.entry(function.clone()).or_default() += 1;
        let top = self.frames.last_mut().unwrap();
        top.function = function;
        top.has_saved = false;
    }

    fn come_back(&mut self) {
        self.restore();
        let return_to = self.frames.last().unwrap().return_to;
        self.put_return();
        if self.is_x86() {
            self.access("R", self.stack, return_to);
            self.stack += 8;
            self.stack_register();
        }
        self.slot();
        self.frames.pop();
        let depth = self.frames.len();
        self.marks.retain(|mark| mark.0 <= depth);
        self.pc = return_to;
    }

    fn table(&mut self) {
        let to = start_of(self.pc) + SIZE - BLOCK;
        if self.is_arm() && self.frames.last().unwrap().has_saved {
            self.put("e08fe103");
            self.link_register(to);
            self.put_return();
        } else if self.is_x86() && (self.pc / SIZE).is_multiple_of(2) {
            self.put_nop();
            self.push(to);
            self.put_return();
            self.access("R", self.stack, to);
            self.stack += 8;
            self.stack_register();
        } else {
            self.jump(to, true);
            return;
        }
        self.pc = to;
    }

    fn setjmp(&mut self) {
        self.save();
        let (depth, stack) = (self.frames.len(), self.stack);
        self.call(start(SETJMP), false);
        let return_to = self.frames.last().unwrap().return_to;
        self.put_nop();
        self.come_back();
        self.marks.push((depth, return_to, stack));
    }

    fn longjmp(&mut self, choice: u64) {
        let Some(&(depth, to, stack)) = self.marks.get(choice as usize % self.marks.len().max(1))
        else {
            return;
        };
        self.save();
        self.call(start(LONGJMP), false);
        self.put_nop();
        self.stack = stack;
        self.stack_register();
        if self.is_x86() {
            self.jump(to, true);
        } else {
            self.put_nop();
            self.access("R", 0x50_0000, to);
            self.link_register(to);
            self.put_return();
            self.slot();
        }
        self.frames.truncate(depth);
        self.marks.retain(|mark| mark.0 <= depth);
        self.pc = to;
    }

    fn interrupt(&mut self) {
        let interrupted = (self.pc, self.stack, self.link);
        self.enter(VECTOR, self.pc);
        self.frames.last_mut().unwrap().interrupted = Some(interrupted);
        self.put_nop();
        self.stack -= 0x40;
        self.stack_register();
        self.put_nop();
    }

    fn end_interrupt(&mut self, interrupted: (u64, u64, u64)) {
        let (pc, stack, link) = interrupted;
        self.restore();
        self.put_nop();
        self.stack = stack;
        self.stack_register();
        if !self.is_x86() {
            self.put_nop();
            self.access("R", 0x50_0000, link);
            self.link_register(link);
        }
        let code = match self.machine {
            Architecture::Arm => "f8bd0a00",
            Architecture::Aarch64 => "d69f03e0",
            Architecture::Mips => "42000018",
            Architecture::Riscv64 => "30200073",
            _ => "cf",
        };
        self.put(code);
        self.frames.pop();
        let depth = self.frames.len();
        self.marks.retain(|mark| mark.0 <= depth);
        self.pc = pc;
    }

    fn restart(&mut self) {
        let code = match self.machine {
            Architecture::Arm => "ef000011",
            Architecture::Aarch64 => "d45e0000",
            Architecture::Mips => "0000000c",
            Architecture::Riscv64 => "00000073",
            _ => "f4",
        };
        self.put(code);
        self.frames.clear();
        self.marks.clear();
        self.stack = STACK;
        self.stack_register();
        self.enter(start(0), 0);
        self.set_stack(STACK);
    }

    fn act(&mut self, action: Action) {
        let depth = self.frames.len();
        let top = self.frames.last().unwrap().clone();
        // The root does not return, and a jump to its own start is a loop. A jump to an address that was never called
        // is not known to lead to a function.
        let at_root = depth == 1;
        let may_call = depth < 24;
        let may_jump = |to: u64| {
            let name = format!("{:#x}", start(to));
            !at_root
                && top.interrupted.is_none()
                && name != top.function
                && self.calls.contains_key(&name)
        };
        let is_possible = match action {
            Action::Call(_) | Action::CallIndirect(_) | Action::CallByHand(_) => may_call,
            Action::Interrupt => may_call,
            Action::Tail(to) | Action::TailIndirect(to) => may_jump(to),
            Action::Return => !at_root,
            Action::Table => top.interrupted.is_none(),
            Action::Setjmp => top.interrupted.is_none() && may_call,
            Action::Longjmp(_) => self.frames.iter().all(|one| one.interrupted.is_none()),
            Action::Restart => true,
        };
        if !is_possible {
            return;
        }
        if action != Action::Interrupt {
            let function = start_of(self.pc);
            let next = function + BLOCK * (1 + self.blocks.len() as u64 % 500);
            let block = self.blocks.entry((function, action, top.has_saved));
            let block = *block.or_insert(next);
            self.jump(block, true);
        }
        match action {
            Action::Call(to) => {
                self.save();
                self.call(start(to), false);
            }
            Action::CallIndirect(to) => {
                self.save();
                self.call(start(to), true);
            }
            Action::CallByHand(to) => {
                self.save();
                self.call_by_hand(start(to));
            }
            Action::Tail(to) => self.tail(start(to), false),
            Action::TailIndirect(to) => self.tail(start(to), true),
            Action::Return => match top.interrupted {
                Some(interrupted) => self.end_interrupt(interrupted),
                None => self.come_back(),
            },
            Action::Table => self.table(),
            Action::Setjmp => self.setjmp(),
            Action::Longjmp(choice) => self.longjmp(choice),
            Action::Interrupt => self.interrupt(),
            Action::Restart => self.restart(),
        }
        self.put_nop();
    }
}

const fn start_of(pc: u64) -> u64 {
    pc - pc % SIZE
}

/// An offset as RISC-V's `jal` has it.
const fn jal(offset: u64) -> u64 {
    (offset >> 20 & 1) << 31
        | (offset >> 1 & 0x3ff) << 21
        | (offset >> 11 & 1) << 20
        | (offset >> 12 & 0xff) << 12
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1..FUNCTIONS).prop_map(Action::Call),
        2 => (1..FUNCTIONS).prop_map(Action::CallIndirect),
        3 => (1..FUNCTIONS).prop_map(Action::CallByHand),
        2 => (1..FUNCTIONS).prop_map(Action::Tail),
        2 => (1..FUNCTIONS).prop_map(Action::TailIndirect),
        6 => Just(Action::Return),
        2 => Just(Action::Table),
        1 => Just(Action::Setjmp),
        1 => (0..8u64).prop_map(Action::Longjmp),
        1 => Just(Action::Interrupt),
        1 => Just(Action::Restart),
    ]
}

/// Without registers, actions that only they show are left out.
fn is_known_from_code(machine: Architecture, action: &Action) -> bool {
    match action {
        Action::Longjmp(_) | Action::Setjmp => false,
        Action::CallByHand(_) => machine != Architecture::X86_64,
        Action::Table => !matches!(machine, Architecture::Arm | Architecture::X86_64),
        _ => true,
    }
}

fn check(machine: Architecture, actions: &[Action], has_registers: bool) {
    let mut made = Made::new(machine, has_registers);
    for action in actions {
        if has_registers || is_known_from_code(machine, action) {
            made.act(*action);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.trace");
    std::fs::write(&path, &made.text).unwrap();
    let options = OpenOptions {
        architecture: Some(machine),
        ..OpenOptions::default()
    };
    let recording = Recording::open(&path, &options).unwrap();
    assert_eq!(recording.len(), made.time);
    let of = Machine::of(machine);
    let tree = CallTree::of(&recording, of, None, 0..u64::MAX).unwrap();
    let what = || {
        let lines = made.text.lines().filter(|line| !line.contains(" : x"));
        format!("{machine:?} {actions:?}\n{}", lines.count())
    };

    let mut folded = Vec::new();
    tree.write_folded(&mut folded).unwrap();
    let folded: BTreeMap<String, u64> = String::from_utf8(folded)
        .unwrap()
        .lines()
        .map(|line| {
            let (row, count) = line.rsplit_once(' ').unwrap();
            (row.to_owned(), count.parse().unwrap())
        })
        .collect();
    assert_eq!(folded, made.own, "{}", what());
    let calls: BTreeMap<String, u64> = tree
        .profile()
        .into_iter()
        .map(|one| (one.function, one.calls))
        .collect();
    assert_eq!(calls, made.calls, "{}", what());

    let mut listed = Vec::new();
    for_each_call(&recording, of, None, 0..u64::MAX, &mut |call| {
        listed.push((call.instruction.0, call.depth, call.function));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(listed, made.listed, "{}", what());
}

const MACHINES: [Architecture; 5] = [
    Architecture::Arm,
    Architecture::Aarch64,
    Architecture::Mips,
    Architecture::Riscv64,
    Architecture::X86_64,
];

#[test]
fn the_tree_is_the_machines_own() {
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        ProptestConfig {
            cases: 60,
            failure_persistence: None,
            ..ProptestConfig::default()
        },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let actions = proptest::collection::vec(action(), 1..200);
    let strategy = (
        proptest::sample::select(&MACHINES[..]),
        actions,
        any::<bool>(),
    );
    runner
        .run(&strategy, |(machine, actions, has_registers)| {
            check(machine, &actions, has_registers);
            Ok(())
        })
        .unwrap();
}
