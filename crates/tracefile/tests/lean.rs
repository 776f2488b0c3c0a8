//! Lean recordings of any frames: written and read again, cut anywhere, damaged anywhere.
#![cfg(target_os = "linux")]

#[path = "support/touch.rs"]
mod touch;

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use tracewire_arch::{RegisterLayout, X86Registers};
use tracewire_model::{
    Address, ByteOrder, RegisterMask, RegisterNumber, Status, StatusFields, StopReason,
    TracepointNumber, VariableNumber,
};
use tracewire_tracefile::lean::{
    LEAN_HEADER, LeanDamage, LeanFile, LeanSpool, kept_lines, kept_sets,
};
use tracewire_tracefile::{
    Description, DescriptionParts, Ending, FRACTION, FrameEncoder, FrameFormat, OpenError,
    RegisterSet, RegisterSets, TraceFile, fraction_of,
};

/// A block of a frame.
#[derive(Clone, Debug)]
enum Piece {
    Variable(i32, u64),
    Nanoseconds(u64),
    Memory(u64, Vec<u8>),
    /// Bytes that are no block of a kind that is known.
    Other(Vec<u8>),
}

/// A frame: its tracepoint, the set of its registers, what follows.
#[derive(Clone, Debug)]
struct Wanted {
    tracepoint: i32,
    set: Option<u32>,
    registers: Vec<u8>,
    pieces: Vec<Piece>,
}

fn layout() -> RegisterLayout {
    X86Registers::Core.layout_64().clone()
}

fn sets() -> RegisterSets {
    let mut sets = RegisterSets::default();
    for numbers in [&[16][..], &[5, 7, 16], &[0, 16, 17, 24, 32]] {
        let mask: RegisterMask = numbers.iter().copied().map(RegisterNumber).collect();
        sets.add(RegisterSet::new(&layout(), &mask));
    }
    sets
}

fn description() -> Description {
    described("written last")
}

fn described(notes: &str) -> Description {
    let status = StatusFields {
        stop_reason: Some(StopReason::Command),
        notes: Some(notes.to_owned()),
        ..StatusFields::default()
    };
    let parts = DescriptionParts {
        register_block_size: layout().size(),
        target_xml: Some(X86Registers::Core.target_xml_64()),
        status: Some(Status::from(status)),
        ..DescriptionParts::default()
    };
    Description::build(&parts).unwrap()
}

fn piece() -> impl Strategy<Value = Piece> {
    let address = prop_oneof![Just(0x7fff_0000_1000), 0x1000_u64..0x1100, any::<u64>()];
    let memory = prop_oneof![
        4 => prop_oneof![Just(1_usize), Just(4), Just(8), Just(24), Just(31)].boxed(),
        2 => (1_usize..100).boxed(),
        1 => Just(5000).boxed(),
    ]
    .prop_flat_map(|length| vec(any::<u8>(), length));
    prop_oneof![
        4 => (1..4, prop_oneof![any::<u64>(), Just(7), 1000_u64..1100])
            .prop_map(|(number, value)| Piece::Variable(number, value)),
        1 => (0_u64..1000).prop_map(Piece::Nanoseconds),
        6 => (address, memory).prop_map(|(address, bytes)| Piece::Memory(address, bytes)),
        1 => vec(any::<u8>(), 1..40).prop_map(Piece::Other),
    ]
}

fn frame() -> impl Strategy<Value = Wanted> {
    let set = prop_oneof![Just(None), (0_u32..3).prop_map(Some)];
    (1..4, set, vec(any::<u8>(), 276), vec(piece(), 0..6)).prop_map(
        |(tracepoint, set, registers, pieces)| Wanted {
            tracepoint,
            set,
            registers,
            pieces,
        },
    )
}

/// Frames of few shapes in any order, as programs make them.
fn frames() -> impl Strategy<Value = Vec<Wanted>> {
    vec(frame(), 1..6).prop_flat_map(|kinds| {
        vec((any::<prop::sample::Index>(), any::<u64>()), 0..120).prop_map(move |hits| {
            hits.iter()
                .map(|(kind, value)| {
                    let mut frame = kind.get(&kinds).clone();
                    for piece in &mut frame.pieces {
                        match piece {
                            Piece::Variable(_, number) => {
                                *number = number.wrapping_add(value % 300)
                            }
                            Piece::Nanoseconds(number) => *number = value % 1000,
                            Piece::Memory(address, bytes) => {
                                *address = address.wrapping_add(value % 3);
                                if bytes.len() > 8 && bytes.len() < 20 {
                                    bytes.truncate((value % 9) as usize + 1);
                                }
                            }
                            Piece::Other(_) => {}
                        }
                    }
                    frame
                })
                .collect()
        })
    })
}

/// Frames of one shape whose variables are constant, follow an earlier one, or do neither, and change from one to another of these.
fn changing_frames() -> impl Strategy<Value = Vec<Wanted>> {
    let phase = (vec(0_u8..4, 4), 1_usize..30, any::<u64>());
    vec(phase, 1..8).prop_map(|phases| {
        let mut frames = Vec::new();
        for (kinds, count, start) in phases {
            for row in 0..count as u64 {
                let base = start.wrapping_add(row * row);
                let piece = |(number, kind): (i32, &u8)| {
                    let value = match kind {
                        0 => 7,
                        1 => base,
                        2 => base.wrapping_sub(900),
                        _ => base.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    };
                    Piece::Variable(number, value)
                };
                frames.push(Wanted {
                    tracepoint: 1,
                    set: None,
                    registers: Vec::new(),
                    pieces: (1..).zip(&kinds).map(piece).collect(),
                });
            }
        }
        frames
    })
}

fn encode(frame: &Wanted, sets: &RegisterSets) -> Vec<u8> {
    let format = FrameFormat {
        byte_order: ByteOrder::Little,
        register_block_size: layout().size(),
    };
    let mut bytes = Vec::new();
    let number = TracepointNumber(frame.tracepoint);
    let mut encoder = FrameEncoder::begin(&mut bytes, format, number).unwrap();
    if let Some(set) = frame.set {
        let registers = sets.get(set).unwrap();
        encoder
            .register_set(set, registers, &frame.registers)
            .unwrap();
    }
    let mut others = Vec::new();
    for piece in &frame.pieces {
        match piece {
            Piece::Variable(number, value) => {
                encoder.variable(VariableNumber(*number), value.cast_signed());
            }
            Piece::Nanoseconds(number) => {
                encoder.variable(FRACTION, fraction_of(*number).cast_signed());
            }
            Piece::Memory(address, bytes) => encoder.memory(Address(*address), bytes),
            Piece::Other(bytes) => {
                others.clone_from(bytes);
                break;
            }
        }
    }
    encoder.finish().unwrap();
    if !others.is_empty() {
        // A letter that no block has.
        others[0] = b'?';
        bytes.extend_from_slice(&others);
        let size = (bytes.len() - 6) as u32;
        bytes[2..6].copy_from_slice(&size.to_le_bytes());
    }
    bytes
}

/// The frames as a trace file has them.
fn expanded(frames: &[Vec<u8>], sets: &RegisterSets) -> Vec<Vec<u8>> {
    let size = layout().size() as usize;
    let expand = |frame: &Vec<u8>| {
        let mut out = Vec::new();
        sets.expand(frame, ByteOrder::Little, size, &mut out);
        out
    };
    frames.iter().map(expand).collect()
}

/// Writes a recording with a block for each `each` frames. Gives its bytes, and where it ends after so many frames.
fn record(path: &Path, frames: &[Vec<u8>], each: usize) -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut spool = LeanSpool::create(path, &described("the first one")).unwrap();
    spool.note_sets(&sets());
    let mut ends = vec![(spool.bytes() as usize, 0)];
    for (done, part) in (0..).step_by(each).zip(frames.chunks(each)) {
        for frame in part {
            spool.append(frame).unwrap();
        }
        spool.flush().unwrap();
        ends.push((spool.bytes() as usize, done + part.len()));
    }
    assert_eq!(spool.frames() as usize, frames.len());
    spool.finish(&description()).unwrap();
    (fs::read(path).unwrap(), ends)
}

fn read_frames(file: &TraceFile) -> Vec<Vec<u8>> {
    let start = file.frames_start() as usize;
    let frames = file.frames();
    let bytes = file.as_bytes();
    frames
        .map(|frame| {
            let at = frame.offset() as usize;
            debug_assert!(at >= start);
            let size = ByteOrder::Little.u32_at(bytes, at + 2).unwrap() as usize;
            bytes[at..at + 6 + size].to_vec()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_recorded_is_read(frames in frames(), each in 1_usize..50) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.twr");
        let sets = sets();
        let frames: Vec<Vec<u8>> = frames.iter().map(|frame| encode(frame, &sets)).collect();
        let (bytes, _) = record(&path, &frames, each);
        prop_assert!(bytes.starts_with(LEAN_HEADER));
        prop_assert_eq!(LeanFile::parse(&bytes).unwrap().frames() as usize, frames.len());
        let file = TraceFile::open(&path).unwrap();
        prop_assert_eq!(file.lean(), Some(&[][..]));
        let last = description();
        prop_assert_eq!(file.description().as_bytes(), last.as_bytes());
        prop_assert_eq!(read_frames(&file), expanded(&frames, &sets));
    }

    #[test]
    fn frames_that_are_read_when_they_are_looked_at_are_the_same(
        frames in frames(),
        each in 1_usize..50,
        damaged in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.twr");
        let sets = sets();
        let frames: Vec<Vec<u8>> = frames.iter().map(|frame| encode(frame, &sets)).collect();
        let (mut bytes, ends) = record(&path, &frames, each);
        if let Some(place) = damaged {
            let first = ends[0].0;
            let place = first + place.index(bytes.len() - first);
            bytes[place] ^= 1;
            fs::write(&path, &bytes).unwrap();
        }
        let (whole, parts) = (TraceFile::open(&path).unwrap(), TraceFile::open_keeping(&path, 0).unwrap());
        let ends_with_marker = matches!(parts.ending(), Ending::Marker { .. });
        prop_assert!(ends_with_marker);
        prop_assert_eq!(parts.ending(), whole.ending());
        prop_assert_eq!(parts.lean(), whole.lean());
        prop_assert_eq!(parts.byte_order(), whole.byte_order());
        let places = |file: &TraceFile| -> Vec<_> {
            file.frames().map(|frame| (frame.offset(), frame.tracepoint())).collect()
        };
        // The last ones first, each page of which is read with its block.
        let backwards: Vec<_> = parts.frames().rev().map(|frame| frame.data().to_vec()).collect();
        let forwards: Vec<_> = whole.frames().map(|frame| frame.data().to_vec()).collect();
        prop_assert!(backwards.iter().rev().eq(forwards.iter()));
        prop_assert_eq!(places(&parts), places(&whole));
        prop_assert!(parts.as_bytes() == whole.as_bytes());
        prop_assert!(parts.verify().is_ok());
    }

    #[test]
    fn columns_may_become_others_at_any_frame(frames in changing_frames(), each in 1_usize..50) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.twr");
        let sets = sets();
        let frames: Vec<Vec<u8>> = frames.iter().map(|frame| encode(frame, &sets)).collect();
        record(&path, &frames, each);
        let file = TraceFile::open(&path).unwrap();
        prop_assert_eq!(file.lean(), Some(&[][..]));
        prop_assert_eq!(read_frames(&file), expanded(&frames, &sets));
    }

    #[test]
    fn a_cut_recording_gives_the_frames_of_whole_blocks(
        frames in frames(),
        each in 1_usize..50,
        cuts in vec(any::<prop::sample::Index>(), 30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.twr");
        let sets = sets();
        let frames: Vec<Vec<u8>> = frames.iter().map(|frame| encode(frame, &sets)).collect();
        let (bytes, ends) = record(&path, &frames, each);
        let all = expanded(&frames, &sets);
        for cut in cuts {
            let cut = cut.index(bytes.len());
            let file = match TraceFile::from_bytes(bytes[..cut].to_vec()) {
                Ok(file) => file,
                Err(OpenError::Header | OpenError::Lean(_)) => {
                    prop_assert!(cut < ends[0].0, "{cut} is after the first description");
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let whole = ends.iter().rev().find(|(end, _)| *end <= cut).unwrap().1;
            prop_assert!(read_frames(&file) == all[..whole], "cut at {}", cut);
            let damage = file.lean().unwrap();
            let unfinished = matches!(damage, [LeanDamage::Unfinished(rest)] if rest.end == cut as u64);
            prop_assert!(unfinished, "{:?}", damage);
        }
    }

    #[test]
    fn a_damaged_byte_costs_one_block(
        frames in frames(),
        each in 1_usize..50,
        changes in vec((any::<prop::sample::Index>(), 1_u8..), 30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.twr");
        let sets = sets();
        let frames: Vec<Vec<u8>> = frames.iter().map(|frame| encode(frame, &sets)).collect();
        let (bytes, ends) = record(&path, &frames, each);
        let all = expanded(&frames, &sets);
        for (place, change) in changes {
            let place = place.index(bytes.len() - 8) + 8;
            let mut damaged = bytes.clone();
            damaged[place] ^= change;
            let file = TraceFile::from_bytes(damaged).unwrap();
            let hit = ends.windows(2).find(|pair| (pair[0].0..pair[1].0).contains(&place));
            let expected: Vec<Vec<u8>> = match hit {
                Some(pair) => [&all[..pair[0].1], &all[pair[1].1..]].concat(),
                None => all.clone(),
            };
            prop_assert!(read_frames(&file) == expected, "{} ^= {}", place, change);
            prop_assert!(!file.lean().unwrap().is_empty());
        }
    }
}

/// A recording whose blocks of frames are not compressed and have other bytes in some places, with good checksums.
fn with_changes(bytes: &[u8], changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    let word = |at: usize| ByteOrder::Little.u32_at(bytes, at).unwrap() as usize;
    let mut all = LEAN_HEADER.to_vec();
    let mut at = LEAN_HEADER.len();
    while at < bytes.len() {
        let (stored, size) = (word(at + 8), word(at + 12));
        let end = at + 24 + stored;
        if &bytes[at + 4..at + 8] != b"fram" {
            all.extend_from_slice(&bytes[at..end]);
            at = end;
            continue;
        }
        let content = &bytes[at + 24..end];
        let mut content = match stored == size {
            true => content.to_vec(),
            false => zstd::bulk::decompress(content, size).unwrap(),
        };
        for (place, change) in changes {
            let place = place.index(content.len());
            content[place] ^= change;
        }
        let start = all.len();
        all.extend_from_slice(&bytes[at..at + 8]);
        all.extend_from_slice(&(content.len() as u32).to_le_bytes());
        all.extend_from_slice(&bytes[at + 12..at + 20]);
        let mut sum = crc32fast::Hasher::new();
        sum.update(&all[start..]);
        sum.update(&content);
        all.extend_from_slice(&sum.finalize().to_le_bytes());
        all.extend_from_slice(&content);
        at = end;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_content_of_a_block_is_frames_or_is_left_out(
        frames in frames(),
        each in 1_usize..50,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.twr");
        let sets = sets();
        let frames: Vec<Vec<u8>> = frames.iter().map(|frame| encode(frame, &sets)).collect();
        let (bytes, _) = record(&path, &frames, each);
        let file = TraceFile::from_bytes(with_changes(&bytes, &changes)).unwrap();
        prop_assert!(file.frame_count() as usize <= frames.len());
        if changes.iter().all(|(_, change)| *change == 0) {
            prop_assert_eq!(read_frames(&file), expanded(&frames, &sets));
        }
        touch::everything(&file);
    }
}

/// A writer's block with a good checksum whose content is anything.
#[test]
fn a_block_with_a_good_checksum_and_other_content_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.twr");
    let (bytes, ends) = record(&path, &[], 1);
    let start = ends[0].0;
    for content in [&b""[..], &[0xff; 16], &[0; 8], &[0; 13], &[1; 200]] {
        for frames in [0_u32, 1, 1 << 20] {
            let mut block = b"\x7fTWBfram".to_vec();
            block.extend_from_slice(&(content.len() as u32).to_le_bytes());
            block.extend_from_slice(&(content.len() as u32).to_le_bytes());
            block.extend_from_slice(&frames.to_le_bytes());
            let mut sum = crc32fast::Hasher::new();
            sum.update(&block);
            sum.update(content);
            block.extend_from_slice(&sum.finalize().to_le_bytes());
            block.extend_from_slice(content);
            let all = [&bytes[..start], &block, &bytes[start..]].concat();
            let file = TraceFile::from_bytes(all).unwrap();
            assert_eq!(file.frame_count(), 0);
            let lost = LeanDamage::Lost(start as u64..(start + block.len()) as u64);
            assert_eq!(file.lean(), Some(&[lost][..]), "{content:?}");
        }
    }
}

#[test]
fn frames_of_a_second_ago_are_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.twr");
    let mut spool = LeanSpool::create(&path, &description()).unwrap();
    let frame = encode(
        &Wanted {
            tracepoint: 1,
            set: None,
            registers: Vec::new(),
            pieces: vec![Piece::Memory(0x1000, vec![1, 2, 3, 4])],
        },
        &RegisterSets::EMPTY,
    );
    spool.append(&frame).unwrap();
    let begun = std::time::Instant::now();
    let before = spool.bytes();
    while spool.bytes() == before {
        assert!(begun.elapsed().as_secs() < 20, "it is never written");
        spool.flush_old().unwrap();
        std::thread::yield_now();
    }
    let growing = TraceFile::open(spool.temporary_path()).unwrap();
    assert_eq!(read_frames(&growing), [frame]);
    assert!(matches!(growing.lean(), Some([LeanDamage::Unfinished(rest)]) if rest.is_empty()));
    spool.discard();
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[test]
fn few_bytes_for_many_hits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.twr");
    let sets = sets();
    let mut spool = LeanSpool::create(&path, &description()).unwrap();
    spool.note_sets(&sets);
    let mut plain = 0;
    for hit in 0..100_000_u64 {
        let key = format!("key:{:012}", hit.wrapping_mul(7919) % 100_000);
        let mut registers = vec![0; 276];
        registers[5 * 8..6 * 8].copy_from_slice(&(0x7fff_1000_u64 + hit % 64 * 32).to_le_bytes());
        let frame = Wanted {
            tracepoint: 1,
            set: Some(1),
            registers,
            pieces: vec![
                Piece::Variable(1, 1_700_000_000_000_000 + hit / 5),
                Piece::Variable(2, 4711),
                Piece::Variable(3, 1),
                Piece::Nanoseconds(hit * 200 % 1000),
                Piece::Memory(0x7fff_1000_u64 + hit % 64 * 32, key.into_bytes()),
                Piece::Memory(0x7fff_0000, (hit as u32).to_le_bytes().to_vec()),
                Piece::Memory(0x7fff_0008, (hit % 10).to_le_bytes().to_vec()),
            ],
        };
        let frame = encode(&frame, &sets);
        plain += sets.expanded_size(&frame, ByteOrder::Little, 276) as u64;
        spool.append(&frame).unwrap();
    }
    spool.finish(&description()).unwrap();
    let size = fs::metadata(&path).unwrap().len();
    assert!(size * 10 < plain, "{size} bytes instead of {plain}");
}

#[test]
fn sets_come_back_from_lines() {
    let lines = kept_lines(&sets());
    let own = description();
    let all = [own.as_bytes(), &lines].concat();
    let (found, rest) = kept_sets(&Description::parse(all));
    assert_eq!(found, sets());
    assert_eq!(rest.as_bytes(), own.as_bytes());
}
