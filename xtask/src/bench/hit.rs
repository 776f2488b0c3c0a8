//! `cargo xtask bench hit`: the same program, the same two values, each tool in turn.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ratio::{median, print_ratio};
use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// How often each tool has its turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many hits Tracewire's traps and the uprobe get in a turn; jumps get fifty times as many, gdbserver's traps a
    /// tenth
    #[arg(long, default_value_t = 100_000)]
    hits: u64,
}

/// Values that a rule walks: what is collected, the program and its arguments, and the most that a hit is to cost, in µs.
const VALUES: [(&str, &str, &str, &str, f64); 4] = [
    (
        "a std::string of 20 bytes",
        "values-cpp",
        "string",
        "see_string : text",
        0.25,
    ),
    (
        "a Vec<u32> of 4",
        "values-rust",
        "",
        "see_numbers : numbers",
        0.25,
    ),
    (
        "a std::string and a std::vector",
        "values-cpp",
        "string",
        "see_string : text, numbers",
        0.25,
    ),
    (
        "a structure of five of these",
        "values-cpp",
        "five",
        "see_five : five",
        1.0,
    ),
];

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
            .args(["-g", "-O1", "-pthread", "-o"])
            .arg(&program)
            .arg(workspace::root().join("xtask/programs/hit.c")),
    )?;

    let fixed = folder.path().join("hit-fixed");
    workspace::run(
        Command::new("cc")
            .args(["-g", "-O1", "-pthread", "-no-pie", "-o"])
            .arg(&fixed)
            .arg(workspace::root().join("xtask/programs/hit.c")),
    )?;

    let with_pointers = folder.path().join("hit-with-frame-pointers");
    workspace::run(
        Command::new("cc")
            .args(["-g", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o"])
            .arg(&with_pointers)
            .arg(workspace::root().join("xtask/programs/hit.c")),
    )?;

    let mut valued = VALUES.map(|_| Vec::new());
    build_values(folder.path())?;

    // Into a circular buffer, as gdbserver's.
    let mut jump = Turns::new("tracewire, jump");
    let mut into_file = Turns::new("tracewire, jump, all in a file");
    let mut two = Turns::new("tracewire, jump, two threads");
    let mut served = Turns::new("tracewire gdbserver, all in a buffer");
    let mut trap = Turns::new("tracewire, trap");
    let mut fast = Turns::new("gdbserver, fast");
    let mut slow = Turns::new("gdbserver, trap");
    let mut uprobe = Turns::new("uprobe");
    let mut uprobe_at_nop = Turns::new("uprobe at a five-byte nop");
    let mut span = Turns::new("tracewire, a span by jumps");
    let mut count = Turns::new("tracewire, count() by an integer");
    let mut timed = Turns::new("tracewire, a span, hist($duration)");
    let mut uprobe_span = Turns::new("uprobe and uretprobe");
    let (mut flow, mut stacks) = (Vec::new(), Vec::new());
    let (mut untraced, mut floor, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fast_refused, mut uprobe_refused) = (None, None);
    let mut bytes_a_frame = 0;
    // A pad is so much faster that it needs more of them to be measured; but a file of all has a size.
    let many = arguments.hits * 50;
    let filed = arguments.hits * 10;
    let frame_bytes = frame_bytes(&tracewire, &program)?;
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        untraced.push(nanoseconds_per_call(
            Command::new(&program).arg(many.to_string()),
        )?);
        floor.push(nanoseconds_per_call(
            Command::new(&program).args(["floor", &frame_bytes.to_string()]),
        )?);
        let false_condition = Some("index < 0");
        for (options, threads, hits, turns) in [
            (
                &["--mechanism", "jump", "--circular"][..],
                "1",
                many,
                &mut jump,
            ),
            (&["--mechanism", "jump"], "1", filed, &mut into_file),
            (&["--mechanism", "jump", "--circular"], "2", many, &mut two),
            (&["--mechanism", "trap"], "1", arguments.hits, &mut trap),
        ] {
            let run = |condition| {
                let arguments = [&hits.to_string(), threads];
                with_tracewire(&tracewire, &program, options, &arguments, condition, "work")
            };
            turns.hit.push(run(None)?);
            turns.false_condition.push(run(false_condition)?);
        }
        empty.push(with_tracewire(
            &tracewire,
            &program,
            &["--mechanism", "jump", "--circular"],
            &[&many.to_string(), "1"],
            Some("0"),
            "work",
        )?);
        span.hit.push(with_tracewire(
            &tracewire,
            &program,
            &["--mechanism", "jump", "--circular"],
            &[&many.to_string(), "1"],
            None,
            "span work",
        )?);
        flow.push(with_calls(&tracewire, &program)?);
        stacks.push(with_tracewire(
            &tracewire,
            &with_pointers,
            &["--mechanism", "jump", "--circular"],
            &[&many.to_string(), "1", CALLERS],
            None,
            "work : $stack_fp(16)",
        )?);
        for ((_, name, arguments, tracepoint, _), costs) in VALUES.iter().zip(&mut valued) {
            costs.push(nanoseconds_per_call(
                Command::new(&tracewire)
                    .args([
                        "record",
                        "--mechanism",
                        "jump",
                        "--circular",
                        "-t",
                        tracepoint,
                    ])
                    .arg("-o")
                    .arg(program.with_extension("tf"))
                    .arg("--")
                    .arg(folder.path().join(name))
                    .args(arguments.split_whitespace())
                    .arg(filed.to_string()),
            )?);
        }
        for (location, turns) in [
            ("work : count() by index & 15", &mut count),
            ("span work : hist($duration)", &mut timed),
        ] {
            turns.hit.push(with_tracewire(
                &tracewire,
                &program,
                &["--mechanism", "jump"],
                &[&many.to_string(), "1"],
                None,
                location,
            )?);
        }
        for (condition, costs) in [
            (None, &mut served.hit),
            (false_condition, &mut served.false_condition),
        ] {
            let run = with_our_server(&tracewire, &program, filed, condition)?;
            // It calls the function a hundred times more to be warm.
            let expected = if condition.is_none() { filed + 100 } else { 0 };
            if run.frames != expected {
                bail!("{} frames of {expected} are in the buffer", run.frames);
            }
            bytes_a_frame = bytes_a_frame.max(run.bytes.checked_div(run.frames).unwrap_or(0));
            costs.push(run.cost);
        }
        let hits = arguments.hits / 10;
        slow.hit.push(with_gdbserver(&program, hits, None, false)?);
        slow.false_condition
            .push(with_gdbserver(&program, hits, false_condition, false)?);
        if fast_refused.is_none() {
            let run = |condition| with_gdbserver(&fixed, arguments.hits, condition, true);
            match run(None).and_then(|hit| Ok((hit, run(false_condition)?))) {
                Ok((hit, false_condition)) => {
                    fast.hit.push(hit);
                    fast.false_condition.push(false_condition);
                }
                Err(error) => fast_refused = Some(error),
            }
        }
        if uprobe_refused.is_none() {
            let run = |offset, returns| with_uprobe(&program, offset, returns, arguments.hits);
            let runs = || -> Result<_> { Ok((run(NOP, false)?, run(0, false)?, run(NOP, true)?)) };
            match runs() {
                Ok((cost, at_nop, with_return)) => {
                    uprobe.hit.push(cost);
                    uprobe_at_nop.hit.push(at_nop);
                    uprobe_span.hit.push(with_return);
                }
                Err(error) => uprobe_refused = Some(error),
            }
        }
    }

    println!(
        "untraced call                      {:>10.4} µs",
        median(&untraced) / 1000.0
    );
    println!(
        "floor: a frame copied, and a time  {:>10.4} µs ({frame_bytes} bytes)",
        median(&floor) / 1000.0
    );
    println!(
        "floor: a pad that does nothing     {:>10.4} µs",
        median(&empty) / 1000.0
    );
    println!(
        "{:<32} {:>13} {:>18} {:>16}",
        "", "hit, µs", "false condition, µs", "hits a turn"
    );
    for (turns, hits) in [
        (&jump, many),
        (&two, 2 * many),
        (&into_file, filed),
        (&served, filed),
        (&span, many),
        (&count, many),
        (&timed, many),
        (&trap, arguments.hits),
        (&fast, arguments.hits),
        (&slow, arguments.hits / 10),
        (&uprobe, arguments.hits),
        (&uprobe_at_nop, arguments.hits),
        (&uprobe_span, arguments.hits),
    ] {
        if !turns.hit.is_empty() {
            println!(
                "{:<32} {:>13.4} {:>18} {:>16}",
                turns.name,
                median(&turns.hit) / 1000.0,
                if turns.false_condition.is_empty() {
                    "-".to_owned()
                } else {
                    format!("{:.4}", median(&turns.false_condition) / 1000.0)
                },
                hits,
            );
        }
    }
    println!(
        "tracewire calls, an event of an entry or an exit: {:.4} µs, limit {FLOW_LIMIT} µs",
        (median(&flow) - median(&untraced)) / 2.0 / 1000.0
    );
    println!(
        "a hit by jump, a stack of 16 by frame pointers: {:.4} µs, limit {STACK_LIMIT} µs",
        median(&stacks) / 1000.0
    );
    println!("tracewire gdbserver: {bytes_a_frame} bytes a frame");
    for ((what, _, _, tracepoint, limit), costs) in VALUES.iter().zip(&valued) {
        println!(
            "a hit by jump, {what} ({tracepoint}): {:.4} µs, limit {limit} µs",
            median(costs) / 1000.0
        );
    }
    if let Some(error) = fast_refused {
        println!("gdbserver, fast: not measured: {error:#}");
    }
    if let Some(error) = uprobe_refused {
        println!("uprobe: not measured: {error:#}");
    }
    for (what, peer, ours) in [
        ("a hit: gdbserver's fast / jump", &fast.hit, &jump.hit),
        (
            "a false condition: gdbserver's fast / jump",
            &fast.false_condition,
            &jump.false_condition,
        ),
        ("a hit: gdbserver's trap / jump", &slow.hit, &jump.hit),
        (
            "a hit: tracewire gdbserver / the floor",
            &served.hit,
            &floor,
        ),
        (
            "a hit: tracewire gdbserver / an untraced call",
            &served.hit,
            &untraced,
        ),
        ("a hit: uprobe / jump", &uprobe.hit, &jump.hit),
        (
            "a hit: uprobe at a five-byte nop / jump",
            &uprobe_at_nop.hit,
            &jump.hit,
        ),
        (
            "a span: uprobe and uretprobe / jumps",
            &uprobe_span.hit,
            &span.hit,
        ),
        ("a hit: uprobe / count()", &uprobe.hit, &count.hit),
        (
            "a span: uprobe and uretprobe / hist($duration)",
            &uprobe_span.hit,
            &timed.hit,
        ),
        ("a hit: gdbserver's trap / trap", &slow.hit, &trap.hit),
        (
            "a false condition: gdbserver's trap / trap",
            &slow.false_condition,
            &trap.false_condition,
        ),
        ("throughput of two threads / one", &jump.hit, &two.hit),
        ("a hit by jump / the floor", &jump.hit, &floor),
        (
            "a false condition by jump / an empty pad",
            &jump.false_condition,
            &empty,
        ),
    ] {
        if !peer.is_empty() {
            print_ratio(what, peer, ours);
        }
    }
    Ok(())
}

/// Builds the programs whose values have rules.
fn build_values(folder: &Path) -> Result<()> {
    let programs = workspace::root().join("xtask/programs");
    workspace::run(
        Command::new("c++")
            .args(["-std=c++17", "-g", "-O2", "-o"])
            .arg(folder.join("values-cpp"))
            .arg(programs.join("values.cpp")),
    )?;
    workspace::run(
        Command::new("rustc")
            .args(["--edition=2021", "-g", "-Copt-level=2", "-o"])
            .arg(folder.join("values-rust"))
            .arg(programs.join("values.rs")),
    )
}

fn with_tracewire(
    tracewire: &Path,
    program: &Path,
    options: &[&str],
    arguments: &[&str],
    condition: Option<&str>,
    location: &str,
) -> Result<f64> {
    let file = program.with_extension("tf");
    let (location, list) = match location {
        "work" => (location, "index, *text"),
        _ => location
            .split_once(" : ")
            .unwrap_or((location, "index, *text, $retval")),
    };
    let condition = condition.map_or_else(String::new, |condition| format!(" if {condition}"));
    nanoseconds_per_call(
        Command::new(tracewire)
            .arg("record")
            .args(options)
            .args(if options.contains(&"--circular") {
                &[][..]
            } else {
                &["--buffer-size", "5368709120"]
            })
            .args(["-t", &format!("{location}{condition} : {list}")])
            .arg("-o")
            .arg(file)
            .arg("--")
            .arg(program)
            .args(arguments),
    )
}

/// How long a frame of the hits is.
fn frame_bytes(tracewire: &Path, program: &Path) -> Result<u64> {
    let options = ["--mechanism", "jump"];
    with_tracewire(tracewire, program, &options, &["1000", "1"], None, "work")?;
    let info = Command::new(tracewire)
        .args(["info", "--json"])
        .arg(program.with_extension("tf"))
        .output()
        .context("cannot start tracewire")?;
    let info: serde_json::Value = serde_json::from_slice(&info.stdout)?;
    let number = |name: &str| {
        let tracepoint = info.pointer("/tracepoints/0");
        tracepoint.and_then(|tracepoint| tracepoint.get(name)?.as_u64())
    };
    (number("usage").zip(number("hits")))
        .and_then(|(bytes, hits)| bytes.checked_div(hits))
        .with_context(|| format!("no usage of a tracepoint: {info}"))
}

/// How many calls are followed at once: their events have room in a ring, whether its reader has a processor or not.
const FLOW_CALLS: u64 = 60_000;
/// The most that an event of a call is to cost, in µs.
const FLOW_LIMIT: f64 = 0.02;

/// How many callers a thread's function has whose stack is collected.
const CALLERS: &str = "16";
/// The most that such a hit is to cost, in µs.
const STACK_LIMIT: f64 = 0.15;

/// The calls of the function followed, an entry and an exit each.
fn with_calls(tracewire: &Path, program: &Path) -> Result<f64> {
    let output = Command::new(tracewire)
        .args(["calls", "--hot", "none", "work", "--"])
        .arg(program)
        .arg(FLOW_CALLS.to_string())
        .output()
        .context("cannot start tracewire")?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // It calls the function a hundred times more to be warm.
    let calls = format!(" {}  work\n", FLOW_CALLS + 100);
    if !text.contains(&calls) {
        bail!("not all calls were followed:\n{text}");
    }
    printed_cost(&text).with_context(|| format!("no figure:\n{text}"))
}

/// A run of ours that GDB has made.
struct ServedRun {
    /// In nanoseconds a call.
    cost: f64,
    frames: u64,
    /// What the frames take of the buffer.
    bytes: u64,
}

/// What GDB's `tstatus` says before and behind a number.
fn number_between(text: &str, before: &str, after: &str) -> Result<u64> {
    let number = text
        .split_once(before)
        .and_then(|(_, rest)| rest.split_once(after));
    let (number, _) = number.with_context(|| format!("GDB said no `{before}`, but:\n{text}"))?;
    number.trim().parse().context("no number")
}

/// Stock GDB's fast tracepoint, into a buffer of 400 MB.
fn with_our_server(
    tracewire: &Path,
    program: &Path,
    hits: u64,
    condition: Option<&str>,
) -> Result<ServedRun> {
    const BUFFER: u64 = 400_000_000;
    let script = program.with_extension("gdb");
    let condition = condition.map_or_else(String::new, |condition| format!(" if {condition}"));
    fs::write(
        &script,
        format!(
            "set pagination off\nset confirm off\nset sysroot\n\
             target remote | {} gdbserver --once - {} {hits}\n\
             break main\ncontinue\nset trace-buffer-size {BUFFER}\n\
             ftrace work{condition}\nactions\ncollect index, *text\nend\n\
             break _exit\ntstart\ncontinue\ntstop\ntstatus\n",
            tracewire.display(),
            program.display()
        ),
    )?;
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-x"])
        .arg(script)
        .arg(program)
        .output()
        .context("cannot start gdb")?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Ok(ServedRun {
        cost: printed_cost(&text).with_context(|| format!("no figure; GDB said:\n{text}"))?,
        frames: number_between(&text, "Collected ", " trace frames")?,
        bytes: BUFFER - number_between(&text, "Trace buffer has ", " bytes of")?,
    })
}

fn with_gdbserver(program: &Path, hits: u64, condition: Option<&str>, fast: bool) -> Result<f64> {
    const AGENT: &str = "/usr/lib/libinproctrace.so";
    let (wrapper, command) = if fast {
        (format!("--wrapper env LD_PRELOAD={AGENT} -- "), "ftrace")
    } else {
        (String::new(), "trace")
    };
    let script = program.with_extension("gdb");
    let condition = condition.map_or_else(String::new, |condition| format!(" if {condition}"));
    fs::write(
        &script,
        format!(
            "set pagination off\nset confirm off\nset sysroot\n\
             target remote | gdbserver --once {wrapper}- {} {hits}\n\
             break main\ncontinue\nset circular-trace-buffer on\n\
             {command} work{condition}\nactions\ncollect index, *text\nend\n\
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
pub(super) fn nanoseconds_per_call(command: &mut Command) -> Result<f64> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    printed_cost(&text)
        .with_context(|| format!("{command:?} printed no figure; it printed:\n{text}"))
}

/// What the program says that a call took, in nanoseconds.
pub(super) fn printed_cost(text: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let (_, cost) = line.split_once("nanoseconds per call: ")?;
        cost.trim().parse().ok()
    })
}

/// The kernel's own: two values into the trace ring, by a uprobe event.
/// The length of the first instruction of `work`, which is a nop: since 6.18, Linux makes such a one a call, as it does
/// of no other instruction.
const NOP: u64 = 5;

/// A uprobe at the instruction this far into the function, and one at its return with the value.
fn with_uprobe(program: &Path, instruction: u64, returns: bool, hits: u64) -> Result<f64> {
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
    let start = u64::from_str_radix(address, 16)?;
    let offset = start + instruction;
    let probe = format!(
        "p:tracewire/work {}:{offset:#x} index=%di:s64 text=+0(%si):u8",
        program.display()
    );
    append(&events, &probe).context("the kernel refuses the uprobe")?;
    let mut enabled = vec!["work"];
    if returns {
        let probe = format!(
            "r:tracewire/work_return {}:{start:#x} value=$retval:s64",
            program.display()
        );
        if let Err(error) = append(&events, &probe) {
            let _ = append(&events, "-:tracewire/work");
            return Err(error).context("the kernel refuses the uretprobe");
        }
        enabled.push("work_return");
    }
    let set = |state: &str| {
        enabled.iter().try_for_each(|name| {
            fs::write(
                tracing.join(format!("events/tracewire/{name}/enable")),
                state,
            )
        })
    };
    let result = set("1")
        .context("cannot enable the uprobe")
        .and_then(|()| nanoseconds_per_call(Command::new(program).arg(hits.to_string())));
    // Taken out whatever happened.
    let _ = set("0");
    for name in enabled {
        let _ = append(&events, &format!("-:tracewire/{name}"));
    }
    result
}

fn append(file: &Path, line: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .append(true)
        .open(file)?
        .write_all(line.as_bytes())
}
