//! Every reader on texts that are made of the words of all formats and of any bytes: no panic, pieces give what the whole gives, and the
//! transcript of a log of QEMU's or of branches does not depend on how the log comes, and can be read.
//!
//! With the name of a part in the environment, all texts are of one format (`parts`), and go to its reader only.
#![no_main]

use std::io::{self, Read};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tracewire_exec_trace::text::{Format, Piece, read, refusal, transcribed};

/// The table of parts, which `cargo xtask fuzz` reads too.
#[path = "../../xtask/src/fuzz/parts.rs"]
mod parts;
mod records;

use records::{RecordList, UNPARSED, read_both_ways};

/// The part that is meant: its name, and with what its texts begin; none where all formats are.
static PART: LazyLock<Option<(&str, &[&str])>> = LazyLock::new(|| {
    let wanted = std::env::var(parts::VARIABLE).ok()?;
    let part = parts::PARTS.into_iter().find(|(name, _)| *name == wanted);
    let (name, beginnings) = part.unwrap_or_else(|| panic!("no part `{wanted}`; there are {}", parts::names()));
    for beginning in beginnings {
        let format = Format::detect(&all(beginning.as_bytes()).0);
        assert!(format.is_some_and(|format| format.name().starts_with(name)), "`{beginning}` is taken for {format:?}");
    }
    Some((name, beginnings))
});

/// Words of the formats, which a byte of the input stands for.
const WORDS: &[&str] = &[
    "\n", " ", ":", ", ", "0x", "\"", "----------------\n", "IN: \n", "0x1000:  90  nop\n", "0x1000:  e59fd000  ldr sp, [pc]\n",
    "0x1008:  90 90\n", "Trace 0: 0x7f10 [00000000/0000000000001000/00000000/ff000000] \n",
    "Trace 1: 0x7f20 [00000000/00001004/0/0] main\n", "Stopped execution of TB chain before 0x7f10 [1000] main\n",
    "R00=00000001 R01=00000000 R15=00001000\n", "PSR=400001d3 -Z-- A svc32\n", " PC=0000000000001000 X00=0000000000000001  SP=0000000000000000\n",
    "PSTATE=400003c5 -Z-- EL1h\n", " x0/zero  0000000000000000 x1/ra    0000000000000001\n", " mstatus  0000000a00000000\n",
    "RAX=0000000000000001 R8 =0000000000000000\n", "FS =0010 0000000000000001 ffffffff 00cf9300\n", "RIP=0000000000001000 RFL=00000002 [-------]\n",
    "pc=0x00001000 HI=0x00000000 LO=0x00000001\n", "GPR00: r0 00000000 at 00000001\n", "NIP 00001000   LR 00000000 CTR 00000001 XER 00000000 CPU#0\n",
    "GPR04 0000000000000000 0000000000000001\n", "CR 00000000  [ - ]\n", "Taking exception 5 [IRQ] on CPU 0\n", "     0: v=20 e=0000\n",
    "core   0: ", "core   1: 3 ", "0x0000000080000000 (0x00893683) ", "(0x638c) ", "x11 0x0000000000000001 ", "mem 0x0000000080002000 ",
    "0x00000005 ", "exception trap_x, epc 0x0\n", ">>>>  main\n", "e32 m1 v0  0x01 ", "c768_mstatus 0x1 ",
    "0, 0x1000, 0x90, \"nop\"", ", load, 0x2000", ", store, 0x2000, RAM", ", r4 -> 0x00000000", "\"00000013  nop\"",
    "1000: system.cpu: A0 T0 : 0x1000 @main+4    : nop", ". 1 : ", " : MemWrite : ", " D=0x1 A=0x2000 ", "flags=(IsLoad)", "system.cpu1: ",
    "Time\tCycle\tPC\tInsn\n", "  130\t 61\t00000150\t00309023\t", "sh\tx3,0(x1)\t", " x1:0x00001000", " x2=0000009a", " PA:0x00001000", " store:0xdeadbeef",
    "142 ns 67 ", "04812083 M ", "1a41\t",
    "ls 7 [001] 9.000001:", "a b 7/8 12.000001002: ", " 1 branches:uH: ", " instructions:u: ", " cpu/mem-loads/P: ", "            401009", "    7ffd1234abcd",
    " main+0x9", " (/bin/ls)", " ([unknown])", " =>", " insn: e8 12", " 0x401020/0x401028/P/-/-/1", " |OP LOAD|LVL", " tr strt ", "                0",
    " instruction trace error", "# transcript of perf script: ",
    "5 clk 0 IT (1) 00001000 e320f000 A svc : nop\n", "5 clk 0 IS (2) 00001004 e1a0 T svc_ns : nop\n", "5 clk R r0 00000001\n",
    "5 clk MW4 00002000 deadbeef\n", "6 clk MR1X 00002001 ff\n", " R r0 (USR) ", "<15:8>", "6 ns ES (00001000:4770) T thread: CCFAIL bx lr\n",
    "IT (1000:1a) e320f000 A ", "clk E 0000", "LD 00002000 ", "ST 00002010 ", "........ ..##dead ", "BR (00001000) ", "MNW4____ (50:a8) ",
    "R04 ", "W08 ", "version 2\n", "version 3\nnumThreads 1\n", "20 ns: 0,1000,0,0,0,800144,1,2,5,0,0,0,0,0,0,0,0,0,0,0\n",
    "30 ns: 0,1004,0,0,0,800085,1,0,2,0,5,100,7,f,0,0", ",0,0,0,0", ",x", "# transcript of a QEMU log\n", "# transcript of a control flow trace\n", "#! ",
    " - - : ",
];

fn text_of(beginning: &str, input: &[u8]) -> Vec<u8> {
    let mut text = beginning.as_bytes().to_vec();
    for byte in input {
        match WORDS.get(usize::from(*byte)) {
            Some(word) => text.extend_from_slice(word.as_bytes()),
            None => text.push(byte & 0x7f),
        }
    }
    text
}

/// Gives a few bytes at a time.
struct Slowly<'a>(&'a [u8], usize);

impl Read for Slowly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(buffer.len()).min(self.0.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

fn all(input: impl Read + Send) -> (Vec<u8>, bool) {
    let (mut input, is_transcript) = transcribed(input).expect("bytes do not fail");
    let mut text = Vec::new();
    input.read_to_end(&mut text).expect("bytes do not fail");
    (text, is_transcript)
}

fuzz_target!(|input: &[u8]| {
    let [size, input @ ..] = input else { return };
    if input.len() > 200 {
        return;
    }
    let beginning = PART.map_or("", |(_, beginnings)| beginnings[usize::from(*size) % beginnings.len()]);
    let text = text_of(beginning, input);
    let _ = refusal(&text);
    let (transcript, is_transcript) = all(&text[..]);
    assert_eq!(all(Slowly(&text, usize::from(*size) + 1)).0, transcript);
    if is_transcript {
        let format = Format::detect(&transcript).expect("a transcript says what it is");
        let mut reported = RecordList::default();
        read(format, &transcript, &Piece::whole(&transcript), &mut reported);
        if format == Format::QemuLog {
            let unparsed = reported.records.iter().filter(|(_, kind, _)| *kind == UNPARSED).count();
            let blocks = transcript.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"a block of")).count();
            assert_eq!(unparsed, blocks);
        }
        // It is read as it is the next time.
        assert!(!all(&transcript[..]).1);
    }
    if let Some((part, _)) = *PART {
        // What follows may make it a log of QEMU's.
        if let Some(format) = Format::detect(&transcript).filter(|format| format.name().starts_with(part)) {
            read_both_ways(format, &transcript, usize::from(*size) * 8);
        }
        return;
    }
    for format in Format::ALL {
        if format == Format::Microtesk {
            // It has QEMU4V's reader.
            continue;
        }
        let text = if format == Format::QemuLog || format.is_perf() { &transcript } else { &text };
        read_both_ways(format, text, usize::from(*size) * 8);
    }
});
