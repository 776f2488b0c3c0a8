//! Where branches of a piece of code lead.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// The addresses in `wanted` that direct branches and calls of the code lead to, and that it takes the address of
/// relative to `rip`. The code is decoded from its first byte to its last; data among it may hide a branch or invent
/// one.
#[must_use]
pub fn landings(address: u64, code: &[u8], wanted: &Range<u64>) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
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
            found.insert(target);
        }
    }
    found
}
