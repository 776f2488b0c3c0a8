//! Contradictions in the frames, and missing data.

use std::collections::{HashMap, HashSet};

use crate::finding::Place;
use crate::structure::led_back;
use tracewire_agent_expr::{Evaluation, verify};
use tracewire_model::{
    Action, Address, StatusFields, StopReason, TracepointDefinition, TracepointNumber,
    VariableNumber,
};
use tracewire_tracefile::{Block, Frame, TraceFile};

use crate::expression::{Budget, Outcome, Program, Rerun};
use crate::finding::{Fault, Finding, Wanted};

/// In a frame of more memory than this, in bytes of blocks, expressions are not run.
const MAX_FRAME: usize = 1 << 20;

/// How many variables without a definition are distinguished.
const MAX_UNDEFINED: usize = 1000;

/// The programs that ran when a frame was made.
struct Programs {
    condition: Option<Program>,
    actions: Vec<Program>,
}

/// One address of a tracepoint.
struct Location {
    address: Address,
    declared_hits: Option<u64>,
    /// Steps have led back here, and their frames cannot be recognized.
    led_back: bool,
    hits: u64,
    at_hit: Programs,
    at_step: Programs,
}

/// A tracepoint at all its addresses.
#[derive(Default)]
struct Plan {
    locations: Vec<Location>,
    step_count: u64,
    /// It watches memory: its hits are anywhere in the code.
    watches: bool,
    /// All locations do the same at a step.
    same_steps: bool,
    /// Hits and steps alike collect registers.
    always_registers: bool,
    hits: u64,
    steps: u64,
}

/// Looks at every frame, in the file's order.
pub(crate) fn check(file: &TraceFile, report: &mut dyn FnMut(Finding)) {
    let mut plans = plans(file);
    let changing = changing_variables(file);
    let is_set = |number: u16| changing.contains(&number);
    let mut budget = Budget::new(file.as_bytes().len() as u64);
    let mut within_budget = true;
    let status = file.description().status().map(|status| &status.fields);
    let mut undefined = HashSet::new();
    let defined: HashSet<_> = file
        .description()
        .variables()
        .iter()
        .map(|variable| variable.number)
        .collect();
    let last = file.frame_count().saturating_sub(1);
    let mut evaluation = Evaluation::new();
    for frame in file.frames() {
        let mut report = |place: usize, fault| {
            let offset = frame.data_offset() + place as u64;
            report(Finding {
                place: Place::Frame(frame.number(), offset),
                fault,
            });
        };
        check_variables(&frame, &defined, &mut undefined, &mut report);
        if let (Some(status), Some(time)) = (status, frame.timestamp()) {
            check_time(status, time, &mut |fault| report(0, fault));
        }
        let Some(plan) = plans.get_mut(&frame.tracepoint()) else {
            continue;
        };
        let Some(programs) = plan.place(&frame, &mut |fault| report(0, fault)) else {
            continue;
        };
        let ended_by_error = frame.number().0 == last
            && status.is_some_and(|status| status.stop_reason == Some(StopReason::Error));
        let nothing = programs.condition.is_none() && programs.actions.is_empty();
        if nothing || frame.data().len() > MAX_FRAME || ended_by_error || !within_budget {
            continue;
        }
        let mut rerun = Rerun::new(&frame, &is_set, &mut budget);
        let mut run = |program: &Program| {
            rerun.run(&mut evaluation, program, &mut |wanted| {
                report(0, Fault::NotCollectedByExpression(wanted));
            })
        };
        let condition = programs.condition.as_ref().map(&mut run);
        // The target ends a frame at one that fails.
        let ends = |outcome: &Outcome| matches!(outcome, Outcome::Failed | Outcome::TooLong);
        let last = programs.actions.iter().map(run).find(ends);
        if matches!(condition, Some(Outcome::Done(Some(0)))) {
            report(0, Fault::ConditionFalse(frame.tracepoint()));
        }
        if [condition, last].contains(&Some(Outcome::TooLong)) {
            within_budget = false;
            report(0, Fault::NotRun);
        }
    }
    check_counts(&plans, status, report);
}

fn plans(file: &TraceFile) -> HashMap<TracepointNumber, Plan> {
    let mut plans: HashMap<TracepointNumber, Plan> = HashMap::new();
    let mut steps: HashMap<TracepointNumber, &[Action]> = HashMap::new();
    let led_back = led_back(file);
    for tracepoint in file.description().tracepoints() {
        let definition = &tracepoint.definition;
        let plan = plans.entry(definition.number).or_insert_with(|| Plan {
            same_steps: true,
            always_registers: true,
            ..Plan::default()
        });
        plan.step_count = plan.step_count.max(definition.step_count);
        plan.watches |= definition.source.watch.is_some();
        let first = *steps
            .entry(definition.number)
            .or_insert(&definition.step_actions);
        plan.same_steps &= first == definition.step_actions;
        plan.always_registers &= Action::any_of_registers(&definition.actions)
            && Action::any_of_registers(&definition.step_actions);
        plan.locations.push(Location {
            address: definition.address,
            declared_hits: tracepoint.usage.map(|usage| usage.hits),
            led_back: led_back.contains(&definition.key()),
            hits: 0,
            at_hit: Programs {
                condition: definition.condition.as_deref().and_then(Program::new),
                actions: programs(&definition.actions),
            },
            at_step: Programs {
                condition: None,
                actions: programs(&definition.step_actions),
            },
        });
    }
    for plan in plans.values_mut() {
        plan.locations.sort_by_key(|location| location.address);
    }
    plans
}

fn expressions(actions: &[Action]) -> impl Iterator<Item = &Vec<u8>> {
    actions.iter().filter_map(|action| match action {
        Action::Expression(code) => Some(code),
        _ => None,
    })
}

fn every_expression(definition: &TracepointDefinition) -> impl Iterator<Item = &Vec<u8>> {
    expressions(&definition.actions)
        .chain(expressions(&definition.step_actions))
        .chain(&definition.condition)
}

/// Those that can be run. If one cannot, the target would have stopped there, and nothing is known of the rest.
fn programs(actions: &[Action]) -> Vec<Program> {
    expressions(actions)
        .map_while(|code| Program::new(code))
        .collect()
}

/// Variables that change during a hit, so that a frame does not have all their values: those that an expression sets, and those of
/// the target.
fn changing_variables(file: &TraceFile) -> HashSet<u16> {
    let description = file.description();
    let builtin = description
        .variables()
        .iter()
        .filter(|variable| variable.builtin);
    let builtin = builtin.filter_map(|variable| u16::try_from(variable.number.0).ok());
    let definitions = description
        .tracepoints()
        .iter()
        .map(|tracepoint| &tracepoint.definition);
    let set = definitions
        .flat_map(every_expression)
        .filter_map(|code| verify(code).ok())
        .flat_map(|verified| verified.variables_set().clone());
    builtin.chain(set).collect()
}

impl Plan {
    /// Which expressions were run for this frame; none where that cannot be known.
    fn place(&mut self, frame: &Frame<'_>, report: &mut dyn FnMut(Fault)) -> Option<&Programs> {
        let Some(step) = frame.is_step() else {
            // Without a program counter a hit and a step look alike.
            if self.always_registers && frame.register_block().is_none() {
                report(Fault::NotCollected(Wanted::Registers));
            }
            return None;
        };
        if step {
            self.steps += 1;
            let location = self.locations.first().filter(|_| self.same_steps)?;
            return Some(&location.at_step);
        }
        self.hits += 1;
        let at = frame.program_counter()?;
        let location = match self.watches {
            true => Some(0),
            false => {
                let locations = &self.locations;
                (locations.binary_search_by_key(&at, |location| location.address)).ok()
            }
        };
        let Some(location) = location.and_then(|index| self.locations.get_mut(index)) else {
            report(Fault::Elsewhere {
                number: frame.tracepoint(),
                at,
            });
            return None;
        };
        location.hits += 1;
        (!location.led_back).then_some(&location.at_hit)
    }
}

fn check_variables(
    frame: &Frame<'_>,
    defined: &HashSet<VariableNumber>,
    undefined: &mut HashSet<VariableNumber>,
    report: &mut dyn FnMut(usize, Fault),
) {
    let mut blocks = frame.blocks();
    loop {
        let at = blocks.position();
        let Some(block) = blocks.next() else {
            return;
        };
        if let Block::Variable { number, .. } = block
            && !defined.contains(&number)
            && !tracewire_tracefile::describes_frame(number)
            && undefined.len() < MAX_UNDEFINED
            && undefined.insert(number)
        {
            report(at, Fault::UndefinedVariable(number));
        }
    }
}

/// Times that are farther apart than this are of different clocks, in microseconds: a year.
const SAME_CLOCK: u64 = 366 * 86_400 * 1_000_000;

fn check_time(status: &StatusFields, time: u64, report: &mut dyn FnMut(Fault)) {
    let apart = |by: &u64| (1..SAME_CLOCK).contains(by);
    if let Some(early) = status
        .start_time
        .and_then(|start| start.checked_sub(time))
        .filter(apart)
    {
        report(Fault::BeforeStart(early));
    }
    let stop = status
        .stop_time
        .filter(|stop| *stop != 0 && !status.running);
    if let Some(late) = stop.and_then(|stop| time.checked_sub(stop)).filter(apart) {
        report(Fault::AfterStop(late));
    }
}

/// Checks that need the numbers of all frames.
fn check_counts(
    plans: &HashMap<TracepointNumber, Plan>,
    status: Option<&StatusFields>,
    report: &mut dyn FnMut(Finding),
) {
    // A run that is still on has counted further hits since its frames were saved. The first hits of a circular buffer, or of a
    // part of a file, may be missing while their steps are there.
    let running = status.is_some_and(|status| status.running);
    let some_are_gone = status.is_some_and(|status| {
        status.circular == Some(true) || status.frames_created > status.frames
    });
    let mut report = |fault| {
        report(Finding {
            place: Place::File,
            fault,
        })
    };
    let mut numbers: Vec<_> = plans.keys().copied().collect();
    numbers.sort_unstable();
    for (number, plan) in numbers
        .into_iter()
        .filter_map(|number| Some((number, plans.get(&number)?)))
    {
        let (hits, steps) = (plan.hits, plan.steps);
        for location in &plan.locations {
            let (address, found) = (location.address, location.hits);
            // Steps may have led back here.
            let most = |declared: u64| declared.saturating_mul(plan.step_count.saturating_add(1));
            let declared = location
                .declared_hits
                .filter(|declared| most(*declared) < found);
            if let Some(declared) = declared.filter(|_| !running) {
                report(Fault::Hits {
                    number,
                    address,
                    declared,
                    found,
                });
            }
        }
        if steps > hits.saturating_mul(plan.step_count) && !some_are_gone {
            report(Fault::Steps {
                number,
                steps,
                hits,
                count: plan.step_count,
            });
        }
    }
}
