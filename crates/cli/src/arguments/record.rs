//! The arguments of `record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use tracewire_packets::ConnectionAddress;
use tracewire_target_remote::upstream_address;

use super::Mechanism;
use crate::value_parser::{parse_seconds, parse_size, parse_time};

pub const HELP: &str = "\
Examples:
  tracewire record -t 'main : $args' -o run.tf -- ls
  tracewire record -x script.gdb -o run.tf -- ./program --its-own argument
  tracewire record -t 'handle if depth < 3 : /s $args, j->name' -o run.tf -p 1234
See `tracewire record --help` for the language.";

pub const LONG_HELP: &str = "\
THE LANGUAGE
  A SCRIPT is GDB's own: what `save tracepoints` writes can be fed in unchanged.
      tvariable $hits
      trace handle if depth < 3
      actions
        collect $regs, $args, $locals, total
        collect/s j->name
        backtrace
        teval $hits = $hits + 1
        while-stepping 2
          collect $regs
        end
      end
      passcount 100
  A location is a function, FILE:LINE, *ADDRESS, or -m PROVIDER:NAME for a marker (with strace in a script):
      total                          every function of that name, of any class, with its inlined copies
      Cart::total, Cart::add(int)    one class's, one overload; typedefs as in the source: f(std::string const&)
      cart.cpp:total, libc:getenv    that of one source file, of one library
      '<Shape as Area>::area', 'main::{{closure}}', 'void f<int>(int)'
                                     names as nm -C, perf and Rust's backtraces print them
      Cart::*, cart.cpp:*, ngx_*     all functions of these names; * stands for any characters
      /^ngx_http_/, libc:/^str/      all functions in whose name a regular expression is found
`tracewire list PROGRAM` prints what there is. A pattern with more than 1000 places is asked back on a terminal, and is an error \
elsewhere; --yes sets them all.

  A location that is in no \
module of the program, once its libraries are loaded, is an error before the program runs. With --pending, or after `set breakpoint \
pending on` in a script, it waits for a library that is opened later, or a program that this one becomes. With --keep-going \
what cannot be set is left out.

  A SPEC is LOCATION [if COND] [PICK] [: LIST]. The colon has a blank after it, so that ns::function and file.c:12 stay whole. LIST has \
expressions and commas between them: whatever a name begins with, it is a variable, and no action. /s before an expression \
collects the string that it points to, /s80 at most 80 characters of it; before the whole LIST, it does so for all of it. For \
those used to scripts, the word collect may be put before the LIST (collect x, collect/s x); anywhere else (collect, x; \
collect->x; collect * x) it is a variable of that name. Quote the whole for the shell.

  In both, an expression is $regs, $args, $locals, $inlined, $_ret, $rax, or one of C: j->name, *j, table[2].x, *p@n. At a \
marker, $_probe_arg0 is its first argument, $_probe_argc how many there are, and $_sdata all of them as text; without \
a list, each is collected.

  span FUNCTION [if COND] : LIST measures each call: LIST is collected at the entry, $retval at the return, and show has \
how long it took ($duration), which span it is in, and what ended it: a return, an exception, longjmp, the end of the thread or of the \
process. return FUNCTION [if COND] : $retval, LIST collects LIST at the return; what is lost there is shown as it was at the entry. Both \
are commands of a script, too. COND may have $retval and $duration (if $duration > 1ms, if n > 3 && $retval < 0). It is looked at by show, \
not while the program runs: the file has all calls.

  A PICK lets some hits make frames, of those for which COND is true: sample 1/1000 the first of each thousand, first 10 the first ten. by KEY, KEY after it picks among the hits of each key: first 10 by request->route. A span is picked at its entry, and has both of its frames. show prints how many hits there were. Aggregates beside a PICK count all hits.

  watch OBJECT [if COND] : LIST is a tracepoint on memory: a variable with static storage, a part of one, or *(TYPE *) ADDRESS. Each \
write is a hit. The value and $old, the one before, are collected beside LIST, and COND may have both (if $old > 0 && state == 2). \
Debug registers do it: four pieces of up to 8 bytes in all. It is a command of a script, too.

  count(), sum(E), min(E), max(E), avg(E), hist(E) by powers of two, hist(E, LOW, HIGH, STEP) and top(K, E) in a LIST count hits in \
the program, and make no frame where LIST has nothing else. by KEY, KEY after them, at the end of LIST, counts each key for itself: numbers, enumerators, pointers and \
strings. With span, they may be about $duration and $retval, and COND is looked at while the program runs. show prints \
the tables.

  enable(N) and disable(N) in a LIST, and the lines enable N and disable N between actions and end, enable or disable tracepoint N \
at the hit, without a stop: -t 'login : enable(2)' -t 'disabled query : sql'. Tracepoints are numbered from 1 in their order. disabled before a LOCATION, and disable N in a \
script, is for one that does nothing until a hit enables it. A variable of the run, $enabled_N, says whether it is enabled; a hit of a disabled one \
costs what a false condition costs. A span that is disabled meanwhile is measured to its end.

  $stack in a LIST, and backtrace in a script, collect who called: registers and 8 KiB of the stack, from which show finds 16 \
call frames and more, and GDB's backtrace too. $stack(N), and backtrace N, collect what N call frames take (512 bytes each, N up to \
112), and show stops after them. $stack_fp, $stack_fp(N) and backtrace N by frame-pointer collect 16 bytes for each caller of a program that keeps frame \
pointers: a stack ends at the first function that keeps none.

STUBS
  With --upstream, record is a debugger at a GDB stub, such as QEMU's (qemu-system-arm -gdb tcp::1234) or gdbserver. Each tracepoint \
is a breakpoint there, which is gone over without a debugger. The symbols are those of --elf, else of the program that the stub \
names. Libraries of the program are not looked into.

PROCESSES
  With several -p, with options that choose processes (--name), or with --follow-forks, each process has a trace file of its own, PID.tf in the folder that -o names. show, info, \
check and convert take the folder as a whole; GDB takes each file.

  --follow-forks records children by fork from their first instruction on, and a program that a process becomes from its first \
instruction on, as a file of its own (PID-2.tf). A place that such a program does not have is reported, and it is recorded without. The \
first program must have all places, unless --pending is given: with -- sh -c 'a | b' they are in programs that come later. The run ends \
when all processes have ended. A child that has no frames has no file.

  --name, --user, --cgroup, --unit and --container choose processes; of different options, all must fit. With --later, those that start \
during the run are recorded, too. Tracewire looks for them ten times a second.

PRIVACY
  What has the name of a secret (password, token, cookie, api_key, private_key and the like) is not recorded: variables, parameters, \
members, types, and $retval of functions. show prints <redacted>. --redact PATTERN adds names, --no-default-redactions takes the default \
ones away. A condition may use such a value; what would keep it (count() by token, teval) is an error. Where such a variable is in scope, \
$regs is the program counter, the stack pointer and the frame pointer, and $stack is that of the callers. Memory that is collected by an \
address has no name, nor have the variables of callers in $stack.

LIVE
  --live prints frames as they come, as a table, or with --json as a line each, on the standard output, to which PROGRAM may \
write too. A span is printed when it has ended. Who reads slowly sees them later: neither PROGRAM nor the recording waits, and all frames are printed. \
`tracewire show --follow FILE` shows the same of a recording that goes on, in another terminal.

THE FLIGHT RECORDER
  --until SPEC ends the run with the first hit of a tracepoint and --after N frames more, of all threads, and keeps what led to it: -t 'work : job' --until \
'failed if code < 0' --after 100. The buffer is circular. The newest frames are in FILE.recording, a good trace file at every moment, so that they outlive the program and record. \
After a kill of record, rescue saves what was not read yet. A span cannot end a run, as its length is known later.

THE END
  The run ends when the program ends, when a pass count is reached or a linear buffer is full, after --duration, or \
on ^C. Then the program is let go as it was found: a program that is still running runs on. A program that record \
started keeps the terminal until it ends. SIGINT ends the run even where a script's `&` has had it ignored; the program starts with \
it ignored all the same.

  The exit status is 0 when a frame was recorded, 1 when none was (no tracepoint was hit, or none was ever set), and 2 when the \
run could not begin or the file could not be written. PROGRAM's own status is in the last messages.

  -o may name a FIFO or another stream, and - is standard output: the whole file is made in the temporary directory and sent \
when the run is over. All messages go to standard error; so does what PROGRAM prints, when -o is standard output.

  -o NAME.twr is a lean recording: the collected values in compressed columns, without the registers that a trace file has in each frame. A hit takes less time, and less than a fifth of the bytes. All commands read it; `tracewire convert NAME.twr OUT.tf` makes the trace file for GDB, which shows 0 for registers that were not kept. It is of one process of this machine, and has all frames: it does not go with --circular, --until, --live, --rotate and --follow-forks. If record is killed, frames of the last second may be lost.

Examples:
  tracewire record -t 'main : $args' -o run.tf -- ls
  tracewire record -x script.gdb -o run.tf -- ./program --its-own argument
  tracewire record -t 'handle if depth < 3 : /s $args, j->name' -o run.tf -p 1234
  tracewire record -t 'handle : /s key, length' -o run.twr -p 1234 && tracewire convert run.twr run.tf
  tracewire record -t 'Cart::* : $args' -o run.tf -- ./shop
  tracewire record -t 'libc:getenv : /s (char*)$rdi' -o run.tf -- ls
  tracewire record -t 'write : $rdi, /s (char*)$rsi' -o run.tf -- ls
  tracewire record -t '-m python:gc__start if $_probe_arg0 == 2' -o run.tf -- /usr/bin/python3 script.py
  tracewire record -t 'malloc : $stack' -o run.tf -- ./program
  tracewire record -t 'watch table.count if table.count < $old : $stack' -o run.tf -- ./program
  tracewire record -t 'span serve : hist($duration) by route' -o run.tf -- ./program
  tracewire record -t 'span parse if $duration > 1ms : /s text, $retval' -o run.tf -- ./program
  tracewire record -t 'work : n' -o - -- ./program | tracewire show -
  tracewire record -t 'work : n' --live --json -p 1234 | jq .values
  tracewire record -t 'work' --circular --buffer-size 1MiB --duration 10 -o run.tf -p 1234
  tracewire record -t 'ngx_http_process_request : $args' --name nginx --follow-forks -o run
  tracewire record -t 'copy_file : /s path' --name backup --later --live
  tracewire record -t 'main : $args' --follow-forks --pending -o run -- sh -c './a | ./b'
  tracewire record -t 'isr : state' -o run.tf --upstream localhost:1234 --elf firmware.elf";

#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("target").required(true).multiple(true))]
#[command(group = clap::ArgGroup::new("destination").required(true).multiple(true))]
#[command(group = clap::ArgGroup::new("selected").multiple(true))]
pub struct RecordArguments {
    /// A file of GDB's tracepoint commands; may be given several times
    #[arg(short = 'x', long = "script", value_name = "SCRIPT", value_hint = ValueHint::FilePath)]
    pub scripts: Vec<PathBuf>,
    /// Tracepoints, a line each.
    #[arg(
        help = "A tracepoint: '[disabled] [span | return | watch] LOCATION [if COND] [PICK] [: LIST]'; may be given several times. '-m PROVIDER:NAME' is a marker",
        short = 't',
        long = "tracepoint",
        value_name = "SPEC",
        allow_hyphen_values = true,
        required_unless_present = "scripts"
    )]
    pub tracepoints: Vec<String>,
    /// The trace file to write; - for standard output, where PROGRAM's own goes to standard error. Of several processes, a folder
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "destination")]
    pub output: Option<PathBuf>,
    /// Print frames on standard output as they come, as `show` does; without -o, no file is kept
    #[arg(long, conflicts_with = "circular", group = "destination")]
    pub live: bool,
    /// With --live: one JSON object a line instead of text
    #[arg(long, requires = "live")]
    pub json: bool,
    /// Attach to this process; may be given several times
    #[arg(short, long, value_name = "PID", group = "target", value_parser = crate::process_id::parse)]
    pub pid: Vec<u32>,
    #[command(flatten)]
    pub selection: crate::selection::SelectionArguments,
    /// Record the processes that the program makes, and the programs that they become, each in a trace file of its own
    #[arg(long, conflicts_with = "upstream")]
    pub follow_forks: bool,
    /// Record the first of several processes alone for so long: 30s, 5m. The others follow if it is well: neither killed, nor ended with
    /// an error
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with_all = ["upstream", "program"])]
    pub canary: Option<std::time::Duration>,
    /// Finish the trace file of each process after so long, and when half of --buffer-size is used, and go on in the next one: 30s, 10m.
    /// No hit is missed. The files of a process are PID.tf, PID-2.tf and so on
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with_all = ["upstream", "circular"])]
    pub rotate: Option<std::time::Duration>,
    /// Write what happens to each process into this file, as JSON lines: for the agent
    #[arg(long, value_name = "FILE", hide = true)]
    pub events: Option<PathBuf>,
    /// Record the program of a GDB stub: HOST:PORT, unix:PATH, or - for standard input and output
    #[arg(
        long,
        value_name = "ADDRESS",
        group = "target",
        value_parser = upstream_address,
        conflicts_with_all = ["pid", "selected", "program"]
    )]
    pub upstream: Option<ConnectionAddress>,
    /// With --upstream: the program, where the stub does not name it; may be given several times
    #[arg(long, value_name = "ELF", requires = "upstream", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// With --upstream: the machine, where neither the program nor the stub says it
    #[arg(long, value_name = "NAME", requires = "upstream")]
    pub architecture: Option<tracewire_arch::Architecture>,
    /// Where a tracepoint on a function goes [default: arguments]
    #[arg(long, value_enum, value_name = "PLACE")]
    pub function_place: Option<FunctionPlace>,
    /// Let places that are not found wait for a library that is opened later
    #[arg(long)]
    pub pending: bool,
    /// Leave out tracepoints that cannot be set, with a warning, and record the others; for the places of a pattern this is the default
    #[arg(long)]
    pub keep_going: bool,
    /// Set tracepoints at all places of a pattern, even if it has more than 1000; otherwise this is asked on a terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Print a line for each tracepoint and each warning, however many there are
    #[arg(short, long)]
    pub verbose: bool,
    /// How much to keep: bytes, or with KiB, MiB, GiB [default: 1GiB; with --circular 5MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub buffer_size: Option<u64>,
    /// When the buffer is full, let the oldest frames go instead of ending the run
    #[arg(long)]
    pub circular: bool,
    /// End the run with the first hit of this tracepoint, a SPEC as for -t, and keep what led to it: the buffer is circular. May be given several times
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["live", "rotate", "max_frames"])]
    pub until: Vec<String>,
    /// With --until: so many frames after that hit, of all threads
    #[arg(
        long,
        value_name = "N",
        requires = "until",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub after: u64,
    /// What serves tracepoints [default: jumps where they can be, else traps; `ftrace` is always a jump]
    #[arg(long, value_enum, value_name = "MECHANISM")]
    pub mechanism: Option<Mechanism>,
    /// End the run after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<std::time::Duration>,
    /// End the run after so long, as SIGINT does: 30s, 10m, 2h. A program that was started runs on
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub expire: Option<std::time::Duration>,
    /// End the run with so many frames, of all processes
    #[arg(long, value_name = "N", conflicts_with = "circular")]
    pub max_frames: Option<std::num::NonZeroU64>,
    /// Let each tracepoint make so many frames at most: 1000/s, 10/min, 1/h; 1000/s:1,3 is for tracepoints 1 and 3. Hits that come too soon
    /// are skipped and counted. May be given several times
    #[arg(long, value_name = "N/s[:NUMBERS]", value_parser = crate::rate::parse)]
    pub rate: Vec<crate::rate::RateArgument>,
    /// Let hits take so much of each cpu at most, such as 1%. A hit with no room for its frame is skipped and counted; tracepoints that cost more
    /// nevertheless are out of the program at times, which the file says. First says what a hit costs at most
    #[arg(long, value_name = "N%", value_parser = crate::budget::parse)]
    pub budget: Option<tracewire_recorder::Budget>,
    #[command(flatten)]
    pub types: crate::types::TypeArguments,
    #[command(flatten)]
    pub debuginfod: crate::debuginfod::DebuginfodArguments,
    #[command(flatten)]
    pub limits: crate::types::LimitArguments,
    #[command(flatten)]
    pub redaction: crate::redaction::RedactionArguments,
    #[command(flatten)]
    pub policy: crate::policy::PolicyArguments,
    /// The program to run, and its arguments
    #[arg(last = true, value_name = "PROGRAM", group = "target", num_args = 1.., conflicts_with_all = ["pid", "selected"], value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// Where a tracepoint on a function goes.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionPlace {
    /// To the first instruction where that has arguments which are lost past the prologue, else past the prologue
    Arguments,
    /// To the first instruction
    Entry,
    /// Past the prologue, as in GDB
    Prologue,
}

impl From<FunctionPlace> for tracewire_debuginfo::FunctionPlace {
    fn from(asked: FunctionPlace) -> Self {
        match asked {
            FunctionPlace::Arguments => Self::Arguments,
            FunctionPlace::Entry => Self::Entry,
            FunctionPlace::Prologue => Self::AfterPrologue,
        }
    }
}
