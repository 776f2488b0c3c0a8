//! The knowledge of branches against real executions: each step goes where its instruction may go, and everywhere it
//! could only go.

use std::path::Path;

use tracewire_arch::{Architecture, DelaySlot, Flow, FlowKind, InstructionCode, Machine, Opcode};
use tracewire_exec_trace::guess;
use tracewire_exec_trace::record::{Instruction, Line};
use tracewire_exec_trace::text::{Format, Piece, Sink, TraceText, read};
use tracewire_model::Address;

struct Walk {
    machine: &'static Machine,
    /// The branch whose delay slot is next, or that was last.
    branch: Option<Flow>,
    slot: bool,
    next: u64,
    counts: [u32; 5],
    wrong: Vec<String>,
}

impl Sink for Walk {
    fn instruction(&mut self, _: Line, i: &Instruction<'_>) {
        let at = i.address.0;
        let expected = match self.branch {
            _ if self.slot => {
                at == self.next || self.branch.unwrap().delay_slot == DelaySlot::IfTaken
            }
            None => at == self.next || self.next == 0,
            Some(flow) => {
                let goes = flow.target.is_none_or(|target| target.0 & !1 == at)
                    && flow.kind != FlowKind::Next;
                goes || (flow.is_conditional && at == self.next) || flow.kind == FlowKind::Anywhere
            }
        };
        if !expected {
            self.wrong.push(format!(
                "{:x} {:?} behind {:x?}, next {:x}",
                at,
                String::from_utf8_lossy(i.disassembly),
                self.branch,
                self.next
            ));
        }
        let flow = self.machine.flow(&i.code().unwrap()).unwrap();
        self.counts[flow.kind as usize] += 1;
        self.next = at + u64::from(i.opcode.unwrap().size());
        if self.slot {
            self.slot = false;
        } else {
            self.branch = (!flow.is_next()).then_some(flow);
            self.slot = flow.delay_slot != DelaySlot::None;
        }
    }
}

#[test]
fn real_programs_go_where_their_code_says() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target-replay/tests/data");
    for name in [
        "aarch64", "arm", "mips", "mipsel", "nios2", "ppc", "riscv32", "riscv64",
    ] {
        let text = TraceText::open(&data.join(format!("{name}.trace.zst"))).unwrap();
        let format = Format::detect(&text).unwrap();
        let architecture = guess(format, &text).unwrap();
        assert_eq!(architecture.name(), name);
        let mut walk = Walk {
            machine: Machine::of(architecture),
            branch: None,
            slot: false,
            next: 0,
            counts: [0; 5],
            wrong: Vec::new(),
        };
        read(format, &text, &Piece::whole(&text), &mut walk);
        assert!(walk.wrong.is_empty(), "{name}: {:#?}", walk.wrong);
        let [next, jumps, calls, returns, _] = walk.counts;
        assert!(next > 500 && jumps > 50, "{name}: {:?}", walk.counts);
        // What is called comes back, but for the end of the program; some returns are on a condition.
        assert!(
            calls > 5 && returns + 3 >= calls,
            "{name}: {:?}",
            walk.counts
        );
    }
}

/// Kind, whether conditional, and target of a code at 0x10000.
fn flow(architecture: Architecture, code: &str) -> (FlowKind, bool, Option<u64>) {
    let instruction = InstructionCode {
        address: Address(0x10000),
        address_digits: 8,
        opcode: Opcode {
            value: u128::from_str_radix(code, 16).unwrap(),
            digits: code.len() as u8,
        },
        set: (architecture == Architecture::Arm && code.starts_with(['f', 'b', 'd', '4']))
            .then_some(tracewire_arch::InstructionSet::T),
    };
    let flow = Machine::of(architecture).flow(&instruction).unwrap();
    (
        flow.kind,
        flow.is_conditional,
        flow.target.map(|target| target.0),
    )
}

/// Codes and meanings as GDB's disassembler has them.
#[test]
fn codes_as_disassemblers_have_them() {
    use Architecture::{Aarch64, Arm, I386, Mips, PowerPc, Riscv32, Riscv64, X86_64};
    use FlowKind::{Anywhere, Call, Jump, Next, Return};
    for (architecture, code, kind, conditional, target) in [
        (X86_64, "e8fbffffff", Call, false, Some(0x10000)),
        (X86_64, "ff25e22f0000", Jump, false, None),
        (X86_64, "f30f1efa", Next, false, None),
        (X86_64, "7510", Jump, true, Some(0x10012)),
        (X86_64, "0f84fa000000", Jump, true, Some(0x10100)),
        (X86_64, "f3c3", Return, false, None),
        (X86_64, "41ffd4", Call, false, None),
        (X86_64, "0f05", Anywhere, false, None),
        (X86_64, "f3a4", Jump, true, Some(0x10000)),
        (X86_64, "f348ab", Jump, true, Some(0x10000)),
        (I386, "40", Next, false, None),
        // b.n, beq.n, bl, blx, b.w, beq.w, cbz, pop {pc}, bx lr, tbb, ldr pc.
        (Arm, "e7fe", Jump, false, Some(0x10000)),
        (Arm, "d0fe", Jump, true, Some(0x10000)),
        (Arm, "f7fffffe", Call, false, Some(0x10000)),
        (Arm, "f7ffeffe", Call, false, Some(0x10000)),
        (Arm, "f7ffbffe", Jump, false, Some(0x10000)),
        (Arm, "f43faffe", Jump, true, Some(0x10000)),
        (Arm, "b108", Jump, true, Some(0x10006)),
        (Arm, "bd10", Return, false, None),
        (Arm, "4770", Return, false, None),
        (Arm, "4718", Jump, false, None),
        (Arm, "4798", Call, false, None),
        (Arm, "f3bf8f5f", Next, false, None),
        (Arm, "f85dfb04", Return, false, None),
        // A32: bl, beq, bx lr, blx r3, pop {r4, pc}, moveq pc, lr, ldr pc, subs pc, svc, blx.
        (Arm, "ebfffffe", Call, false, Some(0x10000)),
        (Arm, "0afffffe", Jump, true, Some(0x10000)),
        (Arm, "e12fff1e", Return, false, None),
        (Arm, "e12fff33", Call, false, None),
        (Arm, "e8bd8010", Return, false, None),
        (Arm, "01a0f00e", Return, true, None),
        (Arm, "e59ff004", Jump, false, None),
        (Arm, "e25ef004", Anywhere, false, None),
        (Arm, "ef000000", Anywhere, false, None),
        (Arm, "e0810002", Next, false, None),
        (Arm, "e0030291", Next, false, None),
        (Aarch64, "94000001", Call, false, Some(0x10004)),
        (Aarch64, "17ffffff", Jump, false, Some(0xfffc)),
        (Aarch64, "54000041", Jump, true, Some(0x10008)),
        (Aarch64, "b4000040", Jump, true, Some(0x10008)),
        (Aarch64, "37080040", Jump, true, Some(0x10008)),
        (Aarch64, "d65f03c0", Return, false, None),
        (Aarch64, "d65f0bff", Return, false, None),
        (Aarch64, "d63f0100", Call, false, None),
        (Aarch64, "d69f03e0", Anywhere, false, None),
        (Aarch64, "d4000001", Anywhere, false, None),
        (Aarch64, "d503201f", Next, false, None),
        (Riscv64, "a001", Jump, false, Some(0x10000)),
        (Riscv64, "8082", Return, false, None),
        (Riscv64, "9782", Call, false, None),
        (Riscv64, "c111", Jump, true, Some(0x10004)),
        (Riscv64, "2001", Next, false, None),
        (Riscv32, "2001", Call, false, Some(0x10000)),
        (Riscv32, "30200073", Anywhere, false, None),
        (PowerPc, "4e800020", Return, false, None),
        (PowerPc, "4d820020", Return, true, None),
        (PowerPc, "4e800421", Call, false, None),
        (PowerPc, "48000001", Call, false, Some(0x10000)),
        (PowerPc, "429f0005", Jump, false, Some(0x10004)),
        (PowerPc, "44000002", Anywhere, false, None),
        (Mips, "03e00008", Return, false, None),
        (Mips, "0320f809", Call, false, None),
        (Mips, "1000ffff", Jump, false, Some(0x10000)),
        (Mips, "5440ffff", Jump, true, Some(0x10000)),
        (Mips, "0411ffff", Call, false, Some(0x10000)),
        (Mips, "42000018", Anywhere, false, None),
        (Mips, "0000000c", Anywhere, false, None),
    ] {
        assert_eq!(
            flow(architecture, code),
            (kind, conditional, target),
            "{architecture} {code}"
        );
    }
}

/// What code computes of its own address for the link register; encodings as LLVM's assembler has them.
#[test]
fn return_addresses_that_code_computes() {
    let link = |machine: Architecture, set, address: u64, code: &str| {
        let instruction = InstructionCode {
            address: Address(address),
            address_digits: 16,
            opcode: Opcode {
                value: u128::from_str_radix(code, 16).unwrap(),
                digits: code.len() as u8,
            },
            set,
        };
        let found = Machine::of(machine).computed_link(&instruction);
        found.map(|address| address.0)
    };
    use tracewire_arch::InstructionSet::{A, O, T};
    for (machine, set, address, code, wanted) in [
        (Architecture::Arm, Some(A), 0x8000, "e1a0e00f", Some(0x8008)),
        (Architecture::Arm, Some(A), 0x8000, "e28fe00c", Some(0x8014)),
        (Architecture::Arm, Some(A), 0x8000, "e28feb01", Some(0x8408)),
        (Architecture::Arm, Some(A), 0x8000, "e24fe004", Some(0x8004)),
        (Architecture::Arm, Some(A), 0x8000, "e1a0e003", None),
        (Architecture::Arm, Some(T), 0x8002, "46fe", Some(0x8006)),
        (Architecture::Arm, Some(T), 0x8002, "f20f0e08", Some(0x800c)),
        (Architecture::Arm, Some(T), 0x8002, "f2af0e08", Some(0x7ffc)),
        (
            Architecture::Arm,
            Some(T),
            0x8000,
            "f60f0e03",
            Some(0x8004 + 2051),
        ),
        (
            Architecture::Aarch64,
            Some(O),
            0x8000,
            "1000005e",
            Some(0x8008),
        ),
        (
            Architecture::Aarch64,
            Some(O),
            0x8000,
            "30ffffde",
            Some(0x7ff9),
        ),
        (Architecture::Aarch64, Some(O), 0x8000, "10000041", None),
        (Architecture::Mips, None, 0x8000, "e1a0e00f", None),
    ] {
        assert_eq!(
            link(machine, set, address, code),
            wanted,
            "{machine:?} {code}"
        );
    }
}
