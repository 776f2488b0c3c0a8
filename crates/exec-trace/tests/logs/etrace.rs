//! RISC-V E-Trace: packets by the encoder of the crate `riscv-etrace`, of a machine of this test.

use riscv_etrace::generator::{self, Generator, hart2enc::CType, step};
use riscv_etrace::instruction::{Instruction, Kind, Size, base::Set, decode::Decode};
use riscv_etrace::packet::{self, encap, payload::InstructionTrace, payload::Payload, smi};
use riscv_etrace::types::{Context, Privilege};
use tracewire_exec_trace::etrace::{EtraceError, Options, Transcribed, transcribe};
use tracewire_exec_trace::recording::{Content, Image, ImagePiece, Need, OpenOptions, Recording};
use tracewire_model::Address;

/// More than a packet takes.
const ROOM: usize = 40;

const START: u64 = 0x8000_0000;

/// main calls a function of a loop five times, and then spins.
const CODE: [u32; 12] = [
    0x0050_0493, // main: li s1, 5
    0x018000ef,  // again: jal ra, count
    0xfff48493,  // addi s1, s1, -1
    0xfe04_9ce3, // bnez s1, again
    0x0000_0013, // nop
    0x0000_0073, // ecall
    0x0000_0013, // nop
    0x0004_8513, // count: mv a0, s1
    0xfff5_0513, // next: addi a0, a0, -1
    0xfe05_1ee3, // bnez a0, next
    0x0000_8067, // ret
    0x0000_0013,
];

/// An instruction that was executed.
#[derive(Clone, Copy, Debug)]
struct Step {
    pc: u64,
    kind: step::Kind,
}

impl step::Step for Step {
    fn address(&self) -> u64 {
        self.pc
    }

    fn kind(&self) -> step::Kind {
        self.kind
    }

    fn ctype(&self) -> CType {
        CType::Unreported
    }

    fn context(&self) -> Context {
        Context {
            privilege: Privilege::Machine,
            context: 0,
        }
    }
}

/// The immediate of a branch.
fn branch_offset(code: u32) -> i64 {
    let bit = |from: u32, count: u32, to: u32| ((code >> from) & ((1 << count) - 1)) << to;
    let value = bit(8, 4, 1) | bit(25, 6, 5) | bit(7, 1, 11) | bit(31, 1, 12);
    i64::from(value as i32) << 51 >> 51
}

/// Executes the program down to its `ecall`.
fn execute() -> Vec<Step> {
    let mut registers = [0u64; 32];
    let mut pc = START;
    let mut steps = Vec::new();
    loop {
        let code = CODE[((pc - START) / 4) as usize];
        let (rd, rs1) = ((code >> 7 & 31) as usize, (code >> 15 & 31) as usize);
        let mut next = pc + 4;
        let mut taken = false;
        match code & 0x7f {
            0x13 => {
                registers[rd] = registers[rs1].wrapping_add_signed(i64::from(code as i32 >> 20))
            }
            0x63 => {
                taken = registers[rs1] != 0;
                if taken {
                    next = pc.wrapping_add_signed(branch_offset(code));
                }
            }
            0x6f => {
                registers[rd] = next;
                next = pc + u64::from(code >> 21 & 0x3ff) * 2;
            }
            0x67 => next = registers[rs1],
            _ => return steps,
        }
        registers[0] = 0;
        let info: Option<Kind> = Set::Rv64I.decode_32(code);
        let instruction = Instruction {
            size: Size::Normal,
            info,
        };
        steps.push(Step {
            pc,
            kind: step::Kind::from_instruction(instruction, taken, None),
        });
        pc = next;
    }
}

fn program() -> Image {
    Image::new([ImagePiece {
        address: Address(START),
        bytes: CODE.iter().flat_map(|code| code.to_le_bytes()).collect(),
        is_writable: false,
    }])
}

/// What the encoder makes of an execution, each packet by itself: encapsulated with the number of a hart, else in the messages of
/// SMI.
fn packets(steps: &[Step], hart: Option<u16>) -> Vec<Vec<u8>> {
    let parameters = riscv_etrace::config::Parameters {
        iaddress_width_p: 64.try_into().unwrap(),
        ..Default::default()
    };
    let width = if hart.is_some() { 8 } else { 0 };
    let builder = packet::builder()
        .with_params(&parameters)
        .with_hart_index_width(width);
    let mut packets = Vec::new();
    let mut encode = |payload: InstructionTrace| {
        let mut buffer = [0; ROOM];
        let mut encoder = builder.encoder(&mut buffer);
        match hart {
            Some(hart) => {
                let payload = Payload::InstructionTrace(payload);
                encoder
                    .encode(&encap::Normal::new(0, hart, payload))
                    .unwrap();
            }
            None => encoder.encode(&smi::Packet::new(0b10, 0, payload)).unwrap(),
        }
        let length = ROOM - encoder.uncommitted();
        packets.push(buffer[..length].to_vec());
    };
    let mut generator: Generator<Step> = generator::builder()
        .with_params(&parameters)
        .build()
        .unwrap();
    encode(
        generator
            .begin_qualification(Default::default(), Default::default())
            .unwrap()
            .into(),
    );
    for (number, step) in steps.iter().enumerate() {
        let event = (number % 40 == 39).then_some(generator::Event::ReSync);
        for payload in generator.process_step(*step, event) {
            encode(payload.unwrap());
        }
    }
    for payload in generator.end_qualification(true) {
        encode(payload.unwrap());
    }
    packets
}

fn text_of(packets: &[u8], options: &str) -> (String, Transcribed) {
    let options: Options = options.parse().unwrap();
    let mut text = Vec::new();
    let done = transcribe(packets, &program(), true, &options, &mut text).unwrap();
    (String::from_utf8(text).unwrap(), done)
}

#[test]
fn instructions_are_those_that_were_executed() {
    let steps = execute();
    assert_eq!(steps.len(), 2 + 5 * 3 + 5 * 2 + 2 * (5 + 4 + 3 + 2 + 1));
    let one = packets(&steps, None).concat();
    let (text, done) = text_of(&one, "smi");
    assert_eq!(
        (done.instructions, done.damaged, done.rest),
        (steps.len() as u64, 0, 0),
        "{text}"
    );
    let recording = Recording::of_text(text.as_bytes(), &OpenOptions::default()).unwrap();
    assert_eq!(recording.content(), Content::ControlFlow);
    assert!(recording.require(Need::EveryInstruction).is_ok());
    assert!(recording.require(Need::Registers).is_err());
    let mut found = Vec::new();
    recording
        .instructions(0..recording.len(), &mut |executed| {
            let opcode = executed.code.opcode.map(|opcode| opcode.value);
            found.push((executed.address.0, opcode));
            assert_eq!(executed.code.mode, "M");
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    let code = |pc: u64| CODE[((pc - START) / 4) as usize];
    let expected: Vec<_> = (steps.iter())
        .map(|step| (step.pc, Some(u128::from(code(step.pc)))))
        .collect();
    assert_eq!(found, expected);

    // Harts have ways of their own, however their packets come.
    let other = packets(&steps[..40], Some(3));
    let mut both = packets(&steps, Some(0));
    for (at, packet) in other.into_iter().enumerate() {
        both.insert((2 * at).min(both.len()), packet);
    }
    let (text, done) = text_of(&both.concat(), "encap,hart_width=8");
    assert_eq!(
        (done.instructions, done.damaged),
        (steps.len() as u64 + 40, 0),
        "{text}"
    );
    let of = |hart: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter_map(|line| line.split_once(&format!(" clk {hart} IT ")));
        lines
            .map(|(_, rest)| rest.split_whitespace().nth(1).unwrap().to_owned())
            .collect()
    };
    let addresses: Vec<_> = steps
        .iter()
        .map(|step| format!("{:016x}", step.pc))
        .collect();
    assert_eq!(of("0"), addresses);
    assert_eq!(of("3"), addresses[..40]);
}

#[test]
fn damaged_packets_are_reported() {
    let steps = execute();
    let packets = packets(&steps, None);
    let cut = packets.concat();
    let (_, done) = text_of(&cut[..cut.len() - 1], "smi");
    assert!(done.rest > 0 && done.instructions > 0, "{done:?}");
    // Without the first synchronization nothing is known.
    let options: Options = "smi".parse().unwrap();
    let mut text = Vec::new();
    let tried = transcribe(&packets[3], &program(), true, &options, &mut text);
    assert!(matches!(tried, Err(EtraceError::NoPacket(_))), "{tried:?}");
    for (text, error) in [
        ("usb", "expected smi or encap first, not `usb`"),
        (
            "smi,iaddress_width_p=0",
            "`iaddress_width_p=0`: expected a number from 1 to 64",
        ),
        ("smi,width=3", "`width=3` is no parameter"),
    ] {
        let tried = text.parse::<Options>().unwrap_err().to_string();
        assert!(tried.starts_with(error), "{tried}");
    }
}

#[test]
fn a_loop_without_a_branch_ends() {
    let steps = execute();
    let packets = packets(&steps, None);
    // A jump to the next instruction, and one back.
    let jumps = [0x0040_006fu32, 0xffdf_f06f].map(u32::to_le_bytes);
    let spinning = Image::new([ImagePiece {
        address: Address(START),
        bytes: jumps.concat().repeat(CODE.len() / 2),
        is_writable: false,
    }]);
    let options: Options = "smi".parse().unwrap();
    let mut text = Vec::new();
    let done = transcribe(&packets.concat(), &spinning, true, &options, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let most = 64 * 4 * CODE.len() as u64;
    assert!(text.contains(&format!("it stands for more than {most} instructions")));
    assert!(
        done.damaged > 0 && done.instructions <= (most + 1) * packets.len() as u64,
        "{done:?}"
    );
}
