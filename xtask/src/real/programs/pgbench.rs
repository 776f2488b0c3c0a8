//! PostgreSQL's server under pgbench: a process for each session.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::subject::{Hit, Subject, Work};
use super::postgresql::{PROGRAMS, initialise};
use crate::running::{Running, signal_process, wait_until};
use crate::setup::Need;
use crate::workspace;

/// How many sessions there are at a time.
const CLIENTS: u64 = 4;

/// What a session asks, each time for another number.
const STATEMENT: &str = "\\set n random(1, 1000000)\nSELECT :n + 1 AS next;\n";

pub struct Pgbench {
    /// Whether each statement has a connection of its own.
    connects: bool,
    directory: PathBuf,
    user: u32,
    logged: bool,
    lines: Vec<String>,
}

impl Pgbench {
    /// Sessions that last.
    pub fn sessions() -> Self {
        Self::new(false)
    }

    /// A session for each statement: the server makes a process for each.
    pub fn connections() -> Self {
        Self::new(true)
    }

    fn new(connects: bool) -> Self {
        Self {
            connects,
            directory: PathBuf::new(),
            user: 0,
            logged: false,
            lines: Vec::new(),
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }
}

impl Subject for Pgbench {
    fn name(&self) -> &'static str {
        match self.connects {
            true => "pgbench-C",
            false => "pgbench",
        }
    }

    fn needs(&self) -> &'static [Need] {
        &[
            Need {
                what: "/usr/lib/postgresql/15/bin/postgres",
                package: "postgresql-15",
            },
            Need {
                what: "/usr/lib/postgresql/15/bin/pgbench",
                package: "postgresql-15",
            },
        ]
    }

    fn prepare(&mut self, directory: &Path) -> Result<()> {
        self.directory = directory.to_owned();
        self.user = initialise(&self.data())?;
        std::fs::write(directory.join("statement.sql"), STATEMENT)?;
        Ok(())
    }

    fn spec(&self) -> String {
        "-m postgresql:query__start : /s (char*)$_probe_arg0".to_owned()
    }

    fn forks(&self) -> bool {
        true
    }

    fn command(&mut self) -> Result<Command> {
        let user = self.user.to_string();
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &user, "--clear-groups"])
            .arg(format!("{PROGRAMS}/postgres"))
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.data())
            .args(["-h", "", "-F", "-c", "log_line_prefix=%p "])
            .current_dir("/");
        Ok(command)
    }

    fn ready(&mut self, program: &mut Running, logged: bool) -> Result<()> {
        self.logged = logged;
        program
            .wait_for_line("that it is ready", |line| {
                line.contains("database system is ready to accept connections")
            })
            .map(drop)
    }

    fn size(&self) -> u64 {
        match self.connects {
            true => 4_000,
            false => 100_000,
        }
    }

    fn work(&mut self, _program: &mut Running, size: u64) -> Result<Work> {
        let each = (size / CLIENTS).to_string();
        let mut pgbench = Command::new(format!("{PROGRAMS}/pgbench"));
        pgbench
            .args(["-n", "-U", "postgres", "-c", &CLIENTS.to_string()])
            .args(["-t", &each, "-f"])
            .arg(self.directory.join("statement.sql"))
            .arg("-h")
            .arg(self.data())
            .arg("postgres");
        if self.connects {
            pgbench.arg("-C");
        }
        if self.logged {
            pgbench.env("PGOPTIONS", "-c log_statement=all");
        }
        Work::timed(size, || {
            let text = workspace::output(&mut pgbench)?;
            let all = format!("actually processed: {size}/{size}");
            if !text.contains(&all) || !text.contains("failed transactions: 0 ") {
                bail!("pgbench printed {text}");
            }
            Ok(())
        })
    }

    fn stop(&mut self, program: &mut Running) -> Result<()> {
        let path = self.data().join("postmaster.pid");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let process = text.lines().next().context("no process")?;
        signal_process(process.parse()?, libc::SIGINT)?;
        self.lines = program.succeed()?;
        wait_until("the end of the server", || Ok(!path.exists()))
    }

    fn log(&mut self) -> Result<Vec<String>> {
        let lines = self.lines.iter().filter_map(|line| {
            let (process, statement) = line.split_once(" LOG:  statement: ")?;
            statement
                .ends_with(" AS next;")
                .then(|| format!("{process} {statement}"))
        });
        Ok(lines.collect())
    }

    fn logged(&self, hit: &Hit) -> Option<String> {
        let statement = hit.text()?;
        statement
            .ends_with(" AS next;")
            .then(|| Some(format!("{} {statement}", hit.process?)))?
    }
}
