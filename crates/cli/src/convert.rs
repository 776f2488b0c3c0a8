//! `convert`: trace files to other formats and back; merging, cutting, splitting.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Write};
use std::ops::{ControlFlow, RangeInclusive};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::error::ErrorKind;
use clap::{Args, ValueHint};
use tempfile::NamedTempFile;
use tracewire_convert::csv::Column;
use tracewire_convert::part::{self, SplitBy};
use tracewire_convert::{Format, Source, ctf, json, merge};
use tracewire_model::FrameNumber;
use tracewire_model::ThreadId;
use tracewire_tracefile::TraceFile;
use tracewire_views::{Condition, Program, Viewer};

use crate::answer::Answer;
use crate::condition::explain_nothing;
use crate::debuginfod::DebuginfodArguments;
use crate::execution::{self, Kind};
use crate::export::{self, Destination, Programs, RunFile};
use crate::frames::{FrameRange, parse_time};
use crate::progress::Progress;
use crate::types::TypeArguments;
use crate::{csv, in_order, open, output, several};

pub const HELP: &str = "\
The format of IN is detected from its content: a trace file or JSON lines. That of OUT from its name, or --to:
  tf      .tf .tfile .trace .gdbtrace               GDB's trace file
  jsonl   .jsonl .ndjson .json                      JSON lines: all that is in the file; back again it is the same file
  csv     .csv                                      a table: --column
  ctf     .ctf, a name that ends with /, a folder   Common Trace Format 1.8, for babeltrace2 and Trace Compass
  chrome  .trace.json .chrome.json .perfetto.json   a time line for Chrome and Perfetto
  perfetto .perfetto-trace .pftrace .perfetto      Perfetto's own format, for ui.perfetto.dev and trace_processor
  otlp    .otlp.json .otlp.jsonl, http://HOST:PORT  OpenTelemetry's spans, logs and metrics; to a collector by HTTP
  firefox .firefox.json                             a profile for profiler.firefox.com
  folded  .folded                                   stacks for flame graphs

The last five have the values of expressions with their types, and all processes of a run's folder.

An execution trace is converted to
  twx     .twx                                      its compact form, which replaces the text
  text    .trace .txt                               the text again, byte for byte
  qemu4v, microtesk, tarmac                         lines of that form
  jsonl   .jsonl .ndjson .json                      an object a line for each instruction
  vcd     .vcd                                      signals, for GTKWave; each instruction is a step of 1 ns, or --timestamps
  chrome  .trace.json .chrome.json .perfetto.json   calls on a time line
  tf      .tf .tfile .gdbtrace                      GDB's trace file, a frame for each instruction

Several INs are merged in the order of time; in the formats of whole runs each is a process. --frame, --time and --where cut; --split-by makes several files of OUT's name, with \
the part's name before the ending.

Columns of a table: process (of a run of several), frame, tracepoint, pc, time_us, time_ns, thread, cpu, stepping, duration_ns and ended (of a span), $variable, \
$register, 0xADDRESS@LENGTH, or any expression. Without --column: what all frames have, and all values. A span is one line.

Examples:
  tracewire convert run.tf run.jsonl && tracewire convert run.jsonl same.tf
  tracewire convert run.tf run.csv --column frame --column '$rsp' --column 'j->name'
  tracewire convert run.tf run.ctf && babeltrace2 run.ctf
  tracewire convert run/ run.perfetto-trace --flow 'request->id'
  tracewire convert run.tf http://127.0.0.1:4318
  tracewire convert one.tf two.tf both.tf
  tracewire convert run.tf part.tf --frame 100..200
  tracewire convert run.tf slow.perfetto-trace --where '$duration > 1ms'
  tracewire convert run.tf run.tf --split-by thread
  tracewire convert cpu.trace cpu.twx
  tracewire convert cpu.trace cpu.vcd --instruction 1000..2000
  tracewire convert cpu.trace - --to tarmac
  tracewire convert packets.te cpu.trace --etrace smi --elf firmware.elf";

#[derive(Args, Debug)]
#[command(override_usage = "tracewire convert [OPTIONS] <IN>... <OUT>")]
pub struct ConvertArguments {
    /// The files to read (IN), then the one to write (OUT; - for standard output)
    #[arg(value_name = "FILE", num_args = 1.., required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// The format to write: tf, jsonl, csv, ctf, chrome, perfetto, otlp, firefox or folded; of an execution trace twx, text, qemu4v, microtesk, tarmac,
    /// jsonl, vcd, chrome or tf
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<String>,
    /// A column of a table; may be given several times
    #[arg(long, value_name = "COLUMN")]
    pub column: Vec<String>,
    /// Only this frame, or these: N, N..M (without M), N..=M, N.. or ..M
    #[arg(long, value_name = "N[..M]", value_parser = FrameRange::parse)]
    pub frame: Option<FrameRange>,
    /// Of an execution trace: only this instruction, or these: N, N..M (without M), N..=M, N.. or ..M
    #[arg(long, value_name = "N[..M]", value_parser = FrameRange::parse)]
    pub instruction: Option<FrameRange>,
    /// Of an execution trace, to vcd: at the trace's own times, and not each instruction a step of its own
    #[arg(long)]
    pub timestamps: bool,
    /// Only frames made from A to B, in microseconds of $trace_timestamp: A..B, A.. or ..B
    #[arg(long, value_name = "A..B", value_parser = parse_time, conflicts_with = "frame")]
    pub time: Option<RangeInclusive<u64>>,
    /// Only frames for which an expression over collected values is true. A span is looked at as a whole: its arguments, $retval and $duration
    #[arg(long = "where", value_name = "EXPR")]
    pub condition: Option<String>,
    /// Several files: tracepoint, thread, or so many frames each
    #[arg(long, value_name = "WHAT", value_parser = parse_split)]
    pub split_by: Option<SplitBy>,
    /// IN has packets of RISC-V E-Trace, and OUT is to be their text, an execution trace of control flow only: how they are framed (smi or encap), then
    /// parameters of the encoder, such as smi,iaddress_width_p=64; needs --elf
    #[arg(long, value_name = "FRAMING", conflicts_with_all = ["to", "column", "frame", "instruction", "timestamps", "time", "condition", "split_by", "flow"])]
    pub etrace: Option<tracewire_exec_trace::etrace::Options>,
    /// The program, or one of its libraries, for values and columns; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// To perfetto: connect the hits and spans that have an equal value of this collected expression; may be given several times
    #[arg(long, value_name = "EXPRESSION")]
    pub flow: Vec<String>,
    /// Write values by their members, as GDB does without pretty-printers
    #[arg(long, conflicts_with = "types")]
    pub raw: bool,
    #[command(flatten)]
    pub types: TypeArguments,
    #[command(flatten)]
    pub debuginfod: DebuginfodArguments,
    #[command(flatten)]
    pub machine: open::Machine,
}

fn parse_split(text: &str) -> Result<SplitBy, String> {
    match text {
        "tracepoint" => Ok(SplitBy::Tracepoint),
        "thread" => Ok(SplitBy::Thread),
        _ => match text.parse() {
            Ok(count) if count > 0 => Ok(SplitBy::Count(count)),
            _ => Err("expected tracepoint, thread or a number of frames".to_owned()),
        },
    }
}

/// `convert`.
pub fn convert(arguments: &ConvertArguments) -> anyhow::Result<Answer> {
    let (out, sources) = match arguments.files.split_last() {
        Some((out, sources @ [_, ..])) => (out, sources),
        // The files may be on both sides of an option, and clap counts those of each side.
        _ => ConvertArguments::augment_args(clap::Command::new("tracewire convert"))
            .error(
                ErrorKind::WrongNumberOfValues,
                "both a file to read and one to write are required",
            )
            .exit(),
    };
    if let Some(options) = &arguments.etrace {
        let [packets] = sources else {
            bail!(
                "--etrace takes one file of packets, and these are {}",
                sources.len()
            );
        };
        let (elf, machine) = (&arguments.elf, arguments.machine);
        return execution::etrace::run(packets, out, options, elf, machine);
    }
    // A run of several processes is its parts.
    let mut whole: Vec<NamedFile> = Vec::new();
    for source in sources {
        match several::parts_of(source)? {
            Some(parts) => whole.extend(parts.into_iter().map(|part| NamedFile {
                path: part.path,
                process: Some((part.process, part.parent)),
            })),
            None => whole.push(NamedFile {
                path: source.clone(),
                process: None,
            }),
        }
    }
    // Input from a pipe is read from its temporary copy.
    let kept;
    if let [source] = &mut whole[..] {
        match execution::kind(&source.path)? {
            Kind::Execution(source) => {
                if let Destination::Endpoint(_) = Destination::of(out) {
                    bail!(
                        "an endpoint takes the run of a trace file, and this is an execution trace"
                    );
                }
                return execution::convert::run(source, out, arguments);
            }
            Kind::TraceFile(file) => {
                kept = file;
                source.path = kept.to_path_buf();
            }
        }
    }
    if arguments.timestamps {
        bail!("--timestamps is for execution traces, and this is a trace file");
    }
    let destination = Destination::of(out);
    let format = match (&arguments.to, destination) {
        (Some(name), _) => Source::TraceFile.format(name)?,
        (None, Destination::Endpoint(_)) => Format::Otlp,
        (None, Destination::File(out)) => output_format(out)?,
    };
    if let Destination::Endpoint(address) = destination {
        if format != Format::Otlp {
            bail!("{address} is an endpoint, which takes otlp, not {format}");
        }
        if arguments.split_by.is_some() {
            bail!("--split-by makes several files, and {address} is an endpoint");
        }
    }
    if !arguments.flow.is_empty() && format != Format::Perfetto {
        bail!("--flow is for perfetto, not for {format}");
    }
    let columns: Vec<Column> = arguments
        .column
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    if !columns.is_empty() && format != Format::Csv {
        bail!("--column is for a table (csv), not for {format}");
    }
    let mut programs = Programs::new(arguments)?;
    let condition = Condition::new(arguments.condition.as_deref());
    let mut part = Part {
        arguments,
        condition: &condition,
        programs: &mut programs,
    };
    let fits_nothing = || condition.is_given() && condition.fitting() == 0;
    if export::is_exported(format) && arguments.split_by.is_none() {
        let files = part.of_run(whole)?;
        if fits_nothing() {
            explain_nothing(&condition);
            return Ok(Answer::No);
        }
        return export::write(&files, destination, format, &mut programs);
    }
    if format == Format::Csv
        && arguments.split_by.is_none()
        && whole.iter().all(|named| named.process.is_some())
    {
        let files = part.of_run(whole)?;
        if fits_nothing() {
            explain_nothing(&condition);
            return Ok(Answer::No);
        }
        let files: Vec<(Option<ThreadId>, &TraceFile)> = (files.iter())
            .map(|part| (part.process.map(|(process, _)| process), &part.file))
            .collect();
        into_place(out, |mut sink| {
            csv::write(
                &files,
                &columns,
                &mut programs,
                Progress::default,
                &mut sink,
            )
        })?;
        return Ok(Answer::Yes);
    }
    let sources: Vec<PathBuf> = whole.into_iter().map(|named| named.path).collect();
    let file = merged(&sources, arguments)?;
    let file = part.of(file)?;
    if fits_nothing() {
        explain_nothing(&condition);
        return Ok(Answer::No);
    }
    let Some(by) = arguments.split_by else {
        return write(file, out, format, &columns, &mut programs);
    };
    if is_stdout(out) {
        bail!("--split-by makes several files: expected a name to make theirs of, not -");
    }
    for part in part::split(&file, by)? {
        let one =
            through_file(|sink| part::write(&file, part.frames.iter().copied(), sink).map(drop))?;
        let one = settled(one, out, arguments)?;
        write(
            one,
            &part_name(out, &part.name),
            format,
            &columns,
            &mut programs,
        )?;
    }
    Ok(Answer::Yes)
}

/// A file to read, before it is opened.
struct NamedFile {
    path: PathBuf,
    /// Its process, in a run of several, and the process that made that one.
    process: Option<(ThreadId, Option<ThreadId>)>,
}

pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn output_format(out: &Path) -> anyhow::Result<Format> {
    let named = Source::TraceFile.format_of(out);
    match named.or_else(|| out.is_dir().then_some(Format::Ctf)) {
        Some(format) => Ok(format),
        None => bail!(
            "{}: the name shows no format; expected an ending such as .tf, .jsonl, .csv, .ctf or .chrome.json, or --to",
            out.display()
        ),
    }
}

/// `dir/run.tf` and `thread-7` make `dir/run-thread-7.tf`.
fn part_name(out: &Path, part: &str) -> PathBuf {
    let name = out
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    // Endings such as .chrome.json are not split.
    let (stem, ending) = match name.get(1..).and_then(|rest| rest.find('.')) {
        Some(dot) => name.split_at(dot + 1),
        None => (name.as_str(), ""),
    };
    out.with_file_name(format!("{stem}-{part}{ending}"))
}

/// Opens a file of either readable format.
fn open_source(path: &Path, arguments: &ConvertArguments) -> anyhow::Result<TraceFile> {
    let shown = path.display();
    let mut source =
        BufReader::new(File::open(path).with_context(|| format!("cannot read {shown}"))?);
    let start = source
        .fill_buf()
        .with_context(|| format!("cannot read {shown}"))?;
    match Format::from_content(start) {
        Some(Format::JsonLines) => {
            let progress = Progress::reading(path);
            let file = through_file(|sink| json::read(&mut source, sink));
            drop(progress);
            let file = file.with_context(|| format!("{shown} cannot be used"))?;
            settled(file, path, arguments)
        }
        _ => arguments.machine.trace_file(path, &arguments.elf),
    }
}

/// The file, with the machine that the user gave or that can be determined.
fn settled(
    mut file: TraceFile,
    path: &Path,
    arguments: &ConvertArguments,
) -> anyhow::Result<TraceFile> {
    arguments.machine.settle(&mut file, path, &arguments.elf)?;
    Ok(file)
}

/// Writes a temporary trace file and opens it; the file is then removed.
fn through_file(
    fill: impl FnOnce(&mut BufWriter<&File>) -> Result<(), tracewire_convert::ConvertError>,
) -> anyhow::Result<TraceFile> {
    let file = NamedTempFile::new().context("cannot make a temporary file")?;
    let mut sink = BufWriter::with_capacity(1 << 16, file.as_file());
    fill(&mut sink)?;
    sink.flush().context("cannot write a temporary file")?;
    Ok(TraceFile::open(file.path())?)
}

fn merged(sources: &[PathBuf], arguments: &ConvertArguments) -> anyhow::Result<TraceFile> {
    let mut files = sources
        .iter()
        .map(|path| open_source(path, arguments))
        .collect::<Result<Vec<_>, _>>()?;
    match files.len() {
        1 => files.pop().context("expected IN and OUT"),
        _ => {
            let name = Path::new("the merged files");
            let progress = Progress::reading(name);
            let merged = through_file(|sink| merge::write(&files, sink))?;
            drop(progress);
            settled(merged, name, arguments)
        }
    }
}

/// The part of each file that the arguments ask for.
struct Part<'p, 'a> {
    arguments: &'a ConvertArguments,
    condition: &'p Condition<'a>,
    programs: &'p mut Programs<'a>,
}

impl Part<'_, '_> {
    /// The files of a run that is written as a whole.
    fn of_run(&mut self, named: Vec<NamedFile>) -> anyhow::Result<Vec<RunFile>> {
        if self.arguments.frame.is_some() && named.len() > 1 {
            bail!(
                "--frame is for one trace file, and the run has several; --time and --where cut all of them"
            );
        }
        let opened = named.into_iter().map(|one| {
            let file = self.of(open_source(&one.path, self.arguments)?)?;
            Ok(RunFile {
                path: one.path,
                process: one.process,
                file,
            })
        });
        opened.collect()
    }

    /// Of one file.
    fn of(&mut self, file: TraceFile) -> anyhow::Result<TraceFile> {
        let Self {
            arguments,
            condition,
            ..
        } = *self;
        let chosen: Option<Vec<FrameNumber>> = match (&arguments.frame, &arguments.time) {
            (Some(range), _) => {
                let frames = file.frame_count();
                if range.single && range.start >= frames {
                    bail!("there is no frame {}: the file holds {frames}", range.start);
                }
                let end = range.end.unwrap_or(u64::MAX);
                Some(part::frames_in(&file, range.start..end).collect())
            }
            (None, Some(range)) => Some(part::frames_at(&file, range.clone())),
            (None, None) => None,
        };
        let name = Path::new("the part");
        let progress = Progress::over_frames(name, &file);
        let chosen = match (chosen, condition.is_given()) {
            (None, false) => return Ok(file),
            (Some(chosen), false) => chosen,
            (chosen, true) => {
                let all = || (0..file.frame_count()).map(FrameNumber).collect();
                let program = self.programs.of(&file)?;
                fitting(&file, program, &chosen.unwrap_or_else(all), condition)?
            }
        };
        let part = through_file(|sink| part::write(&file, chosen.iter().copied(), sink).map(drop))?;
        drop(progress);
        settled(part, name, arguments)
    }
}

/// Of these frames those for which a condition is true: of a span both frames, and those that say how spans are left.
fn fitting(
    file: &TraceFile,
    program: Program,
    chosen: &[FrameNumber],
    condition: &Condition<'_>,
) -> anyhow::Result<Vec<FrameNumber>> {
    let look = |viewer: &Viewer<'_>, numbers: &[FrameNumber]| {
        let mut fitting = Vec::new();
        for frame in (numbers.iter()).filter_map(|number| viewer.file().frame(*number)) {
            if condition.fits(viewer, frame)? {
                let frames = viewer.frames_of(frame).into_iter();
                fitting.extend(frames.map(|frame| frame.number()));
            } else if let Some(point) = viewer.file().spans().point(&frame)
                && point.role.is_departure()
            {
                fitting.push(frame.number());
            }
        }
        Ok(fitting)
    };
    let frames = (chosen.iter()).filter_map(|number| file.frame(*number));
    let mut all = Vec::new();
    in_order::map(file, program, frames, &look, |fitting: Vec<FrameNumber>| {
        all.extend(fitting);
        Ok(ControlFlow::Continue(()))
    })?;
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn write(
    file: TraceFile,
    out: &Path,
    format: Format,
    columns: &[Column],
    programs: &mut Programs<'_>,
) -> anyhow::Result<Answer> {
    if export::is_exported(format) {
        let one = RunFile {
            path: out.to_owned(),
            process: None,
            file,
        };
        return export::write(&[one], Destination::File(out), format, programs);
    }
    let file = &file;
    if format == Format::Ctf {
        return write_folder(file, out, programs);
    }
    let progress = || {
        if is_stdout(out) && io::stdout().is_terminal() {
            Progress::default()
        } else {
            Progress::over_frames(out, file)
        }
    };
    into_place(out, |mut sink| {
        match format {
            // Every byte, the damaged ones too.
            Format::TraceFile => file
                .write_to(&mut sink)
                .context("cannot write the result")?,
            Format::JsonLines => {
                let _progress = progress();
                json::write(file, &mut sink)?;
            }
            Format::Csv => csv::write(&[(None, file)], columns, programs, progress, &mut sink)?,
            Format::Ctf => bail!("a CTF trace is a folder"),
            Format::Chrome | Format::Perfetto | Format::Otlp | Format::Firefox | Format::Folded => {
                bail!("{format} is of a whole run")
            }
            Format::Compact | Format::Text | Format::Lines(_) | Format::Vcd => {
                bail!("{format} is for execution traces, and this is a trace file")
            }
        }
        Ok(())
    })?;
    Ok(Answer::Yes)
}

/// Writes a file beside its place and puts it there when it is whole; `-` is standard output.
pub fn into_place(
    out: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let write_to = |sink: &mut dyn Write| -> anyhow::Result<()> {
        let mut sink = BufWriter::with_capacity(1 << 16, sink);
        write(&mut sink)?;
        sink.flush().context("cannot write the result")
    };
    if is_stdout(out) {
        return write_to(&mut io::stdout().lock());
    }
    let out = &output::check(out)?;
    let folder = parent(out);
    let mut beside = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot make a file in {}", folder.display()))?;
    write_to(beside.as_file_mut()).with_context(|| format!("cannot write {}", out.display()))?;
    tracewire_mapped_file::verify()?;
    beside
        .persist(out)
        .with_context(|| format!("cannot write {}", out.display()))?;
    Ok(())
}

fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// A CTF trace, made beside its place and moved there when it is complete.
fn write_folder(
    file: &TraceFile,
    out: &Path,
    programs: &mut Programs<'_>,
) -> anyhow::Result<Answer> {
    if is_stdout(out) {
        bail!("a CTF trace is a folder: expected a name, not -");
    }
    let shown = out.display();
    if out.exists() {
        // Another trace is replaced; anything else must not be removed.
        let mut entries = fs::read_dir(out).with_context(|| format!("{shown} is in the way"))?;
        let metadata = fs::read(out.join("metadata")).unwrap_or_default();
        if entries.next().is_some() && !metadata.starts_with(b"/* CTF 1.8 */") {
            bail!(
                "{shown} is a folder with other files in it; expected a CTF trace, an empty folder or none"
            );
        }
    }
    let beside = tempfile::Builder::new()
        .prefix(".tracewire-ctf-")
        .tempdir_in(parent(out))
        .with_context(|| format!("cannot make a folder in {}", parent(out).display()))?;
    let made = beside.path().join("made");
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&made)
        .with_context(|| format!("cannot make a folder for {shown}"))?;
    let program = programs.of(file)?;
    let viewer = Viewer::new(file, &program);
    let values = |frame| {
        // The second frame of a span has no separate values.
        let values = match viewer.is_listed(frame) {
            true => viewer.typed_values(frame),
            false => Vec::new(),
        };
        let values = values.into_iter();
        values
            .map(|value| (value.view.expression, value.datum))
            .collect()
    };
    let progress = Progress::over_frames(out, file);
    ctf::write(file, values, |name| {
        File::create(made.join(name)).map(BufWriter::new)
    })
    .with_context(|| format!("cannot write {shown}"))?;
    tracewire_mapped_file::verify()?;
    drop(progress);
    if out.exists() {
        fs::rename(out, beside.path().join("old"))
            .with_context(|| format!("cannot replace {shown}"))?;
    }
    fs::rename(&made, out).with_context(|| format!("cannot write {shown}"))?;
    Ok(Answer::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        let name = |out: &str| part_name(Path::new(out), "thread-7").display().to_string();
        assert_eq!(name("dir.d/run.tf"), "dir.d/run-thread-7.tf");
        assert_eq!(name("run.chrome.json"), "run-thread-7.chrome.json");
        assert_eq!(name("run"), "run-thread-7");
        assert_eq!(name(".hidden"), ".hidden-thread-7");
    }

    #[test]
    fn splits() {
        assert_eq!(parse_split("thread"), Ok(SplitBy::Thread));
        assert_eq!(parse_split("100"), Ok(SplitBy::Count(100)));
        assert!(parse_split("0").is_err() && parse_split("x").is_err());
    }
}
