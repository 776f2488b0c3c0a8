//! Registers of the machines that are known by their standard target descriptions.

use std::sync::OnceLock;

use tracewire_arch::{Architecture, Register, RegisterLayout, StandardRegisters};

/// All registers that a standard description of the machine has, numbered as there. Nothing for the x86 machines, whose
/// tables are this crate's own.
pub(crate) fn layout(architecture: Architecture) -> Option<&'static RegisterLayout> {
    static LAYOUTS: OnceLock<Vec<(Architecture, RegisterLayout)>> = OnceLock::new();
    let layouts = LAYOUTS.get_or_init(|| {
        Architecture::ALL
            .iter()
            .filter(|machine| !matches!(machine, Architecture::X86_64 | Architecture::I386))
            .filter_map(|machine| {
                let sets = StandardRegisters::all(*machine);
                let largest = sets.into_iter().max_by_key(StandardRegisters::size)?;
                Some((*machine, largest.layout()))
            })
            .collect()
    });
    let (_, layout) = layouts.iter().find(|(known, _)| *known == architecture)?;
    Some(layout)
}

/// The registers of the smallest description of the machine.
pub(crate) fn core(architecture: Architecture) -> Vec<Register> {
    StandardRegisters::all(architecture)
        .into_iter()
        .min_by_key(StandardRegisters::size)
        .map(|set| set.layout().registers().to_vec())
        .unwrap_or_default()
}

/// MIPS's names of the calling convention, from register 0 on.
const MIPS_32: [&str; 32] = [
    "zero", "at", "v0", "v1", "a0", "a1", "a2", "a3", "t0", "t1", "t2", "t3", "t4", "t5", "t6",
    "t7", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "t8", "t9", "k0", "k1", "gp", "sp", "s8",
    "ra",
];

/// The name in the target description of a register by another name that the machine's assembler has for it.
pub(crate) fn alias(architecture: Architecture, name: &str) -> Option<String> {
    let numbered = |letter: &str, most: usize| {
        let number = name.strip_prefix(letter)?.parse::<usize>().ok()?;
        (number <= most).then_some(number)
    };
    match architecture {
        Architecture::Mips
        | Architecture::MipsLittle
        | Architecture::Mips64
        | Architecture::Mips64Little => {
            let wide = architecture.pointer_size() == 8;
            let number = match name {
                "fp" => 30,
                // The 64-bit conventions pass eight arguments.
                "a4" | "a5" | "a6" | "a7" if wide => numbered("a", 7)? + 4,
                "t0" | "t1" | "t2" | "t3" if wide => numbered("t", 3)? + 12,
                "t4" | "t5" | "t6" | "t7" if wide => return None,
                name => MIPS_32.iter().position(|known| *known == name)?,
            };
            Some(format!("r{number}"))
        }
        Architecture::Arm | Architecture::ArmBig => Some(match name {
            "r13" => "sp".to_owned(),
            "r14" => "lr".to_owned(),
            "r15" => "pc".to_owned(),
            "ip" => "r12".to_owned(),
            "fp" => "r11".to_owned(),
            "sl" => "r10".to_owned(),
            "sb" => "r9".to_owned(),
            "ps" => "cpsr".to_owned(),
            _ => match (numbered("a", 4), numbered("v", 8)) {
                (Some(number @ 1..), _) => format!("r{}", number - 1),
                (_, Some(number @ 1..)) => format!("r{}", number + 3),
                _ => return None,
            },
        }),
        Architecture::Aarch64 => Some(match name {
            "fp" => "x29".to_owned(),
            "lr" => "x30".to_owned(),
            "ip0" => "x16".to_owned(),
            "ip1" => "x17".to_owned(),
            "ps" => "cpsr".to_owned(),
            _ => return None,
        }),
        Architecture::Riscv32 | Architecture::Riscv64 => {
            if name == "s0" {
                return Some("fp".to_owned());
            }
            let number = u16::try_from(numbered("x", 31)?).ok()?;
            let layout = layout(architecture)?;
            Some(
                layout
                    .by_number(tracewire_model::RegisterNumber(number))?
                    .name
                    .clone(),
            )
        }
        Architecture::PowerPc | Architecture::PowerPc64 | Architecture::PowerPc64Little => {
            (name == "sp").then(|| "r1".to_owned())
        }
        Architecture::Nios2 => Some(match numbered("r", 31)? {
            0 => "zero".to_owned(),
            1 => "at".to_owned(),
            24 => "et".to_owned(),
            25 => "bt".to_owned(),
            26 => "gp".to_owned(),
            27 => "sp".to_owned(),
            28 => "fp".to_owned(),
            29 => "ea".to_owned(),
            30 => "sstatus".to_owned(),
            31 => "ra".to_owned(),
            _ => return None,
        }),
        _ => None,
    }
}
