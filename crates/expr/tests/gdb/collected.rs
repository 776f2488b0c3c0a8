//! The compiled actions collect enough to show the values afterwards, and cover what GDB's would collect.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tracewire_agent_expr::{Context, Evaluation, assemble};
use tracewire_expr::{
    CollectOptions, ExpressionErrorKind, PrintOptions, State, Warning, compile_collect,
    compile_condition, evaluate,
};
use tracewire_model::{Action, Address, RegisterMask, RegisterNumber, VariableNumber};

use crate::compare::Stopped;
use crate::core_file::Core;

/// Runs programs over a core file and notes what they collect.
pub struct Collector<'a> {
    core: &'a Core,
    bytes: BTreeSet<u64>,
}

impl Collector<'_> {
    fn add(&mut self, address: u64, length: u64) {
        assert!(
            length <= 1 << 20,
            "{length} bytes are collected at {address:#x}"
        );
        self.bytes
            .extend((0..length).map(|offset| address.wrapping_add(offset)));
    }
}

impl Context for Collector<'_> {
    fn register(&mut self, register: u16) -> Option<u64> {
        let bytes = self.core.register(RegisterNumber(register))?;
        let mut number = [0; 8];
        number[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
        Some(u64::from_le_bytes(number))
    }

    fn memory(&mut self, address: u64, size: u8) -> Option<u64> {
        let (mut bytes, mut known) = ([0; 8], [false; 8]);
        let size = usize::from(size);
        self.core
            .memory(Address(address), &mut bytes[..size], &mut known[..size]);
        known[..size]
            .iter()
            .all(|known| *known)
            .then(|| u64::from_le_bytes(bytes))
    }

    fn variable(&mut self, _: u16) -> i64 {
        0
    }

    fn set_variable(&mut self, _: u16, _: i64) {}

    fn collect_memory(&mut self, address: u64, length: u64) {
        self.add(address, length);
    }

    fn collect_string(&mut self, address: u64, limit: u64) {
        for offset in 0..limit {
            self.add(address + offset, 1);
            if matches!(self.memory(address + offset, 1), None | Some(0)) {
                break;
            }
        }
    }
}

/// A core file of which only the collected parts are known.
pub struct Frame<'a> {
    core: &'a Core,
    pub bytes: BTreeSet<u64>,
    pub registers: RegisterMask,
    asked: RefCell<Vec<RegisterNumber>>,
}

impl State for Frame<'_> {
    fn pc(&self) -> Address {
        self.core.pc()
    }

    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>> {
        if !self.registers.contains(register) {
            self.asked.borrow_mut().push(register);
            return None;
        }
        self.core.register(register)
    }

    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]) {
        self.core.memory(address, bytes, known);
        for (offset, known) in known.iter_mut().enumerate() {
            *known &= self.bytes.contains(&address.0.wrapping_add(offset as u64));
        }
    }

    fn variable(&self, _: &str) -> Option<i64> {
        None
    }
}

/// Runs the actions. Returns the collected parts, or why an expression failed.
pub fn run<'a>(core: &'a Core, actions: &[Action]) -> Result<Frame<'a>, String> {
    let mut collector = Collector {
        core,
        bytes: BTreeSet::new(),
    };
    let mut registers = RegisterMask::default();
    for action in actions {
        match action {
            Action::Registers(mask) => mask.iter().for_each(|register| registers.insert(register)),
            Action::Memory {
                base: None,
                offset,
                length,
            } => collector.add(*offset, *length),
            Action::Expression(program) => {
                Evaluation::new()
                    .evaluate(program, &mut collector)
                    .map_err(|error| error.to_string())?;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    Ok(Frame {
        core,
        bytes: collector.bytes,
        registers,
        asked: RefCell::default(),
    })
}

pub fn no_variables(_: &str) -> Option<VariableNumber> {
    None
}

/// Collects each expression at the core file, and requires that the collected parts give the same value as the whole core file.
/// Expressions that cannot be evaluated there are skipped.
pub fn enough(stopped: &Stopped, expressions: &[&str]) {
    let mut wrong = Vec::new();
    let mut compiled = 0;
    for expression in expressions {
        let Ok(whole) = evaluate(&stopped.symbols, &stopped.core, expression) else {
            continue;
        };
        if whole.is_optimized_out() {
            continue;
        }
        let pc = stopped.core.pc();
        let actions = match compile_collect(
            &stopped.symbols,
            pc,
            expression,
            CollectOptions::default(),
            &no_variables,
        ) {
            Ok((actions, warnings)) => {
                let of_text = |warning: &Warning| warning.message.contains("collects the text");
                assert!(
                    warnings.iter().all(of_text) || stopped.is_known_to_caller(expression),
                    "{warnings:?}"
                );
                actions
            }
            Err(error) => {
                // Some operations are impossible in agent expressions.
                let callers = matches!(error.kind(), ExpressionErrorKind::OptimizedOut(_))
                    && stopped.is_known_to_caller(expression);
                if !callers && !matches!(error.kind(), ExpressionErrorKind::Unsupported(_)) {
                    wrong.push(format!("{expression}: {error}\n{}", error.underlined()));
                }
                continue;
            }
        };
        let frame = match run(&stopped.core, &actions) {
            Ok(frame) => frame,
            Err(error) => {
                wrong.push(format!("{expression}: {error}"));
                continue;
            }
        };
        compiled += 1;
        match evaluate(&stopped.symbols, &frame, expression) {
            Ok(value)
                if value.bytes() == whole.bytes() && value.is_complete() == whole.is_complete() =>
            {
                // The target of a pointer is not collected with it, nor are the elements of a slice.
                let text = value.print(&stopped.symbols, &frame, &PrintOptions::default());
                let wanted = stopped.print(expression);
                if text != wanted
                    && !text.contains("Cannot access memory")
                    && !text.contains("<unavailable>")
                {
                    wrong.push(format!("{expression}:\n  {text}\n  {wanted}"));
                }
            }
            Ok(value) => {
                let text = value.print(&stopped.symbols, &frame, &PrintOptions::default());
                wrong.push(format!(
                    "{expression}: {text}, registers {:?}",
                    frame.asked.borrow()
                ));
            }
            Err(error) => {
                wrong.push(format!(
                    "{expression}: {error}, registers {:?}",
                    frame.asked.borrow()
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        expressions.len(),
        wrong.join("\n")
    );
    assert!(compiled > 0, "none of {} was compiled", expressions.len());
}

/// The programs in GDB's answer to `maint agent`.
fn program(answer: &str) -> Option<Vec<u8>> {
    let lines: Vec<String> = (answer.lines())
        .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        // GDB lists large constants as negative ones.
        .map(|line| match line.split_once(" -") {
            Some((start, number)) => format!(
                "{start} {}",
                number.trim().parse::<u64>().unwrap().wrapping_neg()
            ),
            None => line.to_owned(),
        })
        .collect();
    (!lines.is_empty()).then(|| assemble(&lines.join("\n")).unwrap())
}

/// Requires that our actions collect the memory that GDB's bytecode for the same expression collects, and that the
/// two agree on the expression's truth as a condition.
pub fn covers_gdb(stopped: &Stopped, expressions: &[&str]) {
    let place = &stopped.location;
    let commands: Vec<String> = (expressions.iter())
        .flat_map(|expression| {
            [
                format!("maint agent -at {place}, {expression}"),
                format!("maint agent-eval -at {place}, {expression}"),
            ]
        })
        .collect();
    let answers = stopped.gdb(&commands);
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (expression, answer) in expressions.iter().zip(answers.chunks(2)) {
        let pc = stopped.core.pc();
        let symbols = &stopped.symbols;
        if let Some(program) = program(&answer[0]) {
            let mut gdb = Collector {
                core: &stopped.core,
                bytes: BTreeSet::new(),
            };
            let theirs = Evaluation::new().evaluate(&program, &mut gdb);
            let ours = compile_collect(
                symbols,
                pc,
                expression,
                CollectOptions::default(),
                &no_variables,
            )
            .map_err(|error| error.to_string())
            .and_then(|(actions, _)| run(&stopped.core, &actions));
            match (theirs, ours) {
                (Ok(_), Ok(frame)) => {
                    compared += 1;
                    let missing: Vec<String> = gdb
                        .bytes
                        .difference(&frame.bytes)
                        .map(|address| format!("{address:#x}"))
                        .collect();
                    if !missing.is_empty() {
                        wrong.push(format!(
                            "collect {expression}: GDB collects {missing:?}, too"
                        ));
                    }
                }
                (Ok(_), Err(error)) => wrong.push(format!("collect {expression}: {error}")),
                (Err(_), _) => {}
            }
        }
        if let Some(program) = program(&answer[1]) {
            let mut context = Collector {
                core: &stopped.core,
                bytes: BTreeSet::new(),
            };
            let Ok(Some(theirs)) = Evaluation::new().evaluate(&program, &mut context) else {
                continue;
            };
            match compile_condition(symbols, pc, expression, &no_variables) {
                Ok(ours) => {
                    let ours = Evaluation::new().evaluate(&ours, &mut context);
                    if ours.map(|result| result.map(|value| value != 0)) != Ok(Some(theirs != 0)) {
                        wrong.push(format!("if {expression}: {ours:?} for GDB's {theirs}"));
                    }
                }
                Err(error) if matches!(error.kind(), ExpressionErrorKind::Type(_)) => {}
                Err(error) => wrong.push(format!("if {expression}: {error}")),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        expressions.len(),
        wrong.join("\n")
    );
    assert!(
        compared * 3 > expressions.len(),
        "only {compared} of {} were compared",
        expressions.len()
    );
}
