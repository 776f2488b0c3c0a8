//! Redis from its package: stripped, its functions known by the dynamic symbol table.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::subject::{Hit, Subject, Work};
use super::free_port;
use crate::running::{Running, wait_until};
use crate::setup::Need;
use crate::workspace;

#[derive(Default)]
pub struct Redis {
    directory: PathBuf,
    port: u16,
    monitor: Option<Running>,
    /// Whether a child saves the keys to a file, again and again.
    saves: bool,
}

impl Redis {
    /// One that saves its keys while it works.
    pub fn saving() -> Self {
        Self {
            saves: true,
            ..Self::default()
        }
    }

    /// Has a child save all keys, and waits until it has.
    fn save(&self) -> Result<()> {
        self.client(&["bgsave"])?;
        wait_until("the end of a save", || {
            let state = self.client(&["info", "persistence"])?;
            if state.contains("rdb_last_bgsave_status:err") {
                bail!("redis could not save: {state}");
            }
            Ok(state.contains("rdb_bgsave_in_progress:0"))
        })
    }

    fn client(&self, words: &[&str]) -> Result<String> {
        workspace::output(
            Command::new("redis-cli")
                .args(["-p", &self.port.to_string()])
                .args(words),
        )
    }
}

impl Subject for Redis {
    fn name(&self) -> &'static str {
        match self.saves {
            true => "redis-save",
            false => "redis",
        }
    }

    fn needs(&self) -> &'static [Need] {
        &[
            Need {
                what: "redis-server",
                package: "redis-server",
            },
            Need {
                what: "redis-benchmark",
                package: "redis-tools",
            },
        ]
    }

    fn prepare(&mut self, directory: &Path) -> Result<()> {
        self.directory = directory.to_owned();
        Ok(())
    }

    fn spec(&self) -> String {
        // An object's text is its third word from 8 bytes on: type, encoding, age; references; pointer.
        "lookupKey : /s *(char**)($rsi + 8)".to_owned()
    }

    fn bpftrace(&self) -> Option<String> {
        (!self.saves).then(|| {
            "uprobe:/usr/bin/redis-server:lookupKey { printf(\"%s\\n\", str(*(uint64*)(arg1 + 8))); }"
                .to_owned()
        })
    }

    fn dprintf(&self) -> Option<String> {
        (!self.saves).then(|| "dprintf *lookupKey,\"%s\\n\",*(char**)($rsi + 8)".to_owned())
    }

    fn forks(&self) -> bool {
        self.saves
    }

    fn command(&mut self) -> Result<Command> {
        self.port = free_port()?;
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &self.port.to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--enable-debug-command", "local"])
            .current_dir(&self.directory);
        Ok(command)
    }

    fn ready(&mut self, program: &mut Running, logged: bool) -> Result<()> {
        program.wait_for_line("that it accepts connections", |line| {
            line.contains("Ready to accept connections")
        })?;
        self.client(&["set", "kept", "before"])?;
        if self.saves {
            self.client(&["debug", "populate", "100000", "filled"])?;
        }
        if logged {
            let monitor = Running::start(Command::new("redis-cli").args([
                "-p",
                &self.port.to_string(),
                "monitor",
            ]))?;
            monitor.wait_for_line("OK", |line| line == "OK")?;
            self.monitor = Some(monitor);
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        200_000
    }

    fn work(&mut self, _program: &mut Running, size: u64) -> Result<Work> {
        let work = Work::timed(size, || {
            let mut benchmark = Running::start(
                Command::new("redis-benchmark")
                    .args(["-p", &self.port.to_string(), "-n", &size.to_string()])
                    .args(["-r", "1000", "-t", "get", "-c", "20", "-q"]),
            )?;
            if self.saves {
                self.save()?;
                self.save()?;
            }
            let text = benchmark.succeed()?.join("\n");
            if !text.contains("requests per second") || text.contains("rror") {
                bail!("redis-benchmark printed {text}");
            }
            Ok(())
        })?;
        if self.client(&["get", "kept"])?.trim() != "before" {
            bail!("a key has lost its value");
        }
        Ok(work)
    }

    fn stop(&mut self, program: &mut Running) -> Result<()> {
        // The monitor has seen everything once it has seen this.
        if let Some(monitor) = &self.monitor {
            self.client(&["echo", "end of the work"])?;
            monitor.wait_for_line("the end of the work", |line| {
                line.contains("end of the work")
            })?;
        }
        // Answered by the end of the connection.
        let _ = self.client(&["shutdown", "nosave"]);
        program.succeed().map(drop)
    }

    fn log(&mut self) -> Result<Vec<String>> {
        let mut monitor = self.monitor.take().context("no monitor ran")?;
        // It ends with the server, with any status.
        let (_, lines) = monitor.finish()?;
        Ok(lines
            .iter()
            .filter_map(|line| {
                let rest = line.split("\"GET\" \"").nth(1)?;
                let key = rest.strip_suffix('"')?;
                key.starts_with("key:").then(|| key.to_owned())
            })
            .collect())
    }

    fn logged(&self, hit: &Hit) -> Option<String> {
        hit.text().filter(|key| key.starts_with("key:"))
    }
}

/// Waits until a server accepts connections on a port.
pub fn wait_for_port(port: u16) -> Result<()> {
    wait_until("a server on its port", || {
        Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())
    })
}
