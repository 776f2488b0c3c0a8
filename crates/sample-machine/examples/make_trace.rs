//! Writes a trace of a size in MiB: `cargo run --release -p tracewire-sample-machine --example make_trace -- 1024 out.trace`.
//! The program's ELF file is written beside it. Prints the sizes, and where two functions are: `mix` is called most, `sum` seldom.

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;

use tracewire_sample_machine::{Options, Program, Trace};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "expected: MEBIBYTES OUT [CPUS]";
    let mebibytes: u64 = arguments.next().ok_or(usage)?.parse()?;
    let out = PathBuf::from(arguments.next().ok_or(usage)?);
    let cpus = arguments.next().map_or(Ok(1), |cpus| cpus.parse())?;
    let options = Options {
        footprint: 256 << 20,
        cpus,
        ..Options::default()
    };
    let program = Program::of(&options);
    fs::write(out.with_extension("elf"), program.elf(&options))?;
    let mut trace = Trace::new(&options);
    let bytes = trace.write(&mut File::create(&out)?, mebibytes << 20)?;
    println!("{bytes} bytes, {} instructions", trace.instructions());
    for name in ["mix", "sum"] {
        let function = program.function(name).ok_or("no such function")?;
        println!("{name} {:#x}", function.start);
    }
    Ok(())
}
