//! The OpenSSL program from its package, which digests the data from a pipe.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::super::subject::{Hit, Subject, Work};
use crate::running::Running;
use crate::setup::Need;

/// How much is digested in an operation.
const BLOCK: usize = 8192;

#[derive(Default)]
pub struct OpenSsl {
    /// The digest of an untraced run of this size.
    untraced: Option<(u64, String)>,
    fed: u64,
    digest: String,
}

fn feed(program: &mut Running, size: u64) -> Result<String> {
    let block = "tracewire".repeat(BLOCK / 9 + 1);
    for _ in 0..size {
        program.write(&block[..BLOCK])?;
    }
    let lines = program.succeed()?;
    match lines
        .iter()
        .find_map(|line| line.split("stdin)= ").nth(1).map(str::to_owned))
    {
        Some(digest) => Ok(digest),
        None => bail!("no digest in {lines:?}"),
    }
}

impl Subject for OpenSsl {
    fn name(&self) -> &'static str {
        "openssl"
    }

    fn needs(&self) -> &'static [Need] {
        &[Need {
            what: "/usr/bin/openssl",
            package: "openssl",
        }]
    }

    fn prepare(&mut self, _directory: &Path) -> Result<()> {
        Ok(())
    }

    fn spec(&self) -> String {
        "EVP_DigestUpdate if $rdx > 0 : $rdx".to_owned()
    }

    fn bpftrace(&self) -> Option<String> {
        Some(
            "uprobe:/usr/lib/x86_64-linux-gnu/libcrypto.so.3:EVP_DigestUpdate { printf(\"%d\\n\", arg2); }"
                .to_owned(),
        )
    }

    fn dprintf(&self) -> Option<String> {
        Some("dprintf *EVP_DigestUpdate,\"%ld\\n\",$rdx".to_owned())
    }

    fn command(&mut self) -> Result<Command> {
        let mut command = Command::new("/usr/bin/openssl");
        command.args(["dgst", "-sha256"]);
        Ok(command)
    }

    fn ready(&mut self, program: &mut Running, _logged: bool) -> Result<()> {
        // It prints nothing before the end: it is ready when it waits for its input. If another program starts it, unread data
        // stays in the pipe.
        let directory = format!("/proc/{}", program.id());
        crate::running::wait_until("openssl's wait for input", || {
            let name = std::fs::read_to_string(format!("{directory}/comm"))?;
            let wait = std::fs::read_to_string(format!("{directory}/wchan"))?;
            Ok(name.trim() != "openssl" || wait.contains("pipe"))
        })
    }

    fn size(&self) -> u64 {
        100_000
    }

    fn work(&mut self, program: &mut Running, size: u64) -> Result<Work> {
        if !matches!(&self.untraced, Some((known, _)) if *known == size) {
            let mut untraced = Running::start(&mut self.command()?)?;
            self.untraced = Some((size, feed(&mut untraced, size)?));
        }
        self.fed = size;
        Work::timed(size, || {
            self.digest = feed(program, size)?;
            Ok(())
        })
    }

    fn stop(&mut self, _program: &mut Running) -> Result<()> {
        match &self.untraced {
            Some((_, expected)) if *expected == self.digest => Ok(()),
            _ => bail!("the digest is {}, and not the untraced one", self.digest),
        }
    }

    fn log(&mut self) -> Result<Vec<String>> {
        Ok(vec![BLOCK.to_string(); usize::try_from(self.fed)?])
    }

    fn logged(&self, hit: &Hit) -> Option<String> {
        hit.values.first().cloned()
    }
}
