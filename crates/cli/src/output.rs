//! The output file, which is checked before anything is done.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::TempDir;
use tracewire_tracefile::private;

/// Whether a recording with this name is a lean one.
pub fn is_lean_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "twr")
}

/// The destination of a trace file: a name, or a stream. For a stream the whole file is made in a temporary directory first,
/// since the front of a trace file is written last.
#[derive(Debug)]
pub struct Output {
    /// The file to write.
    path: PathBuf,
    /// The user's name of it.
    shown: PathBuf,
    destination: Destination,
}

/// The destination of the file.
#[derive(Debug)]
enum Destination {
    /// It is at its name.
    Name,
    /// It is sent into a stream.
    Stream {
        directory: TempDir,
        /// Standard output as it was at the beginning; none for a stream that has a name.
        stdout: Option<File>,
    },
    /// It is removed with this directory.
    Nowhere(#[allow(dead_code, reason = "held for its drop")] TempDir),
}

impl Output {
    /// Makes sure that a trace file can be written at `path`; `-` is the standard output.
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        let is_stdout = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
            .iter()
            .any(|name| path.as_os_str() == *name);
        let is_stream = is_stdout
            || std::fs::metadata(path).is_ok_and(|metadata| {
                let kind = metadata.file_type();
                kind.is_fifo() || kind.is_char_device()
            });
        if !is_stream {
            return Ok(Self {
                path: check(path)?,
                shown: path.to_owned(),
                destination: Destination::Name,
            });
        }
        if !is_stdout {
            refuse_foreign_link(path)?;
        }
        let stdout = is_stdout.then(|| io::stdout().as_fd().try_clone_to_owned());
        let stdout = stdout
            .transpose()
            .context("standard output")?
            .map(File::from);
        let shown = if is_stdout {
            PathBuf::from("standard output")
        } else {
            path.to_owned()
        };
        let is_terminal = match &stdout {
            Some(stdout) => stdout.is_terminal(),
            // A FIFO cannot be opened for this check before there is a reader.
            None => !is_fifo(path) && File::open(path).is_ok_and(|file| file.is_terminal()),
        };
        if is_terminal {
            bail!(
                "{} is a terminal, and a trace file is no text; expected the name of a file, or a pipe",
                shown.display()
            );
        }
        let (directory, path) = temporary()?;
        Ok(Self {
            path,
            shown,
            destination: Destination::Stream { directory, stdout },
        })
    }

    /// A temporary file that is not kept.
    pub fn nowhere() -> anyhow::Result<Self> {
        let (directory, path) = temporary()?;
        Ok(Self {
            shown: path.clone(),
            path,
            destination: Destination::Nowhere(directory),
        })
    }

    /// The file to write.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user's name of it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Whether the file is kept.
    pub const fn is_kept(&self) -> bool {
        !matches!(self.destination, Destination::Nowhere(_))
    }

    /// Whether there is a file at the end.
    pub const fn is_file(&self) -> bool {
        matches!(self.destination, Destination::Name)
    }

    /// Whether the trace file goes to standard output. A program that is started must then not write there.
    pub fn is_stdout(&self) -> bool {
        matches!(
            self.destination,
            Destination::Stream {
                stdout: Some(_),
                ..
            }
        )
    }

    /// Sends the written file to the stream, if there is one.
    pub fn deliver(self) -> anyhow::Result<()> {
        let Destination::Stream { directory, stdout } = self.destination else {
            return Ok(());
        };
        let name = &self.shown;
        let send = || -> io::Result<()> {
            let mut file = File::open(&self.path)?;
            let mut sink = match &stdout {
                Some(stdout) => stdout.try_clone()?,
                None => File::options().write(true).open(name)?,
            };
            io::copy(&mut file, &mut sink)?;
            Ok(())
        };
        match send() {
            Ok(()) => Ok(()),
            // The reader has had enough. This is what was standard output at the start: the descriptor may have gone to others.
            Err(error) if stdout.is_some() && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => {
                let kept = directory.keep().join("run.tf");
                Err(error).with_context(|| {
                    format!(
                        "cannot write {}; the trace file is {}",
                        name.display(),
                        kept.display()
                    )
                })
            }
        }
    }
}

/// A directory that is removed with its value, and a file's name in it.
fn temporary() -> anyhow::Result<(TempDir, PathBuf)> {
    let directory = tempfile::Builder::new()
        .prefix("tracewire-")
        .tempdir()
        .context("no temporary directory for a trace file that is not kept under a name")?;
    let path = directory.path().join("run.tf");
    Ok((directory, path))
}

fn is_fifo(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Refuses a name at which another user may have put a link.
fn refuse_foreign_link(path: &Path) -> anyhow::Result<()> {
    if private::is_foreign_link(path) {
        bail!(
            "the output {} is a symbolic link in a folder that others can write to, and is not followed; choose another name",
            path.display()
        );
    }
    Ok(())
}

/// Checks that a trace file can be written at `path`. Returns the path to replace: a link is followed, so that the file it names
/// is replaced and not the link.
pub fn check(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    if path.as_os_str() == "-" {
        bail!("the output cannot be standard output here; expected the name of a file to write");
    }
    refuse_foreign_link(path)?;
    let path = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            bail!("the output {shown} is a folder; expected the name of a file to write")
        }
        Ok(metadata) if !metadata.is_file() => {
            bail!(
                "the output {shown} is no ordinary file, and would be replaced by one; choose another name"
            )
        }
        Ok(_) => path
            .canonicalize()
            .with_context(|| format!("cannot write {shown}"))?,
        Err(_) => path.to_owned(),
    };
    if path.file_name().is_none() {
        bail!("the output {shown} names no file");
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // The file is written beside its name and renamed, so the directory must be writable.
    tempfile::Builder::new()
        .prefix(".tracewire")
        .tempfile_in(folder)
        .with_context(|| {
            format!(
                "cannot write {shown}: no file can be made in {}",
                folder.display()
            )
        })?;
    Ok(path)
}
