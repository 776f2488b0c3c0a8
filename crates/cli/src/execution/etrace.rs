//! `convert --etrace`: packets of a RISC-V trace encoder, with the program, to text.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tracewire_arch::Architecture;
use tracewire_exec_trace::etrace::{Options, Transcribed, transcribe};
use tracewire_views::words;

use super::open::{elf_architecture, image, symbols};
use crate::answer::Answer;
use crate::open;
use crate::output;

/// `convert --etrace`.
pub fn run(
    packets: &Path,
    out: &Path,
    options: &Options,
    elf: &[PathBuf],
    machine: open::Machine,
) -> anyhow::Result<Answer> {
    let shown = packets.display();
    let Some(symbols) = symbols(packets, elf)? else {
        bail!("--etrace needs the program that was executed: add --elf PROGRAM");
    };
    let is_64 = match machine.architecture.or_else(|| elf_architecture(elf)) {
        Some(Architecture::Riscv64) => true,
        Some(Architecture::Riscv32) => false,
        Some(other) => bail!(
            "--etrace is for programs of RISC-V, and this is one of {}",
            other.name()
        ),
        None => bail!("the program does not say which machine it is for: add --architecture NAME"),
    };
    let bytes = match packets.as_os_str() == "-" {
        true => {
            let mut bytes = Vec::new();
            io::copy(&mut io::stdin().lock(), &mut bytes).map(|_| bytes)
        }
        false => fs::read(packets),
    };
    let bytes = bytes.with_context(|| format!("{shown} cannot be used"))?;
    let image = image(&symbols);
    let written = |sink: &mut dyn Write| -> anyhow::Result<Transcribed> {
        let mut sink = BufWriter::with_capacity(1 << 18, sink);
        let done = transcribe(&bytes, &image, is_64, options, &mut sink)
            .with_context(|| format!("{shown} cannot be used"))?;
        sink.flush()
            .with_context(|| format!("cannot write {}", out.display()))?;
        Ok(done)
    };
    let done = if out.as_os_str() == "-" {
        written(&mut io::stdout().lock())?
    } else {
        let out = &output::check(out)?;
        let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut beside = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
            .with_context(|| format!("cannot write {}", out.display()))?;
        let done = written(beside.as_file_mut())?;
        beside
            .persist(out)
            .with_context(|| format!("cannot write {}", out.display()))?;
        done
    };
    message!(
        "tracewire: {} of {} in {}",
        words::count(done.instructions, "instruction"),
        words::count(done.packets, "packet"),
        out.display()
    );
    if done.damaged > 0 {
        message!(
            "tracewire: warning: {shown}: {} could not be understood, or did not fit the program",
            words::count(done.damaged, "packet")
        );
    }
    if done.rest > 0 {
        message!(
            "tracewire: warning: {shown}: its last {} are left out: they are no whole packet",
            words::count(done.rest as u64, "byte")
        );
    }
    Ok(match done.instructions {
        0 => Answer::No,
        _ => Answer::Yes,
    })
}
