//! Programs that print `ready`, read from a line how much to do, do it, log each call, and print `done` and what came of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::subject::{Hit, Subject, Work, text};
use crate::running::Running;
use crate::setup::Need;
use crate::workspace;

/// One of these programs.
pub struct Batch {
    name: &'static str,
    needs: &'static [Need],
    /// Builds it in a directory; the command without the log's path, which comes last.
    build: fn(&Path) -> Result<Vec<String>>,
    spec: &'static str,
    /// `PROGRAM` is replaced by the path of the built program.
    bpftrace: Option<&'static str>,
    dprintf: Option<&'static str>,
    size: u64,
    /// How a hit's values make a line of the log; by default with spaces between.
    logged: fn(&[String]) -> Option<String>,
    /// The relevant part of a line of the program's log; by default all.
    line: fn(&str) -> Option<String>,
    command: Vec<String>,
    log: PathBuf,
    /// The output of untraced runs of each size.
    answers: BTreeMap<u64, String>,
}

const DEFAULT: Batch = Batch {
    name: "",
    needs: &[],
    build: |_| Ok(Vec::new()),
    spec: "",
    bpftrace: None,
    dprintf: None,
    size: 0,
    logged: |values| Some(values.join(" ")),
    line: |line| Some(line.to_owned()),
    command: Vec::new(),
    log: PathBuf::new(),
    answers: BTreeMap::new(),
};

const GCC: Need = Need {
    what: "gcc",
    package: "gcc",
};
const CLANG: Need = Need {
    what: "clang",
    package: "clang",
};

/// All of them.
pub fn programs() -> Vec<Batch> {
    vec![
        Batch {
            name: "python3",
            needs: &[Need {
                what: "/usr/bin/python3",
                package: "python3",
            }],
            build: python,
            // A function's name is its fifth word, and a compact string's text follows 48 bytes of header.
            spec: "_PyFunction_Vectorcall : /s (char*)(*(unsigned long*)($rdi + 32) + 48)",
            bpftrace: Some(
                "uprobe:/usr/bin/python3:_PyFunction_Vectorcall { printf(\"%s\\n\", str(*(uint64*)(arg0 + 32) + 48)); }",
            ),
            dprintf: Some(
                "dprintf *_PyFunction_Vectorcall,\"%s\\n\",(char*)(*(unsigned long*)($rdi + 32) + 48)",
            ),
            size: 200_000,
            logged: |values| text(values.first()?).filter(|name| name.starts_with("step_")),
            ..DEFAULT
        },
        Batch {
            name: "openjdk",
            needs: &[Need {
                what: "/usr/lib/jvm/java-17-openjdk-amd64/bin/javac",
                package: "openjdk-17-jdk-headless",
            }],
            build: java,
            spec: "-m hotspot:class__loaded : *(char*)$_probe_arg0@$_probe_arg1",
            bpftrace: Some(
                "usdt:/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so:hotspot:class__loaded { printf(\"%s\\n\", str(arg0, arg1)); }",
            ),
            dprintf: None,
            size: 20_000,
            logged: |values| text(values.first()?).filter(|name| name.starts_with("Loaded")),
            line: |line| {
                let name = line.split_whitespace().next()?;
                name.starts_with("Loaded").then(|| name.to_owned())
            },
            ..DEFAULT
        },
        Batch {
            name: "go",
            needs: &[Need {
                what: "go",
                package: "golang-go",
            }],
            build: go,
            spec: "main.handle : order->ID, worker",
            bpftrace: Some("uprobe:PROGRAM:\"main.handle\" { printf(\"%d\\n\", reg(\"bx\")); }"),
            dprintf: Some("dprintf main.handle,\"%ld\\n\",worker"),
            size: 400_000,
            ..DEFAULT
        },
        Batch {
            name: "c++",
            needs: &[Need {
                what: "g++",
                package: "g++",
            }],
            build: cpp,
            spec: "shop::Cart::total : order.id, order.quantity, discount",
            bpftrace: Some(
                "uprobe:PROGRAM:\"_ZN4shop4Cart5totalERKNS_5OrderEl\" { printf(\"%d %d\\n\", *(uint64*)arg1, arg2); }",
            ),
            dprintf: Some(
                "dprintf *(char*)'shop::Cart::total(shop::Order const&, long)',\"%ld\\n\",$rdx",
            ),
            size: 400_000,
            ..DEFAULT
        },
        Batch {
            name: "rust",
            needs: &[Need {
                what: "rustc",
                package: "rustc",
            }],
            build: rust,
            spec: "jobs::Queue::run : job.id, job.weight, factor",
            bpftrace: None,
            dprintf: None,
            size: 400_000,
            ..DEFAULT
        },
        sanitized("asan", &[GCC], |directory| {
            threads(directory, "gcc", &["-fsanitize=address"])
        }),
        sanitized("tsan", &[GCC], |directory| {
            threads(directory, "gcc", &["-fsanitize=thread"])
        }),
        sanitized("ubsan", &[GCC], |directory| {
            threads(directory, "gcc", &["-fsanitize=undefined"])
        }),
        sanitized("msan", &[CLANG], |directory| {
            threads(directory, "clang", &["-fsanitize=memory"])
        }),
    ]
}

fn sanitized(
    name: &'static str,
    needs: &'static [Need],
    build: fn(&Path) -> Result<Vec<String>>,
) -> Batch {
    Batch {
        name,
        needs,
        build,
        spec: "work : worker, index",
        bpftrace: Some("uprobe:PROGRAM:work { printf(\"%d %d\\n\", arg0, arg1); }"),
        dprintf: Some("dprintf work,\"%d %ld\\n\",worker,index"),
        size: 200_000,
        ..DEFAULT
    }
}

fn source(name: &str) -> PathBuf {
    workspace::root().join("xtask/programs/real").join(name)
}

fn threads(directory: &Path, compiler: &str, options: &[&str]) -> Result<Vec<String>> {
    let program = directory.join("threads");
    workspace::run(
        Command::new(compiler)
            .args(["-g", "-O2", "-pthread", "-o"])
            .arg(&program)
            .args(options)
            .arg(source("threads.c")),
    )?;
    Ok(vec![program.display().to_string()])
}

fn cpp(directory: &Path) -> Result<Vec<String>> {
    let program = directory.join("shop");
    workspace::run(
        Command::new("g++")
            .args(["-g", "-O2", "-o"])
            .arg(&program)
            .arg(source("shop.cpp")),
    )?;
    Ok(vec![program.display().to_string()])
}

fn rust(directory: &Path) -> Result<Vec<String>> {
    let program = directory.join("jobs");
    workspace::run(
        Command::new("rustc")
            .args(["-g", "-O", "--edition", "2024", "-o"])
            .arg(&program)
            .arg(source("jobs.rs")),
    )?;
    Ok(vec![program.display().to_string()])
}

fn go(directory: &Path) -> Result<Vec<String>> {
    let program = directory.join("orders");
    workspace::run(
        Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(source("orders.go"))
            .env("GOCACHE", directory.join("cache"))
            .env("GOFLAGS", "-mod=mod"),
    )?;
    Ok(vec![program.display().to_string()])
}

fn python(_directory: &Path) -> Result<Vec<String>> {
    Ok(vec![
        "/usr/bin/python3".to_owned(),
        source("steps.py").display().to_string(),
    ])
}

fn java(directory: &Path) -> Result<Vec<String>> {
    let home = "/usr/lib/jvm/java-17-openjdk-amd64/bin";
    workspace::run(
        Command::new(format!("{home}/javac"))
            .arg("-d")
            .arg(directory)
            .arg(source("Loader.java")),
    )?;
    Ok(vec![
        format!("{home}/java"),
        // The log of loaded classes, each with its name at the start of the line.
        format!(
            "-Xlog:class+load=info:file={}:none",
            directory.join("log").display()
        ),
        "-cp".to_owned(),
        directory.display().to_string(),
        "Loader".to_owned(),
    ])
}

impl Subject for Batch {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs(&self) -> &'static [Need] {
        self.needs
    }

    fn prepare(&mut self, directory: &Path) -> Result<()> {
        self.command = (self.build)(directory)?;
        self.log = directory.join("log");
        Ok(())
    }

    fn spec(&self) -> String {
        self.spec.to_owned()
    }

    fn bpftrace(&self) -> Option<String> {
        Some(self.bpftrace?.replace("PROGRAM", self.command.first()?))
    }

    fn dprintf(&self) -> Option<String> {
        self.dprintf.map(str::to_owned)
    }

    fn command(&mut self) -> Result<Command> {
        let (program, arguments) = self.command.split_first().context("it is not built")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .arg(&self.log)
            // LeakSanitizer gives up under any tracer, as GDB and strace are too.
            .env("ASAN_OPTIONS", "detect_leaks=0");
        Ok(command)
    }

    fn ready(&mut self, program: &mut Running, _logged: bool) -> Result<()> {
        program
            .wait_for_line("ready", |line| line == "ready")
            .map(drop)
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn work(&mut self, program: &mut Running, size: u64) -> Result<Work> {
        if !self.answers.contains_key(&size) {
            let mut untraced = Running::start(&mut self.command()?)?;
            self.ready(&mut untraced, false)?;
            let (answer, _) = answer(&mut untraced, size)?;
            untraced.succeed()?;
            self.answers.insert(size, answer);
        }
        let (answer, work) = answer(program, size)?;
        let expected = &self.answers[&size];
        if answer != *expected {
            bail!("it printed `{answer}`, and untraced `{expected}`");
        }
        Ok(work)
    }

    fn stop(&mut self, program: &mut Running) -> Result<()> {
        program.succeed().map(drop)
    }

    fn log(&mut self) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(&self.log)
            .with_context(|| format!("no log in {}", self.log.display()))?;
        Ok(text.lines().filter_map(self.line).collect())
    }

    fn logged(&self, hit: &Hit) -> Option<String> {
        (self.logged)(&hit.values)
    }
}

fn answer(program: &mut Running, size: u64) -> Result<(String, Work)> {
    let mut answer = String::new();
    let work = Work::timed(size, || {
        program.write(&format!("{size}\n"))?;
        answer = program.wait_for_line("done", |line| line.starts_with("done"))?;
        Ok(())
    })?;
    Ok((answer, work))
}
