//! DWARF's register numbers and GDB's, which differ.

use crate::architecture::Architecture;
use tracewire_model::RegisterNumber;

/// GDB's numbers of the x86-64 registers that DWARF numbers 0 to 16: rax rdx rcx rbx rsi rdi rbp rsp r8…r15 rip.
const X86_64: [u16; 17] = [0, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// The number GDB's target description gives the register that DWARF numbers `register`, as the machine's ABI and, where
/// compilers do otherwise, GDB have it: x86-64 (System V ABI supplement, figure 3.36), i386 (its supplement, table
/// 2.14), Arm (IHI 0040), AArch64 (IHI 0057), MIPS (GCC's numbers), RISC-V (psABI), PowerPC (GCC's numbers and the
/// ABI's), Nios II. `None` for a register that the target description does not have (MMX, AVX-512 masks, halves of
/// Arm's floating-point registers).
#[must_use]
pub fn gdb_register(architecture: Architecture, register: u16) -> Option<RegisterNumber> {
    let number = match architecture {
        Architecture::X86_64 => match register {
            0..=16 => *X86_64.get(usize::from(register))?,
            // xmm0…15 follow st0…7 (24…31) and the eight x87 control registers.
            17..=32 => 40 + (register - 17),
            33..=40 => 24 + (register - 33),
            49 => 17,
            // es cs ss ds fs gs; GDB's order is cs ss ds es fs gs from 18.
            50 => 21,
            51 => 18,
            52 => 19,
            53 => 20,
            54 => 22,
            55 => 23,
            64 => 56,
            65 => 32,
            66 => 33,
            _ => return None,
        },
        Architecture::I386 => match register {
            // eax ecx edx ebx esp ebp esi edi eip eflags have the same numbers.
            0..=9 => register,
            11..=18 => 16 + (register - 11),
            21..=28 => 32 + (register - 21),
            37 => 24,
            38 => 25,
            39 => 40,
            40 => 13,
            41 => 10,
            42 => 11,
            43 => 12,
            44 => 14,
            45 => 15,
            _ => return None,
        },
        Architecture::Mips
        | Architecture::MipsLittle
        | Architecture::Mips64
        | Architecture::Mips64Little => match register {
            0..=31 => register,
            32..=63 => 38 + (register - 32),
            64 => 34,
            65 => 33,
            _ => return None,
        },
        Architecture::Arm | Architecture::ArmBig => match register {
            0..=15 => register,
            256..=287 => 26 + (register - 256),
            _ => return None,
        },
        Architecture::Aarch64 => match register {
            0..=32 => register,
            64..=95 => 34 + (register - 64),
            _ => return None,
        },
        Architecture::Riscv32 | Architecture::Riscv64 => match register {
            0..=31 => register,
            32..=63 => 33 + (register - 32),
            _ => return None,
        },
        Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
            match register {
                0..=63 => register,
                64 => 66,
                // The link register's number in GCC's call frame information, and in the ABI.
                65 | 108 => 67,
                66 | 109 => 68,
                101 => 69,
                _ => return None,
            }
        }
        Architecture::Nios2 => match register {
            0..=48 => register,
            _ => return None,
        },
    };
    Some(RegisterNumber(number))
}

/// The DWARF number of a register of the target description: [`gdb_register`] the other way round.
#[must_use]
pub fn dwarf_register(architecture: Architecture, register: RegisterNumber) -> Option<u16> {
    (0..=287).find(|&candidate| gdb_register(architecture, candidate) == Some(register))
}
