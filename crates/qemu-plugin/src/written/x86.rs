//! x86, by its decoder. QEMU does not report the mode in which an instruction was translated: the registers of each mode in which
//! the code has this length.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register,
};

use super::{Names, Written};

pub(super) fn written(code: &[u8], modes: &[u32]) -> Written {
    let mut names = Names::default();
    let mut factory = InstructionInfoFactory::new();
    let mut is_known = false;
    for mode in modes {
        let mut decoder = Decoder::new(*mode, code, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.is_invalid() || instruction.len() != code.len() {
            continue;
        }
        is_known = true;
        if is_of_system(&instruction) {
            return Written::All;
        }
        let writes = |access| {
            matches!(
                access,
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            )
        };
        let info = factory.info(&instruction);
        for used in info.used_registers() {
            if writes(used.access()) && !add(&mut names, used.register()) {
                return Written::All;
            }
        }
        // Floating point has exceptions.
        if instruction.op_count() > 0
            && (0..instruction.op_count()).any(|number| {
                instruction.op_kind(number) == iced_x86::OpKind::Register
                    && instruction.op_register(number).is_vector_register()
            })
        {
            names.add("mxcsr");
        }
    }
    if is_known { names.done() } else { Written::All }
}

/// Whether an instruction enters or leaves the system, changes a segment or saved state, or is of the old floating point unit: few
/// do so, and they write many registers.
fn is_of_system(instruction: &Instruction) -> bool {
    let leaves = matches!(
        instruction.flow_control(),
        FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend
    );
    let is_far = instruction.is_call_far()
        || instruction.is_call_far_indirect()
        || instruction.is_jmp_far()
        || instruction.is_jmp_far_indirect();
    let text = format!("{:?}", instruction.mnemonic()).to_ascii_lowercase();
    let restores = [
        "xrstor", "fxrstor", "ldmxcsr", "vldmxcsr", "iret", "sys", "retf", "emms", "femms",
    ]
    .iter()
    .any(|prefix| text.starts_with(prefix));
    let changes_segment = (0..instruction.op_count()).any(|number| {
        instruction.op_kind(number) == iced_x86::OpKind::Register
            && instruction.op_register(number).is_segment_register()
    });
    let is_old_float = text.starts_with('f')
        || (0..instruction.op_count()).any(|number| {
            instruction.op_kind(number) == iced_x86::OpKind::Register
                && instruction.op_register(number).is_mm()
        });
    leaves
        || is_far
        || restores
        || changes_segment
        || is_old_float
        || instruction.is_privileged()
        || text.starts_with('l') && text.len() == 3 && text.ends_with('s')
}

/// Adds a register's names; false for one that has none.
fn add(names: &mut Names, register: Register) -> bool {
    let text = format!("{:?}", register.full_register()).to_ascii_lowercase();
    if register.is_gpr() {
        // The registers of 32 bits have other names on the smaller machine.
        names.add(&text);
        if let Some(rest) = text.strip_prefix('r') {
            names.add(&format!("e{rest}"));
        }
    } else if register.is_vector_register() {
        let number = text.trim_start_matches(char::is_alphabetic).to_owned();
        names.add(&format!("xmm{number}"));
        names.add(&format!("ymm{number}h"));
    } else if register.is_k() || register == Register::RIP || register == Register::EIP {
    } else {
        return false;
    }
    true
}
