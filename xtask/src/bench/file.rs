//! `cargo xtask bench file`: a trace file of a gibibyte, and what reading it costs.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tracewire_arch::X86Registers;
use tracewire_model::{
    Address, ByteOrder, Status, StatusFields, StopReason, Tracepoint, TracepointDefinition,
    TracepointNumber, VariableDefinition, VariableNumber,
};
use tracewire_tracefile::{Description, DescriptionParts, FrameEncoder, FrameFormat};

use super::goals::verdict;
use super::show;
use crate::ratio::median;
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How many frames of 256 bytes the large file has
    #[arg(long, default_value_t = 4 << 20)]
    frames: u64,
    /// How many frames the file has that Tracewire and GDB walk over; GDB's time grows with its square
    #[arg(long, default_value_t = 25_000)]
    walk: u64,
    /// How often each command has its turn; GDB has one
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where the files are made: a folder on the disk to be measured
    #[arg(long, default_value = "target")]
    folder: PathBuf,
}

/// Where the one tracepoint is.
const SITE: u64 = 0x0804_9000;

/// Where the frames of a file stand.
#[derive(Clone, Copy)]
enum Places {
    /// Each at another one, which its number tells, so that a search finds just one.
    Each,
    /// All where the tracepoint is.
    One,
}

impl Places {
    fn program_counter(self, frame: u64) -> u32 {
        match self {
            Self::Each => SITE as u32 + frame as u32,
            Self::One => SITE as u32,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_FILE)?;
    ensure!(
        (1..=1 << 28).contains(&arguments.frames) && arguments.walk > 0 && arguments.rounds > 0,
        "expected 1 to {} frames, and at least one frame to walk and one round",
        1 << 28
    );
    let tracewire = workspace::tracewire()?;
    let parent = workspace::root().join(&arguments.folder);
    fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("bench-file-")
        .tempdir_in(parent)?;
    let large = folder.path().join("large.tf");
    eprintln!("writing {} frames", arguments.frames);
    let size = generate(&large, arguments.frames, Places::Each)?;
    println!(
        "a trace file of {:.3} GiB, {} frames",
        size as f64 / f64::from(1 << 30),
        arguments.frames
    );
    first_info(&tracewire, &large, arguments.rounds)?;
    second_find(&tracewire, &large, arguments)?;
    every_frame(&tracewire, &large, arguments, Places::Each)?;
    drop(fs::remove_file(&large));
    let one_place = folder.path().join("one-place.tf");
    generate(&one_place, arguments.frames, Places::One)?;
    every_frame(&tracewire, &one_place, arguments, Places::One)?;
    drop(fs::remove_file(&one_place));
    show::run(&tracewire, folder.path(), arguments.rounds)?;
    walk(&tracewire, folder.path(), arguments)
}

/// Frames of 256 bytes: an i386's core registers, a time, 49 bytes of memory.
fn generate(path: &Path, frames: u64, places: Places) -> Result<u64> {
    let registers = X86Registers::Core;
    let layout = registers.layout_32();
    let definition = TracepointDefinition::new(TracepointNumber(1), Address(SITE));
    let status = StatusFields {
        stop_reason: Some(StopReason::Command),
        stop_text: Some(String::new()),
        frames: Some(frames),
        frames_created: Some(frames),
        start_time: Some(1),
        stop_time: Some(frames),
        ..StatusFields::default()
    };
    let description = Description::build(&DescriptionParts {
        register_block_size: layout.size(),
        target_xml: Some(registers.target_xml_32()),
        status: Some(Status::from(status)),
        variables: vec![VariableDefinition {
            number: VariableNumber(1),
            initial: 0,
            builtin: true,
            name: "trace_timestamp".to_owned(),
        }],
        tracepoints: vec![Tracepoint::new(definition)],
        ..DescriptionParts::default()
    })?;
    let format = FrameFormat {
        byte_order: ByteOrder::Little,
        register_block_size: layout.size(),
    };
    let counter = layout
        .program_counter()
        .context("i386 has a program counter")?;
    let counter = counter.offset as usize;
    let mut block = vec![0; layout.size() as usize];
    let memory_size = 256 - 6 - (1 + block.len()) - 13 - 11;
    let mut frame = Vec::new();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(tracewire_tracefile::HEADER)?;
    file.write_all(description.as_bytes())?;
    file.write_all(b"\n")?;
    for number in 0..frames {
        frame.clear();
        let here = places.program_counter(number);
        block[counter..counter + 4].copy_from_slice(&here.to_le_bytes());
        let mut encoder = FrameEncoder::begin(&mut frame, format, TracepointNumber(1))?;
        encoder.registers(&block)?;
        encoder.variable(VariableNumber(1), number as i64 + 1);
        encoder.memory(Address(0x0900_0000), &vec![number as u8; memory_size]);
        ensure!(
            encoder.finish()? == 256,
            "a frame of another size than planned"
        );
        file.write_all(&frame)?;
    }
    file.write_all(&[0; 4])?;
    let file = file.into_inner()?;
    // Only pages that are on the disk can be dropped from memory.
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// Drops the file from the page cache.
pub(super) fn evict(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    // SAFETY: the descriptor is open; the call only advises.
    let refused = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    ensure!(
        refused == 0,
        "the kernel refuses to drop {} from memory",
        path.display()
    );
    Ok(())
}

/// Reads the file from start to end, as fast as the machine does it.
pub(super) fn sequential_read(path: &Path) -> Result<Duration> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let start = Instant::now();
    while file.read(&mut buffer)? > 0 {}
    Ok(start.elapsed())
}

/// What a command took.
pub(super) struct Cost {
    pub(super) time: Duration,
    /// The most memory of its own, in KiB, where it ran long enough to be seen.
    pub(super) memory: u64,
    pub(super) output: String,
}

/// Runs a command with a cache folder of its own. Memory is looked at every millisecond.
pub(super) fn measure(command: &mut Command, cache: &Path, watch: bool) -> Result<Cost> {
    command
        .env("XDG_CACHE_HOME", cache)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let start = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    let reader = std::thread::spawn(move || {
        let mut output = String::new();
        stdout.read_to_string(&mut output).map(|_| output)
    });
    let mut memory = 0;
    let status = loop {
        if !watch {
            break child.wait()?;
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let text = fs::read_to_string(&status_file).unwrap_or_default();
        let anonymous = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kibibytes = anonymous.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
        memory = memory.max(kibibytes.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    };
    let time = start.elapsed();
    ensure!(status.success(), "{command:?}: {status}");
    let output = match reader.join() {
        Ok(output) => output?,
        Err(_) => anyhow::bail!("{command:?}: its output is no text"),
    };
    Ok(Cost {
        time,
        memory,
        output,
    })
}

pub(super) fn seconds(durations: &[Duration]) -> f64 {
    median(
        &durations
            .iter()
            .map(Duration::as_secs_f64)
            .collect::<Vec<_>>(),
    )
}

/// The first look at the file, nothing cached: against reading it, from the disk and from memory.
fn first_info(tracewire: &Path, file: &Path, rounds: usize) -> Result<()> {
    let size = fs::metadata(file)?.len();
    for (what, cold) in [("from the disk", true), ("from memory", false)] {
        let (mut read, mut info, mut memory) = (Vec::new(), Vec::new(), 0);
        for _ in 0..rounds {
            if cold {
                evict(file)?;
            }
            read.push(sequential_read(file)?);
            if cold {
                evict(file)?;
            }
            let cache = tempfile::tempdir()?;
            let cost = measure(
                Command::new(tracewire).args(["info", "--json"]).arg(file),
                cache.path(),
                true,
            )?;
            ensure!(
                cost.output.contains("\"frames\":"),
                "info says nothing of frames: {}",
                cost.output
            );
            info.push(cost.time);
            memory = memory.max(cost.memory);
        }
        let ratios: Vec<_> = read
            .iter()
            .zip(&info)
            .map(|(read, info)| read.as_secs_f64() / info.as_secs_f64())
            .collect();
        let rate = |time: f64| size as f64 / time / 1e6;
        // The goal is the disk's.
        let goal = if cold {
            format!(
                " (a third or more: {})",
                verdict(median(&ratios) >= 1.0 / 3.0)
            )
        } else {
            String::new()
        };
        println!(
            "first info, {what}: {:.0} ms, {:.0} MB/s; reading alone {:.0} MB/s; {:.2} of it{goal}",
            seconds(&info) * 1e3,
            rate(seconds(&info)),
            rate(seconds(&read)),
            median(&ratios),
        );
        println!(
            "  memory besides the map: {:.1} MiB (under 100 MiB: {})",
            memory as f64 / 1024.0,
            verdict(memory < 100 << 10)
        );
    }
    Ok(())
}

/// A search by address when the index is there already.
fn second_find(tracewire: &Path, file: &Path, arguments: &Arguments) -> Result<()> {
    let cache = tempfile::tempdir()?;
    let beside = || -> Result<u64> {
        let folder = file.parent().context("the file is in a folder")?;
        Ok(size_below(folder)? - fs::metadata(file)?.len())
    };
    let wanted = arguments.frames - arguments.frames / 7 - 1;
    let find = || {
        let mut command = Command::new(tracewire);
        command
            .args([
                "find",
                "--pc",
                &format!("{:#x}", Places::Each.program_counter(wanted)),
            ])
            .arg(file);
        command
    };
    let before = beside()?;
    let first = measure(&mut find(), cache.path(), true)?;
    let index = size_below(cache.path())? + beside()? - before;
    let mut times = Vec::new();
    for _ in 0..arguments.rounds.max(9) {
        let cost = measure(&mut find(), cache.path(), false)?;
        ensure!(
            cost.output.trim() == wanted.to_string(),
            "expected frame {wanted}, found {}",
            cost.output
        );
        times.push(cost.time);
    }
    let per_frame = index as f64 / arguments.frames as f64;
    println!(
        "index: {per_frame:.2} bytes a frame (at most 16, and there at all: {})",
        verdict(index > 0 && per_frame <= 16.0)
    );
    println!(
        "find --pc: first {:.0} ms, memory besides the map {:.1} MiB; then {:.1} ms as a whole process (under 20 ms: {})",
        first.time.as_secs_f64() * 1e3,
        first.memory as f64 / 1024.0,
        seconds(&times) * 1e3,
        verdict(seconds(&times) < 0.02)
    );
    Ok(())
}

/// What looks at every frame: a search by an expression, and a check.
fn every_frame(tracewire: &Path, file: &Path, arguments: &Arguments, places: Places) -> Result<()> {
    let cache = tempfile::tempdir()?;
    let wanted = arguments.frames - arguments.frames / 7 - 1;
    let mut find = Command::new(tracewire);
    find.arg("find")
        .arg(file)
        .args(["--where", &format!("$trace_timestamp == {}", wanted + 1)])
        .stderr(Stdio::null());
    let mut check = Command::new(tracewire);
    check.arg("check").arg(file).stderr(Stdio::null());
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..arguments.rounds.min(3) {
        let found = measure(&mut find, cache.path(), false)?;
        ensure!(
            found.output.trim() == wanted.to_string(),
            "expected frame {wanted}, found {}",
            found.output
        );
        let checked = measure(&mut check, cache.path(), false)?;
        times[0].push(found.time);
        times[1].push(checked.time);
    }
    let rate = |times: &[Duration]| arguments.frames as f64 / seconds(times) / 1e6;
    println!(
        "{}: find --where {:.2} s, {:.1} million frames a second; check {:.2} s, {:.1} million",
        match places {
            Places::Each => "every frame at another place",
            Places::One => "all frames at one place",
        },
        seconds(&times[0]),
        rate(&times[0]),
        seconds(&times[1]),
        rate(&times[1]),
    );
    Ok(())
}

/// The bytes of all files in a folder and the folders below it.
fn size_below(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size += if metadata.is_dir() {
            size_below(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(size)
}

/// One frame after the other, each looked at: Tracewire shows all it holds, GDB selects it.
fn walk(tracewire: &Path, folder: &Path, arguments: &Arguments) -> Result<()> {
    let file = folder.join("walk.tf");
    generate(&file, arguments.walk, Places::Each)?;
    let cache = tempfile::tempdir()?;
    let mut times = Vec::new();
    for _ in 0..arguments.rounds {
        let cost = measure(
            Command::new(tracewire)
                .args(["show", "--json"])
                .arg(&file)
                .stderr(Stdio::null()),
            cache.path(),
            false,
        )?;
        let shown = cost.output.lines().count() as u64;
        ensure!(
            shown == arguments.walk,
            "show shows {shown} frames of {}",
            arguments.walk
        );
        times.push(cost.time);
    }
    let ours = seconds(&times);
    println!(
        "walk over {} frames: tracewire {:.3} s",
        arguments.walk, ours
    );
    eprintln!("GDB walks over {} frames", arguments.walk);
    let script = folder.join("walk.gdb");
    fs::write(
        &script,
        format!(
            "set pagination off\nset confirm off\ntarget tfile {}\ntfind start\nset $seen = 0\n\
             while $trace_frame != -1\nset $seen = $seen + 1\ntfind\nend\n\
             printf \"frames seen: %d\\n\", $seen\n",
            file.display()
        ),
    )?;
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-x"])
        .arg(&script)
        .stderr(Stdio::null());
    let cost = measure(&mut gdb, cache.path(), false)?;
    ensure!(
        cost.output
            .contains(&format!("frames seen: {}", arguments.walk)),
        "GDB did not see every frame"
    );
    let ratio = cost.time.as_secs_f64() / ours;
    println!(
        "walk over {} frames: GDB {:.3} s, {ratio:.0} times as long (100 or more: {})",
        arguments.walk,
        cost.time.as_secs_f64(),
        verdict(ratio >= 100.0)
    );
    Ok(())
}
