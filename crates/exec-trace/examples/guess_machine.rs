//! Says of what format and machine traces are: `cargo run -p tracewire-exec-trace --example guess_machine -- FILE…`.

use std::error::Error;
use std::path::Path;

use tracewire_exec_trace::guess;
use tracewire_exec_trace::text::{Format, TraceText};

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let text = TraceText::open(Path::new(&path))?;
        let format = Format::detect(&text);
        let machine = format.and_then(|format| guess(format, &text));
        println!("{path}: {format:?} {machine:?}");
    }
    Ok(())
}
