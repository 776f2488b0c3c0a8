//! Recordings in many segments against the same in one.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use proptest::prelude::*;
use tracewire_model::Address;

use super::open::open_text;
use super::{Addresses, CodeLocations, Executed, OpenOptions, Recording, RegisterId, Search, What};
use crate::compact::frame::LETS_THROUGH;
use crate::index::CHUNK;
use crate::record::{CpuNumber, InstructionNumber};

/// Two processors that take turns, whose lines name them or do not, and are anywhere near their instructions.
fn text(steps: &[(u8, u8, u32)], names_cpus: bool) -> String {
    let mut text = String::new();
    let mut late = Vec::new();
    for (at, (shape, place, value)) in steps.iter().enumerate() {
        let cpu = at % 2;
        let time = at / 2 * 3 + 5;
        let (cpu_name, of) = if names_cpus {
            (format!("cpu{cpu} "), format!("cpu{cpu} "))
        } else {
            (String::new(), format!("{cpu} "))
        };
        let pc = 0x8000 + u32::from(*place) * 4;
        let write = format!("{time} clk {cpu_name}R r{} {value:08x}\n", place % 3);
        let address = 0x100 + u32::from(*place);
        let access = format!("{time} clk {cpu_name}MW4 {address:08x} {value:08x}\n");
        let early = shape % 5 == 1 && cpu == 0;
        if early {
            text += &write;
        }
        text += &format!("{time} clk {of}IT ({at}) {pc:08x} e1a00000 A svc : op{place}\n");
        match shape % 5 {
            0 => text += &(write + &access),
            1 if !early => text += &write,
            // Some lines later.
            2 => late.push((at + 1 + usize::from(place % 4), access)),
            _ => {}
        }
        late.retain(|(when, line)| {
            if *when <= at {
                text += line;
            }
            *when > at
        });
    }
    text
}

fn found(recording: &Recording, search: &Search) -> Vec<u64> {
    let mut found = Vec::new();
    recording
        .find_all(search, 0..u64::MAX, &mut |number| {
            found.push(number.0);
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn segments_do_not_show(
        steps in prop::collection::vec((any::<u8>(), 0..30u8, any::<u32>()), 2000..6000),
        names_cpus: bool,
        chunk in 3_000..40_000usize,
        instants in prop::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let text = text(&steps, names_cpus);
        let options = OpenOptions::default();
        let one = open_text(text.as_bytes(), CHUNK, &options).unwrap();
        let many = open_text(text.as_bytes(), chunk, &options).unwrap();
        let mut back = Vec::new();
        many.write_text(&mut back).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&back), text.as_str());
        let (mut a, mut b) = (one.summary().clone(), many.summary().clone());
        (a.index_size, a.search_size) = (0, 0);
        (b.index_size, b.search_size) = (0, 0);
        prop_assert_eq!(a, b);
        prop_assert_eq!(one.register_names(), many.register_names());
        let instants = instants.iter().map(|instant| instant.index(steps.len() + 1) as u64);
        let mut ends: Vec<u64> = instants.clone().collect();
        ends.sort_unstable();
        let changes = ends.clone();
        for n in instants.clone() {
            let n = InstructionNumber(n);
            for cpu in 0..2 {
                prop_assert_eq!(
                    one.registers_at(CpuNumber(cpu), n).unwrap(),
                    many.registers_at(CpuNumber(cpu), n).unwrap(),
                    "before {}", n
                );
            }
            let (mut a, mut b) = ([None; 40], [None; 40]);
            one.memory_at(n, Address(0xfe), &mut a).unwrap();
            many.memory_at(n, Address(0xfe), &mut b).unwrap();
            prop_assert_eq!(a, b, "before {}", n);
            prop_assert_eq!(one.instruction(n).unwrap(), many.instruction(n).unwrap());
        }
        for search in [
            Search::new(What::Write, 0x104..=0x10a),
            Search::new(What::Visit, 0x8010..=0x8014),
            Search::register(one.register("r1").unwrap()),
        ] {
            prop_assert_eq!(found(&one, &search), found(&many, &search));
        }
        // To the next and to the last execution of each address, write to a register, and instruction of a cpu.
        let all: Vec<_> = (0..one.len()).map(|n| one.instruction(InstructionNumber(n)).unwrap().unwrap()).collect();
        let r1 = one.register("r1").unwrap();
        let addresses = one.addresses().unwrap();
        prop_assert_eq!(&addresses, &all.iter().map(|of| of.address).collect());
        prop_assert_eq!(&addresses, &many.addresses().unwrap());
        let visits = addresses.iter().map(|at| (Search::new(What::Visit, at.0..=at.0), Some(*at)));
        let of_cpu = Search::new(What::Visit, 0..=u64::MAX).on_cpu(CpuNumber(1));
        for (search, code) in visits.chain([(Search::register(r1), None), (of_cpu, None)]) {
            let found = found(&one, &search);
            for n in instants.clone().take(20) {
                let first = found.iter().find(|of| **of >= n).map(|of| InstructionNumber(*of));
                let last = found.iter().rfind(|of| **of < n).map(|of| InstructionNumber(*of));
                prop_assert_eq!(many.find_first(&search, InstructionNumber(n)).unwrap(), first);
                prop_assert_eq!(many.find_last(&search, InstructionNumber(n)).unwrap(), last);
            }
            if let Some(code) = code {
                let executed = (0..).zip(&all).filter(|(_, of)| of.address == code).map(|(n, _)| n);
                prop_assert_eq!(found, executed.collect::<Vec<u64>>());
            }
        }
        prop_assert_eq!(one.contradictions().unwrap(), many.contradictions().unwrap());
        // One register at each visit, a piece of the recording at a time.
        let r1 = many.register("r1").unwrap();
        let wanted: Vec<bool> = (many.register_names().iter()).map(|name| &**name == "r1").collect();
        let code = 0x8010;
        let located = many.locate(Addresses::new(vec![code..=code])).unwrap();
        let visits = many.visits(InstructionNumber(0), located);
        let mut visits = visits.with_registers(&wanted);
        let mut seen = Vec::new();
        for end in ends.into_iter().chain([many.len()]) {
            while visits.advance(InstructionNumber(end)).unwrap() {
                let step = visits.step().unwrap();
                let (cpu, number) = (step.cpu(), step.number());
                prop_assert!(number.0 < end);
                let known = many.register_at(cpu, r1, number).unwrap();
                prop_assert_eq!(visits.register(cpu, r1), &known, "before {}", number);
                seen.push(number.0);
            }
        }
        prop_assert_eq!(seen, found(&many, &Search::new(What::Visit, code..=code)));
        // What is looked for changes on the way.
        let mut visits = many.visits(InstructionNumber(0), CodeLocations::none());
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        let mut from = 0;
        for (at, end) in changes.into_iter().chain([many.len()]).enumerate() {
            let code = 0x8000 + at as u64 % 5 * 8;
            let cpus: BTreeSet<CpuNumber> = (at % 7 == 3).then_some(CpuNumber(1)).into_iter().collect();
            let located = many.locate([Address(code)].into_iter().collect()).unwrap();
            visits.look_for(located, cpus.clone());
            while visits.advance(InstructionNumber(end)).unwrap() {
                seen.push(visits.step().unwrap().number().0);
            }
            let is_selected = |of: &Executed| of.address.0 == code || cpus.contains(&of.cpu);
            let these = (from..end).filter(|n| is_selected(&all[*n as usize]));
            expected.extend(these);
            from = end;
        }
        prop_assert_eq!(seen, expected);
    }
}

/// The numbers of the lines that a recording could not read.
fn unparsed(recording: &Recording) -> Vec<u64> {
    let mut lines = Vec::new();
    recording
        .unparsed_lines(&mut |line, _| {
            lines.push(line.line.number);
            ControlFlow::Continue(())
        })
        .unwrap();
    lines
}

/// Lines longer than any segment, of letters or of zeros as a crash leaves them: each is one line that could not be
/// read, and nothing else is lost.
#[test]
fn lines_longer_than_segments() {
    for (place, filler, length) in [
        (0, b'A', 300_000),
        (40, 0, 700_000),
        (40, b' ', 400_000),
        (200, 0, 300_000),
    ] {
        let mut text = Vec::new();
        for at in 1..200u32 {
            if at == place {
                text.extend(std::iter::repeat_n(filler, length));
                text.push(b'\n');
            }
            text.extend(
                format!("{at} clk 0 IT ({at}) {:08x} e1a00000 A svc : nop\n", at * 4).into_bytes(),
            );
            text.extend(format!("{at} clk R r1 {at:08x}\nbad\n").into_bytes());
        }
        if place == 200 {
            text.extend(std::iter::repeat_n(filler, length));
        }
        let options = OpenOptions::default();
        let one = open_text(&text, CHUNK, &options).unwrap();
        let many = open_text(&text, 20_000, &options).unwrap();
        for recording in [&one, &many] {
            let mut back = Vec::new();
            recording.write_text(&mut back).unwrap();
            assert!(back == text, "line {place}");
            assert_eq!(recording.summary().lines, one.summary().lines, "{place}");
            assert_eq!(recording.len(), 199);
            assert_eq!(unparsed(recording), unparsed(&one), "line {place}");
        }
        let r1 = one.register("r1").unwrap();
        for number in 0..199 {
            let number = InstructionNumber(number);
            let [a, b] = [&one, &many].map(|of| of.instruction(number).unwrap());
            assert_eq!(a, b, "line {place}");
            let [a, b] = [&one, &many].map(|of| of.register_at(CpuNumber(0), r1, number).unwrap());
            assert_eq!(a, b, "line {place}");
        }
    }
}

/// A small trace with lines of every kind.
fn small() -> Vec<u8> {
    let mut text = String::from("garbage\n1 clk cpu0 R r2 00000001\n");
    for at in 1..200u32 {
        let pc = 0x1000 + at % 7 * 4;
        let (data, address) = (at.wrapping_mul(0x9e37_79b9), 0x2000 + at * 37 % 100);
        let cpu = at % 2;
        text += &format!(
            "{}.5 ns cpu{cpu} IT ({at:x}) {pc:08x} bf00 T16 usr_s : NOP\n",
            at / 2
        );
        text += &format!("R r{} {data:08x}\n", at % 3);
        text += &format!("cpu{cpu} MW16 {address:08x} {data:08x}{at:08x}00000000{data:08X}\n");
        text += &format!("MR{} {address:08x} {:02x}\n", at % 9 + 1, at as u8);
        if at % 10 == 0 {
            let earlier = (at - 1) / 2;
            text += &format!(
                "{earlier}.5 ns cpu{} R V1 {data:08x}_--------_{at:08x}\n",
                1 - cpu
            );
            text += &format!("E {data:x}\nR r1<15:8> {:02x}\n\x01\n", at as u8);
        }
    }
    let options = OpenOptions::default();
    open_text(text.as_bytes(), 3000, &options)
        .unwrap()
        .compact()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// With checksums that are let through, anything may be after them: answers or errors, nothing else.
    #[test]
    fn what_checksums_would_find_is_stood_too(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        static GOOD: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(small);
        let mut bytes = GOOD.clone();
        for (at, value) in changes {
            // The magic identifies the file.
            let at = 8 + at.index(bytes.len() - 8);
            bytes[at] = value;
        }
        LETS_THROUGH.set(true);
        if let Ok(recording) = Recording::of_compact(bytes, &OpenOptions::default()) {
            ask(&recording);
        }
        LETS_THROUGH.set(false);
    }
}

/// Each byte of a small form in turn, so that every number of its tables was wrong once.
#[test]
fn any_byte_may_be_damaged() {
    let steps: Vec<(u8, u8, u32)> = (0..16).map(|at| (at % 5, at % 7, u32::from(at))).collect();
    let text = text(&steps, false);
    let recording = Recording::of_text(text.as_bytes(), &OpenOptions::default()).unwrap();
    let good = recording.compact();
    LETS_THROUGH.set(true);
    for at in 8..good.len() {
        for value in [0, 0xff, good[at] ^ 1, good[at] ^ 0x10] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let Ok(recording) = Recording::of_compact(bytes, &OpenOptions::default()) else {
                continue;
            };
            for before in [0, 9, u64::MAX] {
                if let Ok(mut replay) = recording.replay(InstructionNumber(before)) {
                    for _ in 0..30 {
                        let _ = replay.advance();
                    }
                }
                let everywhere = recording.locate(Addresses::new(vec![0..=u64::MAX]));
                let code = everywhere.unwrap_or_else(|_| CodeLocations::none());
                let mut visits = recording.visits(InstructionNumber(before), code);
                for _ in 0..30 {
                    let _ = visits.advance(InstructionNumber(u64::MAX));
                    let _ = visits.memory(Address(0x100), &mut [None; 8]);
                }
                let _ = recording.registers_at(CpuNumber(0), InstructionNumber(before));
            }
        }
    }
    LETS_THROUGH.set(false);
}

/// Asks everything, whatever the answers are.
fn ask(recording: &Recording) {
    let _ = recording.write_text(&mut Vec::new());
    let mut left = 400;
    let _ = recording.instructions(0..u64::MAX, &mut |_| {
        left -= 1;
        if left > 0 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    for before in [0, 1, 90, recording.len(), u64::MAX] {
        let before = InstructionNumber(before);
        let _ = recording.registers_at(CpuNumber(0), before);
        let _ = recording.register_at(CpuNumber(1), RegisterId(1), before);
        let mut bytes = [None; 120];
        let _ = recording.memory_at(before, Address(0x1ff9), &mut bytes);
        for what in [
            What::Visit,
            What::Read,
            What::Write,
            What::Register(RegisterId(0)),
        ] {
            let search = Search::new(what, 0x1000..=0x2030).on_cpu(CpuNumber(0));
            let _ = recording.find_first(&search, before);
            let _ = recording.find_last(&search, before);
        }
        if let Ok(mut replay) = recording.replay(before) {
            for _ in 0..50 {
                let _ = replay.advance();
            }
            let _ = replay.memory(Address(0x2000), &mut bytes);
        }
    }
    let _ = recording.at_time(40, None);
    let _ = recording.contradictions();
    let _ = recording.unparsed_lines(&mut |_, _| ControlFlow::Continue(()));
}
