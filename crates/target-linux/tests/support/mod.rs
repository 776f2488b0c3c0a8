//! Programs built with the machine's C compiler, and a handler that counts.
#![allow(dead_code)]

pub mod pads;
pub mod watchdog;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};
use tempfile::TempDir;
use tracewire_experiment::{Hit, HitHandler, MemoryRead, Outcome, StoppedThread, Target};
use tracewire_model::{Address, ThreadId};
use tracewire_target_linux::{Event, ModuleKind, Process, Settings};

/// A program in a temporary directory, which is removed with it.
pub struct Program {
    pub directory: TempDir,
    pub path: PathBuf,
}

impl Program {
    /// Builds C (or, by the name `.S`, assembly) with the given flags.
    pub fn build(source: &str, flags: &[&str]) -> Self {
        Self::build_with("cc", "program.c", source, flags)
    }

    pub fn build_with(compiler: &str, name: &str, source: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(name);
        fs::write(&file, source).unwrap();
        let path = directory.path().join("program");
        let output = Command::new(compiler)
            .args(["-g", "-pthread", "-o"])
            .arg(&path)
            .arg(&file)
            .args(flags)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self { directory, path }
    }

    /// Builds a shared library beside the program.
    pub fn library(&self, name: &str, source: &str) -> PathBuf {
        let file = self.directory.path().join(format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let path = self.directory.path().join(format!("lib{name}.so"));
        let status = Command::new("cc")
            .args(["-g", "-shared", "-fPIC", "-o"])
            .arg(&path)
            .arg(&file)
            .status()
            .unwrap();
        assert!(status.success());
        path
    }

    /// Starts it under trace, with the path of its results as its first argument.
    pub fn spawn(&self) -> Process {
        Process::spawn(&self.path, &self.arguments(), Settings::default()).unwrap()
    }

    pub fn arguments(&self) -> Vec<OsString> {
        vec![self.results_path().into_os_string()]
    }

    /// Starts it without a tracer.
    pub fn start(&self) -> std::process::Child {
        Command::new(&self.path)
            .args(self.arguments())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub fn results_path(&self) -> PathBuf {
        self.directory.path().join("results")
    }

    /// The program's results: one `name value` a line.
    pub fn results(&self) -> HashMap<String, i64> {
        results(&self.results_path())
    }

    pub fn symbol(&self, name: &str) -> u64 {
        symbol_in(&self.path, name)
    }
}

pub fn results(path: &Path) -> HashMap<String, i64> {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

/// The address in the file of a symbol.
pub fn symbol_in(file: &Path, name: &str) -> u64 {
    let bytes = fs::read(file).unwrap();
    let object = object::File::parse(bytes.as_slice()).unwrap();
    object
        .symbols()
        .chain(object.dynamic_symbols())
        .find(|symbol| symbol.name() == Ok(name) && symbol.address() != 0)
        .unwrap_or_else(|| panic!("no symbol {name}"))
        .address()
}

/// The address in memory of a symbol of the program.
pub fn address(process: &Process, program: &Program, name: &str) -> Address {
    let modules = process.modules().unwrap();
    let module = modules
        .iter()
        .find(|module| module.kind == ModuleKind::Executable)
        .unwrap();
    Address(module.load_bias.wrapping_add(program.symbol(name)))
}

/// Puts a tracepoint on a symbol of the program.
pub fn trace(process: &mut Process, program: &Program, name: &str) -> Address {
    let address = address(process, program, name);
    process.insert(address).unwrap();
    address
}

/// Counts hits by address, and steps.
#[derive(Default)]
pub struct Counter {
    pub hits: HashMap<Address, u64>,
    pub by_thread: HashMap<u32, u64>,
    pub steps: u64,
    pub ended: Vec<u32>,
}

impl Counter {
    pub fn at(&self, address: Address) -> u64 {
        self.hits.get(&address).copied().unwrap_or(0)
    }
}

impl HitHandler for Counter {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        match hit {
            Hit::Tracepoint(address) => {
                *self.hits.entry(address).or_default() += 1;
                *self.by_thread.entry(thread.id().0).or_default() += 1;
            }
            Hit::Step(_) => self.steps += 1,
            Hit::Write { .. } => panic!("nothing is watched"),
        }
        Outcome {
            step: false,
            run_ended: false,
        }
    }

    fn thread_ended(&mut self, thread: ThreadId) {
        self.ended.push(thread.0);
    }
}

/// Runs to the end of the program, past changes of libraries.
pub fn run_to_end(process: &mut Process, handler: &mut dyn HitHandler) -> Event {
    loop {
        match process.run(handler).unwrap() {
            Event::LibrariesChanged => {}
            event => return event,
        }
    }
}

pub fn piece(address: u64, length: usize) -> MemoryRead {
    MemoryRead {
        address: Address(address),
        bytes: vec![0; length],
        filled: 0,
    }
}

/// The size of a function, in bytes.
pub fn size_of_symbol(file: &Path, name: &str) -> u64 {
    let bytes = fs::read(file).unwrap();
    let object = object::File::parse(bytes.as_slice()).unwrap();
    object
        .symbols()
        .find(|symbol| symbol.name() == Ok(name) && symbol.size() != 0)
        .unwrap_or_else(|| panic!("no symbol {name}"))
        .size()
}
