//! A run into a file, read back by the reader of trace files.

use tracewire_experiment::{Experiment, Options, Registers, SpoolStore, StartError};
use tracewire_model::{
    Address, ByteOrder, Status, StopReason, ThreadId, Tracepoint, VariableNumber,
};
use tracewire_tracefile::{Description, DescriptionParts, Spool, TraceFile};

use crate::support::{
    BLOCK, CODE, block, expression, memory, moment, options, parse, target, tracepoint,
};
use tracewire_test_support::assert_clean;

fn description(experiment: Option<&Experiment<SpoolStore>>) -> Description {
    let tracepoints = experiment.into_iter().flat_map(Experiment::tracepoints);
    Description::build(&DescriptionParts {
        register_block_size: BLOCK as u32,
        target_xml: None,
        status: experiment.map(|experiment| Status::from(experiment.status())),
        variables: experiment
            .into_iter()
            .flat_map(Experiment::variables)
            .cloned()
            .collect(),
        tracepoints: tracepoints
            .map(|tracepoint| Tracepoint {
                usage: Some(tracepoint.usage()),
                ..Tracepoint::new(tracepoint.definition().clone())
            })
            .collect(),
        modules: vec![],
        ..DescriptionParts::default()
    })
    .unwrap()
}

#[test]
fn what_was_collected_is_what_the_file_says() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("experiment-{}.tf", std::process::id()));
    let spool = Spool::create(&path, &description(None)).unwrap();
    let options = Options {
        stamp: true,
        registers: Registers::Always,
        ..options()
    };
    // Space for three frames and a half.
    let frame = 6 + 1 + BLOCK as u64 + 3 * 13 + 19 + 14;
    let mut experiment = Experiment::new(options, SpoolStore::new(spool, Some(frame * 7 / 2)));
    let actions = vec![
        memory(0x1000, 8),
        expression("const16 0x1006\nconst8 2\ntrace\nend"),
        expression(
            "reg 0\nconst16 0x1002\nadd\nconst8 0\nbit_and\nconst16 0x1002\nadd\nconst8 3\ntrace\nend",
        ),
    ];
    experiment.define(tracepoint(9, CODE, actions)).unwrap();
    let mut target = target();
    target.map(Address(0x1000), b"12345678");
    experiment.start(&mut target, 1000).unwrap();
    let mut moments = vec![];
    for turn in 0..5_u32 {
        let mut moment = moment(CODE, &[u64::from(turn)]);
        (moment.thread, moment.cpu) = (ThreadId(100 + turn), turn % 2);
        moment.time = 2000 + u64::from(turn);
        target.run(&moment, &mut experiment);
        moments.push(moment);
    }
    assert_eq!(experiment.status().stop_reason, Some(StopReason::Full));
    experiment.install(&mut target).unwrap();
    let error = experiment.start(&mut target, 1).unwrap_err();
    assert!(matches!(error, StartError::Store(_)), "{error}");

    let description = description(Some(&experiment));
    experiment
        .into_store()
        .into_spool()
        .finish(&description)
        .unwrap();
    assert_clean(&path);
    let file = TraceFile::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(file.frame_count(), 3);
    assert_eq!(file.byte_order(), ByteOrder::Little);
    for (frame, moment) in file.frames().zip(&moments) {
        assert_eq!(frame.tracepoint().0, 9);
        assert_eq!(frame.register_block(), Some(&block(moment)[..]));
        assert_eq!(frame.timestamp(), Some(moment.time));
        assert_eq!(frame.thread(), Some(moment.thread));
        assert_eq!(
            frame.variable(VariableNumber(3)),
            Some(i64::from(moment.cpu))
        );
        assert_eq!(
            frame.memory(Address(0x1000), 8).as_deref(),
            Some(&b"12345678"[..])
        );
        assert_eq!(frame.memory_blocks().count(), 2);
    }
    let status = &file.description().status().unwrap().fields;
    assert_eq!(status.stop_reason, Some(StopReason::Full));
    assert_eq!((status.frames, status.frames_created), (Some(3), Some(3)));
    let usage = file.description().tracepoints()[0].usage.unwrap();
    assert_eq!((usage.hits, usage.bytes), (3, 3 * frame));
    let bytes = file.as_bytes();
    let start = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
    assert_eq!(parse(&bytes[start..start + 3 * frame as usize]).len(), 3);
}
