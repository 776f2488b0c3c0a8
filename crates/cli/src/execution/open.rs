//! Which kind of trace a file is, and opening an execution trace with the program after it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::{ControlFlow, Deref};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracewire_tracefile::lean::is_lean;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tracewire_arch::{Architecture, Machine, of_elf};
use tracewire_debuginfo::Symbols;
use tracewire_exec_analysis::view::missing_writes;
use tracewire_exec_trace::debugger::DebuggerRegisters;
use tracewire_exec_trace::record::DataOrder;
use tracewire_exec_trace::recording::{
    self, Content, Image, ImagePiece, Need, OpenOptions, Recording,
};
use tracewire_exec_trace::text::{Compression, Format, beginning, refusal};
use tracewire_model::{Address, ByteOrder};

use super::load_address;
use crate::progress::Progress;

/// The longest part of a program that is zero and is in no file, such as `.bss`, that is taken for memory.
const MOST_ZEROS: u64 = 64 << 20;

/// How many instructions are looked at for one with a code.
const LOOKED_AT_FOR_CODES: u64 = 4096;

/// How much of a file is looked at to tell its kind.
const LOOKED_AT: usize = 4 << 20;
/// How much of a file tells whether it is a trace file.
const MARKED: usize = 64;

/// The kinds of files that the commands take.
#[derive(Debug)]
pub enum Kind {
    /// A GDB trace file, or what is none of them.
    TraceFile(Kept),
    /// An execution trace.
    Execution(Source),
}

/// A file; what came from a pipe is in a temporary one, which is there as long as this.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    _folder: Option<TempDir>,
}

impl Deref for Kept {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

/// An execution trace in a file; what came from a pipe is in a temporary one.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    shown: PathBuf,
    _folder: Option<TempDir>,
}

/// Tells the kind of a file from its content. `-` is the standard input.
pub fn kind(path: &Path) -> anyhow::Result<Kind> {
    let shown = path.to_owned();
    let is_input = path.as_os_str() == "-";
    let metadata = fs::metadata(path);
    if metadata
        .as_ref()
        .is_ok_and(|of| of.file_type().is_char_device())
    {
        bail!(
            "{} cannot be used: it is a device; expected a file or a pipe",
            shown.display()
        );
    }
    let is_pipe = is_input || metadata.is_ok_and(|of| !of.is_file() && !of.is_dir());
    let (path, folder) = if is_pipe {
        // What comes through a pipe can be looked at once only.
        let folder =
            tempfile::tempdir().context("no temporary folder for what comes from a pipe")?;
        let kept = folder.path().join("pipe");
        let mut file = File::create(&kept)?;
        let copied = if is_input {
            io::copy(&mut io::stdin().lock(), &mut file)
        } else {
            io::copy(&mut File::open(path)?, &mut file)
        };
        copied.with_context(|| format!("cannot read {}", shown.display()))?;
        (kept, Some(folder))
    } else {
        (path.to_owned(), None)
    };
    if let Some(problem) = unusable(&path)? {
        bail!("{} cannot be used: {problem}", shown.display());
    }
    // The caller reports what cannot be read.
    let start = beginning(&path, MARKED).unwrap_or_default();
    let text = match start.starts_with(b"\x7fTRACE") || is_lean(&start) {
        true => Vec::new(),
        false => beginning(&path, LOOKED_AT).unwrap_or_default(),
    };
    let is_execution = Recording::is_compact(&text) || Format::detect(&text).is_some();
    if !is_execution {
        if let Some(refusal) = refusal(&text) {
            bail!("{} is no execution trace: {refusal}", shown.display());
        }
        return Ok(Kind::TraceFile(Kept {
            path,
            _folder: folder,
        }));
    }
    Ok(Kind::Execution(Source {
        path,
        shown,
        _folder: folder,
    }))
}

/// Why a file is no trace whatever is asked of it: there is nothing in it.
fn unusable(path: &Path) -> anyhow::Result<Option<&'static str>> {
    let shown = || format!("{} cannot be used", path.display());
    let metadata = fs::metadata(path).with_context(shown)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut first = Vec::new();
    let file = File::open(path).with_context(shown)?;
    file.take(4).read_to_end(&mut first).with_context(shown)?;
    if first.is_empty() {
        return Ok(Some("it is empty"));
    }
    let is_compressed = Compression::detect(&first) != Compression::None;
    let is_cut = is_compressed && beginning(path, 1).is_ok_and(|text| text.is_empty());
    Ok(is_cut.then_some("the compressed data are cut or damaged before the first byte of a trace"))
}

/// Why there is nothing in a file to tell its kind by; none where there is something.
pub fn nothing_in(path: &Path) -> Option<&'static str> {
    let mut start = [0; 4];
    let length = File::open(path).ok()?.read(&mut start).ok()?;
    if length == 0 {
        return Some("it is empty");
    }
    let is_compressed = Compression::detect(&start) != Compression::None;
    let is_nothing = beginning(path, 1).is_ok_and(|bytes| bytes.is_empty());
    (is_compressed && is_nothing)
        .then_some("its compressed data are cut or damaged before the first byte")
}

/// An execution trace, opened, with what is known of its machine and program.
#[derive(Debug)]
pub struct Opened {
    pub recording: Recording,
    pub registers: Option<DebuggerRegisters>,
    pub symbols: Option<Symbols>,
    source: Source,
}

impl Source {
    /// The file that has the content.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the user called it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Opens it, with the machine that was named, else that of the program, else the one that the content says.
    pub fn open(self, elf: &[PathBuf], machine: crate::open::Machine) -> anyhow::Result<Opened> {
        let symbols = symbols(&self.path, elf)?;
        let architecture = machine.architecture.or_else(|| elf_architecture(elf));
        let name = self.shown.display().to_string();
        // Bytes done, and all of them; none where that is not known.
        let made = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let read = Arc::clone(&made);
        let progress = Progress::begin(move |_| {
            indexing(
                &name,
                read.each_ref().map(|one| one.load(Ordering::Relaxed)),
            )
        });
        let tell = |progress: recording::Progress| {
            made[0].store(progress.done, Ordering::Relaxed);
            made[1].store(progress.all.unwrap_or(0), Ordering::Relaxed);
        };
        let options = OpenOptions {
            architecture,
            data_order: machine.data_order.map(DataOrder::from),
            image: symbols.as_ref().map_or(Image::default(), image),
            cache: tracewire_tracefile::user_cache(),
            progress: Some(&tell),
        };
        let recording = Recording::open(&self.path, &options);
        drop(progress);
        let recording = recording.with_context(|| self.shown.display().to_string())?;
        // Without a program nothing is known of memory but what the trace says.
        if let Some(note) = missing_writes(
            recording.reported_writes(),
            recording.summary().memory_accesses,
        ) && symbols.is_some()
            && recording.content() == Content::State
        {
            message!("tracewire: note: {}: {note}", self.shown.display());
        }
        if architecture.is_none() && may_be_reversed(&recording) {
            message!(
                "tracewire: note: {}: execlog writes the registers of a big-endian machine with their bytes in reverse: if this is one, \
                 say so with --elf or --architecture",
                self.shown.display()
            );
        }
        let evidence = recording.data_order_evidence();
        if let Some(contradiction) = evidence.contradiction(machine.data_order.is_some()) {
            message!(
                "tracewire: warning: {}: {contradiction}",
                self.shown.display()
            );
        }
        let registers = recording
            .architecture()
            .map(|machine| DebuggerRegisters::new(&recording, Machine::of(machine)));
        Ok(Opened {
            recording,
            registers,
            symbols,
            source: self,
        })
    }
}

impl Opened {
    /// What the user called the trace.
    pub fn shown(&self) -> &Path {
        self.source.shown()
    }

    /// Refuses what needs more than the trace records.
    pub fn require(&self, need: Need) -> anyhow::Result<()> {
        let required = self.recording.require(need);
        required.with_context(|| self.shown().display().to_string())
    }

    /// Refuses to follow calls where the way of the execution is not recorded.
    pub fn require_calls(&self) -> anyhow::Result<()> {
        self.require(Need::ControlFlow)?;
        if self.recording.format().is_perf() && !self.has_codes()? {
            bail!(
                "{}: calls cannot be followed: its first lines have no codes of instructions; \
                 write them with: perf script --insn-trace, or -F +insn, without --xed",
                self.shown().display()
            );
        }
        Ok(())
    }

    /// Whether one of the first instructions has its code.
    fn has_codes(&self) -> anyhow::Result<bool> {
        let mut found = Ok(false);
        let looked_at = 0..LOOKED_AT_FOR_CODES.min(self.recording.len());
        self.recording
            .for_each_instruction(looked_at, &mut |step| {
                found = step.code().map(|code| code.opcode.is_some());
                match found {
                    Ok(false) => ControlFlow::Continue(()),
                    Ok(true) | Err(_) => ControlFlow::Break(()),
                }
            })?;
        Ok(found?)
    }

    /// Tells the user what is unavailable throughout, if anything.
    pub fn tell_content(&self) {
        if let Some(note) = self.recording.content().note() {
            message!("tracewire: note: {}: {note}", self.shown().display());
        }
    }

    /// The machine, which some commands need.
    pub fn machine(&self) -> anyhow::Result<&'static Machine> {
        self.registers
            .as_ref()
            .map(DebuggerRegisters::machine)
            .with_context(|| {
                format!(
                    "{} does not say which machine it is of: add --architecture NAME or --elf PROGRAM",
                    self.shown().display()
                )
            })
    }
}

/// Whether a recording has registers that are in reverse if its machine is big-endian, and it may be.
fn may_be_reversed(recording: &Recording) -> bool {
    let order = recording.architecture().map(Architecture::byte_order);
    recording.format() == Format::Execlog
        && recording.summary().register_writes > 0
        && order != Some(ByteOrder::Little)
}

/// The machine that the first program is for.
pub fn elf_architecture(elf: &[PathBuf]) -> Option<Architecture> {
    elf.iter().find_map(|path| {
        let mut head = Vec::new();
        File::open(path)
            .ok()?
            .take(64)
            .read_to_end(&mut head)
            .ok()?;
        of_elf(&head)
    })
}

pub fn symbols(trace: &Path, elf: &[PathBuf]) -> anyhow::Result<Option<Symbols>> {
    if elf.is_empty() {
        return Ok(None);
    }
    let mut symbols = Symbols::new();
    for path in elf {
        symbols
            .add_module(path, load_address::bias(trace, path))
            .with_context(|| format!("{} cannot be used", path.display()))?;
    }
    Ok(Some(symbols))
}

/// What memory holds when the programs are loaded.
pub fn image(symbols: &Symbols) -> Image {
    let mut pieces = Vec::new();
    for module in symbols.modules() {
        let Ok(bytes) = fs::read(&module.path) else {
            continue;
        };
        for segment in &module.segments {
            let start = usize::try_from(segment.file_offset).unwrap_or(usize::MAX);
            let size = usize::try_from(segment.file_size).unwrap_or(usize::MAX);
            let bytes = bytes.get(start..).unwrap_or_default();
            let mut content = bytes.get(..size).unwrap_or(bytes).to_vec();
            let zeros = segment
                .size
                .saturating_sub(segment.file_size)
                .min(MOST_ZEROS);
            content.resize(content.len() + zeros as usize, 0);
            let start = segment.address;
            // Code may be in a segment that is writable, as in programs for small processors.
            let constant = module.constant_sections.iter().filter_map(|(first, end)| {
                let first = first.0.max(start.0);
                let range = usize::try_from(first - start.0).ok()?
                    ..usize::try_from(end.0.checked_sub(start.0)?).ok()?;
                let bytes = content.get(range.start..range.end.min(content.len()))?;
                segment.writable.then(|| ImagePiece {
                    address: Address(first),
                    bytes: bytes.to_vec(),
                    is_writable: false,
                })
            });
            let constant: Vec<ImagePiece> = constant.collect();
            pieces.push(ImagePiece {
                address: start,
                bytes: content,
                is_writable: segment.writable,
            });
            pieces.extend(constant);
        }
    }
    Image::new(pieces)
}

/// How far the index is.
fn indexing(name: &str, [done, all]: [u64; 2]) -> String {
    let megabytes = done / 1_000_000;
    match all {
        0 => format!("{name}: indexing, {megabytes} MB"),
        _ => format!("{name}: indexing, {megabytes} MB of {} MB", all / 1_000_000),
    }
}

/// Refuses a file that is no execution trace.
pub fn execution(path: &Path) -> anyhow::Result<Source> {
    match kind(path)? {
        Kind::Execution(source) => Ok(source),
        Kind::TraceFile(file) => {
            // What cannot be read is said as it is.
            let shown = path.display();
            File::open(&*file).with_context(|| format!("{shown} cannot be used"))?;
            match nothing_in(&file) {
                Some(reason) => bail!("{shown} cannot be used: {reason}"),
                None => bail!(
                    "{shown} is no execution trace: expected the text of {}, or its compact form",
                    Format::titles()
                ),
            }
        }
    }
}
