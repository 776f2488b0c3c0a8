//! A run of a mix by the library, as `record` has it: into a file that grows, or into memory that keeps the newest.

use std::ffi::OsString;
use std::path::Path;

use tracewire_arch::X86Registers;
use tracewire_experiment::{
    CircularStore, Experiment, FrameStore, Options, Registers, SpoolStore, Unreadable,
    tell_as_gdb_takes,
};
use tracewire_model::{ByteOrder, Status, StopReason, Tracepoint};
use tracewire_target_linux::{Event, Process, Settings};
use tracewire_tracefile::{Description, DescriptionParts, FrameFormat, Spool, TraceFileWriter};

use crate::mix::Mix;
use crate::program::Program;

const REGISTERS: X86Registers = X86Registers::General;

pub fn record(program: &Program, mix: &Mix, trace: &Path, results: &Path) {
    let arguments: Vec<OsString> = mix
        .arguments(results.to_str().unwrap())
        .into_iter()
        .map(OsString::from)
        .collect();
    let mut process = Process::spawn(&program.path, &arguments, Settings::default()).unwrap();
    process.set_registers(REGISTERS);
    if mix.buffer.circular {
        let store = CircularStore::new(mix.buffer.size, ByteOrder::Little).unwrap();
        let mut experiment = run(program, mix, &mut process, store);
        let description = describe(&experiment);
        let mut writer = TraceFileWriter::create(trace, &description).unwrap();
        let (first, second) = experiment.store().bytes();
        let frames = [first, second].concat();
        if !frames.is_empty() {
            writer.append(&frames).unwrap();
        }
        writer.finish().unwrap();
    } else {
        let empty = Description::build(&DescriptionParts {
            register_block_size: REGISTERS.layout_64().size(),
            target_xml: Some(REGISTERS.target_xml_64()),
            ..DescriptionParts::default()
        });
        let spool = Spool::create(trace, &empty.unwrap()).unwrap();
        let store = SpoolStore::new(spool, Some(mix.buffer.size));
        let experiment = run(program, mix, &mut process, store);
        let description = describe(&experiment);
        experiment
            .into_store()
            .into_spool()
            .finish(&description)
            .unwrap();
    }
}

fn run<S: FrameStore>(
    program: &Program,
    mix: &Mix,
    process: &mut Process,
    store: S,
) -> Experiment<S> {
    let options = Options {
        format: FrameFormat {
            byte_order: ByteOrder::Little,
            register_block_size: REGISTERS.layout_64().size(),
        },
        stamp: true,
        registers: if mix.seed.is_multiple_of(3) {
            Registers::Always
        } else {
            Registers::Asked
        },
        unreadable: Unreadable::Missing,
    };
    let mut experiment = Experiment::new(options, store);
    if mix.traps {
        experiment.set_mechanism(tracewire_experiment::Mechanism::Trap);
    }
    for chosen in &mix.tracepoints {
        experiment.define(chosen.definition(program)).unwrap();
    }
    experiment.start(process, now()).unwrap();
    let mut event = process.run(&mut experiment).unwrap();
    if event == Event::RunEnded {
        // The reason of the end is not tested here.
        experiment
            .stop(process, StopReason::Command, None, now())
            .unwrap();
        // Other threads may still be at a trap.
        while event == Event::RunEnded {
            event = process.run(&mut experiment).unwrap();
        }
    } else {
        experiment.look();
        let stopped = experiment.stop(process, StopReason::Command, None, now());
        drop(stopped);
    }
    assert_eq!(event, Event::Exited(0));
    experiment
}

fn describe<S: FrameStore>(experiment: &Experiment<S>) -> Description {
    let mut tracepoints: Vec<Tracepoint> = experiment
        .tracepoints()
        .map(|tracepoint| {
            let definition = tracepoint.definition().clone();
            Tracepoint {
                usage: Some(tracepoint.usage()),
                skipped: tracepoint.skipped(),
                served: experiment
                    .last_served(definition.address)
                    .map(tracewire_experiment::Served::in_file),
                ..Tracepoint::new(definition)
            }
        })
        .collect();
    let layout = REGISTERS.layout_64();
    tell_as_gdb_takes(&mut tracepoints, layout);
    Description::build(&DescriptionParts {
        register_block_size: layout.size(),
        target_xml: Some(REGISTERS.target_xml_64()),
        status: Some(Status::from(experiment.status())),
        variables: experiment.variables().cloned().collect(),
        tracepoints,
        ..DescriptionParts::default()
    })
    .unwrap()
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_micros() as u64
}
