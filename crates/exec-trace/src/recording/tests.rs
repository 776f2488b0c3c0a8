//! Recordings in many segments against the same in one.

use std::ops::ControlFlow;

use proptest::prelude::*;
use tracewire_tracefile::Address;

use super::open::open_text;
use super::{OpenOptions, Recording, Search, What};
use crate::index::CHUNK;
use crate::record::{CpuNumber, InstructionNumber};

/// Two processors that take turns, whose lines name them or do not, and stand anywhere near their instructions.
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
        for instant in instants {
            let n = InstructionNumber(instant.index(steps.len() + 1) as u64);
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
        prop_assert_eq!(one.contradictions().unwrap(), many.contradictions().unwrap());
    }
}
