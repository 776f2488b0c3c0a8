//! `qemu`: QEMU with the plugin that records the guest's execution, or the data of its tracepoints, or serves a debugger's.

mod debugger;
mod tracepoints;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, bail};
use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use tracewire_debuginfo::{Function, Symbols};
use tracewire_packets::ConnectionAddress;

use crate::answer::Answer;
use crate::value_parser::{parse_address, parse_size};

pub const HELP: &str = "\
QEMU runs as its own command line says, and writes each executed instruction with its memory accesses and the registers that it changed. \
It needs QEMU 10.0 or later, built with plugins, and its emulation (not KVM).

The plugin is libtracewire_qemu_plugin.so, of the crate tracewire-qemu-plugin; it is looked for beside this program and in the library directories.

The file is QEMU4V's text, compressed where its name ends in .zst. What is in it when QEMU is killed can be used.

With -x or -t it runs tracepoints in place of that: conditions are evaluated and values collected inside QEMU, and the guest does not stop for them. \
The frames are those of `record --upstream` on the same script, in a trace file that GDB opens. The run ends with a pass count, a full buffer or \
an error, and QEMU with it unless --keep-running is given; or it ends with QEMU. Watches are refused, and so are \
conditions on eflags of x86, which QEMU does not have while the guest runs.

With --gdb it waits for GDB, whose tracepoints then work with QEMU, which has none: the plugin carries them out, and the guest does not stop \
at them. Breakpoints, steps and all else are those of QEMU. A run with what the plugin refuses stops the guest at its tracepoints, and says why.

Examples:
  tracewire qemu -o run.trace -- qemu-system-riscv64 -M virt -nographic -bios firmware.elf
  tracewire qemu --limit 1000000 -o run.trace.zst -- qemu-system-aarch64 -M virt -cpu cortex-a57 -kernel image.elf
  tracewire qemu --elf app.elf --function 'update' --start main -- qemu-system-arm -M lm3s6965evb -kernel app.elf
  tracewire show run.trace --instruction 0..20
  tracewire qemu --elf app.elf -x script.gdb -o run.tf -- qemu-system-arm -M lm3s6965evb -kernel app.elf
  tracewire qemu --elf app.elf -t 'update if size > 64 : $args' -o run.tf -- qemu-system-arm -M lm3s6965evb -kernel app.elf
  tracewire qemu --gdb :2345 -- qemu-system-arm -M lm3s6965evb -kernel app.elf
      and in GDB:  target remote :2345";

/// The plugin's file.
const PLUGIN: &str = "libtracewire_qemu_plugin.so";

/// The file where none is named.
const OUTPUT: &str = "qemu.trace";

/// The environment variable that names it.
const VARIABLE: &str = "TRACEWIRE_QEMU_PLUGIN";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("experiment").args(["scripts", "tracepoints"]).multiple(true))]
pub struct QemuArguments {
    /// The file to write; compressed where it ends in .zst [default: qemu.trace, with -x or -t qemu.tf]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Run the tracepoints of a file of GDB's commands; may be given several times
    #[arg(short = 'x', long = "script", value_name = "SCRIPT", requires = "elf", value_hint = ValueHint::FilePath)]
    pub scripts: Vec<PathBuf>,
    #[arg(
        help = "Run a tracepoint: 'LOCATION [if COND] [PICK] [: LIST]'; may be given several times",
        short = 't',
        long = "tracepoint",
        value_name = "SPEC",
        allow_hyphen_values = true,
        requires = "elf"
    )]
    pub tracepoints: Vec<String>,
    /// How much tracepoints keep: bytes, or with KiB, MiB, GiB [default: 1GiB; with --circular 5MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "experiment")]
    pub buffer_size: Option<u64>,
    /// When the buffer is full, let the oldest frames go instead of ending the run
    #[arg(long, requires = "experiment")]
    pub circular: bool,
    /// Set tracepoints at all places of a pattern, even if it has more than 1000
    #[arg(short, long, requires = "experiment")]
    pub yes: bool,
    /// Which registers: those that GDB has for the machine, all of QEMU's (slow), or none
    #[arg(
        long,
        value_name = "WHICH",
        default_value = "standard",
        conflicts_with = "experiment"
    )]
    pub registers: Registers,
    /// Which memory accesses
    #[arg(
        long,
        value_name = "WHICH",
        default_value = "on",
        conflicts_with = "experiment"
    )]
    pub memory: Memory,
    /// Leave the text of instructions out
    #[arg(long, conflicts_with = "experiment")]
    pub no_disassembly: bool,
    /// Record only instructions at these addresses; may be repeated
    #[arg(long, value_name = "FIRST..LAST", value_parser = parse_range, conflicts_with = "experiment")]
    pub range: Vec<(u64, u64)>,
    /// Record only instructions of these functions of --elf; may be repeated
    #[arg(
        long,
        value_name = "NAME",
        requires = "elf",
        conflicts_with = "experiment"
    )]
    pub function: Vec<String>,
    /// The guest's program, for names in -x, -t, --function, --start and --stop; may be repeated
    #[arg(long, value_name = "ELF", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// Record only this cpu; may be repeated
    #[arg(long, value_name = "NUMBER", conflicts_with = "experiment")]
    pub cpu: Vec<u32>,
    /// Begin when the instruction at this address or function of --elf executes
    #[arg(long, value_name = "ADDRESS", conflicts_with = "experiment")]
    pub start: Option<String>,
    /// Begin so many instructions later
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 0,
        conflicts_with = "experiment"
    )]
    pub skip: u64,
    /// End after the instruction at this address or the first one of this function of --elf
    #[arg(long, value_name = "ADDRESS", conflicts_with = "experiment")]
    pub stop: Option<String>,
    /// End after so many instructions
    #[arg(long, value_name = "COUNT", conflicts_with = "experiment")]
    pub limit: Option<u64>,
    /// Go on in another file (NAME.2.trace and so on) when one has this much text: bytes, or with KiB, MiB, GiB. Each can be used without the others
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "experiment")]
    pub split: Option<u64>,
    /// Let the guest run on after --stop, --limit or the run of tracepoints; else QEMU ends then
    #[arg(long)]
    pub keep_running: bool,
    /// Wait for GDB at this address, with the guest stopped before its first instruction: tracepoints of GDB are carried out inside QEMU
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with_all = [
            "output", "experiment", "registers", "memory", "no_disassembly", "range", "function", "elf", "cpu", "start", "skip", "stop",
            "limit", "split", "keep_running",
        ],
    )]
    pub gdb: Option<ConnectionAddress>,
    /// Where GDB may save what a trace run collected (tsave -r); without it, nowhere
    #[arg(long, value_name = "DIR", requires = "gdb", value_hint = ValueHint::DirPath)]
    pub files: Option<PathBuf>,
    /// The plugin, where it is not found; TRACEWIRE_QEMU_PLUGIN names it too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plugin: Option<PathBuf>,
    /// QEMU and its arguments
    #[arg(last = true, required = true, value_name = "QEMU", num_args = 1.., value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Which registers are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Registers {
    Standard,
    All,
    Off,
}

/// Which memory accesses are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Memory {
    On,
    Reads,
    Writes,
    Off,
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = (text.split_once("..")).ok_or("expected FIRST..LAST, two addresses")?;
    let (first, last) = (parse_address(first)?, parse_address(last)?);
    if first > last {
        return Err("the first address is above the last".to_owned());
    }
    Ok((first, last))
}

/// `qemu`.
pub fn qemu(arguments: &QemuArguments) -> anyhow::Result<Answer> {
    let plugin = find_plugin(arguments.plugin.as_deref())?;
    if let Some(address) = &arguments.gdb {
        return debugger::run(arguments, address, plugin);
    }
    if !(arguments.scripts.is_empty() && arguments.tracepoints.is_empty()) {
        return tracepoints::run(arguments, plugin);
    }
    let shown = (arguments.output.as_deref()).unwrap_or(Path::new(OUTPUT));
    let output = std::path::absolute(shown)?;
    let mut all = vec![joined("out=", output.as_os_str())];
    all.extend(options(arguments)?.into_iter().map(OsString::from));
    let before = identity(&output);
    let status = start(plugin, all, &arguments.command)?;
    let shown = shown.display();
    let length = output.metadata().map_or(0, |metadata| metadata.len());
    // A file of that name may be there from before.
    if length == 0 || identity(&output) == before {
        if status.success() {
            message!(
                "tracewire: nothing was recorded; the plugin sees instructions of QEMU's own emulation (-accel tcg) alone"
            );
            return Ok(Answer::No);
        }
        bail!("QEMU ended with {status}, and nothing was recorded; what it said is above");
    }
    if let Some(signal) = status.signal() {
        message!(
            "tracewire: QEMU was killed by signal {signal}; {shown} has what was written before"
        );
    }
    message!(
        "tracewire: look at it with\n  tracewire info {shown}\n  tracewire show {shown} --instruction 0..20\n  tracewire serve :2345 {shown}"
    );
    Ok(Answer::Yes)
}

/// Which file is at a path; none where there is none.
fn identity(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = path.metadata().ok()?;
    Some((
        metadata.dev(),
        metadata.ino(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ))
}

/// Runs QEMU with the plugin and its options, to its end.
fn start(
    plugin: PathBuf,
    options: Vec<OsString>,
    command: &[OsString],
) -> anyhow::Result<ExitStatus> {
    let mut child = spawn(qemu_command(plugin, options, command)?)?;
    // An interrupt from the terminal is QEMU's, which has it too.
    // SAFETY: no function of this program is set.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    Ok(child.wait()?)
}

/// QEMU's command line with the plugin and its options.
fn qemu_command(
    plugin: PathBuf,
    options: Vec<OsString>,
    command: &[OsString],
) -> anyhow::Result<Command> {
    let [qemu, given @ ..] = command else {
        bail!("QEMU's command line is missing: tracewire qemu -- qemu-system-...");
    };
    let mut value = OsString::new();
    for (number, part) in std::iter::once(plugin.into_os_string())
        .chain(options)
        .enumerate()
    {
        if number > 0 {
            value.push(",");
        }
        value.push(without_commas(&part));
    }
    let mut command = Command::new(qemu);
    command.arg("-plugin").arg(value);
    command.args(given);
    Ok(command)
}

/// Starts QEMU.
fn spawn(mut command: Command) -> anyhow::Result<Child> {
    // SAFETY: prctl is a system call, with no memory of this process.
    unsafe {
        // When this program is killed, QEMU ends as after a request.
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    let program = PathBuf::from(command.get_program());
    (command.spawn()).with_context(|| format!("{} cannot be started", program.display()))
}

/// The plugin: the one that is named, else the one beside this program or in a library directory.
fn find_plugin(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let variable = std::env::var_os(VARIABLE).map(PathBuf::from);
    if let Some(path) = named.or(variable.as_deref()) {
        let whole = path.canonicalize();
        return whole.with_context(|| format!("the plugin {}", path.display()));
    }
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent);
    let libraries = ["../lib/tracewire", "../lib", "deps"];
    let near = beside.into_iter().flat_map(|directory| {
        std::iter::once(directory.to_owned())
            .chain(libraries.iter().map(|name| directory.join(name)))
    });
    let far = ["/usr/local/lib/tracewire", "/usr/lib/tracewire"].map(PathBuf::from);
    let mut places = near.chain(far);
    let found = places.find_map(|directory| directory.join(PLUGIN).canonicalize().ok());
    found.with_context(|| {
        format!(
            "{PLUGIN} was not found beside {}; build it with `cargo build --release -p tracewire-qemu-plugin`, and name it with \
             --plugin or {VARIABLE} if it is elsewhere",
            program.as_deref().unwrap_or(Path::new("this program")).display()
        )
    })
}

/// The plugin's options.
fn options(arguments: &QemuArguments) -> anyhow::Result<Vec<String>> {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map_or_else(String::new, |value| value.get_name().to_owned())
    };
    let mut symbols = None;
    for elf in &arguments.elf {
        (symbols.get_or_insert_with(Symbols::new).add_module(elf, 0))
            .with_context(|| format!("{} cannot be used", elf.display()))?;
    }
    let functions = symbols.as_ref().map(Symbols::functions).unwrap_or_default();
    let mut options = vec![
        format!(
            "registers={}",
            name(&|| arguments.registers.to_possible_value())
        ),
        format!("memory={}", name(&|| arguments.memory.to_possible_value())),
    ];
    if arguments.no_disassembly {
        options.push("disassembly=off".to_owned());
    }
    let mut ranges = arguments.range.clone();
    for name in &arguments.function {
        let found = functions_named(&functions, name);
        if found.is_empty() {
            bail!("the program has no function {name:?}");
        }
        let parts = found.iter().flat_map(|function| &function.ranges);
        ranges.extend(parts.map(|(first, end)| (first.0, end.0.saturating_sub(1))));
    }
    options.extend((ranges.iter()).map(|(first, last)| format!("range={first:#x}..{last:#x}")));
    options.extend(arguments.cpu.iter().map(|cpu| format!("cpu={cpu}")));
    for (option, value) in [("start", &arguments.start), ("stop", &arguments.stop)] {
        if let Some(value) = value {
            let address = trigger(symbols.as_ref(), &functions, value)?;
            options.push(format!("{option}={address:#x}"));
        }
    }
    if arguments.skip > 0 {
        options.push(format!("skip={}", arguments.skip));
    }
    if let Some(limit) = arguments.limit {
        options.push(format!("limit={limit}"));
    }
    if let Some(size) = arguments.split {
        options.push(format!("split={size}"));
    }
    if arguments.keep_running {
        options.push("keep-running=on".to_owned());
    }
    Ok(options)
}

fn functions_named<'f>(functions: &'f [Function], name: &str) -> Vec<&'f Function> {
    let is_named = |function: &&Function| {
        function.name == name || function.linkage_name.as_deref() == Some(name)
    };
    functions.iter().filter(is_named).collect()
}

/// The address of an instruction that starts or ends the recording.
fn trigger(symbols: Option<&Symbols>, functions: &[Function], text: &str) -> anyhow::Result<u64> {
    if let Ok(address) = parse_address(text) {
        return Ok(address);
    }
    let symbols =
        symbols.with_context(|| format!("{text:?} is no address; for a name add --elf PROGRAM"))?;
    let symbol = || {
        let mut modules = symbols.modules().into_iter();
        modules.find_map(|module| symbols.symbol_address(module.id, text))
    };
    match &functions_named(functions, text)[..] {
        [one] => Ok(one.entry.0),
        [] => Ok(symbol()
            .with_context(|| format!("the program has no function {text:?}"))?
            .0),
        _ => bail!("the program has several functions {text:?}; give an address"),
    }
}

fn joined(name: &str, value: &OsStr) -> OsString {
    let mut all = OsString::from(name);
    all.push(value);
    all
}

/// QEMU ends an option's part at a comma; two of them are one.
fn without_commas(text: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let bytes = text.as_bytes().iter();
    let doubled =
        bytes.flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 }));
    OsString::from_vec(doubled.collect())
}
