//! Compiled tracepoints against the trap mechanism's own evaluation, on random programs and random states.
//!
//! `TRACEWIRE_JUMP_PAD_PROGRAMS` is the number of tracepoints, `TRACEWIRE_JUMP_PAD_SEED` the first seed.

#[path = "../support/machine.rs"]
mod machine;
mod oracle;
mod programs;
#[path = "../support/registers.rs"]
mod registers;

use machine::{Machine, Memory, Setting};
use oracle::{Standing, Wanted, machine_registers};
use programs::{Random, World};
use tracewire_agent_expr::disassemble;
use tracewire_arch::{Register, RegisterLayout};
use tracewire_jump_pad::{CannotCompile, PadStop, RingReader, SharedSizes, WhenFull};
use tracewire_model::{Action, RegisterMask, StopReason, TracepointDefinition};

const VARIABLES: u32 = 4;
const TRACEPOINTS: u32 = 3;

/// Counts of the random cases, which show whether they cover enough.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    hits: u64,
    frames: u64,
    errors: u64,
    missing: u64,
    pass_counts: u64,
    too_long: u64,
    not_compiled: u64,
}

fn environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(otherwise, |value| value.parse().unwrap())
}

fn stay_on_one_cpu() {
    // SAFETY: a set of this size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

fn describe(definition: &TracepointDefinition) -> String {
    let mut text = format!("{definition:?}\n");
    if let Some(condition) = &definition.condition {
        text += &format!("condition\n{}\n", disassemble(condition));
    }
    for action in &definition.actions {
        if let Action::Expression(code) = action {
            text += &format!("action\n{}\n", disassemble(code));
        }
    }
    text
}

/// Makes a definition that collects registers name some of them. Returns all that its frames keep.
fn name_some(
    random: &mut Random,
    layout: &RegisterLayout,
    definition: &mut TracepointDefinition,
) -> Option<RegisterMask> {
    let mut all: Option<RegisterMask> = None;
    for action in &mut definition.actions {
        if let Action::Registers(mask) = action {
            let often = 1 << random.below(6);
            let registers = layout.registers().iter().map(|register| register.number);
            *mask = registers.filter(|_| random.one_in(often)).collect();
            let kept = all.get_or_insert_default();
            mask.iter().for_each(|register| kept.insert(register));
        }
    }
    let mut kept = all?;
    let x87 = |register: &&Register| tracewire_arch::is_x87(&register.name);
    let mut unit = layout.registers().iter().filter(x87);
    if unit.clone().any(|register| kept.contains(register.number)) {
        unit.by_ref()
            .for_each(|register| kept.insert(register.number));
    }
    kept.insert(layout.program_counter().unwrap().number);
    for register in layout.registers() {
        if register.type_name == "data_ptr" {
            kept.insert(register.number);
        }
    }
    Some(kept)
}

struct Bench {
    machine: Machine,
    memory: Memory,
    tally: Tally,
}

impl Bench {
    fn case(&mut self, seed: u64) {
        let random = &mut Random::new(seed);
        let world = World {
            start: self.memory.start,
            end: self.memory.end(),
        };
        for byte in self.memory.bytes() {
            // Zeros often enough for strings to end.
            *byte = if random.one_in(20) {
                0
            } else {
                random.next() as u8
            };
        }
        let count = 1 + random.below(u64::from(TRACEPOINTS));
        let mut definitions: Vec<_> = (0..count)
            .map(|number| programs::tracepoint(random, &world, 1 + number as i32))
            .collect();
        let programs = definitions.iter().map(|definition| {
            let expressions = definition
                .actions
                .iter()
                .filter(|action| matches!(action, Action::Expression(_)));
            u64::from(definition.condition.is_some()) + expressions.count() as u64
        });
        self.tally.programs += programs.sum::<u64>();
        let variables: Vec<_> = (0..VARIABLES)
            .map(|_| random.next().cast_signed())
            .collect();
        let wanted = match random.below(4) {
            0 => Wanted::Always,
            1 => Wanted::Blocks,
            _ => Wanted::Kept,
        };
        let layout = wanted.registers().layout_64();
        let mut kept = vec![];
        for definition in definitions.iter_mut().filter(|_| wanted == Wanted::Kept) {
            kept.push(name_some(random, layout, definition));
        }

        let sizes = SharedSizes {
            cpus: 1 << random.below(2),
            ring_bytes: 1 << 18,
            frame_limit: 20_000,
            tracepoints: TRACEPOINTS,
            variables: VARIABLES,
            hold_bytes: 0,
            count_bytes: 0,
            when_full: [WhenFull::Stop, WhenFull::Overwrite][random.below(2) as usize],
        };
        let mut setting = self.setting(sizes);
        setting.always_registers = wanted == Wanted::Always;
        setting.registers = wanted.registers();
        let by_kernel = random.one_in(8);
        let owner = if by_kernel { 0x4000_0001 } else { 1 };
        machine::set_owner(setting.base, setting.shared.layout(), owner);
        for (slot, value) in (0..).zip(&variables) {
            setting.shared.set_variable(slot, *value);
        }
        let mut experiment = oracle::experiment(&definitions, &variables, wanted);
        if let Some(sets) = experiment.register_sets() {
            let number = |mask: RegisterMask| {
                let found = (0..).find(|number| *sets.get(*number).unwrap().mask() == mask);
                (found.unwrap(), mask)
            };
            setting.kept = kept.into_iter().map(|mask| mask.map(number)).collect();
        }
        // The actions that the experiment gives its pads.
        for (definition, tracepoint) in definitions.iter_mut().zip(experiment.tracepoints()) {
            definition.actions = tracepoint.actions().to_vec();
        }
        let pad = match setting.compile(&definitions) {
            Ok(pad) => pad,
            Err(
                CannotCompile::Frame { .. } | CannotCompile::Pieces | CannotCompile::Stack { .. },
            ) => {
                self.tally.not_compiled += 1;
                return;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        };
        self.machine.load(pad);

        let about = || {
            let list: Vec<_> = definitions.iter().map(describe).collect();
            format!("seed {seed}, by kernel {by_kernel}\n{}", list.join("\n"))
        };
        for _ in 0..1 + random.below(4) {
            self.hit(random, &world, wanted, &mut experiment, &about);
            self.tally.hits += 1;
        }
        self.compare(&setting, &definitions, &mut experiment, &about);
        setting.free();
    }

    fn setting(&self, sizes: SharedSizes) -> Setting {
        Setting::new(sizes)
    }

    /// One hit, for both.
    fn hit(
        &mut self,
        random: &mut Random,
        world: &World,
        wanted: Wanted,
        experiment: &mut tracewire_experiment::Experiment<tracewire_experiment::LinearStore>,
        about: &dyn Fn() -> String,
    ) {
        let mut general = [0; 16];
        for register in &mut general {
            *register = match random.below(3) {
                0 => random.next(),
                _ => world.address(random),
            };
        }
        general[9] = random.next();
        let stack = self.machine.stack.end() - 1024;
        general[7] = stack;
        // Carry, parity, adjust, zero, sign, direction and overflow at random.
        let flags = 0x202 | random.next() & 0xcd5;
        for byte in self.machine.stack.bytes() {
            *byte = random.next() as u8;
        }
        let before = self.machine.stack.bytes().to_vec();
        self.machine.state().general = general;
        self.machine.state().flags = flags;
        self.machine.run();
        let state = self.machine.state();
        assert_eq!(state.general, general, "{}", about());
        assert_eq!(state.flags, flags, "{}", about());
        let extended = &state.extended;
        let block = registers::block(machine_registers(), &general, flags, extended);
        let around = before.len() - 1024 - 128;
        assert!(
            self.machine.stack.bytes()[around..] == before[around..],
            "the stack has changed: {}",
            about()
        );
        let registers = wanted.registers();
        let mut standing = Standing { block, registers };
        oracle::hit(experiment, &mut standing);
    }

    fn compare(
        &mut self,
        setting: &Setting,
        definitions: &[TracepointDefinition],
        experiment: &mut tracewire_experiment::Experiment<tracewire_experiment::LinearStore>,
        about: &dyn Fn() -> String,
    ) {
        let shared = &setting.shared;
        let losses = shared.losses();
        assert_eq!(losses.lost + losses.dropped, 0, "{}", about());
        if losses.too_long > 0 {
            // The trap mechanism makes frames of any length.
            self.tally.too_long += 1;
            return;
        }
        let mut frames = vec![];
        let mut count = 0;
        let drained = RingReader::new(shared).finish(shared, &mut |frame| {
            frames.extend_from_slice(frame.bytes);
            count += 1;
        });
        assert_eq!(drained.torn, 0, "{}", about());
        assert_eq!(count, drained.frames);
        self.tally.frames += count;
        if frames != experiment.store().bytes() {
            panic!(
                "{}\npad  {:02x?}\ntrap {:02x?}",
                about(),
                frames,
                experiment.store().bytes()
            );
        }
        for (number, slot) in (4..).zip(0..VARIABLES) {
            let expected = experiment.variable(tracewire_model::VariableNumber(number));
            assert_eq!(shared.variable(slot), expected, "$v{number}: {}", about());
        }
        for (index, tracepoint) in (0..).zip(experiment.tracepoints()) {
            let counts = shared.counts(index);
            let missing = tracepoint.missing();
            assert_eq!(
                (counts.missing, counts.first_missing),
                (missing.count, missing.first),
                "tracepoint {index}: {}",
                about()
            );
            self.tally.missing += missing.count;
        }
        let pad = self.machine.pad.as_ref().unwrap();
        let number = |index: u32| definitions[index as usize].number.0;
        let end = match shared.stopped() {
            None => None,
            Some(PadStop::PassCount(index)) => {
                self.tally.pass_counts += 1;
                Some((StopReason::PassCount, None, number(index)))
            }
            Some(PadStop::Error(index)) => {
                self.tally.errors += 1;
                let error = shared.error().unwrap();
                Some((StopReason::Error, pad.error_text(&error), number(index)))
            }
            Some(other) => panic!("{other:?}: {}", about()),
        };
        assert_eq!(end, oracle::end(experiment), "{}", about());
    }
}

#[test]
fn a_pad_does_what_a_trap_would_do() {
    stay_on_one_cpu();
    let mut bench = Bench {
        machine: Machine::new(),
        memory: Memory::new(2),
        tally: Tally::default(),
    };
    let wanted = environment("TRACEWIRE_JUMP_PAD_PROGRAMS", 1500);
    let mut seed = environment("TRACEWIRE_JUMP_PAD_SEED", 1);
    while bench.tally.programs < wanted {
        bench.case(seed);
        seed += 1;
        if seed.is_multiple_of(5000) {
            eprintln!("{:?}", bench.tally);
        }
    }
    println!(
        "{:?}, {} faults",
        bench.tally,
        machine::FAULTS.load(std::sync::atomic::Ordering::Relaxed)
    );
    assert!(bench.tally.not_compiled * 20 < bench.tally.programs);
}
