//! Recordings against a naive model: all records replayed from the start, again for each question.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use proptest::prelude::*;
use tracewire_arch::Architecture;
use tracewire_exec_trace::record::{AccessKind, CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{Image, ImagePiece, OpenOptions, Recording, Search, What};
use tracewire_model::{Address, ByteOrder};

/// What happens, of which both text and the model are made.
#[derive(Clone, Debug)]
enum Happening {
    Instruction {
        cpu: u32,
        at: u8,
        skip: u64,
        taken: bool,
    },
    Register {
        register: u8,
        value: u64,
        digits: u8,
        early: bool,
        old: u8,
    },
    Access {
        write: bool,
        size: u8,
        address: u8,
        data: u64,
    },
    Garbage(String),
}

fn happening(cpus: u32) -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..cpus, 0..20u8, 0..3u64, any::<bool>())
            .prop_map(|(cpu, at, skip, taken)| Happening::Instruction { cpu, at, skip, taken }),
        4 => (0..5u8, any::<u64>(), prop::sample::select(vec![1u8, 4, 8, 15, 16]), prop::bool::weighted(0.1), 0..8u8)
            .prop_map(|(register, value, digits, early, old)| Happening::Register {
                register, value, digits, early, old: old.saturating_sub(5),
            }),
        4 => (any::<bool>(), 1..=8u8, 0..40u8, prop_oneof![Just(0u64), any::<u64>()])
            .prop_map(|(write, size, address, data)| Happening::Access { write, size, address, data }),
        1 => "[a-z \x01]{0,12}".prop_map(Happening::Garbage),
    ]
}

#[derive(Clone, Debug)]
struct Instruction {
    cpu: u32,
    pc: u64,
    time: u64,
    line: u64,
}

/// A write or an access, and the instruction that it belongs to: -1 is before the first.
#[derive(Clone, Debug)]
enum Deed {
    Register {
        cpu: u32,
        register: u8,
        value: u64,
        digits: u8,
    },
    Access {
        write: bool,
        address: u64,
        bytes: Vec<u8>,
    },
}

#[derive(Default, Debug)]
struct Model {
    text: String,
    instructions: Vec<Instruction>,
    deeds: Vec<(i64, Deed)>,
    unparsed: u64,
}

fn mask(digits: u8) -> u64 {
    if digits == 16 {
        u64::MAX
    } else {
        (1 << (digits * 4)) - 1
    }
}

impl Model {
    fn new(happenings: &[Happening], order: ByteOrder) -> Self {
        let mut model = Self::default();
        let mut time = 10;
        let mut lines = 0;
        for (place, happening) in happenings.iter().enumerate() {
            let latest = model.instructions.len() as i64 - 1;
            // The time of the instruction that a line is to belong to.
            let mut owner = latest;
            let next = happenings[place + 1..]
                .iter()
                .position(|next| matches!(next, Happening::Instruction { .. }));
            let skip = next.and_then(|next| match &happenings[place + 1 + next] {
                Happening::Instruction { skip, .. } => Some(*skip),
                _ => None,
            });
            let is_near = next.is_some_and(|next| next < 60);
            if latest < 0 && skip == Some(0) && is_near {
                // The first instruction has the very time that the lines before it have.
                owner = 0;
            }
            match happening {
                Happening::Instruction {
                    cpu,
                    at,
                    skip,
                    taken,
                } => {
                    time += skip;
                    lines += 1;
                    let pc = 0x1000 + u64::from(*at) * 4;
                    let id = model.instructions.len();
                    let word = if *taken { "IT" } else { "IS" };
                    model.text += &format!(
                        "{time} clk {cpu} {word} ({id}) {pc:08x} {at:08x} A svc_ns : op{at} r1,r2\n"
                    );
                    model.instructions.push(Instruction {
                        cpu: *cpu,
                        pc,
                        time,
                        line: lines,
                    });
                }
                Happening::Register {
                    register,
                    value,
                    digits,
                    early,
                    old,
                } => {
                    let value = value & mask(*digits);
                    let mut at = time;
                    // An older time is that of the latest instruction with it, of the last 64.
                    if *old > 0 && model.instructions.len() > usize::from(*old) {
                        at = model.instructions[model.instructions.len() - 1 - usize::from(*old)]
                            .time;
                        owner = model
                            .instructions
                            .iter()
                            .rposition(|of| of.time == at)
                            .unwrap() as i64;
                    } else if *early
                        && let Some(skip) = skip
                        && skip > 0
                    {
                        // The time of the next instruction.
                        at = time + skip;
                        owner = if is_near { latest + 1 } else { latest };
                    }
                    lines += 1;
                    let digits_shown = usize::from(*digits);
                    model.text += &format!("{at} clk R r{register} {value:0digits_shown$x}\n");
                    model.deeds.push((
                        owner,
                        Deed::Register {
                            cpu: 0,
                            register: *register,
                            value,
                            digits: *digits,
                        },
                    ));
                }
                Happening::Access {
                    write,
                    size,
                    address,
                    data,
                } => {
                    let number = data & mask(size * 2);
                    lines += 1;
                    let kind = if *write { 'W' } else { 'R' };
                    let address = 0x2000 + u64::from(*address);
                    let digits = usize::from(*size) * 2;
                    model.text +=
                        &format!("{time} clk M{kind}{size} {address:08x} {number:0digits$x}\n");
                    let mut bytes = number.to_le_bytes()[..usize::from(*size)].to_vec();
                    if order == ByteOrder::Big {
                        bytes.reverse();
                    }
                    model.deeds.push((
                        owner,
                        Deed::Access {
                            write: *write,
                            address,
                            bytes,
                        },
                    ));
                }
                Happening::Garbage(text) => {
                    lines += 1;
                    model.text += &format!("{text}\n");
                    model.unparsed += u64::from(!text.trim().is_empty());
                }
            }
        }
        // A line's cpu is that of its instruction.
        let first = model.instructions.first().map_or(0, |of| of.cpu);
        for (owner, deed) in &mut model.deeds {
            if let Deed::Register { cpu, .. } = deed {
                *cpu = usize::try_from(*owner).map_or(first, |owner| model.instructions[owner].cpu);
            }
        }
        model
    }

    /// Everything before an instruction, in order.
    fn before(&self, n: u64) -> Vec<&Deed> {
        let mut deeds: Vec<_> = self
            .deeds
            .iter()
            .filter(|(owner, _)| *owner < n as i64)
            .collect();
        deeds.sort_by_key(|(owner, _)| *owner);
        deeds.into_iter().map(|(_, deed)| deed).collect()
    }

    fn register(&self, cpu: u32, register: u8, n: u64) -> Option<(u64, u8)> {
        self.before(n)
            .into_iter()
            .rev()
            .find_map(|deed| match deed {
                Deed::Register {
                    cpu: of,
                    register: is,
                    value,
                    digits,
                } if (*of, *is) == (cpu, register) => Some((*value, *digits)),
                _ => None,
            })
    }

    fn byte(&self, address: u64, n: u64, image: &Image) -> Option<u8> {
        let at = |deed: &Deed| match deed {
            Deed::Access {
                write,
                address: first,
                bytes,
            } => {
                let place = address.checked_sub(*first)?;
                bytes.get(place as usize).map(|byte| (*write, *byte))
            }
            Deed::Register { .. } => None,
        };
        if let Some((_, byte)) = self.before(n).into_iter().rev().find_map(at) {
            return Some(byte);
        }
        if let Some(byte) = image.byte(Address(address)) {
            return Some(byte);
        }
        let all = self.before(u64::MAX / 2);
        all.into_iter()
            .find_map(at)
            .and_then(|(write, byte)| (!write).then_some(byte))
    }

    /// The instructions that did something.
    fn who(&self, did: impl Fn(&Deed) -> bool) -> Vec<u64> {
        let mut who: Vec<u64> = self
            .deeds
            .iter()
            .filter(|(_, deed)| did(deed))
            .filter_map(|(owner, _)| u64::try_from(*owner).ok())
            .collect();
        who.sort_unstable();
        who.dedup();
        who
    }
}

fn open(model: &Model, order: ByteOrder, image: &Image) -> (tempfile::TempDir, Recording) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("x.trace");
    fs::write(&path, &model.text).unwrap();
    let architecture = if order == ByteOrder::Big {
        Architecture::Mips
    } else {
        Architecture::MipsLittle
    };
    let options = OpenOptions {
        architecture: Some(architecture),
        image: image.clone(),
        ..OpenOptions::default()
    };
    let recording = Recording::open(&path, &options).unwrap();
    (folder, recording)
}

/// What a search finds, in all ways to ask.
fn found(recording: &Recording, search: &Search) -> Result<Vec<u64>, TestCaseError> {
    let mut all = Vec::new();
    recording
        .find_all(search, 0..u64::MAX, &mut |number| {
            all.push(number.0);
            ControlFlow::Continue(())
        })
        .unwrap();
    let mut forwards = Vec::new();
    let mut from = 0;
    while let Some(InstructionNumber(number)) = recording
        .find_first(search, InstructionNumber(from))
        .unwrap()
    {
        forwards.push(number);
        from = number + 1;
    }
    let mut backwards = Vec::new();
    let mut before = u64::MAX;
    while let Some(InstructionNumber(number)) = recording
        .find_last(search, InstructionNumber(before))
        .unwrap()
    {
        backwards.push(number);
        before = number;
    }
    backwards.reverse();
    let mut once = all.clone();
    once.dedup();
    prop_assert_eq!(&once, &forwards);
    prop_assert_eq!(&forwards, &backwards);
    Ok(once)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn states_and_searches_are_those_of_a_replay(
        happenings in (1..4u32).prop_flat_map(|cpus| prop::collection::vec(happening(cpus), 1..120)),
        repeats in prop_oneof![4 => Just(1usize), 1 => Just(60usize)],
        big: bool,
        with_image: bool,
        instants in prop::collection::vec(any::<prop::sample::Index>(), 12),
    ) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let image = if with_image {
            let piece = |at, bytes| ImagePiece { address: Address(at), bytes, is_writable: true };
            Image::new([piece(0x2004, vec![0xaa; 9]), piece(0x2010, vec![1, 2, 3])])
        } else {
            Image::default()
        };
        let happenings: Vec<_> = std::iter::repeat_n(happenings, repeats).flatten().collect();
        let model = Model::new(&happenings, order);
        prop_assume!(!model.instructions.is_empty() || model.deeds.len() > 2);
        // Where no write is reported, what instructions may write is unavailable; `stores` tests that.
        prop_assume!(model.deeds.iter().any(|(_, deed)| matches!(deed, Deed::Access { write: true, .. }))
            || !with_image && !model.deeds.iter().any(|(_, deed)| matches!(deed, Deed::Access { .. })));
        let (_folder, recording) = open(&model, order, &image);
        let count = model.instructions.len() as u64;
        let summary = recording.summary();
        prop_assert_eq!(summary.instructions, count);
        prop_assert_eq!(summary.unparsed_lines, model.unparsed);
        prop_assert_eq!(summary.lines, model.text.lines().count() as u64);

        // The text comes back.
        let mut text = Vec::new();
        recording.write_text(&mut text).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&text), model.text.as_str());

        for instant in &instants {
            let n = instant.index(count as usize + 1) as u64;
            for cpu in 0..3 {
                let all = recording.registers_at(CpuNumber(cpu), InstructionNumber(n)).unwrap();
                for register in 0..5 {
                    let expected = model.register(cpu, register, n);
                    let Some(id) = recording.register(&format!("r{register}")) else {
                        prop_assert_eq!(expected, None);
                        continue;
                    };
                    let value = recording.register_at(CpuNumber(cpu), id, InstructionNumber(n)).unwrap();
                    prop_assert_eq!(&all[id.0 as usize], &value);
                    match expected {
                        None => prop_assert!(value.is_unknown(), "r{} before {}: {:?}", register, n, value),
                        Some((bits, digits)) => {
                            prop_assert_eq!(value.known(), Some(bits), "r{} of {} before {}", register, cpu, n);
                            prop_assert_eq!(value.digits(), u16::from(digits));
                        }
                    }
                }
            }
            let mut bytes = [None; 60];
            recording.memory_at(InstructionNumber(n), Address(0x1ffc), &mut bytes).unwrap();
            for (at, byte) in bytes.iter().enumerate() {
                let address = 0x1ffc + at as u64;
                prop_assert_eq!(*byte, model.byte(address, n, &image), "{:#x} before {}", address, n);
            }
            if n < count {
                let executed = recording.instruction(InstructionNumber(n)).unwrap().unwrap();
                let expected = &model.instructions[n as usize];
                prop_assert_eq!((executed.cpu.0, executed.address.0, executed.time.ticks, executed.line),
                    (expected.cpu, expected.pc, expected.time, expected.line));
                prop_assert_eq!(executed.id, Some(n));
                prop_assert_eq!(executed.code.disassembly, format!("op{} r1,r2", (expected.pc - 0x1000) / 4));
                let did: Vec<_> = model.deeds.iter().filter(|(owner, _)| *owner == n as i64).collect();
                let writes: Vec<_> = did.iter().filter_map(|(_, deed)| match deed {
                    Deed::Register { value, digits, .. } => Some((Some(*value), u16::from(*digits))),
                    Deed::Access { .. } => None,
                }).collect();
                let accesses: Vec<_> = did.iter().filter_map(|(_, deed)| match deed {
                    Deed::Access { write, address, bytes } => Some((*write, *address, bytes.clone())),
                    Deed::Register { .. } => None,
                }).collect();
                prop_assert_eq!(executed.register_writes.iter().map(|of| (of.value.known(), of.value.digits())).collect::<Vec<_>>(), writes);
                prop_assert_eq!(executed.accesses.iter().map(|of| (
                    of.kind == AccessKind::Write, of.address.0, of.data.iter().map(|byte| byte.unwrap()).collect::<Vec<_>>()
                )).collect::<Vec<_>>(), accesses);
            } else {
                prop_assert!(recording.instruction(InstructionNumber(n)).unwrap().is_none());
            }
        }

        // A replay has the same states.
        let start = instants[0].index(count as usize + 1) as u64;
        let mut replay = recording.replay(InstructionNumber(start)).unwrap();
        for step in 0..20 {
            let n = start + step;
            if n > count {
                break;
            }
            prop_assert_eq!(replay.number().0, n);
            for cpu in 0..3 {
                for (at, value) in recording.registers_at(CpuNumber(cpu), InstructionNumber(n)).unwrap().iter().enumerate() {
                    let register = tracewire_exec_trace::recording::RegisterId(at as u32);
                    prop_assert_eq!(replay.register(CpuNumber(cpu), register), value);
                }
            }
            let (mut played, mut reported) = ([None; 48], [None; 48]);
            replay.memory(Address(0x2000), &mut played).unwrap();
            recording.memory_at(InstructionNumber(n), Address(0x2000), &mut reported).unwrap();
            prop_assert_eq!(played, reported);
            prop_assert_eq!(replay.advance().unwrap(), n < count);
        }

        // Searches.
        let (from, to) = (0x2000 + instants[1].index(44) as u64, 0x2000 + instants[2].index(44) as u64);
        let range = from.min(to)..=from.max(to);
        let touches = |deed: &Deed, kinds: &[bool]| matches!(deed, Deed::Access { write, address, bytes }
            if kinds.contains(write) && *address <= *range.end() && address + bytes.len() as u64 > *range.start());
        for (what, kinds) in [(What::Read, &[false][..]), (What::Write, &[true]), (What::Access, &[true, false])] {
            let search = Search::new(what, range.clone());
            prop_assert_eq!(found(&recording, &search)?, model.who(|deed| touches(deed, kinds)));
        }
        let pc = 0x1000 + instants[3].index(20) as u64 * 4;
        let cpu = instants[4].index(3) as u32;
        let at = |is_meant: &dyn Fn(&Instruction) -> bool| -> Vec<u64> {
            (0..count).filter(|n| is_meant(&model.instructions[*n as usize])).collect()
        };
        let search = Search::new(What::Visit, pc..=pc + 4);
        prop_assert_eq!(found(&recording, &search)?, at(&|of| (pc..=pc + 4).contains(&of.pc)));
        let search = search.on_cpu(CpuNumber(cpu));
        prop_assert_eq!(found(&recording, &search)?, at(&|of| (pc..=pc + 4).contains(&of.pc) && of.cpu == cpu));
        if let Some(id) = recording.register("r3") {
            let search = Search::register(id);
            let who = model.who(|deed| matches!(deed, Deed::Register { register: 3, .. }));
            prop_assert_eq!(found(&recording, &search)?, who);
        }
        let time = 10 + instants[5].index(count as usize * 2 + 1) as u64;
        let expected = model.instructions.iter().position(|of| of.time >= time && of.cpu == cpu);
        prop_assert_eq!(recording.at_time(time, Some(CpuNumber(cpu))).unwrap().map(|of| of.0), expected.map(|at| at as u64));

        // Contradictions: bytes that were known and are read differently, counted by rows of 8 bytes.
        let mut known: HashMap<u64, u8> = HashMap::new();
        let mut contradictions = Vec::new();
        let mut deeds = model.deeds.clone();
        deeds.sort_by_key(|(owner, _)| *owner);
        for (owner, deed) in &deeds {
            if let Deed::Access { write, address, bytes } = deed {
                let mut rows = Vec::new();
                for (at, byte) in bytes.iter().enumerate() {
                    let address = address + at as u64;
                    let old = known.insert(address, *byte);
                    if !write && old.is_some_and(|old| old != *byte) {
                        rows.push(address / 8);
                    }
                }
                rows.dedup();
                contradictions.extend(rows.iter().map(|row| (*owner, *row)));
            }
        }
        contradictions.sort_unstable();
        let reported = recording.contradictions().unwrap();
        prop_assert_eq!(reported.count, contradictions.len() as u64);
        let mut list: Vec<_> = reported.list.iter()
            .map(|of| (of.instruction.map_or(-1, |of| of.0 as i64), of.address.0 / 8)).collect();
        list.sort_unstable();
        prop_assert_eq!(list, contradictions);
    }
}
