//! `cargo xtask gdb`: a GDB for a machine that Debian's does not support.

pub mod source;

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{setup, workspace};

#[derive(clap::Args)]
pub struct Arguments {
    /// The machine, as GDB's configure names it
    #[arg(default_value = "nios2-elf")]
    machine: String,
}

/// The requirements of building GDB.
const NEEDS: &[setup::Need] = &[
    setup::Need {
        what: "c++",
        package: "g++",
    },
    setup::Need {
        what: "make",
        package: "make",
    },
    setup::Need {
        what: "dpkg-source",
        package: "dpkg-dev",
    },
    setup::Need {
        what: "/usr/include/x86_64-linux-gnu/gmp.h",
        package: "libgmp-dev",
    },
    setup::Need {
        what: "/usr/include/expat.h",
        package: "libexpat1-dev",
    },
];

/// Builds the installed version of GDB for the machine, from Debian's source package, once.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::provide(NEEDS)?;
    let cache = workspace::target().join("gdb");
    let source = source::fetched(&cache)?;
    let folder = cache.join(&arguments.machine);
    let program = folder.join("gdb/gdb");
    if !program.is_file() {
        std::fs::create_dir_all(&folder)?;
        build(&source, &folder, &arguments.machine)?;
    }
    println!("{}", program.display());
    if arguments.machine == "nios2-elf" {
        eprintln!(
            "the tests use it with TRACEWIRE_NIOS2_GDB={}",
            program.display()
        );
    }
    Ok(())
}

fn build(source: &Path, folder: &Path, machine: &str) -> Result<()> {
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.current_dir(folder).env("MAKEINFO", "true");
        command
    };
    workspace::run(
        command(&source.join("configure"))
            .arg(format!("--target={machine}"))
            .args([
                "--disable-sim",
                "--disable-ld",
                "--disable-gas",
                "--disable-binutils",
            ])
            .args([
                "--disable-gprof",
                "--disable-gold",
                "--disable-nls",
                "--disable-werror",
            ])
            .args(["--without-python", "--without-guile", "--with-expat"])
            .args(["CFLAGS=-O0 -g0", "CXXFLAGS=-O0 -g0"]),
    )?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    workspace::run(command(Path::new("make")).args([
        &format!("-j{jobs}"),
        "MAKEINFO=true",
        "all-gdb",
    ]))
}
