//! An experiment over a whole recording: rows side by side give what one row gives.

use std::fs::File;

use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_sample_machine::{Options, Program, Trace};
use tracewire_target_replay::{Collected, Execution, Recorded, Request, collect};
use tracewire_tracefile::{
    Action, Address, Architecture, RegisterMask, RegisterNumber, SourceStrings, StopReason,
    TracepointDefinition, TracepointKind, TracepointNumber,
};

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
            number: TracepointNumber(1),
            address: Address(address),
            enabled: true,
            kind: TracepointKind::Trap,
            step_count: 0,
            pass_count: 0,
            condition: None,
            actions: vec![
                Action::Registers(registers),
                Action::Memory {
                    base: Some(RegisterNumber(29)),
                    offset: 0,
                    length: 8,
                },
            ],
            step_actions: Vec::new(),
            source: SourceStrings::default(),
        }],
        variables: Vec::new(),
        limit: 1 << 30,
        circular: false,
    }
}

fn frames(collected: &Collected) -> Vec<u8> {
    collected.frames.concat()
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
    let (many, one) = (
        collect(&recorded, &many).unwrap(),
        collect(&recorded, &one).unwrap(),
    );
    assert!(
        many.frames.len() > 1,
        "the recording is large enough for several rows"
    );
    assert_eq!(one.frames.len(), 1);
    assert!(frames(&many) == frames(&one));
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
    let all = frames(&collect(&recorded, &request(address)).unwrap());
    let limit = all.len() as u64 / 3;
    let full = collect(
        &recorded,
        &Request {
            limit,
            ..request(address)
        },
    )
    .unwrap();
    assert_eq!(full.status.stop_reason, Some(StopReason::Full));
    assert!(all.starts_with(&frames(&full)) && !full.frames.is_empty());
    let last = Request {
        limit,
        circular: true,
        ..request(address)
    };
    let last = collect(&recorded, &last).unwrap();
    assert_eq!(last.status.stop_reason, Some(StopReason::Command));
    assert!(all.ends_with(&frames(&last)) && frames(&last).len() as u64 <= limit);
    assert!(last.status.frames < last.status.frames_created);
}
