//! A log of QEMU's, turned into its transcript while it is read.

use std::collections::{BTreeMap, HashMap};

use super::super::qemu4v::{decimal, hex};
use super::super::transcriber::Transcribe;
use super::block::{Line, Translated};
use super::registers::{self, Mode};
use super::{EXCEPTION, HEADER};

/// How many blocks are remembered, and how many lines of registers of a cpu. QEMU has room for fewer blocks.
const MOST_BLOCKS: usize = 1 << 22;
const MOST_LINES: usize = 512;

/// How many cpus there may be.
const MOST_CPUS: usize = 4096;

/// How much of the text is looked at.
const LOOK: usize = 64 << 10;

/// Whether a text begins as a log of QEMU's that says what was executed.
pub(in crate::text) fn is_log(text: &[u8]) -> bool {
    let text = &text[..text.len().min(LOOK)];
    text.split(|byte| *byte == b'\n')
        .any(|line| Executed::read(line.trim_ascii_end()).is_some())
}

/// What a line of `Trace` says.
#[derive(Clone, Copy)]
struct Executed {
    cpu: u32,
    /// Where QEMU has the translation.
    translation: u64,
    address: u64,
    digits: u8,
}

impl Executed {
    /// Reads `Trace 0: 0x7f9a54000240 [00004000/00000000402000f4/00000521/ff020201] main`.
    fn read(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"Trace ")?;
        let colon = memchr::memchr(b':', rest)?;
        let cpu = std::str::from_utf8(rest.get(..colon)?).ok()?.parse().ok()?;
        let rest = rest.get(colon..)?.strip_prefix(b": 0x")?;
        let open = memchr::memchr(b'[', rest)?;
        let translation = number(rest.get(..open)?.trim_ascii())?;
        let mut fields = rest.get(open + 1..)?.split(|byte| *byte == b'/');
        let address = fields.nth(1)?;
        fields.next()?;
        Some(Self {
            cpu,
            translation,
            address: number(address)?,
            digits: u8::try_from(address.len()).ok()?,
        })
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    (digits.len() <= 16)
        .then(|| tracewire_model::hex::number(digits))
        .flatten()
}

/// Whether a line of the log's other kinds (`-d int`) says that a cpu took an exception.
pub(super) fn exception(line: &[u8]) -> Option<()> {
    const BEGINNINGS: [&[u8]; 6] = [
        b"Taking exception ",
        b"Servicing hardware INT=",
        b"riscv_cpu_do_interrupt:",
        b"Raise exception at ",
        b"mips_cpu_do_interrupt",
        b"check_exception ",
    ];
    let is_x86 = || {
        let line = line.trim_ascii_start();
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && line[digits..].starts_with(b": v=")
    };
    (BEGINNINGS.iter().any(|begin| line.starts_with(begin)) || is_x86()).then_some(())
}

/// An instruction that is executed, of which it is not known yet what it wrote.
#[derive(Default)]
struct Pending {
    translation: u64,
    address: u64,
    digits: u8,
    code: Vec<u8>,
    /// The set and the mode, as they are written.
    mode: Vec<u8>,
    disassembly: Vec<u8>,
    /// Its place among all that were executed.
    order: u64,
}

#[derive(Default)]
struct Cpu {
    pending: Option<Pending>,
    /// The latest lines of registers.
    lines: Vec<Vec<u8>>,
    /// The time of its latest instruction in the transcript.
    time: u64,
    /// The digits of PowerPC's registers.
    width: usize,
}

/// The registers that are being shown.
struct Dump {
    cpu: u32,
    line: usize,
    /// ` NAME VALUE` of each register that has changed.
    changed: Vec<u8>,
    /// Ends of the changes in `changed`.
    ends: Vec<usize>,
    next: Pending,
    /// Whether these are the first of a cpu that is not the first one: they are those after its first instruction too.
    is_late: bool,
}

/// What the log has said so far.
#[derive(Default)]
pub(in crate::text) struct Log {
    out: Vec<u8>,
    /// Translations that were not executed yet, by address; the others by where QEMU has them.
    fresh: HashMap<u64, Translated>,
    translations: HashMap<u64, Translated>,
    block: Option<Translated>,
    is_in_block: bool,
    dump: Option<Dump>,
    cpus: BTreeMap<u32, Cpu>,
    instructions: u64,
    executed: u64,
    spare: (Vec<u8>, Vec<usize>),
}

impl Transcribe for Log {
    fn header(&self) -> &[u8] {
        HEADER
    }

    fn line(&mut self, line: &[u8]) {
        self.take_line(line);
    }

    fn end(&mut self, is_cut: bool) {
        self.take_end(is_cut);
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl Log {
    fn take_line(&mut self, line: &[u8]) {
        if let Some(dump) = &mut self.dump {
            if registers::is_line(line) && dump.line < MOST_LINES {
                self.register_line(line);
                return;
            }
            self.end_dump();
        }
        if self.is_in_block {
            if let Some(line) = Line::read(line) {
                match &mut self.block {
                    Some(block) => block.go_on(&line),
                    None => self.block = Some(Translated::new(&line)),
                }
                return;
            }
            self.end_block();
        }
        if line.is_empty() || line.starts_with(b"----") {
        } else if line.starts_with(b"IN:") {
            self.is_in_block = true;
        } else if let Some(executed) = Executed::read(line) {
            self.executed(executed);
        } else if line.starts_with(b"Stopped execution of TB chain before ") {
            self.stopped(line);
        } else {
            self.out.extend_from_slice(match exception(line) {
                Some(()) => EXCEPTION,
                None => b"# ",
            });
            self.out.extend_from_slice(line);
            self.out.push(b'\n');
        }
    }

    fn end_block(&mut self) {
        self.is_in_block = false;
        if let Some(block) = self.block.take() {
            if self.fresh.len() >= MOST_BLOCKS {
                self.fresh.clear();
            }
            self.fresh.insert(block.address, block);
        }
    }

    fn executed(&mut self, executed: Executed) {
        if !self.cpus.contains_key(&executed.cpu) && self.cpus.len() >= MOST_CPUS {
            return;
        }
        if let Some(translated) = self.fresh.remove(&executed.address) {
            if self.translations.len() >= MOST_BLOCKS {
                self.translations.clear();
            }
            self.translations.insert(executed.translation, translated);
        }
        let translated = (self.translations.get(&executed.translation))
            .filter(|translated| translated.address == executed.address);
        if translated.is_some_and(|translated| translated.has_more) {
            self.out
                .extend_from_slice(b"a block of several instructions at ");
            hex(&mut self.out, u128::from(executed.address), 0);
            self.out.push(b'\n');
        }
        let is_first = self.cpus.is_empty();
        let cpu = self.cpus.entry(executed.cpu).or_default();
        self.executed += 1;
        let (mut changed, mut ends) = std::mem::take(&mut self.spare);
        changed.clear();
        ends.clear();
        let mut next = Pending {
            translation: executed.translation,
            address: executed.address,
            digits: translated.map_or(executed.digits.min(16), |translated| translated.digits),
            order: self.executed,
            ..Pending::default()
        };
        if let Some(translated) = translated {
            next.code.extend_from_slice(&translated.code);
            next.disassembly.extend_from_slice(&translated.disassembly);
        }
        self.dump = Some(Dump {
            cpu: executed.cpu,
            line: 0,
            changed,
            ends,
            next,
            is_late: !is_first && cpu.lines.is_empty() && cpu.pending.is_none() && cpu.time == 0,
        });
    }

    fn register_line(&mut self, line: &[u8]) {
        let Some(dump) = &mut self.dump else {
            return;
        };
        let Some(cpu) = self.cpus.get_mut(&dump.cpu) else {
            return;
        };
        if let Some(Mode { set, mode }) = registers::mode(line) {
            let shown = &mut dump.next.mode;
            shown.clear();
            shown.extend_from_slice(set.unwrap_or("-").as_bytes());
            shown.push(b' ');
            shown.extend_from_slice(match mode {
                b"" => b"-",
                mode => mode,
            });
        }
        if dump.is_late {
            return;
        }
        let at = dump.line;
        dump.line += 1;
        if cpu.lines.get(at).is_some_and(|before| before == line) {
            return;
        }
        cpu.width = registers::width(line).unwrap_or(cpu.width);
        if cpu.lines.len() <= at {
            cpu.lines.push(Vec::new());
        }
        let width = cpu.width;
        let before = &mut cpu.lines[at];
        let mut old = Vec::new();
        registers::each(before, width, |shown| old.push(shown));
        let mut place = 0;
        registers::each(line, width, |shown| {
            if old.get(place) != Some(&shown) {
                dump.changed.push(b' ');
                shown.put_name(&mut dump.changed);
                dump.changed.push(b' ');
                dump.changed.extend_from_slice(shown.digits);
                dump.ends.push(dump.changed.len());
            }
            place += 1;
        });
        before.clear();
        before.extend_from_slice(line);
    }

    /// All registers before an instruction were shown: what the one before wrote is known.
    fn end_dump(&mut self) {
        let Some(dump) = self.dump.take() else {
            return;
        };
        let Some(cpu) = self.cpus.get_mut(&dump.cpu) else {
            return;
        };
        if let Some(pending) = cpu.pending.take() {
            self.instructions += 1;
            cpu.time = self.instructions;
            put(&mut self.out, &pending, dump.cpu, self.instructions);
        }
        let mut start = 0;
        for end in &dump.ends {
            decimal(&mut self.out, cpu.time);
            self.out.extend_from_slice(b" clk R");
            self.out.extend_from_slice(&dump.changed[start..*end]);
            self.out.push(b'\n');
            start = *end;
        }
        if !dump.is_late {
            cpu.lines.truncate(dump.line);
        }
        cpu.pending = Some(dump.next);
        self.spare = (dump.changed, dump.ends);
    }

    /// `Stopped execution of TB chain before 0x7f… [address] name`: the block that was about to be executed was not.
    fn stopped(&mut self, line: &[u8]) {
        let translation = line
            .split(|byte| *byte == b' ')
            .find_map(|word| word.strip_prefix(b"0x"))
            .and_then(number);
        let latest = (self.cpus.values_mut())
            .filter(|cpu| {
                (cpu.pending.as_ref()).is_some_and(|of| Some(of.translation) == translation)
            })
            .max_by_key(|cpu| cpu.pending.as_ref().map(|of| of.order));
        if let Some(cpu) = latest {
            cpu.pending = None;
        }
    }

    /// Ends the log. `is_cut` where its last line has no end.
    fn take_end(&mut self, is_cut: bool) {
        self.end_block();
        // Registers whose lines did not come may have changed: then the last instruction that is known is the one before.
        let is_whole = |dump: &Dump| {
            dump.is_late
                || (self.cpus.get(&dump.cpu)).is_some_and(|cpu| dump.line >= cpu.lines.len())
        };
        if self
            .dump
            .as_ref()
            .is_some_and(|dump| is_cut || !is_whole(dump))
        {
            self.dump = None;
        }
        self.end_dump();
        let mut last: Vec<(u32, Pending)> = (self.cpus.iter_mut())
            .filter_map(|(number, cpu)| Some((*number, cpu.pending.take()?)))
            .collect();
        last.sort_by_key(|(_, pending)| pending.order);
        for (cpu, pending) in last {
            self.instructions += 1;
            put(&mut self.out, &pending, cpu, self.instructions);
        }
    }
}

/// Writes an instruction's line.
fn put(out: &mut Vec<u8>, pending: &Pending, cpu: u32, number: u64) {
    decimal(out, number);
    out.extend_from_slice(b" clk ");
    decimal(out, u64::from(cpu));
    out.extend_from_slice(b" IT (");
    decimal(out, number);
    out.extend_from_slice(b") ");
    hex(out, u128::from(pending.address), pending.digits);
    out.push(b' ');
    out.extend_from_slice(match pending.code.is_empty() {
        true => b"-",
        false => &pending.code,
    });
    out.push(b' ');
    out.extend_from_slice(match pending.mode.is_empty() {
        true => b"- -",
        false => &pending.mode,
    });
    out.extend_from_slice(b" : ");
    out.extend_from_slice(&pending.disassembly);
    out.push(b'\n');
}
