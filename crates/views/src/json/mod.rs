//! A frame as a JSON object, directly as text: the fields of a [`FrameView`](crate::FrameView), in its order. A file may have millions of
//! frames, each with dozens of registers.
//!
//! A field that the frame does not have is left out. `docs/formats/json.md` has the names.

mod members;
mod registers;

use tracewire_arch::Register;
use tracewire_model::{Address, VariableNumber, hex};
use tracewire_tracefile::{Block, Frame, SavedState};

use self::members::{Members, push};
use self::registers::RegisterTexts;
use crate::frame::Viewer;
use crate::frame_place::FramePlace;
use crate::hexadecimal::Hexadecimal;
use crate::typed::SharedValue;

/// What all frames of a place have, as members of an object.
#[derive(Debug)]
pub(crate) struct PlaceText {
    pc: Vec<u8>,
    source: Vec<u8>,
}

impl PlaceText {
    fn of(place: &FramePlace<'_>) -> Self {
        let (mut pc, mut source) = (Vec::new(), Vec::new());
        if let Some(address) = place.pc() {
            let address = Hexadecimal::new(address.0);
            Members::new(&mut pc).digits("pc", |json| json.extend_from_slice(address.as_bytes()));
        }
        let mut object = Members::new(&mut source);
        object.field_if("marker", place.marker().map(AsRef::<str>::as_ref));
        if let Some(place) = place.source() {
            object.field_if("function", place.function.as_deref());
            object.field_if("file", place.file.as_deref());
            object.field_if("line", Some(place.line).filter(|line| *line != 0));
        }
        Self { pc, source }
    }
}

/// Writes frames of one file as JSON objects.
#[derive(Debug)]
pub struct JsonWriter<'v, 'a> {
    viewer: &'v Viewer<'a>,
    registers: RegisterTexts,
}

impl<'v, 'a> JsonWriter<'v, 'a> {
    /// Of frames that this shows.
    #[must_use]
    pub fn new(viewer: &'v Viewer<'a>) -> Self {
        Self {
            viewer,
            registers: RegisterTexts::default(),
        }
    }

    /// Appends a frame as a JSON object, without a line feed: the fields of its [view](Viewer::view) that are not empty.
    ///
    /// Addresses and registers are hexadecimal numbers in strings, `0x…`; bytes are pairs of digits, in the order of their addresses.
    pub fn write(&mut self, frame: Frame<'a>, json: &mut Vec<u8>) {
        let viewer = self.viewer;
        let saved = frame.saved_state();
        let here = viewer.frame_place(frame, &saved);
        let place = here.as_ref().map(|here| here.text(PlaceText::of));
        let is_step = match &here {
            Some(here) => here.is_step(),
            None => frame.is_step(),
        };
        let span = viewer.span(frame);
        json.push(b'{');
        let mut object = Members::new(json);
        object.field_if("process", viewer.process());
        object.field("frame", &viewer.number(frame.number()));
        object.field("tracepoint", &frame.tracepoint().0);
        object.written(place.map_or(&[], |place| &place.pc));
        object.field_if("time_us", saved.timestamp());
        object.field_if("time_ns", saved.nanoseconds());
        object.field_if("thread", saved.thread().map(|thread| thread.0));
        object.field_if("cpu", saved.cpu());
        object.field("kind", viewer.kind_of(frame, is_step));
        if let Some(span) = span {
            object.field_if("duration_ns", span.duration_ns());
            object.field("ended", span.end.name());
            object.field_if("tail_call", span.is_tail_call.then_some(true));
            object.field_if("parent", viewer.parent_frame(span));
            object.field_if("goroutine", span.goroutine);
        }
        object.field_if("stepping", is_step);
        if let Some(layout) = viewer.file().layout() {
            let is_asked_for = |register: &Register| viewer.asks_for(frame, register);
            let registers = layout.registers();
            self.registers
                .write(frame, &saved, registers, is_asked_for, &mut object);
        }
        write_blocks(viewer, frame, &saved, &mut object);
        object.written(place.map_or(&[], |place| &place.source));
        let values = viewer.shared_values(frame, &saved, |_| true);
        if !values.is_empty() {
            write_values(&values, object.named("values"));
        }
        if let Some(stack) = here.and_then(|here| viewer.stack_at(frame, &here)) {
            object.field("stack", &stack.entries);
            object.field("stack_end", stack.end);
        }
        json.push(b'}');
    }
}

/// The blocks of a frame except its registers.
fn write_blocks<'a>(
    viewer: &Viewer<'a>,
    frame: Frame<'a>,
    saved: &SavedState<'a>,
    object: &mut Members<'_>,
) {
    if !saved.memory_blocks().is_empty() {
        let json = object.named("memory");
        json.push(b'[');
        let mut pieces = Members::new(json);
        for (address, bytes) in saved.memory_blocks() {
            write_memory(*address, bytes, pieces.next());
        }
        json.push(b']');
    }
    let mut variables: Vec<(VariableNumber, i64)> = Vec::new();
    let (mut data, mut unknown) = (None::<Vec<u8>>, None);
    for block in frame.blocks() {
        match block {
            Block::Registers(_) | Block::Memory { .. } => {}
            Block::Variable { number, value } => variables.push((number, value)),
            Block::StaticData(bytes) => data.get_or_insert_default().extend_from_slice(bytes),
            Block::Unknown(bytes) => unknown = Some(bytes),
        }
    }
    let variables = viewer.named_variables(variables.into_iter());
    if !variables.is_empty() {
        let json = object.named("variables");
        json.push(b'{');
        let mut members = Members::new(json);
        for (name, value) in &variables.0 {
            let json = members.next();
            push(json, &**name);
            json.push(b':');
            push(json, value);
        }
        json.push(b'}');
    }
    for (name, bytes) in [("static_data", data.as_deref()), ("unknown", unknown)] {
        if let Some(bytes) = bytes {
            object.digits(name, |json| hex::encode(bytes, json));
        }
    }
}

/// A piece of memory, as a member of an array.
fn write_memory(address: Address, bytes: &[u8], json: &mut Vec<u8>) {
    json.push(b'{');
    let mut piece = Members::new(json);
    let address = Hexadecimal::new(address.0);
    piece.digits("address", |json| json.extend_from_slice(address.as_bytes()));
    piece.digits("bytes", |json| hex::encode(bytes, json));
    json.push(b'}');
}

fn write_values(values: &[SharedValue], json: &mut Vec<u8>) {
    json.push(b'[');
    let mut list = Members::new(json);
    for value in values {
        let json = list.next();
        json.push(b'{');
        let mut members = Members::new(json);
        members.field("expression", &*value.expression);
        members.field_if("type", value.type_name.as_deref());
        members.field("value", value.shown.text());
        members.field_if("error", value.error.as_deref());
        json.push(b'}');
    }
    json.push(b']');
}
