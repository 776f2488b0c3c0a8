//! Frames that keep only the requested registers.

use proptest::prelude::*;
use tracewire_arch::RegisterLayout;
use tracewire_experiment::fake::FakeTarget;
use tracewire_experiment::{Experiment, LinearStore, Outcome};
use tracewire_model::{
    Action, Address, ByteOrder, RegisterMask, RegisterNumber, TracepointDefinition,
};

use crate::support::{Block, CODE, REGISTERS, memory, moment, options, parse, target, tracepoint};

/// The fake target's registers: numbers, then the program counter.
fn layout() -> RegisterLayout {
    let mut xml = String::from("<target><feature name=\"org.tracewire.fake\">");
    for number in 0..REGISTERS {
        xml += &format!("<reg name=\"r{number}\" bitsize=\"64\"/>");
    }
    xml += "<reg name=\"pc\" bitsize=\"64\" type=\"code_ptr\"/></feature></target>";
    RegisterLayout::parse(&xml).unwrap()
}

fn named(mask: u8) -> RegisterMask {
    (0..8)
        .filter(|number| mask >> number & 1 == 1)
        .map(RegisterNumber)
        .collect()
}

/// A tracepoint whose hits and steps collect the registers of two masks, where there is one, and a byte.
fn definition(number: i32, hit: Option<u8>, step: Option<u8>) -> TracepointDefinition {
    let actions = |mask: Option<u8>| {
        let registers = mask.map(|mask| Action::Registers(named(mask)));
        registers.into_iter().chain([memory(0x1000, 1)]).collect()
    };
    let address = Address(CODE.0 + 16 * number as u64);
    TracepointDefinition {
        step_count: 1,
        step_actions: actions(step),
        ..tracepoint(number, address, actions(hit))
    }
}

fn hit(experiment: &mut Experiment<LinearStore>, target: &mut FakeTarget, at: u64) -> Outcome {
    for (place, value) in [(at, 7), (at + 1, 11)] {
        let registers = (1..=u64::from(REGISTERS))
            .map(|one| one * value)
            .collect::<Vec<_>>();
        let reported = target.run(&moment(Address(place), &registers), experiment);
        if place > at {
            return reported.unwrap();
        }
    }
    unreachable!()
}

/// The part of a register block that a mask keeps: the program counter is always kept.
fn left(mask: u8, block: &[u8]) -> (Vec<u8>, Vec<bool>) {
    let registers = usize::from(REGISTERS);
    let keeps = |place: usize| place == registers || mask >> place & 1 == 1;
    let bytes = block.chunks(8).enumerate().flat_map(|(place, bytes)| {
        bytes
            .iter()
            .map(move |byte| if keeps(place) { *byte } else { 0 })
    });
    (bytes.collect(), (0..=registers).map(keeps).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Expanded, they are the frames with whole blocks, with zeros for what is not kept, and with a note of it.
    #[test]
    fn expanded_frames_are_those_with_whole_blocks(
        masks in prop::collection::vec((any::<Option<u8>>(), any::<Option<u8>>()), 1..4),
        again in any::<Option<u8>>(),
        hits in prop::collection::vec(0..4_usize, 1..12),
    ) {
        let run = |keep: bool| {
            let mut target = target();
            target.map(Address(0x1000), b"x");
            let mut experiment = Experiment::new(options(), LinearStore::new(1 << 20).unwrap());
            if keep {
                experiment.keep_asked_registers(layout());
            }
            for (number, (hit, step)) in (1..).zip(&masks) {
                experiment.define(definition(number, *hit, *step)).unwrap();
            }
            experiment.start(&mut target, 0).unwrap();
            for (count, place) in hits.iter().enumerate() {
                if count == hits.len() / 2 {
                    // Another definition, during the run.
                    experiment.define(definition(1, again, None)).unwrap();
                    experiment.install(&mut target).unwrap();
                }
                let number = 1 + place % masks.len();
                hit(&mut experiment, &mut target, CODE.0 + 16 * number as u64);
            }
            experiment
        };
        let (whole, kept) = (run(false), run(true));
        let sets = kept.register_sets().unwrap();
        prop_assert!(kept.buffer().bytes().len() <= whole.buffer().bytes().len() + 5 * 2 * hits.len());
        let mut expanded = vec![];
        let mut rest = kept.buffer().bytes();
        while let Some(header) = rest.first_chunk::<6>() {
            let size = u32::from_le_bytes([header[2], header[3], header[4], header[5]]) as usize;
            let (frame, others) = rest.split_at(6 + size);
            let reported = sets.expanded_size(frame, ByteOrder::Little, 40);
            let before = expanded.len();
            sets.expand(frame, ByteOrder::Little, 40, &mut expanded);
            prop_assert_eq!(expanded.len() - before, reported);
            rest = others;
        }
        let (whole, expanded) = (parse(whole.buffer().bytes()), parse(&expanded));
        prop_assert_eq!(whole.len(), expanded.len());
        for (count, (whole, kept)) in whole.iter().zip(&expanded).enumerate() {
            let number = whole.0 as usize;
            let is_step = count % 2 == 1;
            let (hit, step) = match masks[number - 1] {
                _ if number == 1 && count / 2 >= hits.len() / 2 => (again, None),
                masks => masks,
            };
            let mask = if is_step { step } else { hit };
            let mut wanted = vec![];
            for block in &whole.1 {
                match block {
                    Block::R(bytes) => {
                        let (bytes, known) = left(mask.unwrap(), bytes);
                        wanted.push(Block::R(bytes));
                        let unknown: i64 = (0..)
                            .zip(&known)
                            .map(|(place, known)| i64::from(!known) << place)
                            .sum();
                        if unknown != 0 {
                            wanted.push(Block::V(i32::MIN, unknown));
                        }
                    }
                    other => wanted.push(other.clone()),
                }
            }
            prop_assert_eq!(&kept.1, &wanted, "frame {}", count);
        }
    }
}
