//! PostgreSQL from its package, by its USDT probes: one session's backend.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::subject::{Hit, Subject, Work};
use crate::running::Running;
use crate::setup::Need;
use crate::workspace;

pub const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Makes a database in a new directory, which belongs to the user `postgres`. Gives that user's number.
pub fn initialise(directory: &Path) -> Result<u32> {
    let user = workspace::output(Command::new("id").args(["-u", "postgres"]))?
        .trim()
        .parse()
        .context("the user postgres has no number")?;
    std::fs::create_dir(directory)?;
    std::os::unix::fs::chown(directory, Some(user), None)?;
    workspace::output(
        Command::new(format!("{PROGRAMS}/initdb"))
            .args(["--auth=trust", "--no-sync", "-D"])
            .arg(directory)
            .current_dir("/")
            .uid(user),
    )?;
    Ok(user)
}

/// The server in its single-user mode, in which a session is one process that reads statements from its input.
#[derive(Default)]
pub struct PostgreSql {
    directory: PathBuf,
    user: u32,
    statements: Vec<String>,
}

impl Subject for PostgreSql {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn needs(&self) -> &'static [Need] {
        &[Need {
            what: "/usr/lib/postgresql/15/bin/postgres",
            package: "postgresql-15",
        }]
    }

    fn prepare(&mut self, directory: &Path) -> Result<()> {
        self.directory = directory.join("data");
        self.user = initialise(&self.directory)?;
        Ok(())
    }

    fn spec(&self) -> String {
        "-m postgresql:query__start : /s (char*)$_probe_arg0".to_owned()
    }

    fn bpftrace(&self) -> Option<String> {
        Some(format!(
            "usdt:{PROGRAMS}/postgres:postgresql:query__start {{ printf(\"%s\\n\", str(arg0)); }}"
        ))
    }

    fn dprintf(&self) -> Option<String> {
        Some("dprintf -probe-stap postgresql:query__start,\"%s\\n\",(char*)$_probe_arg0".to_owned())
    }

    fn command(&mut self) -> Result<Command> {
        let user = self.user.to_string();
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &user, "--clear-groups"])
            .arg(format!("{PROGRAMS}/postgres"))
            .args(["--single", "-F", "-D"])
            .arg(&self.directory)
            .arg("postgres")
            .current_dir("/");
        Ok(command)
    }

    fn ready(&mut self, program: &mut Running, _logged: bool) -> Result<()> {
        program.write("SELECT 'ready' AS state\n")?;
        program
            .wait_for_line("ready", |line| line.contains("state = \"ready\""))
            .map(drop)
    }

    fn size(&self) -> u64 {
        20_000
    }

    fn work(&mut self, program: &mut Running, size: u64) -> Result<Work> {
        self.statements = (0..size)
            .map(|n| format!("SELECT {n} + 1 AS next"))
            .collect();
        let mut text = String::new();
        for statement in &self.statements {
            writeln!(text, "{statement}")?;
        }
        let last = format!("next = \"{size}\"");
        Work::timed(size, || {
            program.write(&text)?;
            program.wait_for_line("the last answer", |line| line.contains(&last))?;
            Ok(())
        })
    }

    fn stop(&mut self, program: &mut Running) -> Result<()> {
        let lines = program.succeed()?;
        for n in 1..=self.statements.len() {
            let answer = format!("next = \"{n}\"");
            // The answers come in order; looked at from the start, each once.
            if n % 1000 == 0 && !lines.iter().any(|line| line.contains(&answer)) {
                bail!("the answer {answer} is missing");
            }
        }
        Ok(())
    }

    fn log(&mut self) -> Result<Vec<String>> {
        Ok(self.statements.clone())
    }

    fn logged(&self, hit: &Hit) -> Option<String> {
        hit.text()
            .map(|text| text.trim_end_matches("\\n").to_owned())
            .filter(|text| text.ends_with(" AS next"))
    }
}
