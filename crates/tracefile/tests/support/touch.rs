//! Looks at everything a file offers, as a reader that trusts nothing.

use tracewire_model::{
    Address, FrameNumber, RegisterNumber, ThreadId, TracepointNumber, VariableNumber,
};
use tracewire_tracefile::{Search, TraceFile};

pub fn everything(file: &TraceFile) {
    let description = file.description();
    let mut shown = format!("{:?} {:?}", file.ending(), description.problems());
    description
        .problems()
        .iter()
        .for_each(|problem| shown += &problem.to_string());
    if let Some(status) = description.status() {
        shown += &status.to_string();
        shown += &status.fields.to_string();
    }
    for tracepoint in description.tracepoints() {
        for piece in tracepoint.definition.records(tracepoint.usage, 100) {
            shown += &piece.to_string();
        }
    }
    description
        .variables()
        .iter()
        .for_each(|variable| shown += &variable.to_string());
    description
        .modules()
        .iter()
        .for_each(|module| shown += &module.to_string());
    let lines: usize = description.lines().map(|line| line.text.len() + 1).sum();
    assert!(lines.abs_diff(description.as_bytes().len()) <= 1);
    assert!(description.unknown_lines().count() <= description.lines().count());

    for frame in file.frames() {
        let mut blocks = frame.blocks();
        while blocks.next().is_some() {}
        assert_eq!(blocks.position(), frame.data().len());
        let _ = (
            frame.program_counter(),
            frame.is_step(),
            frame.timestamp(),
            frame.thread(),
        );
        let _ = (
            frame.cpu(),
            frame.register_block(),
            frame.variable(VariableNumber(1)),
        );
        let _ = (
            frame.register(RegisterNumber(3)),
            frame.register_value_named("rip"),
        );
        for (address, bytes) in frame.memory_blocks().take(4) {
            assert_eq!(
                frame.memory(address, bytes.len()).map(|read| read.len()),
                Some(bytes.len())
            );
            let mut around = [None; 40];
            frame.read_memory(Address(address.0.wrapping_sub(17)), &mut around);
        }
    }
    assert!(file.frame(FrameNumber(file.frame_count())).is_none());
    for search in [
        Search::ProgramCounter(Address(0x401000)),
        Search::Tracepoint(TracepointNumber(1)),
        Search::Outside {
            start: Address(0),
            end: Address(u64::MAX),
        },
        Search::Time {
            start: 0,
            end: u64::MAX,
        },
        Search::Thread(ThreadId(1)),
        Search::Cpu(0),
        Search::Number(FrameNumber(u64::MAX)),
    ] {
        let _ = file.find(search, Some(FrameNumber(0)));
        let _ = file.find(search, Some(FrameNumber(u64::MAX)));
    }
    if let Some(layout) = file.layout() {
        for register in layout.registers() {
            assert_eq!(layout.by_number(register.number), Some(register));
            assert!(layout.by_name(&register.name).is_some());
        }
    }
}
