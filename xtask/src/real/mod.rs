//! `cargo xtask real`: real programs, traced as their users would.
//!
//! Each program is started under `record` and attached to while it has work to do. The values of the frames are held against
//! the program's own log, its answers against what they must be, and its throughput against the same work untraced, under
//! bpftrace and under GDB's `dprintf`, all in one run.

mod programs;
mod subject;
mod tracers;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::running::Running;
use crate::setup::Need;
use crate::{setup, workspace};
use subject::Subject;
use tracers::Tracewire;

#[derive(clap::Args)]
pub struct Arguments {
    /// Only these programs (all, without)
    programs: Vec<String>,
    /// How often the throughput of each tool is taken; 0: values only
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// List the programs and end
    #[arg(long)]
    list: bool,
}

const NEEDS: &[Need] = &[
    Need {
        what: "cc",
        package: "gcc",
    },
    Need {
        what: "gdb",
        package: "gdb",
    },
    Need {
        what: "bpftrace",
        package: "bpftrace",
    },
];

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut subjects = programs::all();
    if arguments.list {
        for subject in &subjects {
            println!("{}", subject.name());
        }
        return Ok(());
    }
    if let Some(unknown) = arguments
        .programs
        .iter()
        .find(|name| !subjects.iter().any(|subject| subject.name() == *name))
    {
        bail!("no program is named {unknown}; `cargo xtask real --list` lists them");
    }
    subjects.retain(|subject| {
        arguments.programs.is_empty()
            || arguments.programs.iter().any(|name| name == subject.name())
    });
    setup::provide(NEEDS)?;
    let tracewire = Tracewire::new(workspace::tracewire()?);
    let (mut passed, mut failed) = (0, 0);
    println!(
        "{:<12} {:>9} {:>9} {:>12} {:>10} {:>10} {:>10}",
        "program", "launched", "attached", "untraced/s", "tracewire", "bpftrace", "dprintf"
    );
    for subject in &mut subjects {
        match examine(subject.as_mut(), &tracewire, arguments.rounds) {
            Ok(row) => {
                println!("{row}");
                passed += 1;
            }
            Err(error) => {
                println!("{:<12} FAILED: {error:#}", subject.name());
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        bail!("{failed} of {} programs failed", passed + failed);
    }
    Ok(())
}

/// Everything about one program: a row of the table.
fn examine(subject: &mut dyn Subject, tracewire: &Tracewire, rounds: usize) -> Result<String> {
    setup::provide(subject.needs())?;
    let directory = tempfile::tempdir()?;
    // A service that gives up root reads its files here, too.
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
    subject
        .prepare(directory.path())
        .context("cannot be prepared")?;
    let file = directory.path().join("run");
    let launched = launched(subject, tracewire, &file).context("launched")?;
    let attached = attached(subject, tracewire, &file).context("attached")?;
    let mut untraced = Vec::new();
    let mut shares = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let base = throughput(subject, None, tracewire, &file).context("untraced")?;
        untraced.push(base);
        for (tool, share) in [Tool::Tracewire, Tool::Bpftrace, Tool::Gdb]
            .into_iter()
            .zip(&mut shares)
        {
            if tool.can_ask(subject) {
                let rate = throughput(subject, Some(tool), tracewire, &file)
                    .with_context(|| format!("under {tool:?}"))?;
                share.push(rate / base);
            }
        }
    }
    let median = crate::ratio::median;
    let share = |shares: &[f64]| {
        if shares.is_empty() {
            "-".to_owned()
        } else {
            format!("{:.3}", median(shares))
        }
    };
    Ok(format!(
        "{:<12} {launched:>9} {attached:>9} {:>12.0} {:>10} {:>10} {:>10}",
        subject.name(),
        median(&untraced),
        share(&shares[0]),
        share(&shares[1]),
        share(&shares[2]),
    ))
}

/// Starts the program under `record`; how many hits of the work there were.
fn launched(subject: &mut dyn Subject, tracewire: &Tracewire, file: &Path) -> Result<usize> {
    let command = subject.command()?;
    let mut record = tracewire.launch(subject, file, &command)?;
    subject.ready(&mut record, true)?;
    let size = subject.size() / 10;
    subject.work(&mut record, size)?;
    subject.stop(&mut record)?;
    record.succeed()?;
    compare(subject, tracewire, file)
}

/// Attaches `record` to the program, and leaves it before the program ends where that does not end by its work.
fn attached(subject: &mut dyn Subject, tracewire: &Tracewire, file: &Path) -> Result<usize> {
    let mut program = Running::start(&mut subject.command()?)?;
    subject.ready(&mut program, true)?;
    let mut record = tracewire.attach(subject, file, &program)?;
    let size = subject.size() / 10;
    subject.work(&mut program, size)?;
    record.signal(libc::SIGINT)?;
    record.succeed()?;
    subject.stop(&mut program)?;
    compare(subject, tracewire, file)
}

/// Compares the frames with the program's log. Returns how many of them belong to the work.
fn compare(subject: &mut dyn Subject, tracewire: &Tracewire, file: &Path) -> Result<usize> {
    let mut seen: BTreeMap<String, i64> = BTreeMap::new();
    let mut hits = 0;
    for hit in tracewire.hits(file)? {
        if let Some(line) = subject.logged(&hit) {
            *seen.entry(line).or_default() += 1;
            hits += 1;
        }
    }
    for line in subject.log()? {
        *seen.entry(line).or_default() -= 1;
    }
    seen.retain(|_, count| *count != 0);
    if !seen.is_empty() {
        let some: Vec<_> = seen
            .iter()
            .take(5)
            .map(|(line, count)| format!("{line}: {count:+}"))
            .collect();
        bail!(
            "{} values differ from the program's log (hits less lines): {}",
            seen.len(),
            some.join(", ")
        );
    }
    if hits == 0 {
        bail!("no hit");
    }
    tracewire.check(file)?;
    Ok(hits)
}

/// The tool that traces the program while its throughput is measured.
#[derive(Clone, Copy, Debug)]
enum Tool {
    Tracewire,
    Bpftrace,
    Gdb,
}

impl Tool {
    fn can_ask(self, subject: &dyn Subject) -> bool {
        match self {
            Self::Tracewire => true,
            Self::Bpftrace => subject.bpftrace().is_some(),
            Self::Gdb => subject.dprintf().is_some(),
        }
    }

    fn attach(
        self,
        subject: &dyn Subject,
        tracewire: &Tracewire,
        file: &Path,
        program: &Running,
    ) -> Result<Running> {
        let question = match self {
            Self::Tracewire => return tracewire.attach(subject, file, program),
            Self::Bpftrace => subject.bpftrace(),
            Self::Gdb => subject.dprintf(),
        }
        .context("the tool has no question")?;
        match self {
            Self::Bpftrace => tracers::bpftrace(&question, program.id()),
            _ => tracers::gdb(&question, program.id()),
        }
    }
}

/// The operations a second while a tool traces the program, or nothing does.
fn throughput(
    subject: &mut dyn Subject,
    tool: Option<Tool>,
    tracewire: &Tracewire,
    file: &Path,
) -> Result<f64> {
    let mut program = Running::start(&mut subject.command()?)?;
    subject.ready(&mut program, false)?;
    let mut tracer = match tool {
        Some(tool) => Some(tool.attach(subject, tracewire, file, &program)?),
        None => None,
    };
    let size = match tool {
        // A stop for each hit takes a thousand times as long.
        Some(Tool::Gdb) => subject.size() / 20,
        _ => subject.size(),
    };
    let work = subject.work(&mut program, size)?;
    if let Some(tracer) = &tracer {
        tracer.signal(libc::SIGINT)?;
    }
    subject.stop(&mut program)?;
    if let Some(tracer) = &mut tracer {
        tracer.finish()?;
    }
    Ok(work.rate())
}
