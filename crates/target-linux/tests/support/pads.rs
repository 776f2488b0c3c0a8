//! Pads that count.

use std::sync::atomic::{AtomicU64, Ordering};

use tracewire_experiment::PadCode;
use tracewire_target_linux::SharedMemory;

/// Code that counts in shared memory, without a trace.
pub fn counting(memory: &SharedMemory, place: usize) -> PadCode {
    let counter = memory.address().0 + place as u64 * 8;
    let code = [
        // lea rsp, [rsp-128]; pushfq; push rax; mov rax, counter
        &[0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50, 0x48, 0xb8][..],
        &counter.to_le_bytes(),
        // lock inc qword ptr [rax]; pop rax; popfq; lea rsp, [rsp+128]
        &[0xf0, 0x48, 0xff, 0x00, 0x58, 0x9d],
        &[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0],
    ]
    .concat();
    PadCode {
        code,
        faults: Vec::new(),
    }
}

/// The same, with a loop that makes it the place where a thread is most of the time.
pub fn counting_slowly(memory: &SharedMemory, place: usize) -> PadCode {
    let mut pad = counting(memory, place);
    // lea rsp, [rsp-128]; pushfq; push rcx; mov ecx, 1000000; dec ecx; jnz -4; pop rcx; popfq; lea rsp, [rsp+128]
    let delay = [
        &[0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x51, 0xb9][..],
        &1_000_000_u32.to_le_bytes(),
        &[0xff, 0xc9, 0x75, 0xfc, 0x59, 0x9d],
        &[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0],
    ];
    pad.code.splice(0..0, delay.concat());
    pad
}

/// The count there.
pub fn count(memory: &SharedMemory, place: usize) -> u64 {
    assert!((place + 1) * 8 <= memory.size());
    // SAFETY: within the mapping, aligned, and accessed as an atomic only.
    unsafe { &*memory.as_ptr().as_ptr().add(place * 8).cast::<AtomicU64>() }.load(Ordering::Relaxed)
}
