//! A C++ program of very many functions, whose calls are followed.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// The program, and what it prints: a sum over all that its functions return.
pub struct FlowProgram {
    file: PathBuf,
    output: Vec<u8>,
}

impl FlowProgram {
    /// Builds one of so many functions, and runs it.
    pub fn build(directory: &Path, functions: usize) -> Result<Self> {
        let source_file = directory.join("flow.cpp");
        fs::write(&source_file, source(functions))?;
        let file = directory.join("flow");
        workspace::run(
            Command::new("c++")
                .args(["-g1", "-O1", "-o"])
                .arg(&file)
                .arg(source_file),
        )?;
        let output = Command::new(&file).output().context("it cannot be run")?;
        Ok(Self {
            file,
            output: output.stdout,
        })
    }

    /// Follows the calls of all functions. Gives the seconds until the program is about to run. It must compute what it computes alone.
    pub fn follow(&self, tracewire: &Path) -> Result<f64> {
        let start = Instant::now();
        let mut child = Command::new(tracewire)
            .args(["calls", "--depth", "0", "--"])
            .arg(&self.file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("tracewire cannot be started")?;
        let mut stderr = BufReader::new(child.stderr.take().context("no stderr")?);
        let mut line = String::new();
        while !line.contains(" followed, with jumps at ") {
            line.clear();
            if stderr.read_line(&mut line)? == 0 {
                bail!("nothing is followed");
            }
        }
        let armed = start.elapsed().as_secs_f64();
        eprint!("{line}");
        let mut rest = String::new();
        stderr.read_to_string(&mut rest)?;
        let mut output = Vec::new();
        let mut stdout = child.stdout.take().context("no stdout")?;
        stdout.read_to_end(&mut output)?;
        if !child.wait()?.success() || !output.starts_with(&self.output) {
            bail!("the program went wrong: {rest}");
        }
        Ok(armed)
    }
}

/// Functions that begin and end in different ways, and call each other.
fn source(functions: usize) -> String {
    let mut text = "#include <cstdio>\n\
         int sink;\n\
         struct Error { int number; };\n\
         struct Guard { int number; Guard(int number) : number(number) {} ~Guard() { sink += number; } };\n"
        .to_owned();
    for index in 0..functions {
        let _ = writeln!(text, "int f{index}(int);");
    }
    for index in 0..functions {
        let calls: Vec<String> = [1 + index * 7 % 5, 1 + index * 11 % 7]
            .iter()
            .enumerate()
            .filter(|(_, step)| index + *step < functions)
            .map(|(turn, step)| format!("f{}(x - {})", index + step, turn + 1))
            .collect();
        let call = match calls.is_empty() {
            true => "x".to_owned(),
            false => calls.join(" + "),
        };
        let body = match index % 6 {
            0 => format!("if (x <= 0) return {}; return {call};", index & 7),
            1 => format!(
                "int s = 0; for (int i = 0; i < (x & 3); i++) s += i * {index}; if (x <= 0) return s; return s + ({call});"
            ),
            2 => format!(
                "try {{ if (x == -1) throw Error{{x}}; if (x <= 0) return 1; return {call}; }} catch (Error &) {{ return 2; }}"
            ),
            3 => format!(
                "Guard guard(x & 7); if (x <= 0) return guard.number; return guard.number + ({call});"
            ),
            4 => format!(
                "switch (x & 7) {{ case 0: return 3; case 1: sink += {index}; return 4; case 2: sink -= x; break; \
                 case 3: return x <= 0 ? 7 : ({call}); case 5: sink ^= x; break; default: break; }} return x <= 0 ? 0 : {call};"
            ),
            _ => format!(
                "int v[3] = {{x, x + 1, x + 2}}; v[x & 1] += {index}; if (x <= 0) return v[1]; sink += v[0]; return {call};"
            ),
        };
        let _ = writeln!(
            text,
            "__attribute__((noinline)) int f{index}(int x) {{ {body} }}"
        );
    }
    text.push_str("static int (*const all[])(int) = {\n");
    for index in 0..functions {
        let _ = writeln!(text, "f{index},");
    }
    text.push_str(
        "};\n\
         int main() {\n\
         long sum = 0;\n\
         for (unsigned i = 0; i < sizeof all / sizeof *all; i++) sum += all[i](i % 4);\n\
         std::printf(\"%ld %d\\n\", sum, sink);\n}\n",
    );
    text
}
