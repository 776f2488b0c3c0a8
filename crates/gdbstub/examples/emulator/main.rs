//! An emulator that uses `gdbstub`, with GDB's tracepoints: `cargo run --example emulator -- PROGRAM.elf [ADDRESS]`.
//!
//! `machine.rs` is the emulator and `stub.rs` is its code for `gdbstub`, both without support for tracepoints. This file has the
//! rest. Files that GDB saves with `tsave -r` go to the working directory.

mod machine;
mod stub;

use std::error::Error;

use gdbstub::stub::GdbStub;
use tracewire_gdbstub::Tracepoints;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("expected: PROGRAM.elf [ADDRESS]")?;
    let address = arguments.next().unwrap_or_else(|| ":0".into());
    let mut emulator = stub::Emulator::new(machine::Machine::new(&std::fs::read(program)?)?);

    let tracepoints = Tracepoints::listen(&address.parse()?)?.save_in(".");
    if let Some(local) = tracepoints.local() {
        println!("in GDB: target remote {local}");
    }
    let (connection, debugger) = tracepoints.connection()?;
    let ended = GdbStub::new(connection).run_blocking::<stub::EventLoop>(&mut emulator);
    debugger.wait()?;
    println!("the debugger has gone: {:?}", ended?);
    Ok(())
}
