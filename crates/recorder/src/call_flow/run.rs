//! A run that follows calls, from the first look at the symbols to the tree.

use std::collections::HashSet;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tracewire_call_flow::{Event as Passed, Follower, Function, Heat, Site};
use tracewire_debuginfo::Symbols;
use tracewire_experiment::{
    Hit, HitHandler, LookAround, Outcome, PadTarget as _, StoppedThread, Target as _,
};
use tracewire_jump_pad::call_events::{Drained, SiteNumber, ThreadEvents};
use tracewire_jump_pad::counter;
use tracewire_model::Address;
use tracewire_script::straight_before;
use tracewire_target_linux::{CallEvents, Event, Module, Priority, Process};

use super::plan::{LeftOut, Nameless, Plan, PlannedFunction, Selection};
use super::{CallFlowEvent, CallOptions, CallRecorder, CallReport};
use crate::error::RecordError;
use crate::meanwhile::{WorkOfRun, run_meanwhile};
use crate::modules::Modules;
use crate::observer::Warning;
use crate::origin::{Origin, leave};
use crate::out_of_memory::{Expendable, OutOfMemory};
use crate::oversight::Oversight;
use crate::prepare::load_libraries;
use crate::report::Ending;
use crate::stop::{Stop, StopHandle};

/// For how long calls are counted to tell whether a function is called too often.
const WINDOW: Duration = Duration::from_millis(250);

/// How many functions are planned before their pads are put in, while the next are planned.
const TOGETHER: usize = 1024;

/// The symbols of a program, and what is wanted of them.
struct Looked {
    modules: Modules,
    warnings: Vec<Warning>,
    selection: Selection,
    nameless: Nameless,
}

pub(super) fn run(
    recorder: CallRecorder,
    observer: &mut dyn FnMut(CallFlowEvent<'_>),
) -> Result<CallReport, RecordError> {
    let CallRecorder {
        start,
        options,
        stop,
    } = recorder;
    if let Some(process) = start.attached() {
        options.oversight.check_process(process)?;
    }
    let priority = start.priority(Priority::raise_niceness);
    let (mut process, origin) = start.approach()?.process()?;
    stop.watch(process.interrupter());
    let armed = options
        .oversight
        .check_process(process.id())
        .and_then(|()| arm(&mut process, origin, &options, &stop, observer));
    let mut run = match armed {
        Ok(armed) => Run {
            process,
            armed,
            stop,
        },
        Err(error) => {
            leave(process, origin);
            return Err(error);
        }
    };
    drop(priority);
    let ending = run.follow(&options, observer);
    run.end(ending, origin, &options.oversight, observer)
}

/// What is in the program, and what is known of it.
struct Armed {
    modules: Modules,
    selection: Selection,
    events: CallEvents,
    flow: Flow,
    left_out: LeftOut,
    /// The counter when the program was about to run.
    begun: u64,
    program: std::path::PathBuf,
}

struct Run {
    process: Process,
    armed: Armed,
    stop: StopHandle,
}

/// Looks the functions up, and puts pads in.
fn arm(
    process: &mut Process,
    origin: Origin,
    options: &CallOptions,
    stop: &StopHandle,
    observer: &mut dyn FnMut(CallFlowEvent<'_>),
) -> Result<Armed, RecordError> {
    let begun = Instant::now();
    let meanwhile = match origin.is_started() {
        true => None,
        false => {
            let look = look(process, options)?;
            run_meanwhile(process, stop, &WorkOfRun::default(), || {
                let mut looked = look();
                let plan = looked.selection.plan(looked.modules.symbols());
                (looked, plan)
            })?
        }
    };
    let has_run = meanwhile.is_some();
    let (mut looked, mut plan) = match meanwhile {
        Some(looked) => looked,
        None => (Expendable::wait(look(process, options)?)?, Plan::default()),
    };
    let load = !has_run && looked.modules.is_dynamic() && !options.patterns.is_empty();
    if load && looked.nameless.wrong.is_empty() {
        load_libraries(process, stop)?;
    }
    if load || has_run {
        let loaded = process.modules()?;
        let gone;
        (looked, gone) = Expendable::wait(move || {
            let gone = looked.update(&loaded);
            (looked, gone)
        })?;
        plan.functions.retain(|function| {
            let entry = function.entry;
            !gone.iter().any(|(from, to)| (*from..*to).contains(&entry))
        });
    }
    let Looked {
        modules,
        warnings,
        selection,
        nameless,
    } = looked;
    for warning in warnings {
        observer(CallFlowEvent::Warning(warning));
    }
    if !nameless.wrong.is_empty() || !nameless.pending.is_empty() {
        let pending = nameless.pending.iter().map(ToString::to_string);
        let all: Vec<String> = nameless.wrong.iter().cloned().chain(pending).collect();
        return Err(RecordError::CallPatterns(all));
    }
    let planned = plan.functions.iter().map(|function| function.name.as_str());
    let names: Vec<&str> = planned.chain(selection.chosen()).collect();
    options.oversight.check_functions(process.id(), &names)?;
    let locations: Vec<&str> = match selection.patterns() {
        [] => vec!["all functions"],
        patterns => patterns.iter().map(String::as_str).collect(),
    };
    let program = options.oversight.begin_at(process.id(), &locations)?;
    let events = CallEvents::set_up(process).map_err(RecordError::CallEvents)?;
    let mut follower = Follower::new(Vec::new());
    if options.keeps_threads {
        follower.keep_threads();
    }
    if let Some(listed) = &options.listed {
        follower.list(listed.clone());
    }
    let mut flow = Flow {
        follower,
        functions: Vec::new(),
        sites: 0,
        heat: Heat::default(),
        looked: Instant::now(),
        lost: 0,
        most: options.hot,
        hot: Vec::new(),
        passed: Vec::new(),
    };
    let Plan {
        functions,
        mut left_out,
    } = plan;
    let mut refused = flow.insert(process, &events, functions, &mut left_out);
    let (modules, selection) = plan_beside(modules, selection, |plan| {
        left_out.extend(plan.left_out);
        refused.extend(flow.insert(process, &events, plan.functions, &mut left_out));
    })?;
    flow.settle(process, &events, modules.symbols(), refused, &mut left_out);
    let armed = flow.placed(0);
    if armed.functions == 0 {
        return Err(RecordError::NoCalls(left_out));
    }
    observer(CallFlowEvent::Armed {
        functions: armed.functions,
        sites: armed.sites,
        took: begun.elapsed(),
    });
    Ok(Armed {
        modules,
        selection,
        events,
        flow,
        left_out,
        begun: counter(),
        program,
    })
}

/// Reads the symbols of the modules that are there, and chooses the functions in them.
fn look(
    process: &Process,
    options: &CallOptions,
) -> Result<impl FnOnce() -> Looked + Send + use<>, RecordError> {
    let loaded = process.modules()?;
    let patterns = options.patterns.clone();
    let names_folder = options.names_folder.clone();
    let debug_files = options.debug_files.clone();
    Ok(move || {
        let mut modules = Modules::default();
        if let Some(folder) = names_folder {
            modules.symbols_mut().keep_names_in(&folder);
        }
        if let Some(source) = debug_files {
            modules.symbols_mut().take_debug_files_from(source);
        }
        let mut looked = Looked {
            modules,
            warnings: Vec::new(),
            selection: Selection::new(patterns),
            nameless: Nameless::default(),
        };
        looked.update(&loaded);
        looked
    })
}

impl Looked {
    /// Looks at the modules that are there now. Returns the ranges of those that are gone.
    fn update(&mut self, loaded: &[Module]) -> Vec<(Address, Address)> {
        let change = self.modules.update(loaded, 0);
        self.warnings.extend(change.warnings);
        for (from, to) in &change.gone {
            self.selection.forget(*from, *to);
        }
        self.nameless = self.selection.choose(self.modules.symbols());
        change.gone
    }
}

/// Plans the functions that are chosen and not planned yet, in a thread of its own, and has `take` put in what is planned meanwhile.
fn plan_beside(
    modules: Modules,
    mut selection: Selection,
    mut take: impl FnMut(Plan),
) -> Result<(Modules, Selection), RecordError> {
    if selection.chosen().next().is_none() {
        return Ok((modules, selection));
    }
    let (sender, plans) = mpsc::channel();
    let own = thread::current();
    let over = own.clone();
    let planner = Expendable::start(
        move || over.unpark(),
        move || {
            while selection.chosen().next().is_some() {
                let plan = selection.plan_some(modules.symbols(), TOGETHER);
                if sender.send(plan).is_err() {
                    break;
                }
                own.unpark();
            }
            (modules, selection)
        },
    )
    .map_err(RecordError::Thread)?;
    loop {
        // The last plans come before it is over.
        let is_over = planner.is_over();
        plans.try_iter().for_each(&mut take);
        if is_over {
            return Ok(planner.result()?);
        }
        thread::park();
    }
}

impl Run {
    /// Lets the program run until the run is over.
    fn follow(
        &mut self,
        options: &CallOptions,
        observer: &mut dyn FnMut(CallFlowEvent<'_>),
    ) -> Result<Ending, RecordError> {
        if let Some(duration) = options.duration {
            self.stop
                .stop_after(duration)
                .map_err(RecordError::Thread)?;
        }
        loop {
            let Armed { events, flow, .. } = &mut self.armed;
            let mut handler = FlowHandler { events, flow };
            match self.process.run(&mut handler)? {
                event @ (Event::Exited(_) | Event::Killed { .. }) => {
                    return Ok(Ending::Program(event));
                }
                Event::Interrupted => match self.stop.stopped() {
                    Some(Stop::OutOfMemory) => return Err(OutOfMemory.into()),
                    Some(stop) => return Ok(Ending::Stopped(stop)),
                    None => {}
                },
                Event::ChangeWanted => {
                    let stop = self.stop.clone();
                    stop.hold(|| self.switch_down(observer));
                }
                Event::LibrariesChanged => {
                    let stop = self.stop.clone();
                    stop.hold(|| self.libraries_changed(options, observer))?;
                }
                Event::Exec => return Ok(Ending::Executed),
                _ => {}
            }
        }
    }

    /// Takes the pads of functions out that are called too often.
    fn switch_down(&mut self, observer: &mut dyn FnMut(CallFlowEvent<'_>)) {
        let flow = &mut self.armed.flow;
        for hot in std::mem::take(&mut flow.hot) {
            let Some(sites) = flow.functions.get_mut(hot.function).map(std::mem::take) else {
                continue;
            };
            CallEvents::remove(&mut self.process, &sites);
            flow.take_traps_out(&mut self.process, &mut self.armed.left_out);
            flow.follower.switched_down(hot.function);
            if let Some(function) = flow.follower.functions().get(hot.function) {
                observer(CallFlowEvent::SwitchedDown {
                    function: &function.name,
                    rate: hot.rate,
                    lost: hot.lost,
                });
            }
        }
    }

    /// Forgets modules that were unloaded, and follows functions of those that were loaded.
    fn libraries_changed(
        &mut self,
        options: &CallOptions,
        observer: &mut dyn FnMut(CallFlowEvent<'_>),
    ) -> Result<(), RecordError> {
        let begun = Instant::now();
        let loaded = self.process.modules()?;
        let mut modules = self.armed.modules.take_present();
        let mut selection = std::mem::take(&mut self.armed.selection);
        let (modules, selection, change, plan) = Expendable::wait(move || {
            let change = modules.update(&loaded, 0);
            for (from, to) in &change.gone {
                selection.forget(*from, *to);
            }
            let is_wanted = change.came && !selection.patterns().is_empty();
            let plan = is_wanted.then(|| {
                // What names nothing yet may come with a later library.
                selection.choose(modules.symbols());
                selection.plan(modules.symbols())
            });
            (modules, selection, change, plan)
        })?;
        self.armed.modules.put_back(modules);
        self.armed.selection = selection;
        for warning in change.warnings {
            observer(CallFlowEvent::Warning(warning));
        }
        for (from, to) in change.gone {
            for sites in &mut self.armed.flow.functions {
                let is_gone = |site: &mut Address| (from..to).contains(site);
                let gone: Vec<Address> = sites.extract_if(.., is_gone).collect();
                CallEvents::remove(&mut self.process, &gone);
            }
        }
        let Some(mut plan) = plan else {
            return Ok(());
        };
        let mut left_out = plan.left_out;
        plan.functions.retain(
            |function| match options.oversight.check_function(&function.name) {
                Ok(()) => true,
                Err(denied) => {
                    left_out.add(&function.name, &denied.to_string());
                    false
                }
            },
        );
        let Armed {
            flow,
            events,
            modules,
            ..
        } = &mut self.armed;
        let armed = flow.add(
            &mut self.process,
            events,
            modules.symbols(),
            plan.functions,
            &mut left_out,
        );
        self.armed.left_out.extend(left_out);
        if armed.functions > 0 {
            observer(CallFlowEvent::Armed {
                functions: armed.functions,
                sites: armed.sites,
                took: begun.elapsed(),
            });
        }
        Ok(())
    }

    /// Lets the program go, reads what is left, and gives the tree.
    fn end(
        self,
        ending: Result<Ending, RecordError>,
        origin: Origin,
        oversight: &Oversight,
        observer: &mut dyn FnMut(CallFlowEvent<'_>),
    ) -> Result<CallReport, RecordError> {
        let Self {
            mut process, armed, ..
        } = self;
        let ended = counter();
        let id = process.id();
        let has_ended = matches!(ending, Ok(Ending::Program(_)));
        // What comes from here on is after the end.
        let _priority = (!origin.is_started()).then(Priority::raise_niceness);
        if !has_ended {
            CallEvents::leave(&mut process);
        }
        let Armed {
            events, mut flow, ..
        } = armed;
        flow.read(|take| events.finish(take));
        if !has_ended && let Err(error) = process.detach() {
            let words = format!("letting the program go: {error}");
            observer(CallFlowEvent::Warning(Warning::Detach(words)));
        }
        let logged = oversight.end(id, &armed.program, 0);
        let ending = ending?;
        logged?;
        let mut follower = flow.follower;
        follower.close_open(ended);
        Ok(CallReport {
            ending,
            process: id,
            spawned: origin.is_started(),
            calls: follower.take_calls(),
            unlisted: follower.unlisted(),
            unmatched: follower.unmatched(),
            tree: follower.finish(ended),
            begun: armed.begun,
            lost: events.lost(),
            threads_without_ring: events.threads_without_ring(),
            left_out: armed.left_out,
        })
    }
}

/// A function that is to be switched down.
struct Hot {
    function: usize,
    rate: u64,
    lost: bool,
}

/// What becomes of events.
struct Flow {
    follower: Follower,
    /// The sites that each function has in the program.
    functions: Vec<Vec<Address>>,
    /// How many sites there were.
    sites: usize,
    heat: Heat,
    looked: Instant,
    lost: u64,
    /// How often a function may be called in a second.
    most: Option<u64>,
    hot: Vec<Hot>,
    passed: Vec<Passed>,
}

/// A site where no pad can be.
struct PadRefused {
    site: SiteNumber,
    address: Address,
    /// Its function's place among all.
    function: usize,
    /// The function's code.
    ranges: Vec<(Address, Address)>,
    /// Why not, in words for the user.
    reason: String,
}

/// An exit where no pad can be.
struct ExitRefused {
    refused: PadRefused,
    /// Where the pad may be instead, as far as that was not tried.
    earlier: std::vec::IntoIter<Address>,
}

/// What was put in.
#[derive(Clone, Copy, Default)]
struct Placed {
    functions: usize,
    sites: usize,
}

impl Flow {
    /// Puts the pads of functions in. A function of which one cannot be there is left out.
    fn add(
        &mut self,
        process: &mut Process,
        events: &CallEvents,
        symbols: &Symbols,
        functions: Vec<PlannedFunction>,
        left_out: &mut LeftOut,
    ) -> Placed {
        let first = self.functions.len();
        let refused = self.insert(process, events, functions, left_out);
        self.settle(process, events, symbols, refused, left_out);
        self.placed(first)
    }

    /// Puts the pads of functions in. Returns the sites where none can be.
    fn insert(
        &mut self,
        process: &mut Process,
        events: &CallEvents,
        functions: Vec<PlannedFunction>,
        left_out: &mut LeftOut,
    ) -> Vec<PadRefused> {
        let mut sites = Vec::new();
        let mut ranges = Vec::new();
        let first = self.functions.len();
        for function in functions {
            if self.sites + function.sites.len() > CallEvents::MOST_SITES {
                let most = CallEvents::MOST_SITES;
                let reason = format!("there is room for {most} places");
                left_out.add(&function.name, &reason);
                continue;
            }
            let index = self.follower.add_function(Function {
                name: function.name,
                address: function.entry,
            });
            debug_assert_eq!(index, self.functions.len());
            for (address, role) in &function.sites {
                let site = self.follower.add_site(Site {
                    function: index,
                    role: *role,
                });
                self.sites += 1;
                if let Some(number) = SiteNumber::new(site) {
                    sites.push((*address, number, index));
                }
            }
            self.functions
                .push(function.sites.into_iter().map(|(site, _)| site).collect());
            ranges.push(function.ranges);
        }
        let wanted: Vec<(Address, SiteNumber)> = (sites.iter())
            .map(|(address, number, _)| (*address, *number))
            .collect();
        let refused = events.insert(process, &wanted);
        let refused = refused.into_iter().filter_map(|refusal| {
            let place = sites.binary_search_by_key(&refusal.site, |(_, number, _)| *number);
            let (address, _, function) = *sites.get(place.ok()?)?;
            Some(PadRefused {
                site: refusal.site,
                address,
                function,
                ranges: ranges.get(function - first)?.clone(),
                reason: refusal.reason,
            })
        });
        refused.collect()
    }

    /// Puts the pads of exits where there can be none at earlier instructions, and leaves out the functions for which that cannot be.
    fn settle(
        &mut self,
        process: &mut Process,
        events: &CallEvents,
        symbols: &Symbols,
        refused: Vec<PadRefused>,
        left_out: &mut LeftOut,
    ) {
        let refused = refused.into_iter().map(|refused| ExitRefused {
            earlier: self.earlier_exits(symbols, &refused).into_iter(),
            refused,
        });
        let refused = refused.collect();
        self.exit_earlier(process, events, refused, left_out);
        self.take_traps_out(process, left_out);
    }

    /// What is there of the functions from one on.
    fn placed(&self, first: usize) -> Placed {
        let there = self.functions.iter().skip(first);
        there.fold(Placed::default(), |placed, sites| Placed {
            functions: placed.functions + usize::from(!sites.is_empty()),
            sites: placed.sites + sites.len(),
        })
    }

    /// The instructions that always come before an exit, the nearest first: its pad may be at one of them. None for an entry.
    fn earlier_exits(&self, symbols: &Symbols, refused: &PadRefused) -> Vec<Address> {
        let PadRefused {
            site,
            address,
            ref ranges,
            ..
        } = *refused;
        if !self.follower.is_exit(site.index()) {
            return Vec::new();
        }
        let is_around = |(from, to): &(Address, Address)| (*from..*to).contains(&address);
        if ranges.iter().any(is_around) {
            return straight_before(symbols, ranges, address);
        }
        // In a part of the function that has another symbol.
        let part = symbols.function_at(address);
        part.map_or_else(Vec::new, |part| {
            straight_before(symbols, &part.ranges, address)
        })
    }

    /// Puts the pads of exits where there can be none at earlier instructions. The functions for which there is none are left out.
    fn exit_earlier(
        &mut self,
        process: &mut Process,
        events: &CallEvents,
        mut refused: Vec<ExitRefused>,
        left_out: &mut LeftOut,
    ) {
        while !refused.is_empty() {
            let mut taken = HashSet::new();
            let mut wanted = Vec::new();
            for mut exit in std::mem::take(&mut refused) {
                let sites = self.functions.get(exit.refused.function);
                let place = exit.earlier.next().filter(|place| {
                    sites.is_some_and(|sites| !sites.contains(place)) && taken.insert(*place)
                });
                match place {
                    Some(place) => wanted.push((place, exit)),
                    None => self.leave_out(
                        process,
                        exit.refused.function,
                        &exit.refused.reason,
                        left_out,
                    ),
                }
            }
            // A function may have been left out since for another exit.
            let functions = &self.functions;
            let is_left_out = |function: usize| functions.get(function).is_none_or(Vec::is_empty);
            wanted.retain(|(_, exit)| !is_left_out(exit.refused.function));
            let sites: Vec<(Address, SiteNumber)> = wanted
                .iter()
                .map(|(place, exit)| (*place, exit.refused.site))
                .collect();
            let again: HashSet<SiteNumber> = events
                .insert(process, &sites)
                .into_iter()
                .map(|refusal| refusal.site)
                .collect();
            for (place, exit) in wanted {
                if again.contains(&exit.refused.site) {
                    refused.push(exit);
                } else if let Some(sites) = self.functions.get_mut(exit.refused.function) {
                    sites.retain(|known| *known != exit.refused.address);
                    sites.push(place);
                    self.follower.exits_early(exit.refused.site.index());
                }
            }
        }
    }

    /// Takes the pads of a function out, which cannot be followed.
    fn leave_out(
        &mut self,
        process: &mut Process,
        index: usize,
        reason: &str,
        left_out: &mut LeftOut,
    ) {
        let Some(sites) = self.functions.get_mut(index).map(std::mem::take) else {
            return;
        };
        if sites.is_empty() {
            // For another site already.
            return;
        }
        CallEvents::remove(process, &sites);
        if let Some(function) = self.follower.functions().get(index) {
            left_out.add(&function.name, reason);
        }
    }

    /// Where a change has made traps of jumps beside it, the functions are followed no longer: a trap stops its thread, and outlives us.
    fn take_traps_out(&mut self, process: &mut Process, left_out: &mut LeftOut) {
        loop {
            let traps = process.take_demoted();
            if traps.is_empty() {
                return;
            }
            for (address, reason) in traps {
                // Memory that is gone needs no byte back.
                let _ = process.remove(address);
                let of_function = |sites: &Vec<Address>| sites.contains(&address);
                if let Some(index) = self.functions.iter().position(of_function) {
                    self.leave_out(process, index, &reason, left_out);
                }
            }
        }
    }

    /// Takes events from their rings, and follows them.
    fn read(&mut self, read: impl FnOnce(&mut dyn FnMut(ThreadEvents<'_>)) -> Drained) -> Drained {
        let Self {
            follower, passed, ..
        } = self;
        read(&mut |part| {
            passed.clear();
            passed.extend(part.events.iter().map(|event| Passed {
                time: event.time,
                stack: event.stack,
                site: event.site.index(),
            }));
            if !passed.is_empty() {
                follower.follow(part.thread, passed, part.follows_gap);
            }
            if part.has_ended {
                follower.end_thread(part.thread);
            }
        })
    }

    /// Looks now and then for functions that are called too often; whether there are some.
    fn is_too_hot(&mut self, events: &CallEvents) -> bool {
        let since = self.looked.elapsed();
        let Some(most) = self.most.filter(|_| since >= WINDOW) else {
            return false;
        };
        self.looked = Instant::now();
        let lost = events.lost();
        let has_lost = std::mem::replace(&mut self.lost, lost) < lost;
        let seconds = since.as_secs_f64();
        let most = (most as f64 * seconds) as u64;
        let hot = self.heat.look(self.follower.entered(), most, has_lost);
        let hot = hot.into_iter().map(|hot| Hot {
            function: hot.function,
            rate: (hot.calls as f64 / seconds) as u64,
            lost: has_lost,
        });
        let is_there = |hot: &Hot| {
            let sites = self.functions.get(hot.function);
            sites.is_some_and(|sites| !sites.is_empty())
        };
        self.hot = hot.filter(is_there).collect();
        !self.hot.is_empty()
    }
}

/// Reads events while the program runs.
struct FlowHandler<'r> {
    events: &'r CallEvents,
    flow: &'r mut Flow,
}

impl HitHandler for FlowHandler<'_> {
    fn hit(&mut self, _: Hit, _: &mut dyn StoppedThread) -> Outcome {
        // A jump that has become a trap: its call is not followed.
        Outcome {
            step: false,
            run_ended: false,
        }
    }

    fn look_around(&mut self) -> LookAround {
        let drained = self.flow.read(|take| self.events.drain(take));
        match self.flow.is_too_hot(self.events) {
            true => LookAround::Change,
            false => LookAround::GoesOn {
                filled: drained.filled,
            },
        }
    }
}
