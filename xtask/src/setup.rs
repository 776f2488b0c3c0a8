//! What chores need that cargo does not bring.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace;

/// A program or file that a chore needs, and the Debian package that has it.
pub struct Need {
    /// A program on the path, or an absolute file name.
    pub what: &'static str,
    /// The Debian package.
    pub package: &'static str,
}

/// What the tests need.
pub const FOR_TESTS: &[Need] = &[
    Need {
        what: "cc",
        package: "gcc",
    },
    Need {
        what: "c++",
        package: "g++",
    },
    Need {
        what: "gdb",
        package: "gdb",
    },
    Need {
        what: "gdbserver",
        package: "gdbserver",
    },
    Need {
        what: "gdb-multiarch",
        package: "gdb-multiarch",
    },
    Need {
        what: "clang",
        package: "clang",
    },
    Need {
        what: "/usr/lib/x86_64-linux-gnu/libc++.so",
        package: "libc++-dev",
    },
    Need {
        what: "ld.lld",
        package: "lld",
    },
    Need {
        what: "llvm-dwp",
        package: "llvm",
    },
    Need {
        what: "dwz",
        package: "dwz",
    },
    Need {
        what: "/usr/share/doc/libc6-dbg",
        package: "libc6-dbg",
    },
    Need {
        what: "debuginfod-find",
        package: "debuginfod",
    },
    Need {
        what: "musl-gcc",
        package: "musl-tools",
    },
    Need {
        what: "/usr/include/x86_64-linux-gnu/sys/sdt.h",
        package: "systemtap-sdt-dev",
    },
    Need {
        what: "/usr/include/x86_64-linux-gnu/gnu/stubs-32.h",
        package: "gcc-12-multilib",
    },
    Need {
        what: "babeltrace2",
        package: "babeltrace2",
    },
    Need {
        what: "zstd",
        package: "zstd",
    },
    Need {
        what: "xz",
        package: "xz-utils",
    },
    Need {
        what: "go",
        package: "golang-go",
    },
    Need {
        what: "script",
        package: "bsdutils",
    },
    Need {
        what: "/usr/lib/python3/dist-packages/bt2/__init__.py",
        package: "python3-bt2",
    },
    Need {
        what: "/usr/lib/python3/dist-packages/jsonschema/__init__.py",
        package: "python3-jsonschema",
    },
    Need {
        what: "qemu-system-x86_64",
        package: "qemu-system-x86",
    },
    Need {
        what: "qemu-system-aarch64",
        package: "qemu-system-arm",
    },
    Need {
        what: "qemu-system-riscv64",
        package: "qemu-system-misc",
    },
    Need {
        what: "qemu-system-mips",
        package: "qemu-system-mips",
    },
    Need {
        what: "qemu-system-ppc",
        package: "qemu-system-ppc",
    },
];

/// What `torture browser` needs.
pub const BROWSER: &[Need] = &[Need {
    what: "chromium",
    package: "chromium",
}];

/// What `bench hit` needs.
pub const FOR_BENCH_HIT: &[Need] = &[
    Need {
        what: "cc",
        package: "gcc",
    },
    Need {
        what: "gdb",
        package: "gdb",
    },
    Need {
        what: "gdbserver",
        package: "gdbserver",
    },
];

/// What `bench start` needs.
pub const FOR_BENCH_START: &[Need] = &[
    Need {
        what: "gdb",
        package: "gdb",
    },
    Need {
        what: "gdbserver",
        package: "gdbserver",
    },
    Need {
        what: "node",
        package: "nodejs",
    },
    Need {
        what: "/usr/share/doc/libc6-dbg",
        package: "libc6-dbg",
    },
];

/// What `bench file` needs.
pub const FOR_BENCH_FILE: &[Need] = &[Need {
    what: "gdb",
    package: "gdb",
}];

/// What `conformance` needs.
pub const FOR_CONFORMANCE: &[Need] = &[
    Need {
        what: "cc",
        package: "gcc",
    },
    Need {
        what: "c++",
        package: "g++",
    },
    Need {
        what: "gdb",
        package: "gdb",
    },
    Need {
        what: "gdbserver",
        package: "gdbserver",
    },
    Need {
        what: "/usr/lib/libinproctrace.so",
        package: "gdbserver",
    },
    Need {
        what: "runtest",
        package: "dejagnu",
    },
    Need {
        what: "dpkg-source",
        package: "dpkg-dev",
    },
    Need {
        what: "/usr/include/x86_64-linux-gnu/gnu/stubs-32.h",
        package: "gcc-12-multilib",
    },
];

/// Installs what is missing where that is allowed (root, with apt-get); otherwise an error says what is missing.
pub fn provide(needs: &[Need]) -> Result<()> {
    let missing: Vec<_> = needs.iter().filter(|need| !is_there(need.what)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<_> = missing.iter().map(|need| need.package).collect();
    if !is_root() || find_program("apt-get").is_none() {
        bail!(
            "missing: {}\ninstall the packages: {}",
            missing
                .iter()
                .map(|need| need.what)
                .collect::<Vec<_>>()
                .join(", "),
            packages.join(" ")
        );
    }
    eprintln!("installing {}", packages.join(" "));
    let apt_get = |arguments: &[&str]| {
        workspace::run(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(arguments),
        )
    };
    apt_get(&["update", "-qq"])?;
    let mut install = vec![
        "install",
        "-qq",
        "--yes",
        "--no-remove",
        "--no-install-recommends",
    ];
    install.extend(&packages);
    apt_get(&install)?;
    match needs.iter().find(|need| !is_there(need.what)) {
        Some(need) => bail!(
            "{} is still missing after installing {}",
            need.what,
            need.package
        ),
        None => Ok(()),
    }
}

/// Whether this process may install packages.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn is_there(what: &str) -> bool {
    if what.starts_with('/') {
        Path::new(what).exists()
    } else {
        find_program(what).is_some()
    }
}

/// The program's file, looked up in `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
