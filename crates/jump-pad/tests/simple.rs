//! Pads for tracepoints as in practice.

#[path = "support/machine.rs"]
mod machine;

#[path = "support/tracepoints.rs"]
mod tracepoints;

use machine::{Machine, Memory, Setting};
use tracepoints::tracepoint;
use tracewire_agent_expr::assemble;
use tracewire_jump_pad::{PadStop, RingReader, SharedSizes, WhenFull};
use tracewire_model::Action;

fn sizes(when_full: WhenFull) -> SharedSizes {
    SharedSizes {
        cpus: 2,
        ring_bytes: 1 << 16,
        frame_limit: 4096,
        tracepoints: 4,
        variables: 4,
        hold_bytes: 0,
        count_bytes: 0,
        when_full,
    }
}

#[test]
fn a_frame_holds_what_was_asked_for() {
    let mut machine = Machine::new();
    let mut memory = Memory::new(1);
    for (index, byte) in memory.bytes().iter_mut().enumerate() {
        *byte = index as u8;
    }
    let setting = Setting::new(sizes(WhenFull::Stop));
    let actions = vec![Action::Memory {
        base: None,
        offset: memory.start + 3,
        length: 5,
    }];
    let mut definition = tracepoint(7, actions);
    definition.condition = Some(assemble("reg 5\nconst8 9\nless_signed\nend").unwrap());
    definition.pass_count = 2;
    let pad = setting.compile(&[definition]).unwrap();
    eprintln!("{} bytes, {} of stack", pad.code.len(), pad.stack);
    machine.load(pad);
    let stack = machine.stack.end() - 256;
    let mut reader = RingReader::new(&setting.shared);
    for rdi in [10, 8, 7, 6] {
        for index in 0..16 {
            machine.state().general[index] = 0x1111 * index as u64;
        }
        machine.state().general[7] = stack;
        machine.state().general[5] = rdi;
        machine.state().flags = 0xed7;
        machine.run();
        for index in 0..16 {
            let expected = match index {
                5 => rdi,
                7 => stack,
                _ => 0x1111 * index as u64,
            };
            assert_eq!(machine.state().general[index], expected, "{index}");
        }
        assert_eq!(machine.state().flags, 0xed7);
    }
    let mut frames = vec![];
    let drained = reader.finish(&setting.shared, &mut |frame| {
        frames.push(frame.bytes.to_vec())
    });
    assert_eq!((drained.frames, drained.torn), (2, 0));
    let mut expected = vec![7, 0, 16, 0, 0, 0, b'M'];
    expected.extend((memory.start + 3).to_le_bytes());
    expected.extend([5, 0, 3, 4, 5, 6, 7]);
    assert_eq!(frames, [expected.clone(), expected]);
    assert_eq!(setting.shared.stopped(), Some(PadStop::PassCount(0)));
}
