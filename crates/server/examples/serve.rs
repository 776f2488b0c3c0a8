//! Serves a trace file to GDB: `serve ADDRESS FILE.tf [PROGRAM]`, then `target remote ADDRESS` in GDB.

use std::path::Path;

use tracewire_packets::ConnectionAddress;
use tracewire_server::saved::SavedTrace;
use tracewire_server::{Clients, Listener, SessionLog, serve_saved};
use tracewire_tracefile::TraceFile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, file, program @ ..] = arguments.as_slice() else {
        return Err("expected ADDRESS FILE.tf [PROGRAM]".into());
    };
    let mut trace = SavedTrace::new(TraceFile::open(file)?);
    if let Some(program) = program.first() {
        trace.set_program(Path::new(program), None)?;
    }
    for problem in trace.problems() {
        eprintln!("warning: {problem}");
    }
    let listener = Listener::bind(&address.parse::<ConnectionAddress>()?)?;
    eprintln!("serving {file} on {listener}");
    Ok(serve_saved(
        &listener,
        &trace,
        &SessionLog::none(),
        Clients::ANY,
    )?)
}
