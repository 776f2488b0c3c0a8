//! An experiment over a whole recording: rows side by side give what one row gives.

use std::fs::File;

use tracewire_arch::Architecture;
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_model::{
    Action, Address, RegisterMask, RegisterNumber, StopReason, TracepointDefinition,
    TracepointNumber,
};
use tracewire_sample_machine::{Options, Program, Trace};
use tracewire_target_replay::{Collected, Execution, FrameSink, Recorded, Request};
use tracewire_tracefile::WriteError;

/// A recording of so many bytes of text.
fn recorded(folder: &std::path::Path, options: &Options, bytes: u64) -> Recorded {
    let path = folder.join("sample.trace");
    let mut trace = Trace::new(options);
    trace
        .write(&mut File::create(&path).unwrap(), bytes)
        .unwrap();
    let open = OpenOptions {
        architecture: Some(Architecture::Mips),
        ..OpenOptions::default()
    };
    Recorded::new(Recording::open(&path, &open).unwrap()).unwrap()
}

fn request(address: u64) -> Request {
    let registers: RegisterMask = [4, 29, 37].map(RegisterNumber).into_iter().collect();
    Request {
        definitions: vec![TracepointDefinition {
            actions: vec![
                Action::Registers(registers),
                Action::Memory {
                    base: Some(RegisterNumber(29)),
                    offset: 0,
                    length: 8,
                },
            ],
            ..TracepointDefinition::new(TracepointNumber(1), Address(address))
        }],
        variables: Vec::new(),
        limit: 1 << 30,
        circular: false,
    }
}

/// Collects, and keeps the frames; in how many pieces they came.
#[derive(Default)]
struct Sink {
    frames: Vec<u8>,
    pieces: usize,
}

impl FrameSink for Sink {
    fn append(&mut self, frames: &[u8]) -> Result<(), WriteError> {
        self.pieces += 1;
        self.frames.extend_from_slice(frames);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), WriteError> {
        *self = Self::default();
        Ok(())
    }
}

fn collect(recorded: &Recorded, request: &Request) -> (Collected, Sink) {
    let mut sink = Sink::default();
    let collected = tracewire_target_replay::collect(recorded, request, &mut sink).unwrap();
    (collected, sink)
}

#[test]
fn rows_side_by_side_are_as_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::default();
    let recorded = recorded(folder.path(), &options, 8 << 20);
    let address = Program::of(&options).function("mix").unwrap().start;
    let many = request(u64::from(address));
    let mut one = many.clone();
    // A count of passes that is never reached: hits must be counted in order.
    one.definitions[0].pass_count = 1 << 40;
    let (many, many_frames) = collect(&recorded, &many);
    let (one, one_frames) = collect(&recorded, &one);
    assert!(
        many_frames.pieces > 1,
        "the recording is large enough for several rows"
    );
    assert_eq!(one_frames.pieces, 1);
    assert!(many_frames.frames == one_frames.frames);
    assert_eq!(many.usage, one.usage);
    assert_eq!(many.unknown, one.unknown);
    assert_eq!(many.status.frames, one.status.frames);
    assert_eq!(many.status.stop_reason, Some(StopReason::Command));
    // The first frame is of the first visit.
    let first = recorded.next_visit(Address(u64::from(address)), 0);
    assert!(first.is_some());
}

#[test]
fn a_full_buffer_ends_the_run_or_keeps_the_last_frames() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::default();
    let recorded = recorded(folder.path(), &options, 2 << 20);
    let address = u64::from(Program::of(&options).function("mix").unwrap().start);
    let (_, Sink { frames: all, .. }) = collect(&recorded, &request(address));
    let limit = all.len() as u64 / 3;
    let (full, kept) = collect(
        &recorded,
        &Request {
            limit,
            ..request(address)
        },
    );
    assert_eq!(full.status.stop_reason, Some(StopReason::Full));
    assert!(all.starts_with(&kept.frames) && !kept.frames.is_empty());
    let last = Request {
        limit,
        circular: true,
        ..request(address)
    };
    let (last, kept) = collect(&recorded, &last);
    assert_eq!(last.status.stop_reason, Some(StopReason::Command));
    assert!(all.ends_with(&kept.frames) && kept.frames.len() as u64 <= limit);
    assert!(last.status.frames < last.status.frames_created);
}
