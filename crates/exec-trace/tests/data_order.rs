//! Data that are written as one number and as bytes, by lines of either kind: what memory holds is the same.

use std::fmt::Write as _;

use proptest::prelude::*;
use tracewire_arch::Architecture;
use tracewire_exec_trace::DataOrderEvidence;
use tracewire_exec_trace::record::{DataOrder, InstructionNumber};
use tracewire_exec_trace::recording::{OpenError, OpenOptions, Recording};
use tracewire_model::Address;

/// Where the memory is that the program uses.
const BASE: u64 = 0x2000_0000;
const SIZE: usize = 32;

/// How data are written.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// By lines of a Cortex-M's data bus, whose data mostly are bytes, or by those whose data mostly are a number.
    is_bus: bool,
    are_bytes: bool,
}

const MANNERS: [Manner; 4] = [
    Manner {
        is_bus: false,
        are_bytes: false,
    },
    Manner {
        is_bus: false,
        are_bytes: true,
    },
    Manner {
        is_bus: true,
        are_bytes: false,
    },
    Manner {
        is_bus: true,
        are_bytes: true,
    },
];

/// A load or a store, of 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug)]
struct Deed {
    is_store: bool,
    size: usize,
    offset: usize,
    value: u32,
}

fn deed() -> impl Strategy<Value = Deed> {
    (any::<bool>(), 0..3u32, 0..SIZE / 4, any::<u32>()).prop_map(|(is_store, size, word, value)| {
        let size = 1 << size;
        Deed {
            is_store,
            size,
            offset: 4 * word,
            value,
        }
    })
}

/// The text of a program on a little-endian machine, and what its memory holds at the end.
fn text(deeds: &[Deed], manner: Manner, registers: bool) -> (String, Vec<Option<u8>>) {
    let mut memory = vec![None; SIZE];
    let mut text = String::new();
    let mut time = 0;
    for deed in deeds {
        let range = deed.offset..deed.offset + deed.size;
        if !deed.is_store && memory[range.clone()].iter().any(Option::is_none) {
            continue;
        }
        let mut bytes = deed.value.to_le_bytes()[..deed.size].to_vec();
        time += 1;
        if registers && deed.is_store {
            let pc = 0x8000 + 4 * time;
            writeln!(
                text,
                "{time} clk IT ({time}) {pc:08x} e3001000 A svc_s : MOV r1,#1"
            )
            .unwrap();
            writeln!(text, "{time} clk R r1 {:08x}", deed.value).unwrap();
            time += 1;
        }
        let pc = 0x8000 + 4 * time;
        let (word, letter) = if deed.is_store {
            ("STR", 'W')
        } else {
            ("LDR", 'R')
        };
        writeln!(
            text,
            "{time} clk IT ({time}) {pc:08x} e5801000 A svc_s : {word} r1,[r0]"
        )
        .unwrap();
        if deed.is_store {
            for (place, byte) in memory[range.clone()].iter_mut().zip(&bytes) {
                *place = Some(*byte);
            }
        } else {
            bytes = memory[range].iter().map(|byte| byte.unwrap()).collect();
        }
        if registers && !deed.is_store {
            let mut loaded = [0; 4];
            loaded[..deed.size].copy_from_slice(&bytes);
            writeln!(text, "{time} clk R r1 {:08x}", u32::from_le_bytes(loaded)).unwrap();
        }
        if !manner.are_bytes {
            bytes.reverse();
        }
        let kind = if manner.is_bus {
            format!("MN{letter}{}___D", deed.size)
        } else {
            format!("M{letter}{}", deed.size)
        };
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(
            text,
            "{time} clk {kind} {:08x} {digits}",
            BASE + deed.offset as u64
        )
        .unwrap();
    }
    (text, memory)
}

fn options(data_order: Option<DataOrder>) -> OpenOptions<'static> {
    OpenOptions {
        architecture: Some(Architecture::Arm),
        data_order,
        ..OpenOptions::default()
    }
}

fn at_the_end(recording: &Recording) -> Vec<Option<u8>> {
    let mut bytes = vec![None; SIZE];
    recording
        .memory_at(
            InstructionNumber(recording.len()),
            Address(BASE),
            &mut bytes,
        )
        .unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whether the user says it or the registers do, whatever the lines are mostly known for.
    #[test]
    fn memory_is_the_same_however_it_is_written(
        deeds in prop::collection::vec(deed(), 1..40),
        manner in prop::sample::select(&MANNERS[..]),
    ) {
        let order = match manner.are_bytes {
            true => DataOrder::LowestAddressFirst,
            false => DataOrder::Number,
        };
        for registers in [false, true] {
            let (text, memory) = text(&deeds, manner, registers);
            if text.is_empty() {
                continue;
            }
            let reported = Recording::of_text(text.as_bytes(), &options(Some(order))).unwrap();
            prop_assert_eq!(&at_the_end(&reported), &memory);
            prop_assert_eq!(reported.contradictions().unwrap().count, 0);
            prop_assert_eq!(reported.data_order(), Some(order));
            let found = Recording::of_text(text.as_bytes(), &options(None)).unwrap();
            let evidence = found.data_order_evidence();
            let (right, wrong) = match order {
                DataOrder::Number => (evidence.number, evidence.memory),
                _ => (evidence.memory, evidence.number),
            };
            prop_assert_eq!(wrong, 0, "{}", text);
            if registers && right > 0 {
                prop_assert_eq!(&at_the_end(&found), &memory, "{}", text);
            }
        }
    }
}

/// A store of four bytes that is loaded one by one says it, too.
#[test]
fn loads_of_what_was_stored_tell_where_no_register_does() {
    for manner in MANNERS {
        let store = Deed {
            is_store: true,
            size: 4,
            offset: 0,
            value: 0x1122_3344,
        };
        let load = |offset| Deed {
            is_store: false,
            size: 1,
            offset,
            value: 0,
        };
        let (text, memory) = text(&[store, load(0), load(1), load(2), load(3)], manner, false);
        let recording = Recording::of_text(text.as_bytes(), &options(None)).unwrap();
        assert_eq!(
            recording.data_order_evidence(),
            DataOrderEvidence::default()
        );
        assert_eq!(at_the_end(&recording), memory, "{text}");
        assert_eq!(recording.contradictions().unwrap().count, 0, "{text}");
    }
}

/// The index of one order is none for the other.
#[test]
fn an_index_is_for_the_order_it_was_made_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tarmac");
    let store = Deed {
        is_store: true,
        size: 4,
        offset: 0,
        value: 0x1122_3344,
    };
    let manner = Manner {
        is_bus: false,
        are_bytes: false,
    };
    let (text, memory) = text(&[store], manner, true);
    std::fs::write(&path, text).unwrap();
    let mut turned = memory.clone();
    turned[..4].reverse();
    let orders = [
        (None, &memory),
        (Some(DataOrder::LowestAddressFirst), &turned),
        (Some(DataOrder::Number), &memory),
        (None, &memory),
    ];
    for (order, expected) in orders {
        // Once it is made, once it is there.
        for _ in 0..2 {
            let recording = Recording::open(&path, &options(order)).unwrap();
            assert_eq!(&at_the_end(&recording), expected, "{order:?}");
        }
    }
    // A compact form has no text that could be read again.
    let compact = Recording::open(&path, &options(None)).unwrap().compact();
    let again = |order| Recording::of_compact(compact.clone(), &options(order));
    assert_eq!(at_the_end(&again(Some(DataOrder::Number)).unwrap()), memory);
    let error = again(Some(DataOrder::LowestAddressFirst)).unwrap_err();
    assert!(matches!(error, OpenError::DataOrder { .. }), "{error}");
}
