//! Requirements of chores that cargo does not provide.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// A program or file that a chore needs, and the Debian package that has it.
pub struct Need {
    /// A program on the path, or an absolute file name.
    pub what: &'static str,
    /// The Debian package.
    pub package: &'static str,
}

const fn need(what: &'static str, package: &'static str) -> Need {
    Need { what, package }
}

/// The requirements of the tests.
pub const FOR_TESTS: &[Need] = &[
    need("cc", "gcc"),
    need("c++", "g++"),
    need("gdb", "gdb"),
    need("gdbserver", "gdbserver"),
    need("gdb-multiarch", "gdb-multiarch"),
    need("clang", "clang"),
    need("/usr/lib/x86_64-linux-gnu/libc++.so", "libc++-dev"),
    need("/usr/lib/x86_64-linux-gnu/libc++abi.so", "libc++abi-dev"),
    need("/usr/share/doc/libclang-rt-dev", "libclang-rt-dev"),
    need("ld.lld", "lld"),
    need("llvm-dwp", "llvm"),
    need("dwz", "dwz"),
    need("/usr/share/doc/libc6-dbg", "libc6-dbg"),
    need("debuginfod-find", "debuginfod"),
    need("musl-gcc", "musl-tools"),
    need(
        "/usr/include/x86_64-linux-gnu/sys/sdt.h",
        "systemtap-sdt-dev",
    ),
    need(
        "/usr/include/x86_64-linux-gnu/gnu/stubs-32.h",
        "gcc-12-multilib",
    ),
    need("babeltrace2", "babeltrace2"),
    need("zstd", "zstd"),
    need("xz", "xz-utils"),
    need("go", "golang-go"),
    need("script", "bsdutils"),
    need(
        "/usr/lib/python3/dist-packages/bt2/__init__.py",
        "python3-bt2",
    ),
    need(
        "/usr/lib/python3/dist-packages/jsonschema/__init__.py",
        "python3-jsonschema",
    ),
    // The tests of `query/` make environments with DuckDB and Spark.
    need("/usr/share/doc/python3-venv", "python3-venv"),
    need("java", "openjdk-17-jre-headless"),
    need("qemu-system-x86_64", "qemu-system-x86"),
    need("qemu-system-aarch64", "qemu-system-arm"),
    need("qemu-system-riscv64", "qemu-system-misc"),
    need("qemu-system-mips", "qemu-system-mips"),
    need("qemu-system-ppc", "qemu-system-ppc"),
    need("qemu-arm", "qemu-user"),
    need("valgrind", "valgrind"),
];

/// The requirements of `torture browser`.
pub const BROWSER: &[Need] = &[need("chromium", "chromium")];

/// The requirements of `bench hit`.
pub const FOR_BENCH_HIT: &[Need] = &[
    need("cc", "gcc"),
    need("c++", "g++"),
    need("gdb", "gdb"),
    need("gdbserver", "gdbserver"),
];

/// The requirements of `bench lean`.
pub const FOR_BENCH_LEAN: &[Need] = &[
    need("cc", "gcc"),
    need("redis-server", "redis-server"),
    need("redis-benchmark", "redis-tools"),
    need("bpftrace", "bpftrace"),
];

/// The requirements of `bench start`.
pub const FOR_BENCH_START: &[Need] = &[
    need("gdb", "gdb"),
    need("gdbserver", "gdbserver"),
    need("node", "nodejs"),
    need("/usr/share/doc/libc6-dbg", "libc6-dbg"),
];

/// The requirements of `bench qemu`.
pub const FOR_BENCH_QEMU: &[Need] = &[
    need("clang", "clang"),
    need("ld.lld", "lld"),
    need("qemu-system-aarch64", "qemu-system-arm"),
    need("qemu-system-riscv64", "qemu-system-misc"),
    need("qemu-system-ppc", "qemu-system-ppc"),
];

/// The requirements of `bench proxy`.
pub const FOR_BENCH_PROXY: &[Need] = &[
    need("clang", "clang"),
    need("ld.lld", "lld"),
    need("gdb-multiarch", "gdb-multiarch"),
    need("qemu-system-aarch64", "qemu-system-arm"),
    need("qemu-system-riscv64", "qemu-system-misc"),
    need("qemu-system-x86_64", "qemu-system-x86"),
    need("qemu-system-mips", "qemu-system-mips"),
    need("qemu-system-ppc", "qemu-system-ppc"),
];

/// The requirements of `bench file`.
pub const FOR_BENCH_FILE: &[Need] = &[need("gdb", "gdb")];

/// The requirements of `conformance`.
pub const FOR_CONFORMANCE: &[Need] = &[
    need("cc", "gcc"),
    need("c++", "g++"),
    need("gdb", "gdb"),
    need("gdbserver", "gdbserver"),
    need("/usr/lib/libinproctrace.so", "gdbserver"),
    need("runtest", "dejagnu"),
    need("dpkg-source", "dpkg-dev"),
    need(
        "/usr/include/x86_64-linux-gnu/sys/sdt.h",
        "systemtap-sdt-dev",
    ),
    need(
        "/usr/include/x86_64-linux-gnu/gnu/stubs-32.h",
        "gcc-12-multilib",
    ),
];

/// Installs missing programs if that is possible (root, with apt-get); otherwise an error lists them.
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
    let backports = match packages.iter().any(|package| is_of_qemu(package)) {
        true => backports_of_qemu()?,
        false => None,
    };
    if let Some(release) = &backports {
        know(release)?;
    }
    apt_get(&["update", "-qq"])?;
    let (qemu, others): (Vec<_>, Vec<_>) = packages
        .into_iter()
        .partition(|package| is_of_qemu(package));
    install(&others, None)?;
    install(&qemu, backports.as_deref())?;
    match needs.iter().find(|need| !is_there(need.what)) {
        Some(need) => bail!(
            "{} is still missing after installing {}",
            need.what,
            need.package
        ),
        None => Ok(()),
    }
}

/// Installs the packages, those that they need too, of the release where one is named.
fn install(packages: &[&str], release: Option<&str>) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let mut arguments = vec![
        "install",
        "-qq",
        "--yes",
        "--no-remove",
        "--no-install-recommends",
    ];
    if let Some(release) = release {
        arguments.extend(["--target-release", release]);
    }
    arguments.extend(packages);
    apt_get(&arguments)
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    workspace::run(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(arguments),
    )
}

fn is_of_qemu(package: &str) -> bool {
    package.starts_with("qemu-")
}

/// The release of Debian's backports that QEMU's packages come from: that of a release whose own QEMU is older than the plugin's
/// interface. QEMU's packages conflict with those of another version, so all are taken from there.
fn backports_of_qemu() -> Result<Option<String>> {
    let release = std::fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release has no VERSION_CODENAME")?;
    let is_old = codename.trim_matches('"') == "bookworm";
    Ok(is_old.then(|| "bookworm-backports".to_owned()))
}

/// Adds the release to apt's sources, where it is not among them.
fn know(release: &str) -> Result<()> {
    if text_of(Command::new("apt-cache").arg("policy"))?.contains(&format!("{release}/")) {
        return Ok(());
    }
    let file = Path::new("/etc/apt/sources.list.d").join(format!("{release}.list"));
    eprintln!("adding {}", file.display());
    let source = format!("deb http://deb.debian.org/debian {release} main\n");
    std::fs::write(&file, source).with_context(|| file.display().to_string())
}

/// A program's standard output; its exit status is ignored.
fn text_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
