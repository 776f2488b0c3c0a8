//! The machine state that a pad collects, and that it leaves all of it unchanged.

#[path = "support/machine.rs"]
mod machine;
#[path = "support/registers.rs"]
mod registers;
#[path = "support/tracepoints.rs"]
mod tracepoints;

use machine::{Machine, Memory, PAGE, Setting};
use tracepoints::{code, expression, memory, pointed_to, tracepoint};
use tracewire_arch::X86Registers;
use tracewire_experiment::{FaultKind, Writers};
use tracewire_jump_pad::{Orphaned, PadStop, RingReader, SharedSizes, WhenFull};
use tracewire_model::ThreadId;

fn sizes(when_full: WhenFull) -> SharedSizes {
    SharedSizes {
        cpus: 2,
        ring_bytes: 1 << 16,
        frame_limit: 8192,
        tracepoints: 4,
        variables: 4,
        hold_bytes: 0,
        count_bytes: 0,
        when_full,
    }
}

fn frames(setting: &Setting) -> Vec<Vec<u8>> {
    let mut frames = vec![];
    let mut reader = RingReader::new(&setting.shared);
    let drained = reader.finish(&setting.shared, &mut |frame| {
        frames.push(frame.bytes.to_vec())
    });
    assert_eq!((drained.torn, drained.waiting), (0, false));
    frames
}

/// Registers with distinct values and a valid stack pointer.
fn set_registers(machine: &mut Machine) {
    let stack = machine.stack.end() - 1024;
    for (number, register) in (0_u64..).zip(&mut machine.state().general) {
        *register = 0x0101_0101_0101_0101 * (number + 1);
    }
    machine.state().general[7] = stack;
    machine.state().flags = 0x202;
}

/// An image of the extended state with something in every register.
fn fill_extended(image: &mut [u8], machine_has: u64) {
    let byte = |at: usize| (at * 7 + at / 256) as u8 | 1;
    for (at, place) in image.iter_mut().enumerate() {
        // The x87 values and the part after the header; not the header, and nothing reserved in it.
        if (32..416).contains(&at) || at >= 576 {
            *place = byte(at);
        }
    }
    image[512..520].copy_from_slice(&(machine_has & 0xe7).to_le_bytes());
    image[520..576].fill(0);
    image[..32].fill(0);
    // Control word, status with the top at 5, four registers in use: a number, zero, infinity, a denormal.
    image[..2].copy_from_slice(&0x27f_u16.to_le_bytes());
    image[3] = 5 << 3;
    image[4] = 0b1111_0000;
    image[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
    for (register, value) in [
        (0, [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]),
        (1, [0; 10]),
        (2, [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x7f]),
        (7, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        image[32 + 16 * register..][..10].copy_from_slice(&value);
        image[42 + 16 * register..][..6].fill(0);
    }
    for register in 3..7 {
        image[42 + 16 * register..][..6].fill(0);
    }
    // The bounds registers and protection keys are not collected.
}

#[test]
fn every_register_of_every_set_is_collected_and_kept() {
    let mut machine = Machine::new();
    for set in X86Registers::ALL {
        for in_use in [false, true] {
            let mut setting = Setting::new(sizes(WhenFull::Stop));
            setting.registers = set;
            let definition = tracepoint(1, vec![tracepoints::registers()]);
            let pad = setting.compile(&[definition]).unwrap();
            machine.load(pad);
            set_registers(&mut machine);
            if in_use {
                // A first image, to see which components the machine has.
                machine.run();
                let has = std::arch::x86_64::__cpuid_count(0xd, 0);
                let state = machine.state();
                state.wanted = state.extended;
                fill_extended(&mut state.wanted, u64::from(has.eax));
                set_registers(&mut machine);
                machine.run_with_extended();
            } else {
                machine.state().wanted.fill(0);
                machine.state().wanted[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
                machine.run_with_extended();
            }
            let (general, flags) = (machine.state().general, machine.state().flags);
            let state = machine.state();
            // Which parts the processor holds for unused may change with any interrupt: the eight bytes from 512.
            let but_used = |image: &[u8]| [&image[..512], &image[520..]].concat();
            assert!(
                but_used(&state.extended[..]) == but_used(&state.extended_behind[..]),
                "{set:?}"
            );
            let expected = registers::block(set, &general, flags, &state.extended);
            let frame = frames(&setting).pop().unwrap();
            assert_eq!(frame[6], b'R');
            for register in set.layout_64().registers() {
                let place = register.offset as usize..(register.offset + register.size()) as usize;
                assert_eq!(
                    frame[7..][place.clone()],
                    expected[place],
                    "{} of {set:?}, in use: {in_use}",
                    register.name
                );
            }
            assert_eq!(frame.len(), 7 + expected.len());
            // As a new thread has it.
            machine.state().wanted.fill(0);
            machine.state().wanted[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
            machine.run_with_extended();
        }
    }
}

/// Flags that affect instructions, and unmasked exceptions of vector instructions.
#[test]
fn a_thread_keeps_its_flags_whatever_they_are() {
    const ALIGNMENT_CHECK: u64 = 1 << 18;
    const NESTED_TASK: u64 = 1 << 14;
    const DIRECTION: u64 = 1 << 10;
    const IDENTIFICATION: u64 = 1 << 21;
    const ARITHMETIC: u64 = 0x8d5;
    let mut machine = Machine::new();
    for choice in 0..1_u64 << 5 {
        let bits = [
            ALIGNMENT_CHECK,
            NESTED_TASK,
            DIRECTION,
            IDENTIFICATION,
            ARITHMETIC,
        ];
        let flags = bits
            .iter()
            .enumerate()
            .filter(|(place, _)| choice >> place & 1 != 0)
            .fold(0x202, |flags, (_, bit)| flags | bit);
        let setting = Setting::new(sizes(WhenFull::Stop));
        // Pieces at odd places, a long one, and a condition that reads.
        let mut definition = tracepoint(
            1,
            vec![
                tracepoints::registers(),
                memory(machine.stack.end() - 509, 7),
                memory(machine.stack.end() - 499, 300),
                pointed_to(7, 5),
            ],
        );
        definition.condition = Some(code("const8 1\nend"));
        let pad = setting.compile(&[definition]).unwrap();
        machine.load(pad);
        set_registers(&mut machine);
        machine.state().flags = flags;
        machine.state().wanted.fill(0);
        // Every exception is unmasked, and none has occurred.
        machine.state().wanted[24..28].copy_from_slice(&0_u32.to_le_bytes());
        machine.run_with_extended();
        assert_eq!(machine.state().flags, flags);
        let frame = frames(&setting).pop().unwrap();
        assert!(frame.len() > 300, "{flags:x}: {}", frame.len());
        let mxcsr = &machine.state().extended_behind[24..28];
        assert_eq!(u32::from_le_bytes(mxcsr.try_into().unwrap()), 0);
        // As a new thread has it.
        set_registers(&mut machine);
        machine.state().wanted[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
        machine.run_with_extended();
    }
}

#[test]
fn a_thread_at_the_end_of_its_stack_goes_on_without_a_frame() {
    let mut machine = Machine::new();
    let stack = Memory::new(3);
    // SAFETY: the page belongs to the test.
    unsafe { libc::mprotect(stack.start as *mut _, PAGE, libc::PROT_NONE) };
    let setting = Setting::new(sizes(WhenFull::Stop));
    let definition = tracepoint(1, vec![memory(stack.start + PAGE as u64, 8)]);
    let pad = setting.compile(&[definition]).unwrap();
    let needed = u64::from(pad.stack);
    assert!(needed <= 512, "{needed}");
    assert!(
        pad.faults
            .iter()
            .any(|fault| fault.kind == FaultKind::Stack)
    );
    machine.load(pad);
    let mut made = 0;
    for left in [0, 8, 100, 136, needed - 8, needed, needed + 8, 1000] {
        set_registers(&mut machine);
        let pointer = stack.start + PAGE as u64 + left;
        machine.state().general[7] = pointer;
        let before = machine.state().general;
        machine.run();
        assert_eq!(machine.state().general, before);
        made += usize::from(left >= needed);
    }
    assert_eq!(frames(&setting).len(), made);
}

#[test]
fn without_a_tracer_pads_rest_or_read_by_the_kernel() {
    let mut machine = Machine::new();
    let data = Memory::new(1);
    let mut setting = Setting::new(sizes(WhenFull::Stop));
    setting.stamp = true;
    let definition = tracepoint(
        1,
        vec![
            memory(data.start, 8),
            memory(data.end() - 4, 8),
            memory(16, 8),
        ],
    );
    let pad = setting.compile(&[definition]).unwrap();
    machine.load(pad);
    machine::set_owner(setting.base, setting.shared.layout(), 0x4000_0001);
    setting.shared.set_orphaned(Orphaned::Rest);
    set_registers(&mut machine);
    machine.run();
    assert!(frames(&setting).is_empty());
    let faults = machine::FAULTS.load(std::sync::atomic::Ordering::Relaxed);
    setting.shared.set_orphaned(Orphaned::GoOn);
    machine.run();
    assert_eq!(
        machine::FAULTS.load(std::sync::atomic::Ordering::Relaxed),
        faults
    );
    let frame = frames(&setting).pop().unwrap();
    assert_eq!(frame.len(), 6 + 4 * 13 + (11 + 8) + (11 + 4));
    // SAFETY: no argument.
    let thread = unsafe { libc::gettid() } as u64;
    assert_eq!(frame[6 + 13 + 5..][..8], thread.to_le_bytes());
    assert_eq!(setting.shared.counts(0).missing, 2);
}

/// Addresses that this process cannot read, of all kinds.
fn wild_addresses() -> impl Iterator<Item = u64> {
    let mut random = 1_u64;
    (0..1000_u32).filter_map(move |round| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let address = match round % 4 {
            0 => random,
            1 => random >> 17,
            2 => random | 0xffff_8000_0000_0000,
            _ => random >> 52,
        };
        (machine::read_carefully(address, &mut [0]) == 0).then_some(address)
    })
}

#[test]
fn what_lies_at_a_wild_address_is_missing() {
    let mut machine = Machine::new();
    let setting = Setting::new(SharedSizes {
        ring_bytes: 1 << 20,
        ..sizes(WhenFull::Stop)
    });
    let actions = vec![pointed_to(3, 8), expression("reg 3\nref64\npop\nend")];
    let pad = setting.compile(&[tracepoint(1, actions)]);
    machine.load(pad.unwrap());
    let mut hits = 0;
    for address in wild_addresses() {
        set_registers(&mut machine);
        machine.state().general[3] = address;
        setting.shared.reset_counts(0);
        machine.run();
        hits += 1;
        let counts = setting.shared.counts(0);
        assert_eq!(
            (counts.missing, counts.first_missing.map(|at| at.0)),
            (2, Some(address))
        );
    }
    assert_eq!(frames(&setting), vec![[1, 0, 0, 0, 0, 0]; hits]);
}

#[test]
fn a_condition_that_cannot_be_read_ends_the_run() {
    let mut machine = Machine::new();
    for address in wild_addresses().step_by(20) {
        let setting = Setting::new(sizes(WhenFull::Stop));
        let mut definition = tracepoint(1, vec![]);
        definition.condition = Some(code("reg 3\nref8\nend"));
        let pad = setting.compile(&[definition]).unwrap();
        machine.load(pad);
        set_registers(&mut machine);
        machine.state().general[3] = address;
        machine.run();
        assert_eq!(setting.shared.stopped(), Some(PadStop::Error(0)));
        let error = setting.shared.error().unwrap();
        assert_eq!(
            machine.pad.as_ref().unwrap().error_text(&error).unwrap(),
            format!("condition: cannot access 1 bytes of memory at {address:#x} at offset 3")
        );
        assert!(frames(&setting).is_empty());
        setting.free();
    }
}

#[test]
fn frames_are_stamped_with_time_thread_and_cpu() {
    let mut machine = Machine::new();
    let mut setting = Setting::new(sizes(WhenFull::Stop));
    setting.stamp = true;
    let definition = tracepoint(1, vec![expression("tracev 1\ntracev 2\ntracev 3\nend")]);
    let pad = setting.compile(&[definition]).unwrap();
    machine.load(pad);
    set_registers(&mut machine);
    let now = || {
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_micros() as u64
    };
    // SAFETY: no argument.
    let own = u64::from(unsafe { libc::gettid() }.cast_unsigned());
    let base = {
        let mut value = 0_u64;
        // SAFETY: the kernel writes one word.
        unsafe { libc::syscall(libc::SYS_arch_prctl, 0x1003, &mut value) };
        value
    };
    let before = now();
    // Not in the table: the kernel is asked once, and then it is.
    machine.run();
    setting.shared.forget_thread(ThreadId(own as u32));
    setting.shared.set_thread(base, ThreadId(77));
    machine.run();
    setting.shared.forget_thread(ThreadId(77));
    // Where the kernel must not be asked, the thread is unknown.
    setting.shared.set_orphaned(Orphaned::Rest);
    machine.run();
    let after = now();
    let mut last = 0;
    for (frame, thread) in frames(&setting).iter().zip([own, 77, 0]) {
        let word = |index: usize| {
            let at = 6 + 13 * index;
            assert_eq!(frame[at], b'V');
            u64::from_le_bytes(frame[at + 5..at + 13].try_into().unwrap())
        };
        // The clock is a trifle slow, and set right at times.
        assert!((before.saturating_sub(1000)..=after + 1000).contains(&word(0)));
        assert!(word(0) >= last);
        last = word(0);
        assert_eq!(word(1), thread);
        assert!(word(2) < 4096);
        // Between them is the fraction of a microsecond.
        assert_eq!([word(0), word(1), word(2)], [word(4), word(5), word(6)]);
    }
}

#[test]
fn a_thread_that_must_not_read_the_counter_is_stamped_with_the_last_known_time() {
    let mut machine = Machine::new();
    let mut setting = Setting::new(sizes(WhenFull::Stop));
    setting.stamp = true;
    let pad = setting.compile(&[tracepoint(1, vec![])]);
    machine.load(pad.unwrap());
    set_registers(&mut machine);
    let before = setting.shared.microseconds(tracewire_jump_pad::counter());
    setting.shared.keep_time();
    // SAFETY: only the pad reads the counter meanwhile.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV), 0);
        machine.run();
        assert_eq!(libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE), 0);
    }
    let frame = frames(&setting).pop().unwrap();
    let stamp = u64::from_le_bytes(frame[6 + 5..6 + 13].try_into().unwrap());
    assert!((before..=setting.shared.microseconds(tracewire_jump_pad::counter())).contains(&stamp));
}

#[test]
fn a_full_ring_does_what_its_setting_says() {
    let mut machine = Machine::new();
    let data = Memory::new(1);
    for when_full in [
        WhenFull::Stop,
        WhenFull::Wait,
        WhenFull::Overwrite,
        WhenFull::WaitThenOverwrite,
    ] {
        let mut setting = Setting::new(SharedSizes {
            cpus: 1,
            ring_bytes: 4096,
            frame_limit: 512,
            ..sizes(when_full)
        });
        setting.stamp = true;
        let definition = tracepoint(1, vec![pointed_to(3, 100)]);
        let pad = setting.compile(&[definition]).unwrap();
        machine.load(pad);
        let hits = 100;
        let begun = std::time::Instant::now();
        for hit in 0..hits {
            set_registers(&mut machine);
            machine.state().general[3] = data.start + hit;
            machine.run();
        }
        // Hits wait once for two seconds for a reader that does not come, and not at each of them.
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        let losses = setting.shared.losses();
        assert_eq!(setting.shared.counts(0).dropped, losses.dropped);
        let frames = frames(&setting);
        let places: Vec<_> = frames
            .iter()
            .map(|frame| {
                let at = 6 + 4 * 13 + 1;
                u64::from_le_bytes(frame[at..at + 8].try_into().unwrap()) - data.start
            })
            .collect();
        let kept = frames.len() as u64;
        assert!((15..25).contains(&kept), "{kept}");
        match when_full {
            WhenFull::Stop => {
                assert_eq!(setting.shared.stopped(), Some(PadStop::Full));
                assert_eq!((losses.lost, losses.dropped), (1, 0));
                assert!(places.into_iter().eq(0..kept));
            }
            WhenFull::Wait => {
                assert_eq!(setting.shared.stopped(), None);
                assert_eq!((losses.lost, losses.dropped), (hits - kept, 0));
                assert!(places.into_iter().eq(0..kept));
            }
            WhenFull::Overwrite | WhenFull::WaitThenOverwrite => {
                assert_eq!(setting.shared.stopped(), None);
                assert_eq!((losses.lost, losses.dropped), (0, hits - kept));
                assert!(places.into_iter().eq(hits - kept..hits));
            }
        }
    }
}

#[test]
fn a_frame_that_a_handler_left_is_counted_and_holds_up_nothing() {
    let mut machine = Machine::new();
    let data = Memory::new(1);
    for (when_full, shrinks) in [
        (WhenFull::Wait, false),
        (WhenFull::Wait, true),
        (WhenFull::Overwrite, false),
        (WhenFull::WaitThenOverwrite, false),
    ] {
        let setting = Setting::new(sizes(when_full));
        let mut actions = vec![pointed_to(3, 8)];
        if shrinks {
            actions.push(expression("reg 3\nconst8 20\ntracenz\nend"));
        }
        let definition = tracepoint(1, actions);
        let pad = setting.compile(&[definition]).unwrap();
        machine.load(pad);
        let mut reader = RingReader::new(&setting.shared);
        let mut hit = |leaves: bool| {
            set_registers(&mut machine);
            machine.state().general[3] = if leaves { data.end() } else { data.start };
            if leaves {
                machine::LEAVE_FOR.store(machine.exit(), std::sync::atomic::Ordering::Release);
            }
            machine.run();
        };
        for leaves in [false, true, false, false] {
            hit(leaves);
        }
        let mut frames = 0;
        let mut waiting = true;
        // The records after it come once the reader has waited a while, where a frame's length is known.
        let wanted = if shrinks || when_full.overwrites() {
            1
        } else {
            3
        };
        while frames < wanted {
            let drained = reader.drain(&setting.shared, Writers::Running, &mut |_| frames += 1);
            assert_eq!(drained.torn, 0);
            waiting = drained.waiting;
        }
        assert!(waiting);
        let drained = reader.finish(&setting.shared, &mut |_| frames += 1);
        assert_eq!((frames, drained.torn), (3, 1), "{when_full:?}, {shrinks}");
        assert_eq!(setting.shared.losses(), Default::default());
    }
}

#[test]
fn what_a_pad_cannot_do_is_said() {
    let setting = Setting::new(sizes(WhenFull::Stop));
    let refusal = |definition| {
        let error = setting.compile(&[definition]);
        error.unwrap_err().to_string()
    };
    let mut stepping = tracepoint(1, vec![]);
    stepping.step_count = 3;
    assert_eq!(refusal(stepping), "while-stepping needs a trap");
    assert_eq!(
        refusal(tracepoint(1, vec![memory(0, 9000)])),
        "a frame may have 9000 bytes, pads make frames of up to 8192"
    );
    assert_eq!(
        refusal(tracepoint(1, vec![expression("reg 32\npop\nend")])),
        "the value of register 32 needs a trap"
    );
    assert_eq!(
        refusal(tracepoint(1, vec![expression("getv 99\npop\nend")])),
        "trace state variable 99 has no place in the shared memory"
    );
}
