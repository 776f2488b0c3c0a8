//! One trace frame: where, when, and every value collected, as one JSON object.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use tracewire_arch::{Machine, Register};
use tracewire_debuginfo::{Scope, SourcePlace, Symbols};
use tracewire_expr::{
    Datum, ExpressionError, ExpressionErrorKind, PrintOptions, ShownValue, StackItem, State, Value,
};
use tracewire_model::{
    Address, FrameNumber, ThreadId, TracepointDefinition, TracepointKind, TracepointNumber,
    VariableNumber, hex,
};
use tracewire_tracefile::{Block, Frame, Span, TraceFile};

use crate::collected::Tracepoints;
use crate::frame_place::FramePlaces;
use crate::hexadecimal::Hexadecimal;
use crate::place_cache::{CachedPlace, PlaceCache};
use crate::program::Program;
use crate::register::telling_text;
use crate::span::DURATION;
use crate::stack::{StackEntry, stack_item};
use crate::state::FrameState;
use crate::typed::SharedValue;
use crate::unwinders::Unwinders;

/// One frame. A field that the frame does not have is none, or empty. [`JsonWriter`](crate::JsonWriter) writes the same as text.
#[derive(Clone, PartialEq, Debug)]
pub struct FrameView {
    /// The process, in a run of several ([`Viewer::with_process`]).
    pub process: Option<u32>,
    /// Its number, from 0.
    pub frame: u64,
    /// The tracepoint that made it.
    pub tracepoint: i32,
    /// Where the thread was, `0x…`.
    pub pc: Option<String>,
    /// When, in microseconds (`$trace_timestamp`).
    pub time_us: Option<u64>,
    /// The same in nanoseconds, where the frame has them.
    pub time_ns: Option<u64>,
    /// Which thread (`$trace_thread`).
    pub thread: Option<u32>,
    /// On which cpu (`$trace_cpu`).
    pub cpu: Option<u32>,
    /// Its kind: `hit`, `step` of a `while-stepping`, `span` or `return`.
    pub kind: &'static str,
    /// How long the span took, in nanoseconds.
    pub duration_ns: Option<u64>,
    /// How the span ended: `return`, `exception`, `longjmp`, `thread-exit`, `process-exit`, `left` (nothing is known of how), `open`.
    pub ended: Option<&'static str>,
    /// Whether the function ended by a jump to another one, which returned in its place.
    pub tail_call: bool,
    /// The frame of the span that the span is in.
    pub parent: Option<u64>,
    /// In how many spans it is.
    pub(crate) span: Option<Span>,
    /// Whether a step of `while-stepping` made it.
    pub stepping: Option<bool>,
    /// The registers by name, each as a hexadecimal number for both byte orders.
    pub registers: Map<Hexadecimal>,
    /// Registers whose types show more than a number, as GDB prints them (flags, floating point, vectors); a vector that is all
    /// zero is left out.
    pub register_values: Map<String>,
    /// The names of requested registers that are unavailable in the frame.
    pub unavailable_registers: Vec<String>,
    /// Pieces of memory, in the order of their blocks.
    pub memory: Vec<MemoryView>,
    /// Trace state variables by name; `number N` for one without.
    pub variables: Map<i64>,
    /// Data of a static tracepoint, the blocks one after the other.
    pub static_data: Option<Bytes>,
    /// The part of the frame that is not understood.
    pub unknown: Option<Bytes>,
    /// The marker that the thread was at, as `PROVIDER:NAME`.
    pub marker: Option<String>,
    /// The function, the innermost inlined one.
    pub function: Option<String>,
    /// The source file, as the debug information names it.
    pub file: Option<String>,
    /// The source line.
    pub line: Option<u64>,
    /// Every collected expression. Only where the program's symbols are known.
    pub values: Vec<ValueView>,
    /// The functions on the stack, the innermost first, where the frame has `$stack`.
    pub stack: Vec<StackEntry>,
    /// Why there are no more: `outermost`, `limit`, `unavailable` or `no-information`.
    pub stack_end: Option<&'static str>,
}

/// A piece of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryView {
    /// Where it starts.
    pub address: String,
    /// Its bytes, in the order of their addresses.
    pub bytes: Bytes,
    /// Whether it is the piece of the stack that `$stack` collects.
    pub is_stack: bool,
}

/// An expression that was collected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueView {
    /// As the tracepoint's actions have it; variables of `$args` and `$locals` by their names.
    pub expression: String,
    /// Its type, as GDB's `whatis` shows it.
    pub type_name: Option<String>,
    /// Its value as its language writes it; in angle brackets why there is none.
    pub value: String,
    /// Why there is no value, where there is none.
    pub error: Option<String>,
}

/// Bytes, which are shown as pairs of digits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::text(&self.0))
    }
}

/// Names and values in order. The names are the same in most frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Map<V>(pub Vec<(Arc<str>, V)>);

impl<V> Map<V> {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Makes the views of a file's frames.
#[derive(Debug)]
pub struct Viewer<'a> {
    file: &'a TraceFile,
    program: &'a Program,
    process: Option<ThreadId>,
    /// The numbers that the frames of the file have in a larger one that it is a part of.
    numbers: Option<&'a [FrameNumber]>,
    has_plain_values: bool,
    options: PrintOptions,
    tracepoints: Tracepoints<'a>,
    variable_names: BTreeMap<VariableNumber, Arc<str>>,
    /// The registers' names, in the order of the layout.
    register_names: Vec<Arc<str>>,
    pub(crate) places: PlaceCache<'a>,
    pub(crate) frame_places: FramePlaces<'a>,
    pub(crate) unwinders: Unwinders<'a>,
}

impl<'a> Viewer<'a> {
    /// Of a file, with the symbols of its program; [`Program::default`] where there are none.
    #[must_use]
    pub fn new(file: &'a TraceFile, program: &'a Program) -> Self {
        let variables = file.description().variables().iter();
        let variable_names = variables
            .map(|variable| (variable.number, variable.name.as_str().into()))
            .collect();
        let registers = file.layout().map_or(&[][..], |layout| layout.registers());
        let register_names: Vec<Arc<str>> = registers
            .iter()
            .map(|register| register.name.as_str().into())
            .collect();
        Self {
            file,
            program,
            process: None,
            numbers: None,
            has_plain_values: true,
            register_names,
            options: PrintOptions::default(),
            tracepoints: Tracepoints::of(file),
            variable_names,
            places: PlaceCache::default(),
            frame_places: FramePlaces::default(),
            unwinders: Unwinders::default(),
        }
    }

    /// Of frames that are a part of a larger file: the number that each has there. They are shown with these.
    #[must_use]
    pub const fn with_numbers(mut self, numbers: &'a [FrameNumber]) -> Self {
        self.numbers = Some(numbers);
        self
    }

    /// Of the frames of one process of several.
    #[must_use]
    pub const fn with_process(mut self, process: Option<ThreadId>) -> Self {
        self.process = process;
        self
    }

    /// Each value is computed by its whole expression, also one that is a number ([`PlainValue`](tracewire_expr::PlainValue)). It is the
    /// same value: a test compares both.
    #[must_use]
    pub const fn without_plain_values(mut self) -> Self {
        self.has_plain_values = false;
        self
    }

    /// Whether a value that is a number is computed in fewer steps than its expression.
    pub(crate) const fn has_plain_values(&self) -> bool {
        self.has_plain_values
    }

    /// The process that frames are shown with.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.process.map(|process| process.0)
    }

    /// The number that a frame is shown with.
    pub(crate) fn number(&self, frame: FrameNumber) -> u64 {
        let in_whole = self.numbers.and_then(|numbers| {
            let at = usize::try_from(frame.0).ok()?;
            numbers.get(at)
        });
        in_whole.unwrap_or(&frame).0
    }

    /// A value, as it is shown.
    pub(crate) fn text(&self, value: &Value, here: &CachedPlace<'a>, state: &dyn State) -> String {
        value.display(here.walks(), state, &self.options)
    }

    /// The program.
    pub(crate) const fn program(&self) -> &'a Program {
        self.program
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &'a TraceFile {
        self.file
    }

    /// One frame.
    #[must_use]
    pub fn view(&self, frame: Frame<'a>) -> FrameView {
        let saved = frame.saved_state();
        let here = self.frame_place(frame, &saved);
        let place = here.as_ref().and_then(|here| here.source());
        let span = self.span(frame);
        let stack = here.as_ref().and_then(|here| self.stack_at(frame, here));
        let stack_pointer = stack.as_ref().and_then(|_| self.stack_pointer(frame));
        let (registers, register_values, unavailable_registers) = self.registers(frame);
        let values = self.shared_values(frame, &saved, |_| true);
        let mut view = FrameView {
            process: self.process(),
            frame: self.number(frame.number()),
            tracepoint: frame.tracepoint().0,
            pc: frame.program_counter().map(|pc| pc.to_string()),
            time_us: frame.timestamp(),
            time_ns: frame.nanoseconds(),
            thread: frame.thread().map(|thread| thread.0),
            cpu: frame.cpu(),
            kind: self.kind(frame),
            duration_ns: span.and_then(Span::duration_ns),
            ended: span.map(|span| span.end.name()),
            tail_call: span.is_some_and(|span| span.is_tail_call),
            parent: span.and_then(|span| self.parent_frame(span)),
            span: span.copied(),
            stepping: frame.is_step(),
            registers,
            register_values,
            unavailable_registers,
            memory: Vec::new(),
            variables: self.variables(frame),
            static_data: None,
            unknown: None,
            marker: here
                .as_ref()
                .and_then(|here| Some(here.marker()?.to_string())),
            line: place.map(|place| place.line).filter(|line| *line != 0),
            function: place.and_then(|place| place.function.clone()),
            file: place.and_then(|place| place.file.clone()),
            values: values.into_iter().map(Into::into).collect(),
            stack_end: stack.as_ref().map(|stack| stack.end),
            stack: stack.map(|stack| stack.entries).unwrap_or_default(),
        };
        for block in frame.blocks() {
            match block {
                Block::Registers(_) | Block::Variable { .. } => {}
                Block::Memory { address, bytes } => view.memory.push(MemoryView {
                    address: address.to_string(),
                    bytes: Bytes(bytes.to_vec()),
                    is_stack: stack_pointer == Some(address),
                }),
                Block::StaticData(bytes) => {
                    let data = view.static_data.get_or_insert_default();
                    data.0.extend_from_slice(bytes);
                }
                Block::Unknown(bytes) => view.unknown = Some(Bytes(bytes.to_vec())),
            }
        }
        view
    }

    /// The trace state variables in a frame, except those that are its stamp.
    #[must_use]
    pub fn variables(&self, frame: Frame<'a>) -> Map<i64> {
        self.named_variables(frame.blocks().filter_map(|block| match block {
            Block::Variable { number, value } => Some((number, value)),
            _ => None,
        }))
    }

    /// Variables of a frame by name, except those that are its stamp.
    pub(crate) fn named_variables(
        &self,
        variables: impl Iterator<Item = (VariableNumber, i64)>,
    ) -> Map<i64> {
        let mut shown: Vec<(Arc<str>, i64)> = Vec::with_capacity(variables.size_hint().0);
        // Where each variable is in the view, once there are many.
        let mut known: HashMap<Arc<str>, usize> = HashMap::new();
        for (number, value) in variables {
            if tracewire_tracefile::describes_frame(number) {
                continue;
            }
            let name = self
                .variable_names
                .get(&number)
                .map_or_else(|| format!("number {number}").into(), Arc::clone);
            if shown.len() == FEW_VARIABLES {
                let names = shown.iter().map(|(name, _)| Arc::clone(name));
                known = names.zip(0..).collect();
            }
            let index = if shown.len() < FEW_VARIABLES {
                shown.iter().position(|(other, _)| *other == name)
            } else {
                known.get(&name).copied()
            };
            // A variable collected twice has its last value, as for GDB.
            match index.and_then(|index| shown.get_mut(index)) {
                Some((_, known)) => *known = value,
                None => {
                    if shown.len() >= FEW_VARIABLES {
                        known.insert(Arc::clone(&name), shown.len());
                    }
                    shown.push((name, value));
                }
            }
        }
        Map(shown)
    }

    /// The source place of a frame.
    #[must_use]
    pub fn place(&self, frame: Frame<'a>) -> Option<SourcePlace> {
        let state = FrameState::new(self.file, frame)?;
        let place = self.source_place(frame, state.pc());
        place.source().map(|source| SourcePlace::clone(source))
    }

    /// The facts about the place of a frame.
    pub(crate) fn cached_place(&self, frame: Frame<'a>, pc: Address) -> Rc<CachedPlace<'a>> {
        let symbols = self.symbols(frame);
        self.places.get(symbols, self.scope(symbols, frame, pc))
    }

    /// The facts about the place whose function and line a frame is shown with. For a watch it is the instruction that has
    /// written, and the thread is at the next one.
    pub(crate) fn source_place(&self, frame: Frame<'a>, pc: Address) -> Rc<CachedPlace<'a>> {
        if !self.is_of_watch(frame) {
            return self.cached_place(frame, pc);
        }
        let within = Address(pc.0.saturating_sub(1));
        self.places.get(self.symbols(frame), within.into())
    }

    /// Whether a frame was made by a write to memory that is watched.
    fn is_of_watch(&self, frame: Frame<'a>) -> bool {
        let definition = self.definition(frame.tracepoint());
        definition.is_some_and(|definition| definition.source.watch.is_some())
    }

    /// The first definition of a tracepoint.
    pub(crate) fn definition(&self, number: TracepointNumber) -> Option<&'a TracepointDefinition> {
        let first = self.tracepoints.at(number, Address(0))?;
        Some(first.definition)
    }

    /// Which frame the tracepoint's names are seen from: that of the function that its location names.
    fn scope(&self, symbols: &Symbols, frame: Frame<'a>, pc: Address) -> Scope {
        let Some(collected) = self.tracepoints.at(frame.tracepoint(), pc) else {
            return pc.into();
        };
        let definition = collected.definition;
        if definition.source.watch.is_some() {
            // The names of a watch are seen from no function.
            return definition.address.into();
        }
        match definition.source.frame_level() {
            0 => pc.into(),
            level => {
                let pc_there = definition.address;
                symbols.same_function(
                    Scope {
                        pc: pc_there,
                        level,
                    },
                    pc,
                )
            }
        }
    }

    /// The USDT probe that the thread was at, as `PROVIDER:NAME`.
    #[must_use]
    pub fn marker(&self, frame: Frame<'a>) -> Option<String> {
        let pc = frame.program_counter()?;
        let definition = self
            .tracepoints
            .at(frame.tracepoint(), pc)
            .map(|collected| collected.definition)
            .filter(|definition| {
                definition.address == pc && definition.kind == TracepointKind::Static
            })?;
        let named = definition.source.marker.clone();
        named.or_else(|| {
            let marker = self.symbols(frame).marker_at(pc)?;
            Some(format!("{}:{}", marker.provider, marker.name))
        })
    }

    pub(crate) fn symbols(&self, frame: Frame<'a>) -> &'a Symbols {
        self.program.symbols(frame.timestamp())
    }

    /// The registers by name: as numbers, those whose types show more as text, and those that were asked for and are not known.
    fn registers(&self, frame: Frame<'a>) -> (Map<Hexadecimal>, Map<String>, Vec<String>) {
        let order = self.file.byte_order();
        let mut numbers = Vec::with_capacity(self.register_names.len());
        let (mut shown, mut unavailable) = (Vec::new(), Vec::new());
        for ((register, bytes), name) in frame.registers().zip(&self.register_names) {
            let Some(bytes) = bytes else {
                if self.asks_for(frame, register) {
                    unavailable.push(register.name.clone());
                }
                continue;
            };
            numbers.push((Arc::clone(name), Hexadecimal::of_register(bytes, order)));
            let text = telling_text(register, bytes, order);
            shown.extend(text.map(|text| (Arc::clone(name), text)));
        }
        (Map(numbers), Map(shown), unavailable)
    }

    /// The frame that represents a span's parent.
    pub(crate) fn parent_frame(&self, span: &Span) -> Option<u64> {
        let parent = self.file.spans().at(span.parent?)?;
        Some(self.number(parent.frame()))
    }

    /// Whether the list of a frame's tracepoint has an item.
    pub(crate) fn has_item(&self, frame: Frame<'a>, state: &FrameState<'a>, item: &str) -> bool {
        let collected = self.tracepoints.at(frame.tracepoint(), state.pc());
        collected.is_some_and(|collected| collected.items.hit.iter().any(|known| known == item))
    }

    /// Whether a frame's tracepoint requests a register.
    pub(crate) fn asks_for(&self, frame: Frame<'a>, register: &Register) -> bool {
        self.tracepoints
            .asks_for(frame.tracepoint(), register.number)
    }

    /// The condition of a frame's tracepoint.
    pub(crate) fn condition(&self, frame: Frame<'a>, pc: Address) -> Option<&str> {
        let collected = self.tracepoints.at(frame.tracepoint(), pc)?;
        collected.definition.source.condition()
    }

    /// The items that the frame's tracepoint collects there, except registers and probe data, which have separate fields; empty
    /// if the program is not known.
    pub(crate) fn items(
        &self,
        frame: Frame<'a>,
        state: &FrameState<'a>,
    ) -> impl Iterator<Item = &str> {
        let collected = match self.program.is_empty() {
            true => None,
            false => self.tracepoints.at(frame.tracepoint(), state.pc()),
        };
        let (hit, step) = match (collected, frame.is_step()) {
            (None, _) => (&[][..], &[][..]),
            (Some(collected), Some(true)) => (&[][..], &collected.items.step[..]),
            (Some(collected), Some(false)) => (&collected.items.hit[..], &[][..]),
            (Some(collected), None) => (&collected.items.hit[..], &collected.items.step[..]),
        };
        let items = hit.iter().chain(step).map(String::as_str);
        items.filter(|item| !is_whole_set(item) && !self.is_stack(item) && *item != DURATION)
    }

    /// Whether an item collects the stack, and no variable of that name.
    fn is_stack(&self, item: &str) -> bool {
        let variables = self.file.description().variables();
        stack_item(item).is_some_and(|stack| {
            variables
                .iter()
                .all(|variable| variable.name != stack.walk.name())
        })
    }

    /// The item that collects the stack at a frame.
    pub(crate) fn stack_item(&self, frame: Frame<'a>, state: &FrameState<'a>) -> Option<StackItem> {
        let collected = match self.program.is_empty() {
            true => None,
            false => self.tracepoints.at(frame.tracepoint(), state.pc()),
        }?;
        let items = match frame.is_step() {
            Some(true) => &collected.items.step,
            _ => &collected.items.hit,
        };
        let stack = items.iter().find(|item| self.is_stack(item))?;
        stack_item(stack)
    }

    /// The stack pointer of a frame.
    fn stack_pointer(&self, frame: Frame<'a>) -> Option<Address> {
        let machine = Machine::with_linux(self.symbols(frame).architecture()?);
        let bytes = frame.register(machine.stack_pointer())?;
        let layout = self.file.layout()?;
        let register = layout.by_number(machine.stack_pointer())?;
        register.number(bytes, self.file.byte_order()).map(Address)
    }

    /// A value of a frame, or why there is none.
    pub(crate) fn value(
        &self,
        here: &CachedPlace<'a>,
        expression: Rc<str>,
        evaluated: Result<Value, ExpressionError>,
        state: &dyn State,
    ) -> SharedValue {
        match evaluated {
            Ok(value) => {
                let (text, datum) = value.show(here.walks(), state, &self.options);
                SharedValue {
                    expression,
                    type_name: Some(here.type_name(value.type_id())),
                    error: None,
                    shown: ShownValue::new(text, datum),
                }
            }
            Err(error) => {
                let reason = reason(&error);
                SharedValue {
                    expression,
                    type_name: None,
                    error: Some(error.to_string()),
                    shown: ShownValue::new(reason.clone(), Datum::Missing(reason)),
                }
            }
        }
    }
}

/// The text that is shown instead of a value.
fn reason(error: &ExpressionError) -> String {
    match error.kind() {
        ExpressionErrorKind::Unavailable => "<unavailable>".to_owned(),
        ExpressionErrorKind::Redacted => "<redacted>".to_owned(),
        ExpressionErrorKind::OptimizedOut(_) | ExpressionErrorKind::ValueOptimizedOut => {
            "<optimized out>".to_owned()
        }
        _ => format!("<error: {error}>"),
    }
}

/// `$regs` and `$_sdata`, by GDB's abbreviations.
fn is_whole_set(item: &str) -> bool {
    let lower = item.to_ascii_lowercase();
    lower.starts_with("$reg") || lower.starts_with("$_sdata")
}

/// Up to how many variables of a frame are searched one by one.
const FEW_VARIABLES: usize = 16;
