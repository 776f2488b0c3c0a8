//! Prints everything a trace file holds: `cargo run -p tracewire-tracefile --example tfdump -- FILE…`.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use tracewire_tracefile::{Block, Frame, TraceFile};

fn main() -> ExitCode {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut result = ExitCode::SUCCESS;
    for path in std::env::args_os().skip(1) {
        let dumped = TraceFile::open(&path)
            .map_err(Box::<dyn Error>::from)
            .and_then(|file| Ok(dump(&file, &mut out)?));
        if let Err(error) = dumped {
            eprintln!("{}: {error}", path.display());
            result = ExitCode::from(2);
        }
    }
    result
}

fn dump(file: &TraceFile, out: &mut impl Write) -> io::Result<()> {
    let description = file.description();
    writeln!(
        out,
        "byte order {}, register blocks of {:?} bytes",
        file.byte_order(),
        file.register_block_size()
    )?;
    if let Some(status) = description.status() {
        writeln!(out, "status {:#?}", status.fields)?;
    }
    for variable in description.variables() {
        writeln!(out, "variable {variable:?}")?;
    }
    for tracepoint in description.tracepoints() {
        writeln!(out, "{tracepoint:#?}")?;
    }
    for module in description.modules() {
        writeln!(
            out,
            "module {} at {} to {}",
            module.path.escape_ascii(),
            module.start,
            module.end
        )?;
    }
    for problem in description.problems() {
        writeln!(out, "problem: {problem}")?;
    }
    for frame in file.frames() {
        dump_frame(file, &frame, out)?;
    }
    writeln!(
        out,
        "{} frames, then {:?}",
        file.frame_count(),
        file.ending()
    )?;
    out.flush()
}

fn dump_frame(file: &TraceFile, frame: &Frame<'_>, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "frame {} of tracepoint {}",
        frame.number(),
        frame.tracepoint()
    )?;
    if let Some(pc) = frame.program_counter() {
        write!(out, " at {pc}")?;
    }
    writeln!(
        out,
        ", {} bytes at offset {}",
        frame.data().len(),
        frame.offset()
    )?;
    for block in frame.blocks() {
        match block {
            Block::Registers(bytes) => {
                let Some(layout) = file.layout() else {
                    writeln!(out, "  registers, {} bytes", bytes.len())?;
                    continue;
                };
                for register in layout.registers() {
                    if let Some(value) = frame.register_value(register.number) {
                        writeln!(out, "  {} = {value:#x}", register.name)?;
                    } else if let Some(bytes) = frame.register(register.number) {
                        writeln!(out, "  {} = {bytes:02x?}", register.name)?;
                    }
                }
            }
            Block::Memory { address, bytes } => {
                writeln!(out, "  {address}: {}", bytes.escape_ascii())?;
            }
            Block::Variable { number, value } => {
                let variables = file.description().variables();
                let name = variables.iter().find(|variable| variable.number == number);
                let name = name.map_or("?", |variable| variable.name.as_str());
                writeln!(out, "  ${name} = {value}")?;
            }
            Block::StaticData(bytes) => {
                writeln!(out, "  static data: {}", bytes.escape_ascii())?;
            }
            Block::Unknown(bytes) => writeln!(out, "  unknown: {bytes:02x?}")?,
        }
    }
    Ok(())
}
