//! The messages between a debugger's side and a program that runs experiments: no panic, and what is read is written and read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracewire_experiment::fake::FakeTarget;
use tracewire_experiment::handover::{Answer, Greeting, Progress, Request};
use tracewire_experiment::{Experiment, LinearStore, Options};
use tracewire_model::ByteOrder;
use tracewire_tracefile::FrameFormat;

fuzz_target!(|data: &[u8]| {
    let _ = Greeting::read(&mut &data[..]);
    let mut rest = data;
    while let Ok(Some(request)) = Request::read(&mut rest) {
        let mut written = Vec::new();
        request.write(&mut written).expect("memory");
        let again = Request::read(&mut written.as_slice()).expect("it was written");
        assert_eq!(again, Some(request));
    }
    let mut rest = data;
    while let Ok(answer) = Answer::read(&mut rest) {
        if let Answer::Progress { progress, frames } = &answer {
            let text = progress.to_text();
            let again = Progress::parse(text.as_bytes()).expect("it was written");
            assert_eq!(again.to_text(), text);
            let format = FrameFormat {
                byte_order: ByteOrder::Little,
                register_block_size: 16,
            };
            let store = LinearStore::new(1 << 16).expect("little memory");
            let mut keeper = Experiment::new(Options::of_recording(format), store);
            let mut target = FakeTarget::new(ByteOrder::Little, 2);
            keeper.start_awaiting(&mut target, 1).expect("it starts");
            let _ = keeper.adopt(progress, frames);
        }
    }
});
