//! `demo`: records the bundled sample program and shows the frames of its tracepoints.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueHint};
use tracewire_recorder::Recorder;
use tracewire_script::Script;
use tracewire_tracefile::TraceFile;
use tracewire_views::{Condition, Program};

use crate::answer::Answer;
use crate::frame_output::write_table;
use crate::message::say;
use crate::record::{Live, Request, quoted, run};

/// The sample, compiled when this program was, with all its debug information.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracewire-demo"));
const SOURCE: &str = include_str!("../sample/tracewire-demo.c");
const SCRIPT: &str = include_str!("../sample/tracewire-demo.gdb");

pub const HELP: &str = "\
The sample has three threads. Its tracepoints use a condition, a string behind two pointers, a trace state \
variable and while-stepping. The program, its source, its script and the trace file are written beside the FILE of -o, \
or into tracewire/demo in the user's cache ($XDG_CACHE_HOME, or ~/.cache), so that they can be looked at afterwards.

Examples:
  tracewire demo
  tracewire demo -o /tmp/tracewire-demo.tf";

#[derive(Args, Debug)]
pub struct DemoArguments {
    /// The trace file to write [default: tracewire-demo.tf in tracewire/demo of the user's cache]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// `demo`.
pub fn demo(arguments: &DemoArguments) -> anyhow::Result<Answer> {
    let asked = match &arguments.output {
        Some(output) => output.clone(),
        None => directory()?.join("tracewire-demo.tf"),
    };
    let output = std::path::absolute(&asked)?;
    let folder = output.parent().unwrap_or(Path::new("/"));
    let files = Files::beside(folder);
    files.write()?;
    let mut script = Script::new();
    script.read_text("tracewire-demo.gdb", SCRIPT)?;
    say("recording the sample program; its tracepoints are in tracewire-demo.gdb:");
    for line in SCRIPT.lines() {
        message!("    {line}");
    }
    let mut recorder = Recorder::spawn(&files.program, [""; 0]);
    recorder.script(script);
    run(Request {
        recorder,
        output: Some(output.clone()),
        live: Live::default(),
        spawned: true,
        verbose: false,
    })?;
    let file = TraceFile::open(&output)?;
    let program = Program::of(&file, &[])?;
    let mut stdout = anstream::stdout().lock();
    writeln!(stdout)?;
    write_table(
        &mut stdout,
        &file,
        program,
        file.frames(),
        &Condition::default(),
    )?;
    let trace = quoted(&asked);
    let script = quoted(&shown(&asked, &files.script));
    let program = quoted(&shown(&asked, &files.program));
    writeln!(
        stdout,
        "\nEach row is a trace frame: what one hit of a tracepoint (TP), or one step of while-stepping, saw.\n\
         Order 107 has no customer: the name behind the null pointer is missing, and the run went on.\n\
         \n\
         Look closer:\n\
         \x20 tracewire info {trace}\n\
         \x20 tracewire show {trace} --frame 3\n\
         \x20 tracewire find {trace} --where 'order->quantity > 4'\n\
         \x20 tracewire show {trace} --tracepoint 1 --json\n\
         Record it yourself, then a program of your own:\n\
         \x20 tracewire record -x {script} -o again.tf -- {program}\n\
         \x20 tracewire record -t 'main : $args' -o mine.tf -- PROGRAM\n\
         In GDB (then: tfind start, tdump, tfind):\n\
         \x20 tracewire show {trace} --gdb > demo.gdb && gdb -x demo.gdb"
    )?;
    stdout.flush()?;
    Ok(Answer::Yes)
}

/// The directory for files without a given name: not the current directory, which may be a checkout.
fn directory() -> anyhow::Result<PathBuf> {
    let Some(cache) = tracewire_tracefile::user_cache() else {
        // A name that no other user can have taken: a program in it is run.
        let made = tempfile::Builder::new().prefix("tracewire-demo-").tempdir();
        return Ok(made.context("no temporary directory")?.keep());
    };
    let directory = cache.join("demo");
    fs::create_dir_all(&directory).with_context(|| {
        format!(
            "cannot make {}; choose another place with -o FOLDER/tracewire-demo.tf",
            directory.display()
        )
    })?;
    Ok(directory)
}

/// The name of a file beside the output, relative in the same way as the user's name of the output.
fn shown(output: &Path, file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default();
    // A program without a directory in its name would be looked up in PATH.
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    folder.join(name)
}

/// The sample's files.
struct Files {
    program: PathBuf,
    source: PathBuf,
    script: PathBuf,
}

impl Files {
    fn beside(folder: &Path) -> Self {
        Self {
            program: folder.join("tracewire-demo"),
            source: folder.join("tracewire-demo.c"),
            script: folder.join("tracewire-demo.gdb"),
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        write(&self.source, SOURCE.as_bytes(), 0o644)?;
        write(&self.script, SCRIPT.as_bytes(), 0o644)?;
        write(&self.program, PROGRAM, 0o755)
    }
}

/// Writes a temporary file and renames it: a sample program that still runs somewhere is not changed.
fn write(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let attempt = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode))?;
        file.persist(path)?;
        Ok(())
    };
    attempt().with_context(|| {
        format!(
            "cannot write {}; choose another place with -o FOLDER/tracewire-demo.tf",
            path.display()
        )
    })
}
