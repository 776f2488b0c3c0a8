//! A register block as the trap mechanism makes it, from the test's registers.

use std::arch::x86_64::__cpuid_count;

use tracewire_arch::X86Registers;

/// The offset of a component in the standard form of `xsave`.
fn component(number: u32) -> usize {
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has the instruction.
    let leaf = unsafe { __cpuid_count(0xd, number) };
    leaf.ebx as usize
}

/// The bytes of a register that `xsave` has saved; zeros where the component is in its first state.
fn saved(extended: &[u8], number: u32, offset: usize, size: usize) -> Vec<u8> {
    let in_use = u64::from_le_bytes(extended[512..520].try_into().unwrap());
    if in_use >> number & 1 == 0 {
        return vec![0; size];
    }
    let start = if number < 2 { 0 } else { component(number) };
    extended[start + offset..][..size].to_vec()
}

/// The register block at a tracepoint at `machine::SITE`.
pub fn block(set: X86Registers, general: &[u64; 16], flags: u64, extended: &[u8]) -> Vec<u8> {
    let names = [
        "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ];
    let mut block = vec![];
    for register in set.layout_64().registers() {
        let name = register.name.as_str();
        let size = register.size() as usize;
        let number = |prefix: &str, suffix: &str| {
            let middle = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            middle.parse::<usize>().ok()
        };
        let word = |value: u64| value.to_le_bytes().to_vec();
        let bytes = if let Some(place) = names.iter().position(|general| *general == name) {
            word(general[place])
        } else if let Some(number) = number("st", "") {
            saved(extended, 0, 32 + 16 * number, 10)
        } else if let Some(number) = number("xmm", "") {
            match number.checked_sub(16) {
                None => saved(extended, 1, 160 + 16 * number, 16),
                Some(number) => saved(extended, 7, 64 * number, 16),
            }
        } else if let Some(number) = number("ymm", "h") {
            match number.checked_sub(16) {
                None => saved(extended, 2, 16 * number, 16),
                Some(number) => saved(extended, 7, 64 * number + 16, 16),
            }
        } else if let Some(number) = number("zmm", "h") {
            match number.checked_sub(16) {
                None => saved(extended, 6, 32 * number, 32),
                Some(number) => saved(extended, 7, 64 * number + 32, 32),
            }
        } else if let Some(number) = number("k", "") {
            saved(extended, 5, 8 * number, 8)
        } else {
            word(other(name, flags, extended))
        };
        block.extend_from_slice(&bytes[..size]);
    }
    block
}

fn other(name: &str, flags: u64, extended: &[u8]) -> u64 {
    let x87 = extended[512] & 1 != 0;
    let half = |at: usize, first: u64| {
        if x87 {
            u64::from(u16::from_le_bytes([extended[at], extended[at + 1]]))
        } else {
            first
        }
    };
    let address = |at: usize| {
        let bytes: [u8; 4] = extended[at..at + 4].try_into().unwrap();
        if x87 {
            u64::from(u32::from_le_bytes(bytes))
        } else {
            0
        }
    };
    match name {
        "rip" => super::machine::SITE.0,
        "eflags" => flags,
        "cs" => 0x33,
        "ss" => 0x2b,
        "ds" | "es" | "fs" | "gs" => 0,
        "fctrl" => half(0, 0x37f),
        "fstat" => half(2, 0),
        "ftag" => tags(extended, x87),
        "fiseg" => half(12, 0),
        "fioff" => address(8),
        "foseg" => half(20, 0),
        "fooff" => address(16),
        "fop" => half(6, 0) & 0x7ff,
        "mxcsr" => u64::from(u32::from_le_bytes(extended[24..28].try_into().unwrap())),
        "orig_rax" => u64::MAX,
        "fs_base" => base(true),
        "gs_base" => base(false),
        _ => panic!("{name}"),
    }
}

fn base(of_fs: bool) -> u64 {
    let mut value = 0_u64;
    let what = if of_fs { 0x1003 } else { 0x1004 };
    // SAFETY: the kernel writes one word.
    unsafe { libc::syscall(libc::SYS_arch_prctl, what, &mut value) };
    value
}

fn tags(extended: &[u8], x87: bool) -> u64 {
    let top = usize::from(extended[3] >> 3 & 7);
    (0..8).fold(0, |tags, register| {
        let start = 32 + 16 * ((register + 8 - top) % 8);
        let value = &extended[start..start + 10];
        let exponent = u16::from_le_bytes([value[8], value[9]]) & 0x7fff;
        let tag = if !x87 || extended[4] >> register & 1 == 0 {
            3
        } else if value[..8] == [0; 8] && exponent == 0 {
            1
        } else if exponent == 0 || exponent == 0x7fff || value[7] & 0x80 == 0 {
            2
        } else {
            0
        };
        tags | tag << (2 * register)
    })
}
