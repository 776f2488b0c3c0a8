//! Traces tell their machine.

use tracewire_arch::{Architecture, of_elf};
use tracewire_exec_trace::guess;
use tracewire_exec_trace::text::Format;
use tracewire_sample_machine::{Options, Program, Trace};

#[test]
fn the_sample_machine_is_recognised() {
    for (big_endian, architecture) in [
        (true, Architecture::Mips),
        (false, Architecture::MipsLittle),
    ] {
        let options = Options {
            big_endian,
            ..Options::default()
        };
        let mut text = Vec::new();
        Trace::new(&options).write(&mut text, 3_000_000).unwrap();
        assert_eq!(guess(Format::Qemu4v, &text), Some(architecture));
        assert_eq!(
            of_elf(&Program::of(&options).elf(&options)),
            Some(architecture)
        );
    }
}

#[test]
fn traces_tell_their_machine() {
    for (format, text, architecture) in [
        (
            Format::Tarmac,
            "1 clk IT (1) 00008000 d2a00200 O EL3h_s : MOVZ X0, #16\n",
            Some(Architecture::Aarch64),
        ),
        (
            Format::Tarmac,
            "1 clk IT (1) 00008000 e3a00001 A svc_s : MOV r0,#1\n",
            Some(Architecture::Arm),
        ),
        (
            Format::Tarmac,
            "1 clk IT (1) 00008000 bf00 T16 thrd : NOP\n",
            Some(Architecture::Arm),
        ),
        (
            Format::Qemu4v,
            "1 clk 0 IT (1) 00008000 00000537 A usr : lui a0,0x0\n1 clk R x10 0000000000000000\n",
            Some(Architecture::Riscv64),
        ),
        (
            Format::Qemu4v,
            "1 clk 0 IT (1) 00008000 4881 A usr : li a7,0\n1 clk R a7 00000000\n",
            Some(Architecture::Riscv32),
        ),
        (
            Format::Qemu4v,
            "1 clk 0 IT (1) 00008000 4889e5 A usr : mov rbp,rsp\n1 clk R rbp 00007fff00000000\n",
            Some(Architecture::X86_64),
        ),
        (
            Format::Qemu4v,
            "1 clk 0 IT (1) 00008000 9421ffe0 A usr : stwu r1,-32(r1)\n1 clk R r1 00007f00\n",
            Some(Architecture::PowerPc),
        ),
        (
            Format::Qemu4v,
            "1 clk 0 IT (1) 004003ec 88830004 A usr : lwl v1,4(a0)\n2 clk 0 IT (2) 004003f0 98830001 A usr : lwr v1,1(a0)\n3 clk R r3 00000000\n",
            Some(Architecture::MipsLittle),
        ),
        (
            Format::Qemu4v,
            "1 clk 0 IT (1) 004003ec 88820001 A usr : lwl v0,1(a0)\n2 clk 0 IT (2) 004003f0 98820004 A usr : lwr v0,4(a0)\n3 clk R r3 00000000\n",
            Some(Architecture::Mips),
        ),
        (Format::Nios2V2, "", Some(Architecture::Nios2)),
        (Format::Qemu4v, "", None),
        (Format::Qemu4v, "1 clk R q 00\n", None),
    ] {
        assert_eq!(guess(format, text.as_bytes()), architecture, "{text}");
    }
}
