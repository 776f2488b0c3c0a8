//! Records the arguments of a function in a program, and prints them as the program's language writes them:
//! `cargo run -p tracewire-recorder --example arguments -- FUNCTION PROGRAM ARGUMENTS…`.

use tracewire_recorder::Recorder;
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, Viewer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, function, program, rest @ ..] = &arguments[..] else {
        return Err("expected FUNCTION PROGRAM ARGUMENTS…".into());
    };
    let output = std::env::temp_dir().join(format!("arguments-{}.tf", std::process::id()));
    let mut recorder = Recorder::spawn(program, rest);
    recorder
        .output(&output)
        .tracepoint(&format!("{function} : $args"))?;
    recorder.record(&mut ())?;
    let file = TraceFile::open(&output)?;
    let program = Program::of(&file, &[])?;
    let viewer = Viewer::new(&file, &program);
    for frame in file.frames() {
        for value in viewer.view(frame).values {
            println!("{} = {}", value.expression, value.value);
        }
    }
    Ok(std::fs::remove_file(output)?)
}
