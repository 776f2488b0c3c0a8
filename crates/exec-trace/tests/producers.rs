//! A small trace in the manner of each producer: every line is read, and means what it means there.

use tracewire_arch::{Architecture, Machine};
use tracewire_exec_trace::debugger::DebuggerRegisters;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_model::Address;

/// A trace, of which every line is read, and how many instructions, accesses and register writes it has.
fn read(text: &str, machine: Architecture, counts: [u64; 3]) -> Recording {
    let options = OpenOptions {
        architecture: Some(machine),
        ..OpenOptions::default()
    };
    let recording = Recording::of_text(text.as_bytes(), &options).unwrap();
    let mut unparsed = Vec::new();
    recording
        .unparsed_lines(&mut |line, text| {
            unparsed.push(line.error.underlined(text));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert!(unparsed.is_empty(), "{}", unparsed.join("\n"));
    let summary = recording.summary();
    let found = [
        summary.instructions,
        summary.memory_accesses,
        summary.register_writes,
    ];
    assert_eq!(found, counts, "{text}");
    recording
}

fn register(recording: &Recording, name: &str, before: u64) -> Option<u64> {
    let machine = Machine::of(recording.architecture().unwrap());
    let registers = DebuggerRegisters::new(recording, machine);
    let number = machine.layout().by_name(name).unwrap().number;
    let bytes = registers
        .register(recording, CpuNumber(0), number, InstructionNumber(before))
        .unwrap();
    let known: Option<Vec<u8>> = bytes.into_iter().collect();
    machine.byte_order().unsigned(&known?)
}

fn memory<const COUNT: usize>(
    recording: &Recording,
    before: u64,
    address: u64,
) -> [Option<u8>; COUNT] {
    let mut bytes = [None; COUNT];
    recording
        .memory_at(InstructionNumber(before), Address(address), &mut bytes)
        .unwrap();
    bytes
}

/// No index, no set, no mode; times glued to their unit; fetches told as accesses.
#[test]
fn cortex_m0() {
    let text = "\
         7.021000us R CONTROL 00000000
       912.177000us MR4_D 00000000 20004000
       912.177000us R MSP 20004000
       912.214000us MR4_I 00000114 fff2f7ff
       912.214000us IT 00000112 b510        PUSH     {r4,lr}
       912.314000us MW4_D 20003ff8 89abcdef
       912.314000us MW4_D 20003ffc 00000101
       912.314000us R MSP 20003ff8
       912.414000us IT 00000114 f7fffff2        BL       0x000000fc
       912.414000us R r14 00000119
       912.514000us IS 000000fc d0fe        BEQ      0x000000fc
       912.614000us IT 000000fe 4770        BX       lr
";
    let recording = read(text, Architecture::Arm, [4, 3, 4]);
    assert_eq!(
        memory(&recording, 1, 0x2000_3ff8),
        [Some(0xef), Some(0xcd), Some(0xab), Some(0x89)]
    );
    assert_eq!(register(&recording, "sp", 0), Some(0x2000_4000));
    assert_eq!(register(&recording, "sp", 1), Some(0x2000_3ff8));
    let call = recording
        .instruction(InstructionNumber(1))
        .unwrap()
        .unwrap();
    let code = &call.code;
    assert_eq!(code.set.map(|set| set.name()), Some("T32"));
    assert_eq!(code.opcode.map(|opcode| opcode.bits()), Some(32));
    assert_eq!(code.disassembly, "BL       0x000000fc");
    let skipped = recording
        .instruction(InstructionNumber(2))
        .unwrap()
        .unwrap();
    assert!(!skipped.taken);
}

/// Bits and words that the model knows to be undefined.
#[test]
fn cortex_m3() {
    let text = "\
      1210 cyc IT (00000080:00000001) 00000080     b401 T16 PUSH     {r0}
      1210 cyc MSW4___D 20001fec xxxxxxxx
      1211 cyc IT (00000082:00000002) 00000082     6008 T16 STR      r0,[r1,#0]
      1211 cyc MNW4___D 20001ff0 01xx0304
      1211 cyc R psr xx0xxXxx
      1211 cyc R r4 xxxxxxx7
      1212 cyc IT (00000084:00000003) 00000084     bf00 T16 NOP
";
    let recording = read(text, Architecture::Arm, [3, 2, 2]);
    assert_eq!(memory(&recording, 2, 0x2000_1fec), [None; 4]);
    assert_eq!(
        memory(&recording, 2, 0x2000_1ff0),
        [Some(1), None, Some(3), Some(4)]
    );
    let psr = recording.register("psr").unwrap();
    let psr = recording
        .register_at(CpuNumber(0), psr, InstructionNumber(2))
        .unwrap();
    assert_eq!(psr.to_string(), "??0?????");
}

/// The data bus writes bytes in their order in memory, whatever the order of the processor.
#[test]
fn cortex_m4() {
    let text = "\
      2041 cyc IT (00012a7c:00000006) 00012a7c     48f6 T16 LDR      r0,[pc,#984]  ; [0x12e58]
      2041 cyc MNR4O__I 00012a80 68026001
      2041 cyc R r0 2001fa00
      2042 cyc IT (00012a7e:00000007) 00012a7e     6001 T16 STR      r1,[r0,#0]
      2042 cyc MNW4___D 2001fa00 0df0adba
      2043 cyc IT (00012a80:00000008) 00012a80     6802 T16 LDR      r2,[r0,#0]
      2043 cyc MNR4___D 2001fa00 0df0adba
      2043 cyc R r2 baadf00d
      2043 cyc MNW4O__A e000e010 00000007
      2044 cyc IT (00012a82:00000009) 00012a82     bf00 T16 NOP
";
    let recording = read(text, Architecture::Arm, [4, 2, 2]);
    let stored = [Some(0x0d), Some(0xf0), Some(0xad), Some(0xba)];
    assert_eq!(memory(&recording, 2, 0x2001_fa00), stored);
    assert_eq!(memory(&recording, 3, 0x2001_fa00), stored);
    // The compact form has the same.
    let compact = Recording::of_compact(recording.compact(), &OpenOptions::default()).unwrap();
    assert_eq!(memory(&compact, 2, 0x2001_fa00), stored);
    assert_eq!(register(&recording, "r2", 3), Some(0xbaad_f00d));
    assert_eq!(recording.contradictions().unwrap().count, 0);
}

/// Two stack pointers for each security state; CONTROL says which of them `sp` is.
#[test]
fn cortex_m33() {
    let text = "\
0 clk cpu0 R r13_main_s 30041000
0 clk cpu0 R CONTROL 00000000
0 clk cpu0 R XPSR f9000000
1 clk cpu0 IT (1) 10001848 f3808809 T thread_s : MSR      PSP,r0
1 clk cpu0 R PSP_S 30051000
2 clk cpu0 IT (2) 1000184c f3818814 T thread_s : MSR      CONTROL,r1
2 clk cpu0 R CONTROL 00000002
3 clk cpu0 IT (3) 10001850 b401 T thread_s : PUSH     {r0}
3 clk cpu0 MW4 30050ffc 00000001
3 clk cpu0 R PSP_S 30050ffc
4 clk cpu0 IT (4) 10001852 bf00 T thread_s : NOP
4 clk cpu0 E 0000003c 0000000f CoreEvent_SysTick
4 clk cpu0 R XPSR 0900000f
5 clk cpu0 IT (5) 10002000 b402 T handler_s : PUSH     {r1}
5 clk cpu0 R r13_main_s 30040ffc
6 clk cpu0 IT (6) 10002002 4770 T handler_s : BX       lr
6 clk cpu0 R XPSR f9000000
7 clk cpu0 IT (7) 10001854 bf00 T thread_s : NOP
";
    let recording = read(text, Architecture::Arm, [7, 1, 9]);
    let expected = [
        // Before each instruction; the process stack pointer is set and not yet selected.
        0x3004_1000u64,
        0x3004_1000,
        0x3005_1000,
        0x3005_0ffc,
        0x3004_1000,
        0x3004_0ffc,
        0x3005_0ffc,
    ];
    for (before, expected) in (0..).zip(expected) {
        assert_eq!(
            register(&recording, "sp", before),
            Some(expected),
            "{before}"
        );
    }
}

/// Without CONTROL, the stack pointer that was written last is the one in use.
#[test]
fn stack_pointers_of_which_nothing_says_which() {
    for [main, process] in [
        ["MSP", "PSP"],
        ["MSP_S", "PSP_S"],
        ["MSP_NS", "PSP_NS"],
        ["r13_main", "r13_process"],
        ["r13_main_ns", "r13_process_ns"],
        ["SP_main", "SP_process"],
    ] {
        let text = format!(
            "1 clk cpu0 IT (1) 10001848 bf00 T thread : NOP\n\
             1 clk cpu0 R {main} 20001000\n\
             2 clk cpu0 IT (2) 1000184a bf00 T thread : NOP\n\
             2 clk cpu0 R {process} 20002000\n\
             3 clk cpu0 IT (3) 1000184c bf00 T thread : NOP\n"
        );
        let recording = read(&text, Architecture::Arm, [3, 0, 2]);
        assert_eq!(register(&recording, "sp", 1), Some(0x2000_1000), "{main}");
        assert_eq!(
            register(&recording, "sp", 2),
            Some(0x2000_2000),
            "{process}"
        );
    }
}

/// No mode; the record's time and number before an access's address; transfers to coprocessors.
#[test]
fn cortex_r5() {
    let text = "\
        50 cyc IT (00000050:000000a6) 00000000 ea000006 A :   B        {pc}+0x20
        51 cyc IT (00000051:000000a7) 00000020 e5801000 A :   STR      r1,[r0,#0]
        51 cyc MNW4____ (00000051:000000a7) 05011000 00000003
        52 cyc IS (00000052:000000a8) 00000024 0e070f15 A :   MCREQ    p15,#0,r0,c7,c5,#0
        53 cyc MCW4___R (00000053:000000a9) TRANSFER 0
        53 cyc IT (00000053:000000a9) 00000028 ee070f15 A :   MCR      p15,#0,r0,c7,c5,#0
";
    let recording = read(text, Architecture::Arm, [4, 1, 0]);
    assert_eq!(
        memory(&recording, 2, 0x0501_1000),
        [Some(3), Some(0), Some(0), Some(0)]
    );
    let first = recording
        .instruction(InstructionNumber(0))
        .unwrap()
        .unwrap();
    assert_eq!(first.code.mode, "");
    assert_eq!(first.code.disassembly, "B        {pc}+0x20");
}

/// Fast Models: physical addresses, exclusive accesses, vectors in parts.
#[test]
fn fast_models() {
    let text = "\
12 clk cpu0 IT (12) 00008000:0000000000008000_NS f9000020 O EL1h_ns : STR      x0,[x1]
12 clk cpu0 MW8 00100000:000000100000_NS 11223344_55667788
13 clk cpu0 IT (13) 00008004:0000000000008004_NS c85f7c22 O EL1h_ns : LDXR     x2,[x1]
13 clk cpu0 MR8X 00100000:000000100000_NS 11223344_55667788
13 clk cpu0 R X2 1122334455667788
13 clk cpu0 R cpsr 600003c5
14 clk cpu0 IT (14) 00008008:0000000000008008_NS d503201f O EL1h_ns : NOP
";
    let recording = read(text, Architecture::Aarch64, [3, 2, 2]);
    assert_eq!(memory(&recording, 1, 0x10_0000), [Some(0x88), Some(0x77)]);
    assert_eq!(register(&recording, "x2", 2), Some(0x1122_3344_5566_7788));
}

/// gem5: upper-case hex, sizes of whole vectors.
#[test]
fn gem5() {
    let text = "\
1000 clk cpu0 IT (1) 002105dc 3d800020 O EL3h_s :   STR   q0, [x1]
1000 clk cpu0 MW16 00000000000F0010 00112233445566778899AABBCCDDEEFF
1500 clk cpu0 IT (2) 002105e0 d503201f O EL3h_s :   NOP
1500 clk cpu0 R V0 00112233445566778899AABBCCDDEEFF
";
    let recording = read(text, Architecture::Aarch64, [2, 1, 1]);
    assert_eq!(memory(&recording, 1, 0xf0010), [Some(0xff), Some(0xee)]);
}

/// Register transfer simulators: diagrams of 16 bytes, the highest address first.
#[test]
fn register_transfer() {
    let text = "\
       3981 tic ES  (000000d8:c878)     T thrd_s:         LDMCS    r0!,{r3-r6}
                    LD 00004020  ........ 626d654d 2043424d 4545203e   S:0000000000004020  NM NSH
                       00004010  3e000a73 ........ ........ ........   S:0000000000004010  NM NSH
                    R R1 (USR) 00000800
       3982 tic ES  (000000da:bf00)     T thrd_s:         NOP
";
    let recording = read(text, Architecture::Arm, [2, 2, 1]);
    assert_eq!(memory(&recording, 1, 0x401c), [Some(0x73), Some(0x0a)]);
    assert_eq!(memory(&recording, 1, 0x4020), [Some(0x3e), Some(0x20)]);
}

/// Words that are no values are no values still.
#[test]
fn unknown_digits_and_separators() {
    let value = |text: &str| {
        let line = format!("1 clk IT (1) 00008000 d503201f O EL1h : NOP\n1 clk R V0 {text}\n");
        let recording = Recording::of_text(line.as_bytes(), &OpenOptions::default()).unwrap();
        let executed = recording
            .instruction(InstructionNumber(0))
            .unwrap()
            .unwrap();
        executed
            .register_writes
            .first()
            .map(|write| write.value.to_string())
    };
    for (text, expected) in [
        (
            "0000000000000000x0000000100000002",
            Some("00000000000000000000000100000002"),
        ),
        ("00000001x00000002", Some("0000000100000002")),
        ("xxxxxxxx", Some("????????")),
        ("XX345678", Some("??345678")),
        ("0000000x0000000X", Some("0000000?0000000?")),
        ("0x12345678", Some("012345678")),
        ("nZCv", None),
        ("0000000g", None),
    ] {
        assert_eq!(value(text).as_deref(), expected, "{text}");
    }
}
