//! The logs of simulators: lines as their producers write them, and whole logs by a writer of this test, against the state that it
//! had.

#[path = "logs/etrace.rs"]
mod etrace;
mod support;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Read as _;

use support::{record, records};
use tracewire_arch::Architecture;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{OpenOptions, Recording, ReportedWrites};
use tracewire_exec_trace::text::{Format, Piece, Sink, perf, read, refusal, transcribed};
use tracewire_model::Address;

#[test]
fn lines_of_spike() {
    let format = Format::Spike;
    // `-l` alone.
    assert_eq!(
        record(
            format,
            "core   1: 0x0000000080000004 (0x34202f73) csrr    t5, mcause"
        ),
        "0 cpu1 taken 0000000080000004 34202f73/32 - [] - [csrr    t5, mcause]"
    );
    // `--log-commits` alone: a compressed load.
    assert_eq!(
        records(
            format,
            "core   0: 3 0x0000000080000250 (0x638c) x11 0x0000000080001d68 mem 0x0000000080001d90\n"
        ),
        [
            "0 cpu0 taken 0000000080000250 638c/16 - [M] - []",
            "0 cpu0 [x11] = 0000000080001d68 of 0",
            "0 cpu0 Read 8 - 0000000080001d90 0000000080001d68 of 0",
        ]
    );
    // Both, with a trap.
    let both = "core   0: 0x000000008000223c (0x00893683) ld      a3, 8(s2)\n\
                core   0: 3 0x000000008000223c (0x00893683) x13 0x00007fc1bb000000 mem 0x0000000080002970\n\
                core   0: 0x0000000080001bf4 (0x0000e11c) c.sd    a5, 0(a0)\n\
                core   0: 3 0x0000000080001bf4 (0xe11c) mem 0x0000000080002050 0x0000000080002060\n\
                core   0: exception trap_illegal_instruction, epc 0x000000008000017c\n\
                core   0:           tval 0x0000000031ff9493\n\
                core   0: >>>>  trap_vector\n\
                core   0: 3 0x00000000800025c8 (0x30529073) c773_mtvec 0x0000000080000004\n";
    assert_eq!(
        records(format, both),
        [
            "0 cpu0 taken 000000008000223c 00893683/32 - [] - [ld      a3, 8(s2)]",
            "0 cpu0 [x13] = 00007fc1bb000000 of 0",
            "0 cpu0 Read 8 - 0000000080002970 00007fc1bb000000 of 0",
            "0 cpu0 taken 0000000080001bf4 e11c/16 - [] - [c.sd    a5, 0(a0)]",
            "0 cpu0 Write 8 - 0000000080002050 0000000080002060 of 1",
            "0 cpu0 Exception [exception trap_illegal_instruction, epc 0x000000008000017c]",
            "0 cpu0 Other [tval 0x0000000031ff9493]",
            "0 cpu0 Other [>>>>  trap_vector]",
            "0 cpu0 taken 00000000800025c8 30529073/32 - [M] - []",
            "0 cpu0 [mtvec] = 0000000080000004 of 2",
        ]
    );
    // A vector load has no size, an old version blanks.
    assert_eq!(
        records(
            format,
            "core   0: 3 0x0000000080000000 (0x02056007) e32 m1 l4 v0  0x00000004000000030000000200000001 mem 0x80002000\n\
             core   0: 3 0x0000000080000004 (0x00000093) x 1 0x0000000000000000\n"
        ),
        [
            "0 cpu0 taken 0000000080000000 02056007/32 - [M] - []",
            "0 cpu0 [v0] = 00000004000000030000000200000001 of 0",
            "0 cpu0 taken 0000000080000004 00000093/32 - [M] - []",
            "0 cpu0 [x1] = 0000000000000000 of 1",
        ]
    );
    // An atomic instruction reads and writes.
    assert_eq!(
        records(
            format,
            "core   0: 3 0x0000000080000000 (0x00c5a52f) x10 0xffffffff80000001 mem 0x0000000080002000 mem 0x0000000080002000 0x80000004\n"
        )[1..],
        [
            "0 cpu0 [x10] = ffffffff80000001 of 0",
            "0 cpu0 Read 4 - 0000000080002000 80000001 of 0",
            "0 cpu0 Write 4 - 0000000080002000 80000004 of 0",
        ]
    );
    assert_eq!(
        record(format, "core   0: 3 0x0000000080000000 (0x00000093) q1 0x1"),
        "expected a register, or mem, not [q1]"
    );
}

#[test]
fn lines_of_execlog() {
    let format = Format::Execlog;
    // A whole machine: the address is physical, and no access of the program's.
    assert_eq!(
        records(
            format,
            "0, 0xa12, 0xf8012400, \"movs r4, #0\"\n0, 0xa14, 0xf87f42b4, \"cmp r4, r6\"\n\
             1, 0xd6, 0xf1054207, \"ldr r0, [r1]\", load, 0x00000004, RAM, r0 -> 0x0000002a, cpsr -> 0x61000000\n"
        ),
        [
            "0 cpu0 taken a12 no-opcode - [] - [movs r4, #0]",
            "0 cpu0 taken a14 no-opcode - [] - [cmp r4, r6]",
            "0 cpu1 taken d6 no-opcode - [] - [ldr r0, [r1]]",
            "0 cpu1 [r0] = 0000002a of 2",
            "0 cpu1 [cpsr] = 61000000 of 2",
        ]
    );
    // A user program; RISC-V's disassembly has the code.
    assert_eq!(
        records(
            format,
            "0, 0x100f0, 0x9410113, \"09410113          addi                    sp,sp,148\", sp -> 0x0000000000011180\n\
             0, 0x100f4, 0xe406, \"e406              sd                      ra,8(sp)\", store, 0x00011188\n"
        ),
        [
            "0 cpu0 taken 100f0 09410113/32 - [] - [addi                    sp,sp,148]",
            "0 cpu0 [sp] = 0000000000011180 of 0",
            "0 cpu0 taken 100f4 e406/16 - [] - [sd                      ra,8(sp)]",
            "0 cpu0 Write 1 - 00011188 ?? of 1",
        ]
    );
    assert_eq!(
        record(format, "0, 0x100f0, 0x9410113, addi sp,sp,148"),
        "expected the disassembly between quotation marks, not [addi]"
    );
}

/// The registers of a big-endian machine are written in reverse: as they are where the machine is known, also the second time.
#[test]
fn execlog_of_a_big_endian_machine() {
    let text = "0, 0x400110, 0x3c1d0041, \"lui sp,0x41\", sp -> 0x00004100\n\
                0, 0x400114, 0x27bd18e0, \"addiu sp,sp -> 0x1\", sp -> 0xe0184100, v0 -> 0x123\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log");
    std::fs::write(&path, text).unwrap();
    let sp = |architecture: Option<Architecture>| {
        let options = OpenOptions {
            architecture,
            ..OpenOptions::default()
        };
        let recording = Recording::open(&path, &options).unwrap();
        let sp = recording.register("sp").unwrap();
        let value = recording
            .register_at(CpuNumber(0), sp, InstructionNumber(2))
            .unwrap();
        let mut kept = Vec::new();
        recording.write_text(&mut kept).unwrap();
        (value.known(), kept)
    };
    for _ in 0..2 {
        assert_eq!(sp(None).0, Some(0xe018_4100));
        assert_eq!(sp(Some(Architecture::MipsLittle)).0, Some(0xe018_4100));
        assert_eq!(sp(Some(Architecture::Mips)).0, Some(0x0041_18e0));
    }
    // The transcript is taken for what it is.
    let (_, kept) = sp(Some(Architecture::Mips));
    std::fs::write(&path, kept).unwrap();
    assert_eq!(sp(Some(Architecture::Mips)).0, Some(0x0041_18e0));
}

#[test]
fn lines_of_gem5() {
    let format = Format::Gem5;
    let text = "2457000: system.cpu: A0 T0 : 0x6220 @_malloc_r+640    :   adrp   x1, #73728        : IntAlu :  D=0x0000000000018000  FetchSeq=1364  CPSeq=902  flags=(IsInteger)\n\
                2457000: system.cpu: A0 T0 : 0x6224 @_malloc_r+644    : stp\n\
                2457500: system.cpu: A0 T0 : 0x6224 @_malloc_r+644. 0 :   addi_uop   sp, sp, #-32 : IntAlu :  D=0x0000007fffffe0  flags=(IsInteger|IsMicroop)\n\
                2458000: system.cpu: A0 T0 : 0x6224 @_malloc_r+644. 1 :   strxi_uop   x19, [ureg0] : MemWrite :  D=0x0000000000000001 A=0x7fffffe0  flags=(IsStore|IsMicroop)\n\
                2459000: system.cpu1: T0 : 0x10 : ldr   w0, [x1]  : MemRead :  D=0x0000000000000007 A=0x40\n\
                2459500: system.cpu1: tick\n";
    assert_eq!(
        records(format, text),
        [
            "2457000 tic cpu0 taken 6220 no-opcode - [] - [adrp   x1, #73728]",
            "2457000 tic cpu0 taken 6224 no-opcode - [] - [stp]",
            "2457500 tic cpu0 Other [system.cpu: A0 T0 : 0x6224 @_malloc_r+644. 0 :   addi_uop   sp, sp, #-32 : IntAlu :  D=0x0000007fffffe0  flags=(IsInteger|IsMicroop)]",
            "2458000 tic cpu0 Write 1 - 7fffffe0 ?? of 1",
            "2459000 tic cpu1 taken 10 no-opcode - [] - [ldr   w0, [x1]]",
            "2459000 tic cpu1 Read 1 - 40 ?? of 2",
            "2459500 tic cpu1 Other [system.cpu1: tick]",
        ]
    );
}

#[test]
fn lines_of_perf_script() {
    // What `perf script --insn-trace`, with and without `--xed`, and `--itrace=i1i` write.
    let instructions = [
        "            ls  1443 [006] 2275506.209905123:      7f216b426100 _start+0x0 (/usr/lib/ld-2.31.so) insn: 48 89 e7",
        "            ls  1443 [006] 2275506.209905123:      7f216b426103 _start+0x3 (/usr/lib/ld-2.31.so) nopl  %eax, (%rax,%rax,1)",
        "Web Content: 2  14/1443  12.000001:          1 instructions:uH:      7f216b426103 operator new(unsigned long)+0x3 (/opt/a (b)/x.so) ilen: 5 insn: e8 e8 0c 00 00",
        "swapper     0 [002] 12.000001: ffffffff81010486 pt_config ([kernel.kallsyms])\t\tpushq %rbp",
    ];
    let reported = instructions.map(|line| record(Format::PerfInstructions, line));
    assert_eq!(
        reported,
        [
            "2275506.209905123 cpu1443 taken 00007f216b426100 4889e7/24 - [] - []",
            "2275506.209905123 cpu1443 taken 00007f216b426103 no-opcode - [] - [nopl  %eax, (%rax,%rax,1)]",
            "12.000001 cpu1443 taken 00007f216b426103 e8e80c0000/40 - [] - []",
            "12.000001 cpu2147483650 taken ffffffff81010486 no-opcode - [] - [pushq %rbp]",
        ]
    );
    assert_eq!(
        Format::detect(instructions.join("\n").as_bytes()),
        Some(Format::PerfInstructions)
    );
    // The lines between them.
    let others = " instruction trace error type 1 time 12.000001000 cpu 0 pid 1 tid 1 ip 0 code 5: Failed to get instruction\n\
                  # cmdline : perf script\n\
                  ls 7 [000] 12.5000001: x\n\
                  ls 7 12.500000:          1 branches:u:   tr end  call          401000 a+0x0 (/x) =>                0 [unknown] ([unknown])\n\
                  ls 7 12.500000:          1 cbr:  cbr: 42 freq: 4219 MHz (156%)      401000 a+0x0 (/x)\n\
                  ls 7 12.500000: PERF_RECORD_COMM exec: ls:7/7\n";
    assert_eq!(
        records(Format::PerfInstructions, others),
        [
            "0 Exception [instruction trace error type 1 time 12.000001000 cpu 0 pid 1 tid 1 ip 0 code 5: Failed to get instruction]",
            "0 Other [# cmdline : perf script]",
            "expected the thread, and the time in seconds, such as 12.345678:, not [ls]",
            "12.500000 cpu7 Exception [1 branches:u:   tr end  call          401000 a+0x0 (/x) =>                0 [unknown] ([unknown])]",
            "12.500000 cpu7 Other [1 cbr:  cbr: 42 freq: 4219 MHz (156%)      401000 a+0x0 (/x)]",
            "12.500000 cpu7 Other [PERF_RECORD_COMM exec: ls:7/7]",
        ]
    );
    // `--itrace=b`: where a branch is, and where it goes.
    let branches = "ls  7 [001] 9.000001:   1 branches:uH:   tr strt                0 [unknown] ([unknown]) =>           401000 _start+0x0 (/bin/ls)\n\
                    ls  7 [001] 9.000002:   1 branches:uH:   call              401009 _start+0x9 (/bin/ls) =>           401020 main+0x0 (/bin/ls) insn: e8 12 00 00 00\n\
                    ls  7 [001] 9.000003:   1 branches:uH:           401030 main+0x10 (/bin/ls)\n";
    assert_eq!(
        records(Format::PerfBranches, &transcript(branches)),
        [
            "0 Exception [tr strt]",
            "9.000001 cpu7 taken 0000000000401000 no-opcode - [] - []",
            "9.000002 cpu7 taken 0000000000401009 e812000000/40 - [] - [call]",
            "9.000002 cpu7 taken 0000000000401020 no-opcode - [] - []",
            "9.000003 cpu7 taken 0000000000401030 no-opcode - [] - []",
        ]
    );
    // `perf mem record`, and `perf record -b`.
    let samples = "ls  7 [001] 9.000001:   30 cpu/mem-loads,ldlat=30/P:     7ffd1234abcd         68100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A                7           401009 main+0x9 (/bin/ls)\n\
                   ls  7 [001] 9.000002:   100003 cycles:u:           401030 main+0x10 (/bin/ls)  0x401020/0x401028/P/-/-/1 0x401010/0x401020/M/-/-/0 \n";
    assert_eq!(
        records(Format::PerfSamples, &transcript(samples)),
        [
            "9.000001 cpu7 taken 0000000000401009 no-opcode - [] - []",
            "9.000001 cpu7 Read 1 - 00007ffd1234abcd ?? of 0",
            "9.000002 cpu7 taken 0000000000401010 no-opcode - [] - []",
            "9.000002 cpu7 taken 0000000000401020 no-opcode - [] - []",
            "9.000002 cpu7 taken 0000000000401020 no-opcode - [] - []",
            "9.000002 cpu7 taken 0000000000401028 no-opcode - [] - []",
            "9.000002 cpu7 taken 0000000000401030 no-opcode - [] - []",
        ]
    );
}

/// What perf 6.1 wrote of its software clock: with the code and without the event it looks as a row of instructions does.
#[test]
fn samples_of_perf_are_no_row_of_instructions() {
    let samples =
        "               t 28511 22090.366807:      5563741a914c main+0x11 (/tmp/t) insn: 8b 45 fc
               t 28511 22090.369806:      5563741a915e main+0x23 (/tmp/t) insn: 89 05 b0 2e 00 00
               t 28511 22090.372803:      5563741a9133 leaf+0xa (/tmp/t) insn: 89 d0
               t 28511 22090.375815:      5563741a916f main+0x34 (/tmp/t) insn: 7e da
";
    assert_eq!(
        Format::detect(samples.as_bytes()),
        Some(Format::PerfSamples)
    );
    let named = "               t 28511 22090.366807:    3000000 cpu-clock:u:      5563741a914c main+0x11 (/tmp/t)\n";
    assert_eq!(Format::detect(named.as_bytes()), Some(Format::PerfSamples));
    let symbols: Vec<_> = perf::symbols(named.as_bytes()).collect();
    assert_eq!(
        symbols,
        [perf::Symbol {
            name: b"main",
            address: Address(0x5563_741a_913b),
            file: b"/tmp/t"
        }]
    );
}

#[test]
fn lines_of_rvfi_tracers() {
    let format = Format::Rvfi;
    // Ibex, with tabs.
    let text = "Time\tCycle\tPC\tInsn\tDecoded instruction\tRegister and memory contents\n\
                \x20            130\t        61\t00000150\t1a41\tc.addi\tx20,-16\tx20:0x00001bbe x20=0x00001bae\n\
                \x20            132\t        62\t00000152\t00c0c103\tlbu\tx2,12(x1)\tx1:0x00001000  x2=0x0000009a PA:0x0000100c load:0x1234569a\n\
                \x20            134\t        63\t00000156\t00309023\tsh\tx3,0(x1)\tx1:0x00001000 x3:0xdeadbeef PA:0x00001000 store:0xdeadbeef\n";
    assert_eq!(
        records(format, text),
        [
            "0 Header [Time\tCycle\tPC\tInsn\tDecoded instruction\tRegister and memory contents]",
            "130 taken 00000150 1a41/16 - [] - [c.addi\tx20,-16]",
            "130 [x20] = 00001bae of 0",
            "132 taken 00000152 00c0c103/32 - [] - [lbu\tx2,12(x1)]",
            "132 [x2] = 0000009a of 1",
            "132 Read 1 - 0000100c 9a of 1",
            "134 taken 00000156 00309023/32 - [] - [sh\tx3,0(x1)]",
            "134 Write 2 - 00001000 beef of 2",
        ]
    );
    // CV32E40P, with a unit, a mode, and no 0x; the word that a load of a custom instruction writes stays unknown.
    assert_eq!(
        records(
            format,
            "     142 ns          67 00000e36 04812083 M lw               x1, 72(x2)          x1=00000f2a  x2:00000ff0 PA:00001038\n\
             \x20    144 ns          68 00000e3a 00c5a52f M amoadd.w         x10, x12, (x11)     x10=00000001 x11:00001000 x12:00000004 PA:00001000\n"
        ),
        [
            "142 ns taken 00000e36 04812083/32 - [M] - [lw               x1, 72(x2)]",
            "142 ns [x1] = 00000f2a of 0",
            "142 ns Read 4 - 00001038 00000f2a of 0",
            "144 ns taken 00000e3a 00c5a52f/32 - [M] - [amoadd.w         x10, x12, (x11)]",
            "144 ns [x10] = 00000001 of 1",
            "144 ns Write 4 - 00001000 ???????? of 1",
        ]
    );
}

/// Registers and bytes of memory, as far as they are known.
type State = ([Option<u64>; 32], HashMap<u64, u8>);

/// A machine that executes loads, stores and additions of RISC-V, and the logs that simulators would write of it.
struct Machine {
    wide: bool,
    registers: [u64; 32],
    memory: HashMap<u64, u8>,
    pc: u64,
    seed: u64,
    spike: String,
    listed: String,
    rvfi: String,
    execlog: String,
    gem5: String,
    cv32e40p: String,
    /// The state before each instruction: what is known of registers, and of memory.
    states: Vec<State>,
    known: [Option<u64>; 32],
    seen: HashMap<u64, u8>,
}

impl Machine {
    fn new(wide: bool, seed: u64) -> Self {
        Self {
            wide,
            registers: [0; 32],
            memory: HashMap::new(),
            pc: 0x8000_0000,
            seed,
            spike: String::new(),
            listed: String::new(),
            rvfi: "Time\tCycle\tPC\tInsn\tDecoded instruction\tRegister and memory contents\n"
                .into(),
            execlog: String::new(),
            gem5: String::new(),
            cv32e40p: String::new(),
            states: Vec::new(),
            known: [None; 32],
            seen: HashMap::new(),
        }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        (self.seed >> 33) % below
    }

    fn step(&mut self) {
        self.states.push((self.known, self.seen.clone()));
        let mask = if self.wide { u64::MAX } else { 0xffff_ffff };
        let digits = if self.wide { 16 } else { 8 };
        let (rd, rs) = (1 + self.next(31) as usize, self.next(32) as usize);
        let address = 0x8001_0000 + self.next(64);
        let kinds = if self.wide { 4 } else { 3 };
        let (code, text, spike, rvfi, execlog, gem5);
        match self.next(3) {
            0 => {
                let value = self.next(1 << 31) << 20 & mask;
                code = 0x13 | (rd as u64) << 7 | (rs as u64) << 15;
                text = format!("addi x{rd},x{rs},0");
                self.registers[rd] = value;
                self.known[rd] = Some(value);
                spike = format!("x{rd:<2} 0x{value:0digits$x}");
                rvfi = format!("x{rs}:0x{:08x} x{rd}=0x{value:08x}", self.registers[rs]);
                execlog = format!(", x{rd} -> 0x{value:0digits$x}");
                gem5 = format!("IntAlu :  D=0x{value:016x}  flags=(IsInteger)");
            }
            1 => {
                let width = self.next(kinds);
                let value = (0..1u64 << width).fold(0, |value, at| {
                    let byte = *self.memory.entry(address + at).or_insert(at as u8 + 7);
                    self.seen.insert(address + at, byte);
                    value | u64::from(byte) << (8 * at)
                });
                let shift = 64 - (8 << width);
                let value = ((value << shift) as i64 >> shift) as u64 & mask;
                code = 0x03 | (rd as u64) << 7 | width << 12 | (rs as u64) << 15;
                text = format!("load x{rd},0(x{rs})");
                self.registers[rd] = value;
                self.known[rd] = Some(value);
                spike = format!("x{rd:<2} 0x{value:0digits$x} mem 0x{address:0digits$x}");
                rvfi = format!("x{rd}=0x{value:08x} PA:0x{address:08x} load:0x{value:08x}");
                execlog = format!(", load, 0x{address:08x}, x{rd} -> 0x{value:0digits$x}");
                gem5 = format!(
                    "MemRead :  D=0x{value:016x} A=0x{address:x}  flags=(IsInteger|IsLoad)"
                );
            }
            _ => {
                let width = self.next(kinds);
                let value = self.registers[rs];
                for at in 0..1u64 << width {
                    let byte = (value >> (8 * at)) as u8;
                    self.memory.insert(address + at, byte);
                    self.seen.insert(address + at, byte);
                }
                let data = value & (u64::MAX >> (64 - (8 << width)));
                let of_data = 2 << width;
                code = 0x23 | width << 12 | (rd as u64) << 15 | (rs as u64) << 20;
                text = format!("store x{rs},0(x{rd})");
                spike = format!("mem 0x{address:0digits$x} 0x{data:0of_data$x}");
                let shown = match rs {
                    0 => String::new(),
                    rs => format!("x{rs}:0x{value:08x} "),
                };
                rvfi = format!("{shown}PA:0x{address:08x} store:0x{value:08x}");
                execlog = format!(", store, 0x{address:08x}");
                gem5 = format!(
                    "MemWrite :  D=0x{value:016x} A=0x{address:x}  flags=(IsInteger|IsStore)"
                );
            }
        }
        let pc = self.pc;
        let commit = format!("core   0: 3 0x{pc:0digits$x} (0x{code:08x}) {spike}\n");
        self.spike.push_str(&commit);
        let listed = &mut self.listed;
        write!(
            listed,
            "core   0: 0x{pc:016x} (0x{code:08x}) {text}\n{commit}"
        )
        .unwrap();
        let time = self.states.len() * 2;
        writeln!(
            self.rvfi,
            "{time:>15}\t{:>10}\t{pc:08x}\t{code:08x}\t{text}\t{rvfi}",
            time / 2
        )
        .unwrap();
        writeln!(
            self.execlog,
            "0, 0x{pc:x}, 0x{code:x}, \"{code:08x}          {text}\"{execlog}"
        )
        .unwrap();
        // The same fields, without 0x and what was loaded or stored.
        let fields = rvfi
            .split(' ')
            .filter(|field| !field.starts_with("load:") && !field.starts_with("store:"));
        let fields = fields
            .map(|field| field.replace("0x", ""))
            .collect::<Vec<_>>()
            .join(" ");
        writeln!(
            self.cv32e40p,
            "{time:>8} ns {:>11} {pc:08x} {code:08x} M {text:<24} {fields}",
            time / 2
        )
        .unwrap();
        writeln!(
            self.gem5,
            "{}: system.cpu: A0 T0 : 0x{pc:x} @f+{}    :   {text:<26} : {gem5}",
            time * 250,
            pc - 0x8000_0000
        )
        .unwrap();
        self.pc += 4;
    }
}

/// Opens a log, and compares registers and memory before 500 instants.
#[track_caller]
fn has_states(machine: &Machine, format: Format, log: &str, has_memory: bool) {
    assert_eq!(Format::detect(log.as_bytes()), Some(format));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    std::fs::write(&path, log).unwrap();
    let architecture = match machine.wide {
        true => Architecture::Riscv64,
        false => Architecture::Riscv32,
    };
    let options = OpenOptions {
        architecture: Some(architecture),
        ..OpenOptions::default()
    };
    let recording = Recording::open(&path, &options).unwrap();
    assert_eq!(recording.len(), machine.states.len() as u64);
    assert_eq!(recording.summary().unparsed_lines, 0);
    let reported = match has_memory {
        true => ReportedWrites::All,
        false => ReportedWrites::None,
    };
    assert_eq!(recording.reported_writes(), reported);
    let ids: Vec<_> = (0..32)
        .map(|number| recording.register(&format!("x{number}")))
        .collect();
    for (at, (registers, memory)) in machine.states.iter().enumerate() {
        let before = InstructionNumber(at as u64);
        let executed = recording.instruction(before).unwrap().unwrap();
        assert_eq!(
            executed.address,
            Address(0x8000_0000 + 4 * at as u64),
            "{format}"
        );
        let held = recording.registers_at(CpuNumber(0), before).unwrap();
        for (number, value) in registers.iter().enumerate() {
            let id = ids[number].map(|id| id.0 as usize);
            let known = id.and_then(|id| held[id].known());
            // gem5 says no registers.
            let expected = value.filter(|_| format != Format::Gem5);
            assert_eq!(known, expected, "{format}: x{number} before {at}");
        }
        let mut bytes = [None; 80];
        recording
            .memory_at(before, Address(0x8001_0000), &mut bytes)
            .unwrap();
        for (place, byte) in bytes.iter().enumerate() {
            let expected = memory.get(&(0x8001_0000 + place as u64));
            match byte {
                // A read says what was there before it, too.
                Some(byte) if has_memory => {
                    let was = expected.or_else(|| machine.seen_first(place));
                    assert_eq!(Some(byte), was, "{format}: byte {place} before {at}");
                }
                byte => assert_eq!(byte.as_ref(), expected.filter(|_| has_memory), "{format}"),
            }
        }
    }
    // Whatever the pieces.
    let mut whole = Count::default();
    read(
        format,
        log.as_bytes(),
        &Piece::whole(log.as_bytes()),
        &mut whole,
    );
    let mut parts = Count::default();
    for piece in format.pieces(log.as_bytes(), 1000) {
        read(format, log.as_bytes(), &piece, &mut parts);
    }
    assert_eq!(parts, whole);
}

impl Machine {
    /// What a byte had that was read before it was written.
    fn seen_first(&self, place: usize) -> Option<&u8> {
        let address = 0x8001_0000 + place as u64;
        self.states
            .iter()
            .find_map(|(_, seen)| seen.get(&address))
            .or(self.seen.get(&address))
    }
}

#[derive(Default, PartialEq, Debug)]
struct Count(u64, u64, u64);

impl Sink for Count {
    fn instruction(
        &mut self,
        _: tracewire_exec_trace::record::Line,
        _: &tracewire_exec_trace::record::Instruction<'_>,
    ) {
        self.0 += 1;
    }
    fn access(
        &mut self,
        _: tracewire_exec_trace::record::Line,
        _: tracewire_exec_trace::record::Owner,
        _: &tracewire_exec_trace::record::Access<'_>,
    ) {
        self.1 += 1;
    }
    fn register(
        &mut self,
        _: tracewire_exec_trace::record::Line,
        _: tracewire_exec_trace::record::Owner,
        _: &tracewire_exec_trace::record::RegisterWrite<'_>,
    ) {
        self.2 += 1;
    }
}

#[test]
fn states_of_whole_logs() {
    for (wide, seed) in [(true, 1), (false, 2)] {
        let mut machine = Machine::new(wide, seed);
        for _ in 0..500 {
            machine.step();
        }
        has_states(&machine, Format::Spike, &machine.spike, true);
        has_states(&machine, Format::Spike, &machine.listed, true);
        has_states(&machine, Format::Execlog, &machine.execlog, false);
        has_states(&machine, Format::Gem5, &machine.gem5, false);
        if !wide {
            has_states(&machine, Format::Rvfi, &machine.rvfi, true);
            has_states(&machine, Format::Rvfi, &machine.cv32e40p, true);
        }
    }
}

#[test]
fn refusals_say_what_to_run() {
    let said = |text: &str| refusal(text.as_bytes()).map(|refusal| refusal.to_string());
    let run = "run QEMU with: -accel tcg,one-insn-per-tb=on -d in_asm,exec,cpu,nochain -D FILE";
    let translated = "IN: \n0x1000:  90  nop\n";
    assert_eq!(
        said(translated).unwrap(),
        format!(
            "it looks like a log of QEMU: it has what was translated, and not what was executed; {run}"
        )
    );
    let two = "IN: \n0x1000:  90  nop\n0x1001:  90  nop\nTrace 0: 0x7f [0/1000/0/0] \n";
    assert!(said(two).unwrap().ends_with(run));
    // An instruction of more than eight bytes has two lines.
    let long = "IN: \n0x1000:  c7 05 00 30 10 00 03 40  movl  $0x104003, 0x103000\n0x1008:  10 00\n\nTrace 0: 0x7f [0/1000/0/0] \n";
    assert_eq!(said(long), None);
    let simics = "inst: [ 1] core[0] <v:0x0000000000000000> <p:0x0000000000> 0a 00 00 14 b 0x28\n";
    assert!(said(simics).unwrap().contains("tracewire qemu"));
    for (start, run) in [
        ("PERFILE2\u{0}", "perf script"),
        ("2ELIFREP\u{0}", "perf script"),
        ("\u{17}\u{8}Dtracing6\u{0}", "tracewire record"),
        (
            "O3PipeView:fetch:1000:0x1000:0:1:  nop\n",
            "--debug-flags=ExecAll",
        ),
        ("Kanata\t0004\n", "Tarmac"),
    ] {
        assert!(said(start).unwrap().contains(run), "{start}");
    }
    assert_eq!(said("Dear reader,\n"), None);
}

fn transcript(log: &str) -> String {
    let (mut input, is_transcript) = transcribed(log.as_bytes()).unwrap();
    assert!(is_transcript, "{log}");
    let mut text = String::new();
    input.read_to_string(&mut text).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    assert!(header.starts_with("# transcript of "), "{header}");
    rest.to_owned()
}

/// What QEMU writes of an instruction of Arm that is executed, with its code where it was just translated.
fn executed(cpu: u32, address: u64, code: &str, registers: [u32; 2]) -> String {
    let block = match code {
        "" => String::new(),
        code => format!("----------------\nIN: \n0x{address:08x}:  {code}\n\n"),
    };
    let [r0, r1] = registers;
    format!(
        "{block}Trace {cpu}: 0x7f{address:x} [00000400/{address:016x}/00000520/ff020201] \n\
         R00={r0:08x} R01={r1:08x}\nR15={address:08x}\nPSR=400001d3 -Z-- A svc32\n"
    )
}

const NOP: &str = "e320f000  nop      ";

#[test]
fn a_log_of_qemu_says_what_instructions_wrote() {
    let log = [
        executed(0, 0x1000, NOP, [0, 0]),
        executed(0, 0x1004, "e2800001  add      r0, r0, #1", [0, 0]),
        // Executed again: its code is not logged again.
        executed(0, 0x1000, "", [1, 0]),
        "Taking exception 5 [IRQ] on CPU 0\n...from EL1 to EL1\n".into(),
        executed(0, 0x18, "", [1, 7]),
    ];
    assert_eq!(
        transcript(&log.concat()),
        "0 clk R r0 00000000\n0 clk R r1 00000000\n0 clk R cpsr 400001d3\n\
         1 clk 0 IT (1) 00001000 e320f000 A svc32 : nop\n\
         2 clk 0 IT (2) 00001004 e2800001 A svc32 : add r0, r0, #1\n2 clk R r0 00000001\n\
         #! Taking exception 5 [IRQ] on CPU 0\n# ...from EL1 to EL1\n\
         3 clk 0 IT (3) 00001000 e320f000 A svc32 : nop\n3 clk R r1 00000007\n\
         4 clk 0 IT (4) 0000000000000018 - A svc32 : \n"
    );
}

#[test]
fn a_log_of_qemu_that_is_cut_has_no_half_of_an_instruction() {
    let whole = [
        executed(0, 0x1000, NOP, [0, 0]),
        executed(0, 0x1004, NOP, [1, 1]),
        executed(0, 0x1008, NOP, [2, 2]),
    ]
    .concat();
    let all = transcript(&whole);
    let last = "3 clk 0 IT (3) 00001008 e320f000 A svc32 : nop\n";
    let second = "2 clk 0 IT (2) 00001004 e320f000 A svc32 : nop\n";
    assert!(all.ends_with(&format!(
        "{second}2 clk R r0 00000002\n2 clk R r1 00000002\n{last}"
    )));
    // Wherever in the last registers it is cut.
    let start = whole.rfind("Trace").unwrap();
    for end in start + 10..whole.len() {
        let text = transcript(&whole[..end]);
        assert!(text.ends_with(second), "{}: {text}", &whole[start..end]);
    }
}

#[test]
fn a_block_that_qemu_stopped_before_was_not_executed() {
    let log = [
        executed(0, 0x1000, NOP, [0, 0]),
        executed(0, 0x1004, NOP, [0, 0]),
        "Stopped execution of TB chain before 0x7f1004 [0000000000001004] \n".into(),
        executed(0, 0x1004, "", [0, 0]),
        executed(0, 0x1008, NOP, [5, 0]),
    ];
    let text = transcript(&log.concat());
    assert_eq!(text.matches("00001004").count(), 1, "{text}");
    assert!(text.contains("00001004 e320f000 A svc32 : nop\n2 clk R r0 00000005\n"));
}

#[test]
fn registers_of_another_cpu_are_known_after_its_first_instruction() {
    let log = [
        executed(0, 0x1000, NOP, [0, 0]),
        executed(1, 0x2000, NOP, [9, 9]),
        executed(0, 0x1004, NOP, [1, 0]),
        executed(1, 0x2004, NOP, [9, 8]),
    ];
    let text = transcript(&log.concat());
    let lines: Vec<_> = text.lines().skip(3).collect();
    assert_eq!(
        lines,
        [
            "1 clk 0 IT (1) 00001000 e320f000 A svc32 : nop",
            "1 clk R r0 00000001",
            "2 clk 1 IT (2) 00002000 e320f000 A svc32 : nop",
            "2 clk R r0 00000009",
            "2 clk R r1 00000008",
            "2 clk R cpsr 400001d3",
            "3 clk 0 IT (3) 00001004 e320f000 A svc32 : nop",
            "4 clk 1 IT (4) 00002004 e320f000 A svc32 : nop",
        ]
    );
}

/// Threads of QEMU that log at once may mix their lines.
#[test]
fn a_line_of_the_mode_that_comes_twice_is_one_mode() {
    let twice = executed(0, 0x1000, NOP, [0, 0]) + "PSR=400001d3 -Z-- A svc32\n";
    let text = transcript(&(twice + &executed(0, 0x1004, NOP, [0, 0])));
    assert!(
        text.contains("1 clk 0 IT (1) 00001000 e320f000 A svc32 : nop\n"),
        "{text}"
    );
}
