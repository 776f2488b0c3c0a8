//! A pipeline that a shell makes: three stages, each of which has a log of what it passes on.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::super::subject::{Hit, Subject, Work};
use crate::running::{Running, wait_until};
use crate::setup::Need;
use crate::workspace;

const STAGES: usize = 3;

#[derive(Default)]
pub struct Pipeline {
    directory: PathBuf,
}

impl Pipeline {
    fn log_path(&self, stage: usize) -> PathBuf {
        self.directory.join(format!("stage{stage}.log"))
    }
}

impl Subject for Pipeline {
    fn name(&self) -> &'static str {
        "pipeline"
    }

    fn needs(&self) -> &'static [Need] {
        &[Need {
            what: "cc",
            package: "gcc",
        }]
    }

    fn prepare(&mut self, directory: &Path) -> Result<()> {
        self.directory = directory.to_owned();
        workspace::run(
            Command::new("cc")
                .args(["-g", "-O2", "-o"])
                .arg(directory.join("stage"))
                .arg(workspace::root().join("xtask/programs/stage.c")),
        )
    }

    fn spec(&self) -> String {
        "pass : /s line".to_owned()
    }

    fn forks(&self) -> bool {
        true
    }

    fn command(&mut self) -> Result<Command> {
        for stage in 0..STAGES {
            std::fs::write(self.log_path(stage), "")?;
        }
        let stages: Vec<String> = (0..STAGES)
            .map(|stage| format!("./stage {}", self.log_path(stage).display()))
            .collect();
        let mut command = Command::new("sh");
        command
            .args(["-c", &stages.join(" | ")])
            .current_dir(&self.directory);
        Ok(command)
    }

    fn ready(&mut self, program: &mut Running, _logged: bool) -> Result<()> {
        wait_until("that all stages are ready", || {
            Ok(program
                .lines()
                .iter()
                .filter(|line| *line == "ready")
                .count()
                == STAGES)
        })
    }

    fn size(&self) -> u64 {
        200_000
    }

    fn work(&mut self, program: &mut Running, size: u64) -> Result<Work> {
        let mut text = String::new();
        for n in 1..=size {
            writeln!(text, "line {n} of {size}")?;
        }
        let last = format!("line {size} of {size}");
        Work::timed(size, || {
            program.write(&text)?;
            program.wait_for_line("the last line", |line| line == last)?;
            Ok(())
        })
    }

    fn stop(&mut self, program: &mut Running) -> Result<()> {
        program.succeed().map(drop)
    }

    fn log(&mut self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for stage in 0..STAGES {
            let path = self.log_path(stage);
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("no log in {}", path.display()))?;
            lines.extend(text.lines().map(str::to_owned));
        }
        Ok(lines)
    }

    fn logged(&self, hit: &Hit) -> Option<String> {
        let line = hit.text()?;
        Some(format!("{} {}", hit.process?, line.trim_end_matches("\\n")))
    }
}
