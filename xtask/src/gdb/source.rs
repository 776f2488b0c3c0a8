//! GDB's source package, which has the test suite.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// The folder of the unpacked source of the GDB that is installed; fetched if it is not in the cache yet.
///
/// Needs no rights: apt's lists are kept in the cache, too.
pub fn fetched(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join("source");
    if let Some(source) = unpacked(&folder) {
        return Ok(source);
    }
    let version = workspace::output(Command::new("dpkg-query").args([
        "--show",
        "--showformat=${Version}",
        "gdb",
    ]))?;
    let release = std::fs::read_to_string("/etc/os-release")
        .ok()
        .and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
                .map(str::to_owned)
        })
        .context("/etc/os-release names no release: say where GDB's source is with --source")?;
    std::fs::create_dir_all(folder.join("lists/partial"))?;
    let list = folder.join("sources.list");
    std::fs::write(
        &list,
        format!(
            "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
             http://deb.debian.org/debian {release} main\n"
        ),
    )?;
    eprintln!("fetching the source of gdb {version}");
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .current_dir(&folder)
            .arg(format!("-oDir::Etc::SourceList={}", list.display()))
            .arg("-oDir::Etc::SourceParts=-")
            .arg(format!(
                "-oDir::State::Lists={}",
                folder.join("lists").display()
            ))
            .arg("-oAPT::Sandbox::User=")
            .args(arguments);
        workspace::run(&mut command)
    };
    apt_get(&["--quiet", "update"])?;
    apt_get(&["--quiet", "source", &format!("gdb={version}")])?;
    match unpacked(&folder) {
        Some(source) => Ok(source),
        None => bail!("apt-get has left no source in {}", folder.display()),
    }
}

fn unpacked(folder: &Path) -> Option<PathBuf> {
    std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.join("gdb/testsuite/lib/gdb.exp").is_file())
}
