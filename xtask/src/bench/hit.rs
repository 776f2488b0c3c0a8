//! `cargo xtask bench hit`: the same program, the same two values, each tool in turn.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::median;
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each tool has its turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many hits Tracewire and the uprobe get in a turn; gdbserver gets a tenth
    #[arg(long, default_value_t = 100_000)]
    hits: u64,
}

/// What a tool costs the program, in nanoseconds a call of the traced function.
struct Turns {
    name: &'static str,
    hit: Vec<f64>,
    false_condition: Vec<f64>,
}

impl Turns {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            hit: Vec::new(),
            false_condition: Vec::new(),
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(setup::FOR_BENCH_HIT)?;
    let tracewire = workspace::tracewire()?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("hit");
    workspace::run(
        Command::new("cc")
            .args(["-g", "-O1", "-o"])
            .arg(&program)
            .arg(workspace::root().join("xtask/programs/hit.c")),
    )?;

    let mut ours = Turns::new("tracewire");
    let mut gdbserver = Turns::new("gdbserver trap");
    let mut uprobe = Turns::new("uprobe");
    let mut untraced = Vec::new();
    let mut uprobe_refused = None;
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        untraced.push(nanoseconds_per_call(
            Command::new(&program).arg(arguments.hits.to_string()),
        )?);
        for (condition, turns) in [
            (None, &mut ours.hit),
            (Some("index < 0"), &mut ours.false_condition),
        ] {
            turns.push(with_tracewire(
                &tracewire,
                &program,
                arguments.hits,
                condition,
            )?);
        }
        for (condition, turns) in [
            (None, &mut gdbserver.hit),
            (Some("index < 0"), &mut gdbserver.false_condition),
        ] {
            turns.push(with_gdbserver(&program, arguments.hits / 10, condition)?);
        }
        if uprobe_refused.is_none() {
            match with_uprobe(&program, arguments.hits) {
                Ok(cost) => uprobe.hit.push(cost),
                Err(error) => uprobe_refused = Some(error),
            }
        }
    }

    println!(
        "untraced call            {:>10.3} µs",
        median(&untraced) / 1000.0
    );
    println!(
        "{:<24} {:>13} {:>18} {:>16}",
        "", "hit, µs", "false condition, µs", "hits a turn"
    );
    for (turns, hits) in [
        (&ours, arguments.hits),
        (&gdbserver, arguments.hits / 10),
        (&uprobe, arguments.hits),
    ] {
        if !turns.hit.is_empty() {
            println!(
                "{:<24} {:>13.2} {:>18} {:>16}",
                turns.name,
                median(&turns.hit) / 1000.0,
                if turns.false_condition.is_empty() {
                    "-".to_owned()
                } else {
                    format!("{:.2}", median(&turns.false_condition) / 1000.0)
                },
                hits,
            );
        }
    }
    if let Some(error) = uprobe_refused {
        println!("uprobe: not measured: {error:#}");
    }
    print_ratio("a hit: gdbserver / tracewire", &gdbserver.hit, &ours.hit);
    print_ratio(
        "a false condition: gdbserver / tracewire",
        &gdbserver.false_condition,
        &ours.false_condition,
    );
    if !uprobe.hit.is_empty() {
        print_ratio("a hit: uprobe / tracewire", &uprobe.hit, &ours.hit);
    }
    Ok(())
}

/// Ratios are taken turn by turn, since the machine's speed drifts.
fn print_ratio(what: &str, peer: &[f64], ours: &[f64]) {
    let ratios: Vec<_> = peer
        .iter()
        .zip(ours)
        .map(|(peer, ours)| peer / ours)
        .collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    println!(
        "{what}: {:.1} times ({least:.1} to {most:.1})",
        median(&ratios)
    );
}

fn with_tracewire(
    tracewire: &Path,
    program: &Path,
    hits: u64,
    condition: Option<&str>,
) -> Result<f64> {
    let file = program.with_extension("tf");
    let condition = condition.map_or_else(String::new, |condition| format!(" if {condition}"));
    nanoseconds_per_call(
        Command::new(tracewire)
            .arg("record")
            .args(["--circular", "--buffer-size", "5242880"])
            .args(["-t", &format!("work{condition} : collect index, *text")])
            .arg("-o")
            .arg(file)
            .arg("--")
            .arg(program)
            .arg(hits.to_string()),
    )
}

fn with_gdbserver(program: &Path, hits: u64, condition: Option<&str>) -> Result<f64> {
    let script = program.with_extension("gdb");
    let condition = condition.map_or_else(String::new, |condition| format!(" if {condition}"));
    fs::write(
        &script,
        format!(
            "set pagination off\nset confirm off\nset sysroot\n\
             target remote | gdbserver --once - {} {hits}\n\
             break main\ncontinue\nset circular-trace-buffer on\n\
             trace work{condition}\nactions\ncollect index, *text\nend\n\
             tstart\ncontinue\n",
            program.display()
        ),
    )?;
    nanoseconds_per_call(
        Command::new("gdb")
            .args(["-nx", "-batch", "-x"])
            .arg(script)
            .arg(program),
    )
}

/// Runs the program, whose line on stdout says what a call took.
fn nanoseconds_per_call(command: &mut Command) -> Result<f64> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .chain(String::from_utf8_lossy(&output.stderr).lines())
        .find_map(|line| {
            line.split("nanoseconds per call: ")
                .nth(1)?
                .trim()
                .parse()
                .ok()
        })
        .with_context(|| {
            format!(
                "{command:?} printed no figure; it printed:\n{text}{}",
                String::from_utf8_lossy(&output.stderr)
            )
        })
}

/// The kernel's own: two values into the trace ring, by a uprobe event.
fn with_uprobe(program: &Path, hits: u64) -> Result<f64> {
    let tracing = Path::new("/sys/kernel/tracing");
    let events = tracing.join("uprobe_events");
    if !events.exists() {
        workspace::output(
            Command::new("mount")
                .args(["-t", "tracefs", "tracefs"])
                .arg(tracing),
        )?;
    }
    let symbols = workspace::output(Command::new("nm").arg(program))?;
    let address = symbols
        .lines()
        .find_map(|line| line.strip_suffix(" t work"))
        .context("nm shows no function `work`")?;
    // The program is linked so that its text's file offsets are its addresses.
    let offset = u64::from_str_radix(address, 16)?;
    let probe = format!(
        "p:tracewire/work {}:{offset:#x} index=%di:s64 text=+0(%si):u8",
        program.display()
    );
    append(&events, &probe).context("the kernel refuses the uprobe")?;
    let enable = tracing.join("events/tracewire/work/enable");
    let result = fs::write(&enable, "1")
        .context("cannot enable the uprobe")
        .and_then(|()| nanoseconds_per_call(Command::new(program).arg(hits.to_string())));
    // Taken out whatever happened.
    let _ = fs::write(&enable, "0");
    let _ = append(&events, "-:tracewire/work");
    result
}

fn append(file: &Path, line: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .append(true)
        .open(file)?
        .write_all(line.as_bytes())
}
