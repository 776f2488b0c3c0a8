//! README.md and the pages of `docs/guide` are true: their files are written, their commands are run, and the output is compared
//! with the page.
//!
//! The blocks of a page run in order, in one directory that holds nothing else:
//!
//! - ```` ```LANGUAGE NAME ```` is a file: it is written to NAME.
//! - ```` ```console ```` is a session. A line `$ COMMAND` runs in a shell, and the lines after it are its output. Lines
//!   `(gdb) COMMAND` are commands to the GDB that the line before started.
//! - `<!-- run: COMMAND -->` runs without being shown, for what a reader has already. `$REPOSITORY` is the checkout.
//!
//! A line `...` matches any lines. Addresses, times, sizes in KiB, offsets, threads, cpus, process numbers and ports differ from
//! run to run, so they are left out of the comparison. `TRACEWIRE_DOCUMENTS=write` writes the output of this run into the pages.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

// Cargo builds the plugin, which QEMU loads, because these tests name it.
use tracewire_qemu_plugin as _;
use tracewire_test_support::{assert_clean_but, is_static_data, is_unreadable, qemu_plugin};

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

/// The separator between the output of two commands.
const SEPARATOR: &str = "\u{1}next command\u{1}";

/// What is printed after a command whose output a page hides, if it fails.
const FAILURE: &str = "-- failed with exit status";

/// The port that pages use.
const PORT: &str = "5599";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A part of a page.
#[derive(Debug)]
enum Part {
    /// Text that is not run, with its line ends.
    Text(String),
    /// Runs without being shown.
    Hidden(String),
    /// Written to a file: its name, then the content.
    File(String, String),
    /// Commands, each with the output that the page shows.
    Session(Vec<Shown>),
}

/// A command as a page shows it.
#[derive(Debug, Default)]
struct Shown {
    /// The lines of the command, as they are in the page.
    command: Vec<String>,
    /// The commands to GDB.
    gdb: Vec<String>,
    /// The expected output, with prompts of GDB.
    output: Vec<String>,
}

impl Shown {
    /// Whether the page shows nothing of the output. The command is to succeed then: an error would be seen nowhere.
    fn hides_output(&self) -> bool {
        self.output == ["..."]
    }

    /// The command as a shell takes it.
    fn shell(&self) -> String {
        let mut shell = self.command.join("\n");
        shell = shell.trim_start_matches("$ ").to_owned();
        if !self.gdb.is_empty() {
            // A GDB that reads no terminal shows a command as `+COMMAND`.
            shell.push_str(" -nx -q -batch -ex 'set trace-commands on'");
            for command in &self.gdb {
                write!(shell, " -ex '{}'", command.replace('\'', r"'\''")).unwrap();
            }
        }
        if let Some(server) = shell
            .strip_suffix(" &")
            .filter(|shell| shell.starts_with("tracewire "))
        {
            // Its first line reports that it listens.
            return format!(
                "mkfifo listens; {server} >listens 2>&1 & exec {{listens}}<listens; rm listens; read -r line <&$listens; echo \"$line\"\n\
                 cat <&$listens >/dev/null & exec {{listens}}<&-"
            );
        }
        if shell.ends_with(" &") {
            // Until the program has taken the shell's place.
            shell.push_str("\nwhile [ /proc/$!/exe -ef /proc/$$/exe ]; do :; done");
        }
        shell
    }
}

/// Reads a page.
fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let hidden = line
            .strip_prefix("<!-- run: ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        let fence = line.strip_prefix("```");
        text.push_str(line);
        text.push('\n');
        if let Some(command) = hidden {
            parts.push(Part::Text(std::mem::take(&mut text)));
            parts.push(Part::Hidden(command.to_owned()));
        } else if let Some(fence) = fence {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let mut words = fence.split_whitespace();
            match (words.next(), words.next()) {
                (Some("console"), None) => {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Session(session(&body)));
                }
                (_, name) => {
                    for line in &body {
                        writeln!(text, "{line}").unwrap();
                    }
                    if let Some(name) = name {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                        parts.push(Part::File(name.to_owned(), body.join("\n") + "\n"));
                    }
                }
            }
            text.push_str("```\n");
        }
    }
    parts.push(Part::Text(text));
    parts
}

fn session(body: &[&str]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut goes_on = false;
    for line in body {
        if line.starts_with("$ ") {
            commands.push(Shown::default());
        }
        let last = commands
            .last_mut()
            .expect("a session begins with a command");
        if line.starts_with("$ ") || goes_on {
            last.command.push((*line).to_owned());
            goes_on = line.ends_with('\\');
        } else {
            if let Some(command) = line.strip_prefix("(gdb) ") {
                last.gdb.push(command.to_owned());
            }
            last.output.push((*line).to_owned());
        }
    }
    // There may be a blank line between commands.
    for command in &mut commands {
        while command.output.last().is_some_and(String::is_empty) {
            command.output.pop();
        }
    }
    commands
}

/// A port that no other test takes meanwhile: the system assigns none below 32768, which most tests use.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let taken = NEXT.fetch_add(1, Ordering::Relaxed);
        // Another run of the tests begins at another port.
        let begin = (std::process::id() as u16).wrapping_mul(64);
        let port = 16384 + begin.wrapping_add(taken) % 16384;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The output of all commands of a page, one after the other in one shell.
fn outputs(folder: &Path, parts: &[Part]) -> Vec<String> {
    let port = free_port().to_string();
    let mut script = String::from("exec 2>&1\n");
    for part in parts {
        match part {
            Part::Text(_) => {}
            Part::Hidden(command) => {
                writeln!(script, "{{ {command}; }} >hidden 2>&1 || cat hidden").unwrap()
            }
            Part::File(name, content) => {
                writeln!(script, "cat >{name} <<'END OF FILE'\n{content}END OF FILE").unwrap();
            }
            Part::Session(commands) => {
                for command in commands {
                    let shell = command.shell().replace(PORT, &port);
                    writeln!(script, "echo '{SEPARATOR}'\n{shell}").unwrap();
                    if command.hides_output() {
                        writeln!(script, "s=$?; [ $s = 0 ] || echo '{FAILURE}' $s").unwrap();
                    }
                }
            }
        }
    }
    // Background processes of a page end with it.
    writeln!(
        script,
        "echo '{SEPARATOR}'\nkill $(jobs -p) 2>/dev/null\nwait"
    )
    .unwrap();
    let path = format!(
        "{}:{}",
        Path::new(TRACEWIRE).parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new("timeout")
        .args(["600", "bash", "-c", &script])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .env("REPOSITORY", repository())
        .env("COLUMNS", "120")
        .env("LC_ALL", "C.UTF-8")
        .env("TRACEWIRE_QEMU_PLUGIN", qemu_plugin())
        .env_remove("DEBUGINFOD_URLS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).replace(&port, PORT);
    output
        .split(SEPARATOR)
        .map(|part| part.trim_matches('\n').to_owned())
        .collect()
}

/// A command's output as a page shows it: with GDB's prompts, and without the echo of commands.
fn as_shown(output: &str, gdb: &[String]) -> Vec<String> {
    let mut commands = gdb.iter();
    let mut next = commands.next();
    let mut lines = Vec::new();
    // GDB's batch mode ends by leaving the program.
    let batch = |line: &&str| gdb.is_empty() || !line.ends_with("(Remote target) detached]");
    for line in output.lines().filter(batch) {
        match line.strip_prefix('+').filter(|_| !gdb.is_empty()) {
            Some(command) if Some(command) == next.map(String::as_str) => {
                lines.push(format!("(gdb) {command}"));
                next = commands.next();
            }
            Some(_) => {}
            None => lines.push(line.trim_end().to_owned()),
        }
    }
    lines
}

/// A line without what differs from run to run: addresses, times with a unit, offsets, numbers of threads and processes.
fn normal(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut normal = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let bare = bare(word);
        let before = place
            .checked_sub(1)
            .map_or("", |before| self::bare(words[before]));
        let after = words.get(place + 1).map_or("", |after| self::bare(after));
        let is_number = bare.starts_with(|c: char| c.is_ascii_digit());
        let differs = match bare.strip_prefix("0x") {
            // Addresses, and not small numbers.
            Some(digits) => digits.len() > 5,
            None => {
                is_number
                    && (UNITS.contains(&after)
                        || (["thread", "process", "pid", "LWP", "offset"].contains(&before)
                            || words[..place].ends_with(&["pid", "="])))
            }
        };
        let is_unit =
            place > 0 && UNITS.contains(&bare) && self::bare(before).parse::<f64>().is_ok();
        normal.push(if differs || is_unit {
            word.replace(bare, "#")
        } else {
            (*word).to_owned()
        });
    }
    normal.join(" ")
}

/// The units of times.
const UNITS: [&str; 5] = ["s", "ms", "µs", "ns", "KiB"];

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| "(),.;:[]{}<>=\"".contains(c))
}

/// Whether a command's output matches the page.
fn agrees(shown: &[String], output: &[String]) -> bool {
    let Some((first, rest)) = shown.split_first() else {
        return output.is_empty();
    };
    if first.trim() == "..." {
        return (0..=output.len()).any(|skipped| agrees(rest, &output[skipped..]));
    }
    output.split_first().is_some_and(|(line, others)| {
        (normal(first) == normal(line) || is_same_row(first, line)) && agrees(rest, others)
    })
}

/// Whether two rows of a table of frames differ only in time, thread and cpu.
fn is_same_row(one: &str, other: &str) -> bool {
    let row = |line: &str| {
        let line = normal(line);
        let words: Vec<&str> = line.split(' ').collect();
        let is_count = |word: &str| word.parse::<u64>().is_ok();
        match &*words {
            [frame, tracepoint, time, thread, cpu, rest @ ..]
                if is_count(frame)
                    && is_count(tracepoint)
                    && time.parse::<f64>().is_ok()
                    && is_count(thread)
                    && is_count(cpu) =>
            {
                Some(format!("{frame} {tracepoint} {}", rest.join(" ")))
            }
            _ => None,
        }
    };
    row(one).is_some_and(|one| Some(one) == row(other))
}

/// Fails the test if `check` reports something about a trace file of a page, except that a value could not be read or that GDB
/// reads no static trace data: pages show both.
fn assert_recorded_clean(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_trace = path.extension().is_some_and(|end| end == "tf");
        // A page cuts one itself, to repair it.
        if is_trace && !path.ends_with("cut.tf") {
            assert_clean_but(&path, |fault| is_unreadable(fault) || is_static_data(fault));
        }
    }
}

/// Runs a page.
fn check(name: &str) {
    tracewire_test_support::need!("bash", "cc", "c++", "gdb", "gdb-multiarch", "zstd");
    let path = repository().join(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let parts = parts(&page);
    let folder = tempfile::tempdir().unwrap();
    let outputs = outputs(folder.path(), &parts);
    assert_recorded_clean(folder.path());
    let mut outputs = outputs.iter();
    let before = outputs.next().map_or("", String::as_str);
    let mut problems = String::new();
    if !before.is_empty() {
        write!(problems, "before the first command:\n{before}\n").unwrap();
    }
    let writes = std::env::var("TRACEWIRE_DOCUMENTS").is_ok_and(|value| value == "write");
    let mut written = String::new();
    for part in &parts {
        let commands = match part {
            Part::Text(text) => {
                written.push_str(text);
                continue;
            }
            Part::Hidden(_) => continue,
            Part::File(..) => continue,
            Part::Session(commands) => commands,
        };
        for (place, command) in commands.iter().enumerate() {
            if place > 0
                && written
                    .lines()
                    .next_back()
                    .is_some_and(|line| !line.starts_with("$ "))
            {
                written.push('\n');
            }
            let output = outputs.next().expect("each command has an output");
            let output = as_shown(output, &command.gdb);
            let failed = output.iter().any(|line| line.starts_with(FAILURE));
            let agree = agrees(&command.output, &output) && !failed;
            if !agree {
                writeln!(
                    problems,
                    "{}\n--- the page\n{}\n--- the output\n{}\n",
                    command.command.join("\n"),
                    command.output.join("\n"),
                    output.join("\n")
                )
                .unwrap();
            }
            let keeps = agree || !writes;
            for line in command
                .command
                .iter()
                .chain(if keeps { &command.output } else { &output })
            {
                writeln!(written, "{line}").unwrap();
            }
        }
    }
    if writes && !problems.is_empty() {
        std::fs::write(&path, written).unwrap();
    }
    assert!(
        problems.is_empty(),
        "{name} shows what is not so:\n{problems}"
    );
}

#[test]
fn readme() {
    check("README.md");
}

#[test]
fn slow_service() {
    check("docs/guide/slow-service.md");
}

#[test]
fn watch_a_running_program() {
    check("docs/guide/live.md");
}

#[test]
fn several_processes() {
    check("docs/guide/processes.md");
}

#[test]
fn agent() {
    check("docs/guide/agent.md");
}

#[test]
fn policy() {
    check("docs/guide/policy.md");
}

#[test]
fn privacy() {
    check("docs/guide/privacy.md");
}

#[test]
fn limits() {
    check("docs/guide/limits.md");
}

#[test]
fn stacks() {
    check("docs/guide/stacks.md");
}

#[test]
fn watch() {
    check("docs/guide/watch.md");
}

#[test]
fn spans() {
    check("docs/guide/spans.md");
}

#[test]
fn calls() {
    check("docs/guide/calls.md");
}

#[test]
fn counts() {
    check("docs/guide/counts.md");
}

#[test]
fn values() {
    check("docs/guide/values.md");
}

#[test]
fn optimised() {
    check("docs/guide/optimised.md");
}

#[test]
fn crash() {
    check("docs/guide/crash.md");
}

#[test]
fn from_gdbserver() {
    check("docs/guide/from-gdbserver.md");
}

#[test]
fn from_bpftrace() {
    check("docs/guide/from-bpftrace.md");
}

#[test]
fn from_tarmac_trace_utilities() {
    check("docs/guide/from-tarmac-trace-utilities.md");
}

#[test]
fn control_flow() {
    check("docs/guide/control-flow.md");
}

#[test]
fn simulator_log() {
    check("docs/guide/simulator-log.md");
}

#[test]
fn any_stub() {
    check("docs/guide/any-stub.md");
}

#[test]
fn qemu() {
    check("docs/guide/qemu.md");
}

#[test]
fn other_tools() {
    check("docs/guide/other-tools.md");
}

#[test]
fn report() {
    check("docs/guide/report.md");
}

#[test]
fn scripts_and_ci() {
    check("docs/guide/scripts-and-ci.md");
}

/// The pages of formats have the versions that the code writes.
#[test]
fn versions_of_formats() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let between = |path: &str, before: &str, after: &str| {
        let text = read(path);
        let (_, rest) = text.split_once(before).expect(before);
        rest.split_once(after).expect(after).0.to_owned()
    };
    let index = between(
        "crates/exec-trace/src/index/write.rs",
        "VERSION: u32 = ",
        ";",
    );
    let frames = between(
        "crates/tracefile/src/index/cache.rs",
        "from_le_bytes(*b\"",
        "\"",
    );
    let shared = between("crates/jump-pad/src/layout.rs", "from_le_bytes(*b\"", "\"");
    let journal = between(
        "crates/target-linux/src/fast/journal.rs",
        "from_le_bytes(*b\"",
        "\"",
    );
    let kept = |content: &str| {
        let before = format!("Self::{content} => b\"");
        between("crates/debuginfo/src/module/kept.rs", &before, "\"")
    };
    for (page, version) in [
        ("module-cache", kept("Names")),
        ("module-cache", kept("Index")),
        ("module-cache", kept("Sections")),
        ("module-cache", kept("Symbols")),
        ("execution-index", format!("Version {index}.")),
        ("frame-index", frames),
        ("shared-memory", shared),
        ("journal", journal),
    ] {
        let text = read(&format!("docs/formats/{page}.md"));
        assert!(text.contains(&version), "{page}.md does not say {version}");
    }
}

/// `docs/formats/json.md` lists every field that the commands print.
#[test]
fn json_fields() {
    use tracewire_test_support::sample;
    let page = std::fs::read_to_string(repository().join("docs/formats/json.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["sample.tf", "sample", "thumb.elf", "thumb.trace.zst"] {
        std::fs::copy(sample(name), folder.path().join(name)).unwrap();
    }
    let trace = std::fs::read(sample("sample.tf")).unwrap();
    std::fs::write(folder.path().join("cut.tf"), &trace[..trace.len() - 100]).unwrap();
    for command in [
        "info sample.tf",
        "info sample",
        "info thumb.trace.zst --elf thumb.elf",
        "show sample.tf --elf sample",
        "check cut.tf",
        "show thumb.trace.zst --elf thumb.elf",
        "calls thumb.trace.zst --elf thumb.elf",
        "calls thumb.trace.zst --elf thumb.elf --list fact",
        "profile thumb.trace.zst --elf thumb.elf",
        "coverage thumb.trace.zst --elf thumb.elf",
    ] {
        let output = Command::new(TRACEWIRE)
            .args(command.split(' '))
            .arg("--json")
            .current_dir(folder.path())
            .output()
            .unwrap();
        let mut count = 0;
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            count += 1;
            for field in fields(&serde_json::from_str(line).unwrap()) {
                assert!(
                    page.contains(&format!("`{field}`")),
                    "{command} --json prints {field}, which the page does not list"
                );
            }
        }
        assert!(count > 0, "{command} prints nothing");
    }
}

/// The names of an object's fields, and of those of the objects in it; not those of registers and variables.
fn fields(value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::Object(object) => object
            .iter()
            .flat_map(|(name, value)| {
                let is_map = ["registers", "register_values", "variables"].contains(&&**name)
                    && value.is_object();
                let inner = if is_map { Vec::new() } else { fields(value) };
                std::iter::once(name.clone()).chain(inner)
            })
            .collect(),
        serde_json::Value::Array(values) => values.iter().flat_map(fields).collect(),
        _ => Vec::new(),
    }
}

/// The README of the recorder shows its example as it is.
#[test]
fn example_of_the_recorder() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let example = read("crates/recorder/examples/arguments.rs");
    let code: String = example
        .lines()
        .skip_while(|line| line.is_empty() || line.starts_with("//!"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(
        read("crates/recorder/README.md").contains(&code),
        "expected:\n{code}"
    );
}

/// Each promise has a test that is there.
#[test]
fn promises_have_tests() {
    let page = std::fs::read_to_string(repository().join("docs/promises.md")).unwrap();
    let mut named = 0;
    for line in page.lines() {
        let tests: Vec<(&str, &str)> = line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|span| span.split_once("::"))
            .collect();
        let is_promise = line.starts_with("| ") && !line.starts_with("| promise");
        assert!(!is_promise || !tests.is_empty(), "no test holds: {line}");
        for (file, test) in tests {
            let source = std::fs::read_to_string(repository().join(file))
                .unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(
                source.contains(&format!("fn {test}(")),
                "{file} has no test {test}"
            );
            named += 1;
        }
    }
    assert!(named > 40, "{named} tests are named");
}
