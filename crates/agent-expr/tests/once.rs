//! Programs without repeated collections: all bytes are still collected, and each no more often than needed.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tracewire_agent_expr::{CollectOnce, Context, Evaluation, disassemble, verify};

/// Objects of 256 bytes, each wholly readable or not, whose words point to one another.
struct World {
    readable: u8,
    seed: u64,
    collected: BTreeSet<u64>,
    /// How many bytes were collected, those of before counted again.
    bytes: u64,
}

const OBJECTS: u64 = 0x10_0000;
const OBJECT: u64 = 0x1_0000;

impl World {
    fn is_readable(&self, address: u64) -> bool {
        let number = address.wrapping_sub(OBJECTS) / OBJECT;
        number < 8 && self.readable >> number & 1 == 1
    }
}

impl Context for World {
    fn register(&mut self, register: u16) -> Option<u64> {
        Some(OBJECTS + u64::from(register % 8) * OBJECT)
    }
    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        if !self.is_readable(address) {
            return None;
        }
        let mixed = (address ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Some(if size == 8 {
            OBJECTS + mixed % 8 * OBJECT
        } else {
            mixed % 3
        })
    }
    fn variable(&mut self, _: u16) -> i64 {
        1
    }
    fn set_variable(&mut self, _: u16, _: i64) {}
    fn collect_memory(&mut self, address: u64, length: u64) {
        self.bytes += length;
        let readable = (address..address + length).filter(|at| self.is_readable(*at));
        let readable: Vec<u64> = readable.collect();
        self.collected.extend(readable);
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// To the target of a member.
    Follow(u8),
    /// A member that is collected by the way.
    Member(u8, u8),
    /// A way that is taken where a member is not zero, and collects another one.
    Either(u8, u8),
    /// An element at an index from another register's object.
    Index(u16, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8).prop_map(|place| Step::Follow(place * 8)),
        2 => (0..4_u8, 1..9_u8).prop_map(|(place, length)| Step::Member(place * 8, length)),
        1 => (0..4_u8, 0..4_u8).prop_map(|(a, b)| Step::Either(a * 8, b * 8)),
        1 => (0..2_u16, 0..4_u8).prop_map(|(register, place)| Step::Index(register, place * 8)),
    ]
}

fn program((register, steps, length): &(u16, Vec<Step>, u8)) -> Vec<u8> {
    let [high, low] = register.to_be_bytes();
    let mut code = vec![0x26, high, low];
    for step in steps {
        match step {
            // const8 place, add, trace_quick 8, ref64
            Step::Follow(place) => {
                code.extend([0x22, *place, 0x02, 0x0d, 8, 0x1a]);
            }
            // dup, const8 place, add, trace_quick length, pop
            Step::Member(place, length) => {
                code.extend([0x28, 0x22, *place, 0x02, 0x0d, *length, 0x29]);
            }
            Step::Either(a, b) => {
                // dup, const8 a, add, ref8, if_goto behind, dup, const8 b, add, trace_quick 8, pop
                code.extend([0x28, 0x22, *a, 0x02, 0x17]);
                let behind = (code.len() + 3 + 7) as u16;
                let [high, low] = behind.to_be_bytes();
                code.extend([0x20, high, low, 0x28, 0x22, *b, 0x02, 0x0d, 8, 0x29]);
            }
            // reg, const8 place, add, trace_quick 1, ref8, add
            Step::Index(register, place) => {
                let [high, low] = register.to_be_bytes();
                code.extend([0x26, high, low, 0x22, *place, 0x02, 0x0d, 1, 0x17, 0x02]);
            }
        }
    }
    // const8 length, trace, end
    code.extend([0x22, *length, 0x0c, 0x27]);
    code
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_collected_still(
        programs in prop::collection::vec((0..2_u16, prop::collection::vec(step(), 0..5), 1..32_u8), 1..6),
        readable in any::<u8>(),
        seed in any::<u64>(),
    ) {
        let programs: Vec<_> = programs.iter().map(program).collect();
        let mut once = CollectOnce::default();
        let shorter: Vec<_> = programs
            .iter()
            .map(|program| once.program(program).unwrap_or_else(|| program.clone()))
            .collect();
        let run = |programs: &[Vec<u8>]| {
            let mut world = World { readable, seed, collected: BTreeSet::new(), bytes: 0 };
            for program in programs {
                assert!(verify(program).is_ok(), "{}", disassemble(program));
                // A bad pointer ends it.
                let _ = Evaluation::new().evaluate(program, &mut world);
            }
            world
        };
        let (all, once) = (run(&programs), run(&shorter));
        let listings: Vec<_> = shorter.iter().map(|program| disassemble(program)).collect();
        prop_assert_eq!(all.collected, once.collected, "{:#?}", listings);
        prop_assert!(once.bytes <= all.bytes);
    }
}
