//! The calls of each cpu of an execution trace are durations on its track.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use serde_json::json;
use tracewire_arch::Machine;
use tracewire_debuginfo::Symbols;
use tracewire_exec_analysis::follow::{Follower, Move};
use tracewire_exec_analysis::functions::{FunctionId, Functions};
use tracewire_exec_trace::record::{CpuNumber, Scale, Time};
use tracewire_exec_trace::recording::Recording;

use super::Events;
use crate::ConvertError;
use crate::execution::keep;

/// The process of all cpus: an execution trace has none.
const PROCESS: u32 = 1;

/// A time in microseconds; units that are only counted are shown as microseconds.
fn microseconds(time: Time) -> f64 {
    let unit = match time.scale {
        Scale::Nanoseconds => 1e-3,
        Scale::Picoseconds => 1e-6,
        Scale::Milliseconds => 1e3,
        _ => 1.0,
    };
    time.ticks as f64 * unit / 10f64.powi(i32::from(time.decimals))
}

/// Writes the calls of a range of instructions. Calls that are open at the end end there.
///
/// # Errors
/// When the recording's file is damaged, or the result cannot be written.
pub fn write_calls(
    recording: &Recording,
    machine: &'static Machine,
    symbols: Option<&Symbols>,
    range: Range<u64>,
    out: &mut impl io::Write,
) -> Result<(), ConvertError> {
    let mut events = Events::begin(out)?;
    for cpu in &recording.summary().cpus {
        events.put_name("thread_name", PROCESS, Some(cpu.0), &format!("cpu {cpu}"))?;
    }
    let mut follower = Follower::new(recording, machine, Functions::new(symbols));
    let mut open: HashMap<CpuNumber, (usize, f64)> = HashMap::new();
    let mut moves: Vec<Move> = Vec::new();
    // Names as JSON strings: few functions, many calls.
    let mut names: HashMap<FunctionId, String> = HashMap::new();
    let mut result = Ok(());
    recording.for_each_instruction(range, &mut |step| {
        let mut take = || -> Result<(), ConvertError> {
            follower.step(step, &mut |change| moves.push(change))?;
            let (cpu, at) = (step.cpu(), microseconds(step.time()));
            let (depth, latest) = open.entry(cpu).or_default();
            // Time lines do not go back.
            *latest = latest.max(at);
            for change in moves.drain(..) {
                match change {
                    Move::Enter { function, .. } => {
                        *depth += 1;
                        let name = names.entry(function).or_insert_with(|| {
                            json!(follower.functions().name(function)).to_string()
                        });
                        events.put(format_args!(
                            "{{\"ph\":\"B\",\"name\":{name},\"pid\":{PROCESS},\"tid\":{},\"ts\":{latest},\"args\":{{\"instruction\":{}}}}}",
                            cpu.0,
                            step.number()
                        ))?;
                    }
                    Move::Leave => {
                        *depth = depth.saturating_sub(1);
                        put_end(&mut events, cpu, *latest)?;
                    }
                }
            }
            Ok(())
        };
        keep(&mut result, take())
    })?;
    result?;
    for cpu in &recording.summary().cpus {
        let (depth, latest) = open.get(cpu).copied().unwrap_or_default();
        for _ in 0..depth {
            put_end(&mut events, *cpu, latest)?;
        }
    }
    Ok(events.finish(None)?)
}

fn put_end(events: &mut Events<impl io::Write>, cpu: CpuNumber, at: f64) -> io::Result<()> {
    events.put(format_args!(
        "{{\"ph\":\"E\",\"pid\":{PROCESS},\"tid\":{},\"ts\":{at}}}",
        cpu.0
    ))
}
