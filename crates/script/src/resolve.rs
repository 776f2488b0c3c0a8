//! From a script and the program's symbols to the parts of an experiment.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions};
use tracewire_arch::{Architecture, Machine, gdb_register};
use tracewire_debuginfo::{
    FunctionPlace, Language, LocationError, Marker, ResolvedLocation, Scope, Symbols,
    names_functions,
};
use tracewire_expr::{
    ActionList, CollectLimits, CollectOptions, ExpressionError, ExpressionErrorKind, FixedObject,
    StackEnd, check_redaction, compile_condition, gdb_can_collect, gdb_can_read, marker_arguments,
};
use tracewire_model::{
    Action, Address, OLD_VALUE, RegisterMask, RegisterNumber, SourceStrings, SpanRole,
    SpanStatement, TracepointDefinition, TracepointKind, TracepointNumber, VariableDefinition,
    VariableNumber,
};

use crate::actions;
use crate::chain::Chain;
use crate::counting::CountingCompiler;
use crate::error::{Problem, ScriptError};
use crate::exits::is_return;
use crate::model::{ScriptAction, ScriptActionKind, ScriptTracepoint, ScriptTracepointKind};
use crate::parse::{BUILTIN_VARIABLES, Script};
use crate::place::Located;
use crate::source;
use crate::span::{self, Collected, DURATION, RETURN_VALUE, SpanLocation, mentions};
use crate::watch;

/// Turns a script's tracepoints into definitions, again each time modules come or go.
#[derive(Debug)]
pub struct Resolver {
    script: Script,
    chain: Chain,
    /// Errors of `enable` and `disable` actions, until they are reported.
    chain_problems: Vec<ScriptError>,
    variables: Vec<VariableDefinition>,
    given: BTreeSet<(TracepointNumber, Address)>,
    /// Locations at which the tracepoint's expressions do not compile, though they do at others.
    left_out: HashSet<(TracepointNumber, Address)>,
    stack_end: StackEnd,
    collect_limits: CollectLimits,
    /// Whether a pattern may have any number of places.
    is_unlimited: bool,
}

/// The most places of a name pattern without the user's consent.
pub const MOST_PLACES: usize = 1000;

/// The result of one resolution.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// Locations that were not given before, by tracepoint and address.
    pub placed: Vec<Placed>,
    /// Tracepoints without any location so far.
    pub pending: Vec<Pending>,
    /// Tracepoints that can never work as they are written, or not at one of their locations.
    pub problems: Vec<ScriptError>,
    /// Patterns with more places than [`MOST_PLACES`], which are not set.
    pub excessive: Vec<Excessive>,
    /// Messages for the user that are no errors.
    pub warnings: Vec<ResolveWarning>,
    /// The resolvers of indirect functions that tracepoints name and that have no known selection. Each selection adds a
    /// location.
    pub unselected: Vec<Address>,
}

impl Resolution {
    /// Adds what another look has given, which is about everything that waits.
    pub fn extend(&mut self, later: Self) {
        self.placed.extend(later.placed);
        self.problems.extend(later.problems);
        self.warnings.extend(later.warnings);
        self.excessive = later.excessive;
        self.pending = later.pending;
        self.unselected = later.unselected;
    }
}

/// A tracepoint's definition at one location, and where that is in the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The definition to install.
    pub definition: TracepointDefinition,
    /// Where it is.
    pub location: ResolvedLocation,
}

/// A tracepoint that waits for a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Which.
    pub number: TracepointNumber,
    /// Its location, as written.
    pub location: Located,
    /// Why it has no location; one line.
    pub reason: String,
    /// Whether nothing in the program has such a name, so that it may be misspelt. A name that is known to come later is not
    /// unknown.
    pub is_unknown: bool,
}

impl Pending {
    /// The same as an error, for a script that is not to wait.
    #[must_use]
    pub fn as_error(&self) -> ScriptError {
        ScriptError::new(&self.location, Problem::Location(self.reason.clone()))
    }
}

/// A pattern that names very many places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excessive {
    /// Which tracepoint.
    pub number: TracepointNumber,
    /// The pattern, as written.
    pub location: Located,
    /// How many.
    pub places: usize,
}

/// `/./ is at 12345 places`.
impl fmt::Display for Excessive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is at {} places", self.location.text(), self.places)
    }
}

/// Something that is left out, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResolveWarning {
    /// The words in the script.
    pub place: Located,
    /// At which address of the tracepoint.
    pub address: Address,
    /// The subject and the reason.
    pub message: String,
}

/// `FILE:LINE:COLUMN: message (at ADDRESS)`.
impl fmt::Display for ResolveWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {})", self.place, self.message, self.address)
    }
}

impl Resolution {
    /// Whether there is no tracepoint in it, neither placed nor waiting.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.pending.is_empty()
    }
}

impl Resolver {
    /// Numbers the script's variables: the builtin ones are 1 to 3, the script's follow.
    #[must_use]
    pub fn new(mut script: Script) -> Self {
        let (chain, chain_problems) = Chain::of(&mut script);
        let builtin = BUILTIN_VARIABLES.map(|name| (name.to_owned(), 0, true));
        let own = script.variables.iter();
        let own = own.map(|variable| (variable.name.clone(), variable.initial, false));
        let old = watch::has_watch(&script).then(|| (OLD_VALUE.to_owned(), 0, false));
        let switches = chain.variables(&script);
        let switches = switches.map(|(name, initial)| (name, initial, false));
        let variables = (1..)
            .zip(builtin.into_iter().chain(own).chain(old).chain(switches))
            .map(|(number, (name, initial, builtin))| VariableDefinition {
                number: VariableNumber(number),
                initial,
                builtin,
                name,
            })
            .collect();
        Self {
            script,
            chain,
            chain_problems,
            variables,
            given: BTreeSet::new(),
            left_out: HashSet::new(),
            stack_end: StackEnd::default(),
            collect_limits: CollectLimits::default(),
            is_unlimited: false,
        }
    }

    /// What says where a stack ends: `$stack` does not read over it.
    #[must_use]
    pub const fn with_stack_end(mut self, stack_end: StackEnd) -> Self {
        self.stack_end = stack_end;
        self
    }

    /// Sets how much is collected of the targets of strings, containers and owning pointers.
    #[must_use]
    pub const fn with_collect_limits(mut self, limits: CollectLimits) -> Self {
        self.collect_limits = limits;
        self
    }

    /// Allows patterns to have any number of places.
    pub const fn unlimited(&mut self) {
        self.is_unlimited = true;
    }

    /// The script.
    #[must_use]
    pub const fn script(&self) -> &Script {
        &self.script
    }

    /// Every trace state variable of the run.
    #[must_use]
    pub fn variables(&self) -> &[VariableDefinition] {
        &self.variables
    }

    /// Looks every tracepoint up in the current modules, and compiles new locations.
    pub fn resolve(&mut self, symbols: &Symbols) -> Resolution {
        let mut resolution = Resolution {
            problems: std::mem::take(&mut self.chain_problems),
            ..Resolution::default()
        };
        for tracepoint in &self.script.tracepoints {
            let number = tracepoint.number;
            let watched = match tracepoint.kind {
                ScriptTracepointKind::Watch => {
                    match watched_object(symbols, &self.script, &self.variables, tracepoint) {
                        Ok(object) => Some(object),
                        Err(NotWatched::Pending(pending)) => {
                            if !self.is_given(number) {
                                resolution.pending.push(pending);
                            }
                            continue;
                        }
                        Err(NotWatched::Wrong(error)) => {
                            resolution.problems.push(error);
                            continue;
                        }
                    }
                }
                _ => None,
            };
            let text = match tracepoint.kind {
                ScriptTracepointKind::Marker => format!("-m {}", tracepoint.location.text()),
                _ => tracepoint.location.text().to_owned(),
            };
            let unselected = match watched {
                Some(_) => Vec::new(),
                None => symbols.unselected(&text),
            };
            for resolver in unselected {
                if !resolution.unselected.contains(&resolver) {
                    resolution.unselected.push(resolver);
                }
            }
            let place = match tracepoint.span {
                Some(_) => FunctionPlace::Call,
                None => self.script.settings.function_place,
            };
            let found = match &watched {
                Some(object) => Ok(watch::location(symbols, object).into_iter().collect()),
                None => symbols.resolve_at(&text, None, place),
            };
            let locations: Vec<_> = match found {
                Ok(locations) => locations,
                Err(error) if error.may_come_later() => {
                    if !self.is_given(number) {
                        resolution.pending.push(Pending {
                            number,
                            location: tracepoint.location.clone(),
                            reason: error.to_string(),
                            is_unknown: is_unknown(&error),
                        });
                    }
                    continue;
                }
                Err(error) => {
                    resolution.problems.push(ScriptError::new(
                        &tracepoint.location,
                        Problem::Location(error.to_string()),
                    ));
                    continue;
                }
            };
            let is_new = |location: &&ResolvedLocation| {
                let key = (number, location.address);
                !self.given.contains(&key) && !self.left_out.contains(&key)
            };
            let places = locations.iter().filter(is_new).count();
            if !self.is_unlimited && places > MOST_PLACES && tracepoint.is_at_pattern() {
                resolution.excessive.push(Excessive {
                    number,
                    location: tracepoint.location.clone(),
                    places,
                });
                continue;
            }
            let places: Vec<(ResolvedLocation, Option<SpanLocation>)> = match tracepoint.span {
                None => locations.into_iter().map(|place| (place, None)).collect(),
                Some(statement) => {
                    let found = span_places(symbols, statement, tracepoint, locations);
                    resolution.warnings.extend(found.warning);
                    if found.places.is_empty() {
                        resolution.problems.push(ScriptError::new(
                            &tracepoint.location,
                            Problem::NoFunctionOfSpan(text),
                        ));
                        continue;
                    }
                    found.places
                }
            };
            let is_entry = |span: &Option<SpanLocation>| {
                span.as_ref().is_none_or(|span| span.point.role.is_entry())
            };
            let scopes = |entries: bool| -> Vec<Scope> {
                let places = places.iter().filter(|(_, span)| is_entry(span) == entries);
                places.map(|(location, _)| location.scope()).collect()
            };
            let (entries, exits) = (scopes(true), scopes(false));
            let mut refused = Vec::new();
            let many = places.len() > 1;
            for (index, (location, span)) in places.into_iter().enumerate() {
                let everywhere = match is_entry(&span) {
                    true => &entries,
                    false => &exits,
                };
                let key = (number, location.address);
                if self.given.contains(&key) || self.left_out.contains(&key) {
                    continue;
                }
                let mut compiler = Compiler {
                    symbols,
                    chain: &self.chain,
                    variables: &self.variables,
                    scope: location.scope(),
                    function: location.function.clone(),
                    known_to_gdb: location.known_to_gdb,
                    marker: location.marker.as_deref(),
                    elsewhere_in_gdb: location.elsewhere_in_gdb,
                    span: span.as_ref(),
                    watched: watched.as_ref(),
                    everywhere,
                    stack_end: self.stack_end,
                    collect_limits: self.collect_limits,
                    withholds_registers: false,
                    warnings: Vec::new(),
                };
                match compiler.definition(&self.script, tracepoint, index + 1) {
                    Ok(definition)
                        if !definition.makes_frames() && definition.counting.is_empty() =>
                    {
                        // Of a span that only counts, some locations have nothing to do.
                        self.left_out.insert(key);
                    }
                    Ok(definition) => {
                        self.given.insert(key);
                        resolution.warnings.append(&mut compiler.warnings);
                        resolution.placed.push(Placed {
                            definition,
                            location,
                        });
                    }
                    Err(error) => refused.push((location, error)),
                }
            }
            let is_set = self.is_given(number);
            for (location, mut error) in refused {
                if let (problem @ (Problem::Expression(_) | Problem::Redacted(_)), Some(place)) =
                    (&error.problem, &error.place)
                {
                    // As GDB has it: a condition that fits some of the locations leaves the others out. So does a count of what may
                    // not be kept at some of them. The entries and returns of a span are no alternatives.
                    let is_redacted = matches!(problem, Problem::Redacted(_));
                    if is_set && !(is_redacted && tracepoint.span.is_some()) {
                        self.left_out.insert((number, location.address));
                        resolution.warnings.push(ResolveWarning {
                            place: place.clone(),
                            address: location.address,
                            message: format!(
                                "tracepoint {number} is not set in {} ({}:{}): {problem}",
                                location
                                    .function
                                    .as_deref()
                                    .unwrap_or("code without a name"),
                                location.file.as_deref().unwrap_or("no file"),
                                location.line,
                            ),
                        });
                        continue;
                    }
                    if many && let Problem::Expression(reason) = problem {
                        error.problem = Problem::ExpressionThere {
                            reason: reason.clone(),
                            location: location.to_string(),
                        };
                    }
                }
                if !resolution.problems.contains(&error) {
                    resolution.problems.push(error);
                }
            }
        }
        self.add_departures(symbols, &mut resolution);
        resolution
    }

    /// Adds the places where functions are left without a return, for the first span that is set.
    fn add_departures(&mut self, symbols: &Symbols, resolution: &mut Resolution) {
        let is_set = |tracepoint: &&ScriptTracepoint| {
            let makes_frames =
                !tracepoint.only_counts() || self.script.settings.default_collect.is_some();
            tracepoint.span.is_some() && makes_frames && self.is_given(tracepoint.number)
        };
        let Some(tracepoint) = self.script.tracepoints.iter().find(is_set) else {
            return;
        };
        let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
        let machine = Machine::with_linux(architecture);
        let registers = [machine.stack_pointer(), machine.program_counter().number];
        let for_longjmp = longjmp_actions(architecture, &registers);
        for departure in span::departures(symbols, machine.stack_pointer()) {
            let location = departure.location;
            if !self.given.insert((tracepoint.number, location.address)) {
                continue;
            }
            resolution.placed.push(Placed {
                definition: TracepointDefinition {
                    enabled: tracepoint.enabled || self.chain.switches(tracepoint.number),
                    free_stack: symbols.free_stack(location.address),
                    actions: match departure.point.role {
                        SpanRole::Longjmp => for_longjmp.clone(),
                        _ => {
                            let mut actions =
                                vec![Action::Registers(registers.into_iter().collect())];
                            merge(&mut actions, span::identity(&departure.point));
                            actions
                        }
                    },
                    source: SourceStrings {
                        at: Some(format!("*{}", location.address)),
                        span: Some(departure.point.to_string()),
                        ..SourceStrings::default()
                    },
                    ..TracepointDefinition::new(tracepoint.number, location.address)
                },
                location,
            });
        }
    }

    /// Forgets the locations in a range of addresses, whose module is unloaded: if it is loaded again, they are returned again.
    pub fn forget(&mut self, from: Address, to: Address) {
        let stays = |(_, address): &(TracepointNumber, Address)| !(from..to).contains(address);
        self.given.retain(stays);
        self.left_out.retain(stays);
    }

    /// Whether a location of a tracepoint was given.
    fn is_given(&self, number: TracepointNumber) -> bool {
        let all = (number, Address(0))..=(number, Address(u64::MAX));
        self.given.range(all).next().is_some()
    }
}

/// The actions at `longjmp`, which collect its target on the stack. On x86-64, C libraries keep the stack pointer in the seventh
/// word of a `jmp_buf`; glibc encrypts it with a word of the thread's memory.
fn longjmp_actions(architecture: Architecture, registers: &[RegisterNumber]) -> Vec<Action> {
    let mut registers: RegisterMask = registers.iter().copied().collect();
    // The first argument, `rdi`.
    let argument = gdb_register(architecture, 5);
    let thread = Machine::with_linux(architecture).thread_pointer();
    let mut actions = Vec::new();
    if architecture == Architecture::X86_64
        && let (Some(argument), Some(thread)) = (argument, thread)
    {
        registers.insert(argument);
        for (base, offset) in [(argument, 0x30), (thread, 0x30)] {
            actions.push(Action::Memory {
                base: Some(base),
                offset,
                length: 8,
            });
        }
    }
    actions.insert(0, Action::Registers(registers));
    actions
}

/// The places of a span, and those that are left out.
struct SpanPlaces {
    places: Vec<(ResolvedLocation, Option<SpanLocation>)>,
    warning: Option<ResolveWarning>,
}

fn span_places(
    symbols: &Symbols,
    statement: SpanStatement,
    tracepoint: &ScriptTracepoint,
    locations: Vec<ResolvedLocation>,
) -> SpanPlaces {
    let mut found = SpanPlaces {
        places: Vec::new(),
        warning: None,
    };
    let names_functions = names_functions(tracepoint.location.text());
    for location in locations {
        let places = match names_functions {
            true => span::locations(symbols, statement, &location),
            false => Vec::new(),
        };
        if places.is_empty() {
            found.warning = Some(ResolveWarning {
                place: tracepoint.location.clone(),
                address: location.address,
                message: "a copy that is inlined is not called, and left out".to_owned(),
            });
        }
        let places = places.into_iter();
        (found.places).extend(places.map(|place| (place.location.clone(), Some(place))));
    }
    found
}

/// Compiles one tracepoint at one address.
struct Compiler<'a> {
    symbols: &'a Symbols,
    chain: &'a Chain,
    variables: &'a [VariableDefinition],
    /// Where names are seen from.
    scope: Scope,
    function: Option<String>,
    /// Whether GDB finds the place by the words of the location.
    known_to_gdb: bool,
    marker: Option<&'a Marker>,
    /// Whether GDB takes the location for another address.
    elsewhere_in_gdb: bool,
    /// The location's role in a span.
    span: Option<&'a SpanLocation>,
    /// The object that is watched there.
    watched: Option<&'a FixedObject>,
    /// All locations of the tracepoint. GDB compiles the action lines of each at every one.
    everywhere: &'a [Scope],
    stack_end: StackEnd,
    collect_limits: CollectLimits,
    /// Whether registers that are not requested are left out.
    withholds_registers: bool,
    warnings: Vec<ResolveWarning>,
}

impl Compiler<'_> {
    fn definition(
        &mut self,
        script: &Script,
        tracepoint: &ScriptTracepoint,
        index: usize,
    ) -> Result<TracepointDefinition, ScriptError> {
        let variables = self.variables;
        let numbers = |name: &str| number(variables, name);
        let collected = self.span.map(|span| {
            let fits = |scope: Scope, item: &str| {
                let mut list = ActionList::new(self.symbols, scope, &numbers);
                list.collect(item, CollectOptions::default()).is_ok()
            };
            Collected::at(tracepoint, span, &fits)
        });
        if collected.is_none() {
            self.check_return_value(tracepoint)?;
        }
        let own_condition = tracepoint.condition.as_ref();
        let compile = |text: &str| {
            compile_condition(self.symbols, self.scope, text, &numbers).map_err(|error| {
                self.expression_error(own_condition.unwrap_or(&tracepoint.location), &error)
            })
        };
        let condition = match own_condition {
            // Of a span, it is worked out when all is known. A call that was seen to begin is seen to end.
            _ if collected.is_some() => {
                let is_entry = self.span.is_some_and(|span| span.point.role.is_entry());
                self.chain.condition(tracepoint, None).filter(|_| is_entry)
            }
            Some(own) => {
                // Compiled separately, so that an error refers to the words of the script.
                compile(own.text())?;
                self.chain.condition(tracepoint, Some(own.text()))
            }
            None => self.chain.condition(tracepoint, None),
        };
        let condition = condition.as_deref().map(compile).transpose()?;
        let aggregates: Vec<_> = tracepoint.aggregates().collect();
        let counting = CountingCompiler {
            symbols: self.symbols,
            variables: self.variables,
            scope: self.scope,
            span: self.span,
            error: &|place, error| self.expression_error(place, error),
        };
        let (counting, counts) = counting.counting(tracepoint, &aggregates)?;
        let only_counts = tracepoint.only_counts() && script.settings.default_collect.is_none();
        if only_counts && let Some(pick) = &tracepoint.pick {
            return Err(ScriptError::new(&pick.call, Problem::PickWithoutFrames));
        }
        let mut own = match &collected {
            Some(collected) => collected.actions.clone(),
            None => tracepoint.actions.clone(),
        };
        let watched = (self.watched).map(|object| watch::watched(tracepoint, object));
        if let Some(watched) = &watched {
            own.insert(0, watch::values(tracepoint, watched)?);
        }
        if tracepoint.marker_arguments {
            own.extend(self.marker_arguments(&tracepoint.location)?);
        }
        let every: Vec<_> = script.settings.default_collect.iter().chain(&own).collect();
        let mut step_actions = Vec::new();
        for action in &own {
            if let ScriptActionKind::WhileStepping { body, .. } = &action.kind {
                step_actions = self.actions(&body.iter().collect::<Vec<_>>())?;
            }
        }
        // GDB does not store `default-collect` in the file, so its readers do not know of it.
        let commands = every
            .first()
            .filter(|_| script.settings.default_collect.is_some());
        let commands = commands.into_iter().copied().chain(&own);
        let commands = source::for_gdb(commands, &|item| {
            let known = |scope: &Scope| gdb_can_collect(self.symbols, *scope, item);
            self.everywhere.iter().all(known)
        });
        let own_words = tracepoint.condition.as_ref().map(Located::text);
        let words = match &collected {
            // The condition of a span is asked when it is shown; whether it was enabled, at its entry.
            Some(_) => own_words.map(str::to_owned),
            None => self.chain.condition(tracepoint, own_words),
        };
        let gdb_reads_condition = words.as_ref().is_none_or(|condition| {
            if collected.is_some() {
                return false;
            }
            let known = |scope: &Scope| gdb_can_read(self.symbols, *scope, condition);
            self.everywhere.iter().all(known)
        });
        Ok(TracepointDefinition {
            number: tracepoint.number,
            address: self.scope.pc,
            enabled: (tracepoint.enabled || self.chain.switches(tracepoint.number))
                && !tracepoint.disabled_locations.contains(&index),
            kind: match tracepoint.kind {
                ScriptTracepointKind::Trap | ScriptTracepointKind::Watch => TracepointKind::Trap,
                ScriptTracepointKind::Fast => TracepointKind::Fast {
                    length: self.instruction_length(),
                },
                ScriptTracepointKind::Static | ScriptTracepointKind::Marker => {
                    TracepointKind::Static
                }
            },
            step_count: tracepoint.step_count(),
            pass_count: tracepoint.pass_count,
            condition,
            actions: match collected {
                _ if only_counts => Vec::new(),
                Some(collected) => self.span_actions(tracepoint, &every, &collected.condition)?,
                None => self.actions(&every)?,
            },
            step_actions,
            counting,
            withholds_registers: self.withholds_registers,
            free_stack: self.symbols.free_stack(self.scope.pc),
            source: SourceStrings {
                counts,
                marker: (tracepoint.kind == ScriptTracepointKind::Marker)
                    .then(|| tracepoint.location.text().to_owned()),
                at: Some(self.at_for_gdb(tracepoint)),
                condition: words.clone().filter(|_| gdb_reads_condition),
                own_condition: words.filter(|_| !gdb_reads_condition),
                own_location: self.own_location(tracepoint),
                commands,
                frame: (self.scope.level > 0).then(|| self.scope.level.to_string()),
                span: self.span.map(|span| span.point.to_string()),
                watch: watched.map(|watched| watched.to_string()),
            },
        })
    }

    /// The collection of each argument of the probe that is in a known form: not `$_sdata`, which a jump cannot collect.
    fn marker_arguments(&mut self, place: &Located) -> Result<Option<ScriptAction>, ScriptError> {
        let Some(marker) = self.marker else {
            return Ok(None);
        };
        let mut names = Vec::new();
        // GDB has names for as many.
        for (number, argument) in marker_arguments(self.symbols, marker)
            .iter()
            .enumerate()
            .take(12)
        {
            let name = format!("$_probe_arg{number}");
            if argument.program.is_some() {
                names.push(name);
            } else {
                self.warn(place, format!("{name} is in no form that is known"));
            }
        }
        if names.is_empty() {
            return Ok(None);
        }
        let list = Located::line(&Arc::from("-t"), 1, names.join(", "));
        let action = actions::collect_items(None, actions::items(&list)?);
        Ok(Some(action))
    }

    /// The location as given, where GDB finds the place by other words. A probe has its own form.
    fn own_location(&self, tracepoint: &ScriptTracepoint) -> Option<String> {
        let text = tracepoint.location.text();
        let is_own =
            tracepoint.kind != ScriptTracepointKind::Marker && self.at_for_gdb(tracepoint) != text;
        is_own.then(|| match tracepoint.kind {
            ScriptTracepointKind::Watch => format!("watch {text}"),
            _ => text.to_owned(),
        })
    }

    /// The location in a form with which GDB finds the place. GDB knows Rust functions only by their full names.
    fn at_for_gdb(&self, tracepoint: &ScriptTracepoint) -> String {
        let text = tracepoint.location.text();
        if tracepoint.kind == ScriptTracepointKind::Marker {
            // `-m NAME` ends GDB's reading of a trace file.
            return format!("*{}", self.scope.pc);
        }
        if self.elsewhere_in_gdb {
            return format!("*{}", self.scope.pc);
        }
        let rust = self.symbols.language_at(Some(self.scope.pc)) == Language::Rust;
        // To GDB the value of a Rust function's name is a type.
        if rust && text.starts_with('*') {
            return format!("*{}", self.scope.pc);
        }
        if !self.known_to_gdb && !rust {
            return format!("*{}", self.scope.pc);
        }
        let is_name = |text: &str| {
            text.split("::")
                .last()
                .is_some_and(|word| !word.contains(':'))
        };
        if (is_name(text) || !self.known_to_gdb)
            && !text.starts_with(['*', '-'])
            && rust
            && let Some(function) = self.rust_function()
        {
            return function;
        }
        text.to_owned()
    }

    /// The whole name of the Rust function that the location is of, generic arguments included.
    fn rust_function(&self) -> Option<String> {
        let named = self.function.clone()?;
        let around = self.symbols.function_at(self.scope.pc)?.name;
        let same = around
            .strip_prefix(&named)
            .is_some_and(|arguments| arguments.starts_with('<'));
        Some(if same { around } else { named })
    }

    /// Refuses `$retval` where no function returns.
    fn check_return_value(&self, tracepoint: &ScriptTracepoint) -> Result<(), ScriptError> {
        let items = tracepoint
            .actions
            .iter()
            .flat_map(|action| match &action.kind {
                ScriptActionKind::Collect { items, .. } | ScriptActionKind::Evaluate { items } => {
                    items.as_slice()
                }
                ScriptActionKind::Switch { .. } | ScriptActionKind::WhileStepping { .. } => &[],
            });
        let mut words = items.chain(&tracepoint.condition);
        match words.find(|words| mentions(words.text(), RETURN_VALUE)) {
            Some(words) if !is_return(self.symbols, self.scope.pc) => {
                Err(ScriptError::new(words, Problem::NoReturnValue))
            }
            _ => Ok(()),
        }
    }

    /// The actions at a location of a span: its part of the list, the data for the condition, and the register that identifies
    /// the call.
    fn span_actions(
        &mut self,
        tracepoint: &ScriptTracepoint,
        lines: &[&ScriptAction],
        condition: &[String],
    ) -> Result<Vec<Action>, ScriptError> {
        let mut actions = self.actions(lines)?;
        let variables = self.variables;
        let numbers = |name: &str| number(variables, name);
        for part in condition {
            let place = tracepoint
                .condition
                .as_ref()
                .unwrap_or(&tracepoint.location);
            // The frames would have to contain the data that the condition reads.
            check_redaction(self.symbols, self.scope, part, &numbers)
                .map_err(|error| self.expression_error(place, &error))?;
            let mut list = ActionList::new(self.symbols, self.scope, &numbers);
            if let Err(error) = list.collect(part, CollectOptions::default()) {
                return Err(self.expression_error(place, &error));
            }
            merge(&mut actions, list.finish());
        }
        if let Some(span) = self.span {
            merge(&mut actions, span::identity(&span.point));
        }
        Ok(actions)
    }

    fn actions(&mut self, lines: &[&ScriptAction]) -> Result<Vec<Action>, ScriptError> {
        let variables = self.variables;
        let numbers = |name: &str| number(variables, name);
        let list = ActionList::new(self.symbols, self.scope, &numbers);
        let mut list = list.with_stack_end(self.stack_end);
        for line in lines {
            match &line.kind {
                ScriptActionKind::Collect {
                    string_limit,
                    items,
                    ..
                } => {
                    let options = CollectOptions {
                        string: string_limit.map(|limit| Some(u64::from(limit))),
                        limits: self.collect_limits,
                    };
                    let is_span = self.span.is_some();
                    let of_span = |item: &&Located| is_span && item.text() == DURATION;
                    for item in items.iter().filter(|item| !of_span(item)) {
                        match list.collect(item.text(), options) {
                            Ok(warnings) => {
                                for warning in warnings {
                                    let message = format!("{}: {}", warning.name, warning.message);
                                    self.warn(item, message);
                                }
                            }
                            // A variable may exist at one location of a tracepoint and not at another: it is collected where it
                            // exists, and a warning names the others.
                            Err(error)
                                if matches!(
                                    error.kind(),
                                    ExpressionErrorKind::OptimizedOut(_)
                                        | ExpressionErrorKind::NoLocation { .. }
                                ) =>
                            {
                                let nearest = self.nearest_value(&error);
                                self.warn(item, format!("{}: {error}{nearest}", item.text()));
                            }
                            Err(error) if self.fits_elsewhere(item, options) => {
                                self.warn(item, format!("{}: {error}", item.text()));
                            }
                            Err(error) => return Err(self.expression_error(item, &error)),
                        }
                    }
                }
                ScriptActionKind::Evaluate { items } => {
                    for item in items {
                        list.teval(item.text())
                            .map_err(|error| self.expression_error(item, &error))?;
                    }
                }
                ScriptActionKind::Switch { .. } | ScriptActionKind::WhileStepping { .. } => {}
            }
        }
        self.withholds_registers |= list.withholds_registers();
        Ok(list.finish())
    }

    /// From where the variable could be had that an error is about, as the end of a message.
    fn nearest_value(&self, error: &ExpressionError) -> String {
        let place = match error.kind() {
            ExpressionErrorKind::OptimizedOut(name) => self.symbols.nearest_value(self.scope, name),
            _ => None,
        };
        place.map_or_else(String::new, |place| format!("; it has a value at {place}"))
    }

    /// The error at the token that is wrong.
    fn expression_error(&self, place: &Located, error: &ExpressionError) -> ScriptError {
        let whole = error.text() == place.text();
        let token = if whole {
            place.part(error.span())
        } else {
            place.clone()
        };
        let reason = format!("{error}{}", self.nearest_value(error));
        let problem = match error.kind() {
            ExpressionErrorKind::Redacted => Problem::Redacted(reason),
            _ => Problem::Expression(reason),
        };
        ScriptError::new(&token, problem)
    }

    /// Whether an item that does not fit this location can be collected at another one of the tracepoint.
    fn fits_elsewhere(&self, item: &Located, options: CollectOptions) -> bool {
        let variables = self.variables;
        let numbers = |name: &str| number(variables, name);
        self.everywhere.iter().any(|scope| {
            let mut list = ActionList::new(self.symbols, *scope, &numbers);
            *scope != self.scope && list.collect(item.text(), options).is_ok()
        })
    }

    fn warn(&mut self, place: &Located, message: String) {
        self.warnings.push(ResolveWarning {
            place: place.clone(),
            address: self.scope.pc,
            message,
        });
    }

    /// The length of the instruction that a fast tracepoint displaces; 5, the length of a jump, if the file does not have the
    /// instruction.
    fn instruction_length(&self) -> u64 {
        let bitness = match self.symbols.architecture() {
            Some(Architecture::I386) => 32,
            Some(Architecture::X86_64) | None => 64,
            // Jumps take the place of one instruction there.
            Some(_) => return 4,
        };
        let mut bytes = [0; 15];
        if !self.symbols.read_only_memory(self.scope.pc, &mut bytes) {
            return 5;
        }
        let instruction = Decoder::new(bitness, &bytes, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            5
        } else {
            instruction.len() as u64
        }
    }
}

/// Adds actions to others, the registers of both as one.
fn merge(actions: &mut Vec<Action>, more: Vec<Action>) {
    for action in more {
        let known = actions.iter_mut().find_map(|known| match known {
            Action::Registers(mask) => Some(mask),
            _ => None,
        });
        match (action, known) {
            (Action::Registers(more), Some(mask)) => {
                more.iter().for_each(|register| mask.insert(register));
            }
            (action, _) => actions.push(action),
        }
    }
}

/// Why a `watch` is not set.
enum NotWatched {
    Pending(Pending),
    Wrong(ScriptError),
}

/// The object of a `watch`. An unknown name may be that of a library's variable.
fn watched_object(
    symbols: &Symbols,
    script: &Script,
    variables: &[VariableDefinition],
    tracepoint: &ScriptTracepoint,
) -> Result<FixedObject, NotWatched> {
    let place = &tracepoint.location;
    let mut own = script.variables.iter();
    if own.any(|variable| variable.name == OLD_VALUE) {
        let error = ScriptError::new(place, Problem::OldIsTaken);
        return Err(NotWatched::Wrong(error));
    }
    watch::object(symbols, variables, tracepoint).map_err(|error| match error.kind() {
        ExpressionErrorKind::NoSymbol { .. } => NotWatched::Pending(Pending {
            number: tracepoint.number,
            location: place.clone(),
            reason: error.to_string(),
            is_unknown: true,
        }),
        kind => {
            let problem = match kind {
                ExpressionErrorKind::Redacted => Problem::Redacted(error.to_string()),
                _ => Problem::Expression(error.to_string()),
            };
            NotWatched::Wrong(ScriptError::new(&place.part(error.span()), problem))
        }
    })
}

/// Whether a location names what nothing is known of: it may be misspelt.
const fn is_unknown(error: &LocationError) -> bool {
    matches!(
        error,
        LocationError::NoFunction { .. }
            | LocationError::NoMatch { .. }
            | LocationError::NoFile { .. }
            | LocationError::NoMarker { .. }
    )
}

pub(crate) fn number(variables: &[VariableDefinition], name: &str) -> Option<VariableNumber> {
    variables
        .iter()
        .find(|variable| variable.name == name)
        .map(|variable| variable.number)
}
