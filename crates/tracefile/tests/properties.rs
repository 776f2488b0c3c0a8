//! Files of any content: written and read again, cut anywhere, damaged anywhere.

#[path = "support/files.rs"]
mod files;
#[path = "support/touch.rs"]
mod touch;

use files::{Wanted, WantedFile, actions, status, tracepoint, wanted_file};
use proptest::prelude::*;
use tracewire_model::{Action, DefinitionRecord, Status, Tracepoint};
use tracewire_tracefile::{Block, Description, Ending, MAX_LINE, TraceFile, TraceFileWriter};

/// The bytes of the file, and where each frame ends.
fn write(wanted: &WantedFile) -> (Vec<u8>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.tf");
    let description = Description::build(&wanted.parts).unwrap();
    let mut writer = TraceFileWriter::create(&path, &description).unwrap();
    let mut ends = vec![8 + description.as_bytes().len() + 1];
    for frame in wanted.encoded() {
        writer.append(&frame).unwrap();
        ends.push(ends.last().unwrap() + frame.len());
    }
    writer.finish().unwrap();
    (std::fs::read(path).unwrap(), ends)
}

fn block(wanted: &Wanted) -> Block<'_> {
    match wanted {
        Wanted::Registers(bytes) => Block::Registers(bytes),
        Wanted::Memory(address, bytes) => Block::Memory {
            address: tracewire_model::Address(*address),
            bytes,
        },
        Wanted::Variable(number, value) => Block::Variable {
            number: tracewire_model::VariableNumber(*number),
            value: *value,
        },
        Wanted::StaticData(bytes) => Block::StaticData(bytes),
    }
}

fn check_frames(file: &TraceFile, wanted: &WantedFile) {
    for (frame, (number, blocks)) in file.frames().zip(&wanted.frames) {
        assert_eq!(frame.tracepoint().0, *number);
        let blocks: Vec<_> = blocks.iter().map(block).collect();
        assert_eq!(frame.blocks().collect::<Vec<_>>(), blocks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_written_is_read(wanted in wanted_file()) {
        let (bytes, ends) = write(&wanted);
        let file = TraceFile::from_bytes(bytes).unwrap();
        prop_assert_eq!(file.description().problems(), &[]);
        let mut parts = file.description().parts();
        parts.tracepoints.reverse();
        prop_assert_eq!(&parts, &wanted.parts);
        prop_assert!(file.description().lines().all(|line| line.text.len() <= MAX_LINE));
        prop_assert_eq!(file.frame_count() as usize, wanted.frames.len());
        if !wanted.frames.is_empty() {
            prop_assert_eq!(file.byte_order(), wanted.order);
            let registers = wanted.frames.iter().any(|(_, blocks)| {
                blocks.iter().any(|block| matches!(block, Wanted::Registers(_)))
            });
            if registers {
                prop_assert_eq!(file.register_block_size(), Some(wanted.parts.register_block_size));
                check_frames(&file, &wanted);
            }
        }
        let offset = *ends.last().unwrap() as u64;
        prop_assert_eq!(file.ending(), Ending::Marker { offset, trailing: 2, zero: true });
    }

    #[test]
    fn a_cut_file_gives_every_whole_frame(wanted in wanted_file(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 40)) {
        let (bytes, ends) = write(&wanted);
        for cut in cuts {
            let cut = cut.index(bytes.len() + 1);
            let Ok(file) = TraceFile::from_bytes(bytes[..cut].to_vec()) else {
                prop_assert!(cut < 8);
                continue;
            };
            touch::everything(&file);
            let whole = ends.iter().skip(1).filter(|end| **end <= cut).count();
            // Too little may be left to tell one byte order from the other, where no frame is whole.
            if whole > 0 {
                prop_assert_eq!(file.frame_count() as usize, whole);
                prop_assert_eq!(file.byte_order(), wanted.order);
            }
            match file.ending() {
                Ending::CutInDescription => prop_assert!(cut < ends[0]),
                Ending::Missing { offset } => prop_assert_eq!(offset as usize, cut),
                Ending::Cut { .. } => prop_assert!(cut < *ends.last().unwrap() + 2),
                Ending::Marker { offset, .. } => {
                    prop_assert_eq!(offset as usize, *ends.last().unwrap());
                }
            }
        }
    }

    #[test]
    fn a_damaged_file_never_panics(wanted in wanted_file(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let (mut bytes, _) = write(&wanted);
        for (place, byte) in damage {
            *place.get_mut(&mut bytes) = byte;
            if let Ok(file) = TraceFile::from_bytes(bytes.clone()) {
                touch::everything(&file);
            }
        }
    }

    #[test]
    fn actions_are_read_as_they_are_printed(actions in actions()) {
        let printed: String = actions.iter().map(Action::to_string).collect();
        prop_assert_eq!(Action::parse_list(&printed).unwrap(), actions);
    }

    #[test]
    fn tracepoints_are_told_in_pieces_of_any_size(tracepoint in tracepoint(2), limit in 0usize..400) {
        let mut lines = String::new();
        for piece in tracepoint.definition.records(tracepoint.usage, limit) {
            let text = piece.to_string();
            prop_assert_eq!(&DefinitionRecord::parse(text.as_bytes()).unwrap(), &piece);
            lines += &format!("tp {text}\n");
        }
        // The mechanism that served it is in lines of Tracewire's own.
        let reported = Tracepoint { served: None, skipped: 0, pauses: Vec::new(), ..tracepoint };
        let description = Description::parse(lines.into_bytes());
        prop_assert_eq!(description.problems(), []);
        prop_assert_eq!(description.tracepoints(), [reported]);
    }

    #[test]
    fn a_status_is_read_as_it_is_printed(status in status()) {
        let text = status.to_string();
        let read = Status::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&read, &status);
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn any_status_that_is_read_is_printed_as_it_was(text in "[01](;[a-z]{1,6}(:[0-9a-f]{0,8}){0,2}){0,6}") {
        prop_assert_eq!(Status::parse(text.as_bytes()).unwrap().to_string(), text);
    }
}
