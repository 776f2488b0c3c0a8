//! The SQLite shell from its package, which is given statements by a pipe.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::super::subject::{Hit, Subject, Work};
use crate::running::Running;
use crate::setup::Need;
use crate::workspace;

#[derive(Default)]
pub struct Sqlite {
    directory: PathBuf,
    statements: Vec<String>,
}

impl Subject for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite3"
    }

    fn needs(&self) -> &'static [Need] {
        &[Need {
            what: "/usr/bin/sqlite3",
            package: "sqlite3",
        }]
    }

    fn prepare(&mut self, directory: &Path) -> Result<()> {
        self.directory = directory.to_owned();
        Ok(())
    }

    fn spec(&self) -> String {
        "sqlite3_prepare_v2 : /s (char*)$rsi".to_owned()
    }

    fn bpftrace(&self) -> Option<String> {
        Some(
            "uprobe:/usr/lib/x86_64-linux-gnu/libsqlite3.so.0:sqlite3_prepare_v2 { printf(\"%s\\n\", str(arg1)); }"
                .to_owned(),
        )
    }

    fn dprintf(&self) -> Option<String> {
        Some("dprintf *sqlite3_prepare_v2,\"%s\\n\",(char*)$rsi".to_owned())
    }

    fn command(&mut self) -> Result<Command> {
        let database = self.directory.join("database");
        if database.exists() {
            std::fs::remove_file(&database)?;
        }
        let mut command = Command::new("/usr/bin/sqlite3");
        command.arg(database);
        Ok(command)
    }

    fn ready(&mut self, program: &mut Running, _logged: bool) -> Result<()> {
        program.write("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);\n.print ready\n")?;
        program
            .wait_for_line("ready", |line| line == "ready")
            .map(drop)
    }

    fn size(&self) -> u64 {
        100_000
    }

    fn work(&mut self, program: &mut Running, size: u64) -> Result<Work> {
        self.statements = (0..size)
            .map(|id| format!("INSERT INTO item VALUES({id}, 'item {}');", id % 13))
            .collect();
        let mut text = "BEGIN;\n".to_owned();
        for statement in &self.statements {
            writeln!(text, "{statement}")?;
        }
        text.push_str("COMMIT;\n.print done\n");
        Work::timed(size, || {
            program.write(&text)?;
            program.wait_for_line("done", |line| line == "done")?;
            Ok(())
        })
    }

    fn stop(&mut self, program: &mut Running) -> Result<()> {
        program.succeed()?;
        let answer = workspace::output(
            Command::new("/usr/bin/sqlite3")
                .arg(self.directory.join("database"))
                .arg("PRAGMA integrity_check; SELECT count(*), sum(id) FROM item;"),
        )?;
        let count = self.statements.len() as u64;
        let expected = format!("ok\n{count}|{}", count * count.saturating_sub(1) / 2);
        if answer.trim() != expected {
            bail!("the database says `{}`, not `{expected}`", answer.trim());
        }
        Ok(())
    }

    fn log(&mut self) -> Result<Vec<String>> {
        // SQLite's own log would be the statements again.
        Ok(self.statements.clone())
    }

    fn logged(&self, hit: &Hit) -> Option<String> {
        hit.text()
            .filter(|text| text.starts_with("INSERT INTO item"))
            .map(|text| text.trim_end_matches("\\n").to_owned())
    }
}
