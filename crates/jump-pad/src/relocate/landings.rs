//! The targets of branches in a piece of code.
//!
//! [`landings`] decodes all of the code, which takes 6 ns a byte: 160 ms for a program like node. [`landing`] is for one place.
//! Only few runs of four bytes can be the displacement of a branch to it, and only their surroundings are decoded.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use super::MAX_INSTRUCTION;

/// The addresses in `wanted` that direct branches and calls of the code have as target, or whose address the code takes relative
/// to `rip`, each once, in ascending order. The code is decoded from its first byte to its last. Data in it may hide a branch or invent
/// one.
#[must_use]
pub fn landings(address: u64, code: &[u8], wanted: &Range<u64>) -> Vec<u64> {
    let mut found = Vec::new();
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let target = match instruction.flow_control() {
            FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Call
            | FlowControl::XbeginXabortXend
                if instruction.op0_kind() == OpKind::NearBranch64 =>
            {
                instruction.near_branch_target()
            }
            _ if instruction.is_ip_rel_memory_operand() => instruction.ip_rel_memory_address(),
            _ => continue,
        };
        if wanted.contains(&target) {
            found.push(target);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// How many bytes of code are searched at a time.
const CHUNK: usize = 256 << 10;
/// How many bytes are decoded before an instruction that is looked for. A decoder that begins inside of an instruction is in step
/// with the code after a few instructions.
const RUN_UP: u64 = 4 << 10;
/// The reach of a branch with a displacement of 8 bits, plus its maximum length, prefixes included.
const SHORT: u64 = 128 + MAX_INSTRUCTION as u64;
/// How many bytes of an instruction can be after a displacement of 32 bits.
const MAX_IMMEDIATE: u64 = 4;

/// An address in `wanted`, a few bytes, that is among the [`landings`] of the code in a range. `read` reads the code and returns
/// how many bytes there were.
pub fn landing(
    code: &Range<u64>,
    wanted: &Range<u64>,
    mut read: impl FnMut(u64, &mut [u8]) -> usize,
) -> Option<u64> {
    let near = wanted.start.saturating_sub(SHORT)..wanted.end.saturating_add(SHORT);
    if let Some(found) = landing_from(code, &near, wanted, &mut read) {
        return Some(found);
    }
    let mut bytes = vec![0; CHUNK];
    let mut start = code.start;
    loop {
        let length = usize::try_from(code.end.saturating_sub(start)).unwrap_or(usize::MAX);
        let part = bytes.get_mut(..length.min(CHUNK)).unwrap_or_default();
        let filled = read(start, part);
        let part = part.get(..filled).unwrap_or_default();
        for offset in displacements_to(start, part, wanted) {
            let at = start.saturating_add(offset as u64);
            let near = at.saturating_sub(MAX_INSTRUCTION as u64)..at.saturating_add(SHORT);
            if let Some(found) = landing_from(code, &near, wanted, &mut read) {
                return Some(found);
            }
        }
        if filled < CHUNK {
            return None;
        }
        // A displacement may be in two parts.
        start = start.saturating_add((CHUNK - 3) as u64);
    }
}

/// An address in `wanted` that is the target of instructions in a part of the code.
fn landing_from(
    code: &Range<u64>,
    part: &Range<u64>,
    wanted: &Range<u64>,
    read: &mut impl FnMut(u64, &mut [u8]) -> usize,
) -> Option<u64> {
    let start = part.start.saturating_sub(RUN_UP).max(code.start);
    let end = part.end.min(code.end);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    let filled = read(start, &mut bytes);
    landings(start, bytes.get(..filled)?, wanted)
        .first()
        .copied()
}

/// The offsets of four bytes that lead to `wanted` if they are a displacement, in any instruction.
fn displacements_to(address: u64, code: &[u8], wanted: &Range<u64>) -> Vec<usize> {
    // This many bytes are examined together: compilers vectorize the loop.
    const BLOCK: usize = 1 << 10;
    let span = (wanted.end.saturating_sub(wanted.start) + MAX_IMMEDIATE) as u32;
    let first = wanted.start.wrapping_sub(MAX_IMMEDIATE);
    let mut found = Vec::new();
    for phase in 0..4 {
        let blocks = code.get(phase..).unwrap_or_default().chunks(BLOCK);
        for (index, block) in blocks.enumerate() {
            let offset = phase + index * BLOCK;
            // A displacement counts from its end.
            let end = address.wrapping_add(offset as u64 + 4);
            let base = end.wrapping_sub(first) as u32;
            let (words, _) = block.as_chunks();
            let leads = |(index, word): (usize, &[u8; 4])| {
                let distance = base.wrapping_add(4 * index as u32);
                u32::from_le_bytes(*word).wrapping_add(distance) < span
            };
            let any = (words.iter().enumerate()).fold(false, |any, word| any | leads(word));
            if any {
                let words = words.iter().enumerate();
                found.extend(
                    words
                        .filter(|word| leads(*word))
                        .map(|(at, _)| offset + 4 * at),
                );
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    /// The code of this process's C library: where it is mapped, and its bytes.
    fn code_of_libc() -> (u64, Vec<u8>) {
        let maps = fs::read_to_string("/proc/self/maps").expect("the mappings");
        let line = (maps.lines())
            .find(|line| line.contains("r-xp") && line.contains("libc.so"))
            .expect("a C library");
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let (start, end) = words[0].split_once('-').expect("a range");
        let (start, end) = (number(start), number(end));
        let mut code = vec![0; (end - start) as usize];
        let file = fs::File::open(words[5]).expect("the library");
        file.read_exact_at(&mut code, number(words[2]))
            .expect("its code");
        (start, code)
    }

    #[test]
    fn one_landing_is_found_as_all_are() {
        let (start, code) = code_of_libc();
        let whole = start..start + code.len() as u64;
        let all = landings(start, &code, &whole);
        let read = |address: u64, bytes: &mut [u8]| {
            let rest = &code[(address - start) as usize..];
            let length = bytes.len().min(rest.len());
            bytes[..length].copy_from_slice(&rest[..length]);
            length
        };
        let mut landed = 0;
        // Around targets of branches, and at other places.
        let places = (all.iter().copied().step_by(all.len() / 64))
            .chain((whole.clone()).step_by(code.len() / 64));
        for place in places {
            for wanted in [place - 9..place + 1, place + 1..place + 8] {
                let found = landing(&whole, &wanted, read);
                let is_landing = all.iter().any(|target| wanted.contains(target));
                assert_eq!(found.is_some(), is_landing, "{wanted:x?}: {found:x?}");
                landed += usize::from(is_landing);
            }
        }
        assert!((64..192).contains(&landed), "{landed}");
    }

    #[test]
    fn a_displacement_is_found_wherever_parts_of_the_code_end() {
        let target = 0x40_0000_u64;
        for at in (CHUNK - 8..CHUNK + 8).chain([0, 1, 2 * CHUNK - 9]) {
            let start = target - 0x10_0000;
            // Only NOPs, and a call.
            let mut code = vec![0x90; 3 * CHUNK];
            let displacement = target.wrapping_sub(start + at as u64 + 5) as u32;
            code[at] = 0xe8;
            code[at + 1..at + 5].copy_from_slice(&displacement.to_le_bytes());
            let read = |address: u64, bytes: &mut [u8]| {
                let rest = &code[(address - start) as usize..];
                let length = bytes.len().min(rest.len());
                bytes[..length].copy_from_slice(&rest[..length]);
                length
            };
            let whole = start..start + code.len() as u64;
            assert_eq!(
                landing(&whole, &(target - 3..target + 4), read),
                Some(target),
                "{at}"
            );
            assert_eq!(
                landing(&whole, &(target + 1..target + 5), read),
                None,
                "{at}"
            );
        }
    }
}
