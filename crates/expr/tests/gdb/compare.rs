//! Stops a program under GDB, records GDB's output, and evaluates the same on the core file that GDB made.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tracewire_debuginfo::{ExpressionOperation, Symbols, VariableLocation};
use tracewire_expr::{PrintOptions, State, evaluate, expand};

use tracewire_model::Address;

use crate::core_file::Core;

/// A program, built and stopped.
pub struct Stopped {
    _folder: TempDir,
    /// Where it stopped, as GDB's commands take it.
    pub location: String,
    program: PathBuf,
    core_path: PathBuf,
    pub core: Core,
    pub symbols: Symbols,
}

/// Runs a compiler on a program of `tests/gdb/programs`.
pub fn build(folder: &Path, source: &str, compiler: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/gdb/programs")
        .join(source);
    let program = folder.join("program");
    let output = Command::new(compiler[0])
        .args(&compiler[1..])
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

fn gdb(program: &Path, commands: &[String]) -> String {
    let mut command = Command::new("gdb");
    command
        .env("LC_ALL", "C.UTF-8")
        .args(["-q", "-nx", "-batch"]);
    command.args([
        "-iex",
        "set debuginfod enabled off",
        "-iex",
        "set auto-load off",
        // Debug information of libraries, where it is installed, has names that the program has not.
        "-iex",
        "set debug-file-directory",
    ]);
    for line in commands {
        command.args(["-ex", line]);
    }
    let output = command.arg(program).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Stopped {
    /// Builds `source`, runs it to the `hit`-th arrival at the line with `mark` in it, and saves a core file there.
    pub fn at(source: &str, compiler: &[&str], mark: &str, hit: u32) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/gdb/programs")
            .join(source);
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().position(|line| line.contains(mark)).unwrap() + 1;
        let location = format!("{source}:{line}");
        let folder = TempDir::new().unwrap();
        let program = build(folder.path(), source, compiler);
        let core_path = folder.path().join("core");
        let commands = [
            format!("break {location}"),
            format!("ignore 1 {}", hit - 1),
            "run".to_owned(),
            format!("generate-core-file {}", core_path.display()),
        ];
        let output = gdb(&program, &commands);
        assert!(core_path.exists(), "{output}");
        let core = Core::read(&core_path);
        let mut symbols = Symbols::new();
        // The bias is that of the loader: 0 unless the program is position-independent.
        let base = core.base_of(&program);
        let bias = if base >= 0x5000_0000_0000 { base } else { 0 };
        symbols.add_module(&program, bias).unwrap();
        Self {
            _folder: folder,
            location,
            program,
            core_path,
            core,
            symbols,
        }
    }

    /// GDB's output for each command.
    pub fn gdb(&self, commands: &[String]) -> Vec<String> {
        let core = format!("core-file {}", self.core_path.display());
        self.gdb_after(&[core], commands)
    }

    /// GDB's output for each command after the commands that open a saved state.
    pub fn gdb_after(&self, open: &[String], commands: &[String]) -> Vec<String> {
        let mut lines = vec!["set width 0".to_owned()];
        lines.extend(open.iter().cloned());
        for command in commands {
            lines.push("echo @@@\\n".to_owned());
            // An error must not end the batch.
            lines.push(format!(
                "python\ntry:\n  gdb.execute({command:?})\nexcept gdb.error as e:\n  print(e)\nend"
            ));
        }
        let script = self.core_path.with_extension("gdb");
        std::fs::write(&script, lines.join("\n")).unwrap();
        let output = gdb(&self.program, &[format!("source {}", script.display())]);
        let answers: Vec<String> = output
            .split("@@@\n")
            .skip(1)
            .map(|answer| answer.trim_end().to_owned())
            .collect();
        if answers.len() == commands.len() && !output.contains("internal-error") {
            return answers;
        }
        // GDB died of one of the commands: that one has no answer.
        if commands.len() == 1 {
            return vec![String::new()];
        }
        let (first, second) = commands.split_at(commands.len() / 2);
        [self.gdb_after(open, first), self.gdb_after(open, second)].concat()
    }

    pub fn pc(&self) -> Address {
        self.core.pc()
    }

    /// The value as this crate prints it, or its error.
    pub fn print(&self, expression: &str) -> String {
        match evaluate(&self.symbols, &self.core, expression) {
            Ok(value) => value.print(&self.symbols, &self.core, &PrintOptions::default()),
            Err(error) => error.to_string(),
        }
    }

    /// Requires GDB's `print` and `whatis` for each expression.
    pub fn same(&self, expressions: &[&str]) {
        let commands: Vec<String> = (expressions.iter())
            .flat_map(|expression| {
                [
                    format!("print {expression}"),
                    format!("whatis {expression}"),
                ]
            })
            .collect();
        let answers = self.gdb(&commands);
        let mut wrong = Vec::new();
        for (expression, answer) in expressions.iter().zip(answers.chunks(2)) {
            let printed = answer[0]
                .split_once(" = ")
                .filter(|(number, _)| number.starts_with('$'));
            let wanted = printed.map_or(answer[0].as_str(), |(_, text)| text);
            let ours = self.print(expression);
            if ours != wanted {
                wrong.push(format!(
                    "print {expression}\n  gdb:  {wanted}\n  ours: {ours}"
                ));
            }
            let Some(wanted) = answer[1].strip_prefix("type = ") else {
                continue;
            };
            if let Ok(value) = evaluate(&self.symbols, &self.core, expression) {
                let ours = value.type_name(&self.symbols);
                if ours != wanted {
                    wrong.push(format!(
                        "whatis {expression}\n  gdb:  {wanted}\n  ours: {ours}"
                    ));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {} differ:\n{}",
            wrong.len(),
            expressions.len(),
            wrong.join("\n")
        );
    }

    /// Whether the whole state has more of the expression than a trace frame: the value of a parameter at the function's entry,
    /// from the caller.
    pub fn is_known_to_caller(&self, expression: &str) -> bool {
        let word = |c: char| !c.is_alphanumeric() && c != '_';
        expression.split(word).any(|name| {
            let variable = self.symbols.lookup_variable(Some(self.pc().into()), name);
            let Some(VariableLocation::Expression(location)) =
                variable.map(|variable| variable.location)
            else {
                return false;
            };
            let entry = |operation: &ExpressionOperation| {
                matches!(operation, ExpressionOperation::EntryValue { .. })
            };
            location
                .operations()
                .unwrap()
                .iter()
                .any(|(_, operation)| entry(operation))
        })
    }

    /// Requires what GDB's `info args` or `info locals` lists.
    pub fn same_list(&self, item: &str, command: &str) {
        let answer = self.gdb(&[command.to_owned()]).remove(0);
        let ours: Vec<String> = (expand(&self.symbols, &self.core, item).iter())
            .map(|named| {
                let text = match &named.value {
                    Ok(value) => {
                        value.print_variable(&self.symbols, &self.core, &PrintOptions::default())
                    }
                    Err(error) => format!("<error: {error}>"),
                };
                format!("{} = {text}", named.name)
            })
            .collect();
        let wanted: Vec<&str> = answer
            .lines()
            .filter(|line| !line.starts_with("No "))
            .collect();
        assert_eq!(ours.len(), wanted.len(), "{command}: {ours:?}, {wanted:?}");
        for (ours, wanted) in ours.iter().zip(&wanted) {
            let name = ours.split(" = ").next().unwrap();
            // In an inlined frame, GDB takes the function around it for its caller, and gets such values wrong.
            let inlined = !self.symbols.place(self.pc()).unwrap().callers.is_empty();
            let wrong = inlined && self.is_known_to_caller(name);
            assert!(
                ours == wanted || wrong,
                "{command}\n gdb:  {wanted}\n ours: {ours}"
            );
        }
    }
}
