//! How fast a run becomes Parquet files: `add_speed RUN.tf DIR`.

use std::path::Path;
use std::time::Instant;

use tracewire_dataset::{AddOptions, Run, add};
use tracewire_tracefile::TraceFile;
use tracewire_views::Program;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, trace, directory] = &arguments[..] else {
        return Err("expected RUN.tf DIR".into());
    };
    let file = TraceFile::open(trace)?;
    let program = Program::of(&file, &[])?;
    let start = Instant::now();
    let run = Run::new(&file, &program);
    let found = start.elapsed();
    let added = add(Path::new(directory), &run, &AddOptions::default())?;
    let all = start.elapsed();
    let frames = added.rows.get("hits").copied().unwrap_or(0);
    println!(
        "{frames} frames in {:.2} s, of which {:.2} s for the columns; {:.0} frames a second; {} bytes of {}",
        all.as_secs_f64(),
        found.as_secs_f64(),
        frames as f64 / all.as_secs_f64(),
        added.bytes,
        file.as_bytes().len()
    );
    Ok(())
}
