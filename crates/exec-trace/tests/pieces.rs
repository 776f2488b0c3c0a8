//! Text read in pieces gives what reading it from start to end gives.

mod support;

use proptest::prelude::*;
use support::RecordList;
use tracewire_exec_trace::text::{Format, Piece, read};
use tracewire_sample_machine::{Options, Trace};

fn whole(format: Format, text: &[u8]) -> (Vec<String>, u64) {
    let mut reported = RecordList::default();
    let lines = read(format, text, &Piece::whole(text), &mut reported);
    (reported.records, lines)
}

fn instructions(records: &[String]) -> i64 {
    let is_one =
        |reported: &&String| reported.contains(" taken ") || reported.contains(" skipped ");
    records.iter().filter(is_one).count() as i64
}

fn in_pieces(format: Format, text: &[u8], size: usize) -> (Vec<String>, u64) {
    let (mut records, mut lines) = (Vec::new(), 0);
    let mut end = 0;
    for piece in format.pieces(text, size) {
        assert_eq!(piece.start(), end);
        end = piece.end();
        let mut reported = RecordList {
            base: instructions(&records),
            ..RecordList::default()
        };
        lines += read(format, text, &piece, &mut reported);
        records.append(&mut reported.records);
    }
    assert_eq!(end, text.len());
    (records, lines)
}

fn line(format: Format) -> BoxedStrategy<String> {
    let time = (0u32..6, 0u32..3);
    match format {
        Format::Tarmac => (time, 0u8..12, 0u32..4)
            .prop_map(|((tick, cpu), kind, more)| {
                let time = if more == 0 {
                    String::new()
                } else {
                    format!("{tick} clk ")
                };
                let cpu = if cpu == 0 {
                    String::new()
                } else {
                    format!("cpu{cpu} ")
                };
                match kind {
                    0..=2 => format!("{time}{cpu}IT (1) 00008000 e1a00000 A svc : NOP\n"),
                    3 => format!("{time}{cpu}ES (00008000:e1a00000) A svc_s: NOP\n"),
                    4..=6 => format!("{time}{cpu}R r{more} 0000000{tick}\n"),
                    7 => format!("{time}{cpu}MW4 0000100{more} 0000000{tick}\n"),
                    8 => format!("{time}ST 00000100 11...... ..22.... ........ ......33\n"),
                    9 => "         00000110 ........ ........ ........ 44556677\n".into(),
                    10 => format!("{time}{cpu}E 00000000 00000000 CoreEvent_X\n"),
                    _ => "@ what\n\n".into(),
                }
            })
            .boxed(),
        Format::Nios2V2 => (time, 0u32..2)
            .prop_map(|((tick, status), reset)| {
                format!("{tick} ns: {reset},20,0,0,0,800144,1,2,5,0,0,0,0,0,{status},0,0,0,0,0\n")
            })
            .boxed(),
        _ => (time, 0u8..8, 0u32..9)
            .prop_map(|((tick, cpu), kind, more)| match kind {
                0..=2 => {
                    format!("{tick} clk {cpu} IT ({more}) 00000004 3c080001 A svc : lui t0,0x1\n")
                }
                3 | 4 => format!("{tick} clk R r{more} 00000000\n"),
                5 => format!("{tick} clk MR8 0000000{more} 0010400000000000\n"),
                6 => format!("{tick} clk {cpu} IS ({more}) 00000004 3c08 T usr_ns : x\r\n"),
                _ => "1 clk R\n".into(),
            })
            .boxed(),
    }
}

fn trace() -> impl Strategy<Value = (Format, Vec<u8>)> {
    prop_oneof![
        Just(Format::Qemu4v),
        Just(Format::Tarmac),
        Just(Format::Nios2V2)
    ]
    .prop_flat_map(|format| {
        let lines = prop::collection::vec(line(format), 0..300);
        (Just(format), lines, any::<bool>()).prop_map(|(format, lines, is_cut)| {
            let mut text = lines.concat().into_bytes();
            if is_cut {
                text.pop();
            }
            (format, text)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn pieces_give_the_same_as_the_whole((format, text) in trace(), size in 1usize..3000) {
        prop_assert_eq!(in_pieces(format, &text, size), whole(format, &text));
    }

    #[test]
    fn a_piece_anywhere_gives_its_part((format, text) in trace(), at in 0usize..20_000) {
        let (records, _) = whole(format, &text);
        let at = at.min(text.len());
        let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let piece = format.piece_at(&text, start, text.len());
        let before: Vec<String> = records
            .iter()
            .filter(|reported| reported.split("..").next().unwrap().parse::<usize>().unwrap() < start)
            .cloned()
            .collect();
        let mut reported = RecordList { base: instructions(&before), ..RecordList::default() };
        read(format, &text, &piece, &mut reported);
        prop_assert_eq!(reported.records, &records[before.len()..]);
    }
}

#[test]
fn a_real_trace_in_pieces() {
    let options = Options {
        cpus: 2,
        ..Options::default()
    };
    let mut text = Vec::new();
    let mut trace = Trace::new(&options);
    trace.write(&mut text, 400_000).unwrap();
    let reported = whole(Format::Qemu4v, &text);
    assert_eq!(instructions(&reported.0) as u64, trace.instructions());
    assert!(
        !reported
            .0
            .iter()
            .any(|reported| reported.contains("expected"))
    );
    assert_eq!(in_pieces(Format::Qemu4v, &text, 10_000), reported);
}
