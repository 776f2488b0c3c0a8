//! Programs without a system, in QEMU's machines, with QEMU's stub in front of them.
//!
//! The program is `bare/program.c`: it counts, for ever. The cross compiler is clang, which is one for all machines.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::tools::tool;

const PROGRAM: &str = include_str!("../bare/program.c");

/// A machine of QEMU's, and how a program for it is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BareMachine {
    /// The machine's name on Tracewire's command line.
    pub name: &'static str,
    /// The program that emulates it.
    pub qemu: &'static str,
    /// Its arguments; `ELF` is the program.
    arguments: &'static [&'static str],
    target: &'static [&'static str],
    base: &'static str,
    start: &'static str,
}

const LOADED: &str = "loader,file=ELF,cpu-num=0";

/// All of them: both byte orders, 32 and 64 bits.
pub const BARE_MACHINES: [BareMachine; 7] = [
    BareMachine {
        name: "arm",
        qemu: "qemu-system-arm",
        arguments: &["-M", "virt", "-cpu", "cortex-a15", "-device", LOADED],
        target: &["--target=armv7a-none-eabi"],
        base: "0x40200000",
        start: include_str!("../bare/arm.S"),
    },
    BareMachine {
        name: "aarch64",
        qemu: "qemu-system-aarch64",
        arguments: &["-M", "virt", "-cpu", "cortex-a57", "-device", LOADED],
        target: &["--target=aarch64-none-elf"],
        base: "0x40200000",
        start: include_str!("../bare/aarch64.S"),
    },
    BareMachine {
        name: "riscv64",
        qemu: "qemu-system-riscv64",
        // Below 2 GiB: GDB 13's tracepoints extend this machine's registers from 32 bits with their sign.
        arguments: &["-M", "none", "-cpu", "rv64", "-device", LOADED],
        target: &[
            "--target=riscv64-none-elf",
            "-march=rv64imac",
            "-mabi=lp64",
            "-mcmodel=medany",
            "-mno-relax",
        ],
        base: "0x10000",
        start: include_str!("../bare/riscv64.S"),
    },
    BareMachine {
        name: "x86_64",
        qemu: "qemu-system-x86_64",
        arguments: &["-M", "pc", "-kernel", "ELF"],
        target: &[
            "--target=x86_64-none-elf",
            "-mno-red-zone",
            "-mcmodel=small",
        ],
        base: "0x100000",
        start: include_str!("../bare/x86_64.S"),
    },
    BareMachine {
        name: "mips",
        qemu: "qemu-system-mips",
        arguments: &["-M", "malta", "-cpu", "24Kf", "-kernel", "ELF"],
        target: &["--target=mips-none-elf", "-mabi=32", "-mno-abicalls", "-G0"],
        base: "0x80110000",
        start: include_str!("../bare/mips.S"),
    },
    BareMachine {
        name: "mipsel",
        qemu: "qemu-system-mipsel",
        arguments: &["-M", "malta", "-cpu", "24Kf", "-kernel", "ELF"],
        target: &[
            "--target=mipsel-none-elf",
            "-mabi=32",
            "-mno-abicalls",
            "-G0",
        ],
        base: "0x80110000",
        start: include_str!("../bare/mips.S"),
    },
    BareMachine {
        name: "ppc",
        qemu: "qemu-system-ppc",
        arguments: &["-M", "none", "-cpu", "7457", "-device", LOADED],
        target: &["--target=powerpc-none-elf"],
        base: "0x10000",
        start: include_str!("../bare/ppc.S"),
    },
];

/// A machine both of whose cpus run the program.
pub const TWO_CPUS: BareMachine = BareMachine {
    name: "aarch64",
    qemu: "qemu-system-aarch64",
    arguments: &[
        "-M",
        "virt",
        "-cpu",
        "cortex-a57",
        "-smp",
        "2",
        "-device",
        LOADED,
    ],
    target: &["--target=aarch64-none-elf"],
    base: "0x40200000",
    start: include_str!("../bare/aarch64-two-cpus.S"),
};

impl BareMachine {
    /// The machine of a name.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn named(name: &str) -> Self {
        let found = BARE_MACHINES.iter().find(|machine| machine.name == name);
        *found.expect("a machine that tests have")
    }

    /// Builds the program.
    ///
    /// # Panics
    /// When it cannot be built.
    #[must_use]
    #[track_caller]
    pub fn build(&self, directory: &Path) -> PathBuf {
        self.build_of(directory, &[("program", PROGRAM)], &[])
    }

    /// Builds a program of C sources, which have names and texts. One of them has `run` and the array `stack` of 4096 bytes. The
    /// objects stay in the directory.
    ///
    /// # Panics
    /// When it cannot be built.
    #[must_use]
    #[track_caller]
    pub fn build_of(
        &self,
        directory: &Path,
        sources: &[(&str, &str)],
        options: &[&str],
    ) -> PathBuf {
        let write = |name: &str, text: &str| {
            std::fs::write(directory.join(name), text).expect("the directory can be written");
        };
        write("start.S", self.start);
        write(
            "program.ld",
            &format!(
                "ENTRY(_start)\nSECTIONS {{ . = {}; .text : {{ *(.text*) }} .rodata : {{ *(.rodata*) }} \
                 .data : {{ *(.data*) *(.sdata*) }} .bss : {{ *(.bss*) *(.sbss*) *(COMMON) }} \
                 /DISCARD/ : {{ *(.ARM.exidx*) *(.eh_frame*) *(.MIPS.abiflags) *(.reginfo) *(.comment) }} }}\n",
                self.base
            ),
        );
        let run = |program: &str, arguments: &[&str]| {
            let output = tool(program)
                .args(arguments)
                .current_dir(directory)
                .output()
                .expect("the program runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {errors}");
        };
        // GDB extends the addresses of MIPS with their sign in all forms of DWARF 4.
        let free = ["-ffreestanding", "-fno-pic", "-gdwarf-4", "-O0"];
        let mut objects = Vec::new();
        for (name, text) in sources {
            let file = format!("{name}.c");
            write(&file, text);
            let of_it = ["-c", &file];
            run("clang", &[self.target, &free, options, &of_it].concat());
            objects.push(format!("{name}.o"));
        }
        run("clang", &[self.target, &["-c", "start.S"]].concat());
        let elf = format!("{}.elf", self.name);
        let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
        let linked = ["-T", "program.ld", "-o", &elf, "start.o"];
        run("ld.lld", &[&linked, &objects[..]].concat());
        directory.join(elf)
    }

    /// QEMU's arguments for a machine that only runs the program.
    ///
    /// # Panics
    /// When the program's name is not UTF-8.
    #[must_use]
    pub fn arguments(&self, elf: &Path) -> Vec<String> {
        let elf = elf.to_str().expect("a name in UTF-8");
        let own = (self.arguments.iter()).map(|argument| argument.replace("ELF", elf));
        let none = ["-m", "32", "-display", "none", "-monitor", "none"].into_iter();
        let none = none.chain(["-serial", "none", "-nodefaults"]);
        own.chain(none.map(str::to_owned)).collect()
    }

    /// Starts QEMU with the program, stopped before its first instruction, and with its stub at a socket in the directory.
    ///
    /// # Panics
    /// When QEMU does not start.
    #[must_use]
    #[track_caller]
    pub fn start(&self, elf: &Path, directory: &Path) -> Qemu {
        self.start_with(elf, directory, &[])
    }

    /// As [`start`](Self::start), with Tracewire's plugin in QEMU, which listens at [`Qemu::control`].
    ///
    /// # Panics
    /// When QEMU does not start.
    #[must_use]
    #[track_caller]
    pub fn start_with_plugin(&self, elf: &Path, directory: &Path, plugin: &Path) -> Qemu {
        let control = directory.join(format!("{}.control", self.name));
        let _ = std::fs::remove_file(&control);
        let option = format!("{},control={}", plugin.display(), control.display());
        let mut qemu = self.start_with(elf, directory, &["-plugin", &option]);
        qemu.control = Some(control);
        qemu
    }

    #[track_caller]
    fn start_with(&self, elf: &Path, directory: &Path, more: &[&str]) -> Qemu {
        let socket = directory.join(format!("{}.socket", self.name));
        let _ = std::fs::remove_file(&socket);
        // A client may connect at once, also before QEMU has started.
        let listener = UnixListener::bind(&socket).expect("the socket can be made");
        let child = tool(self.qemu)
            .args(self.arguments(elf))
            .args(["-S", "-chardev"])
            .args([
                "socket,fd=0,server=on,wait=off,id=stub",
                "-gdb",
                "chardev:stub",
            ])
            .args(more)
            .stdin(OwnedFd::from(listener))
            .stdout(Stdio::null())
            .spawn()
            .expect("QEMU starts");
        Qemu {
            child,
            socket,
            control: None,
        }
    }
}

/// The plugin of QEMU. Cargo builds it beside the tests of a crate that has it among its development dependencies.
///
/// # Panics
/// When it is not there.
#[must_use]
#[track_caller]
pub fn qemu_plugin() -> PathBuf {
    let test = std::env::current_exe().expect("this test's file");
    let plugin = test.with_file_name("libtracewire_qemu_plugin.so");
    assert!(plugin.exists(), "{} is not there", plugin.display());
    plugin
}

/// QEMU with a program, which ends with this.
#[derive(Debug)]
pub struct Qemu {
    child: Child,
    /// The socket of its stub.
    pub socket: PathBuf,
    /// The socket of the plugin in it, which is there when the stub answers.
    pub control: Option<PathBuf>,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
