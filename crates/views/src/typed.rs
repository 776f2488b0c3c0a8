//! The values of a frame as data, for tables whose columns have types.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracewire_debuginfo::SourcePlace;
use tracewire_expr::{Datum, Shape, ShownValue};
use tracewire_model::{Address, FrameNumber};
use tracewire_tracefile::{Frame, SavedState, Span};

use crate::frame::{ValueView, Viewer};
use crate::span::{DURATION, duration_value};
use crate::state::FrameState;

/// A value of a frame: as [`FrameView`](crate::FrameView) shows it, and as data. One walk makes both.
#[derive(Clone, PartialEq, Debug)]
pub struct TypedValue {
    /// As it is shown.
    pub view: ValueView,
    /// As data.
    pub datum: Datum,
}

/// A value as [`TypedValue`] has it. The values of one place share their names.
#[derive(Clone, Debug)]
pub struct SharedValue {
    /// As [`ValueView::expression`].
    pub expression: Rc<str>,
    /// As [`ValueView::type_name`].
    pub type_name: Option<Rc<str>>,
    /// As [`ValueView::error`].
    pub error: Option<String>,
    /// As [`ValueView::value`], and as data.
    pub shown: ShownValue,
}

impl SharedValue {
    /// Whether both are shown in the same way.
    pub(crate) fn is_shown_as(&self, other: &Self) -> bool {
        self.expression == other.expression
            && self.type_name == other.type_name
            && self.error == other.error
            && self.shown.text() == other.shown.text()
    }
}

impl From<SharedValue> for TypedValue {
    fn from(value: SharedValue) -> Self {
        let (text, datum) = value.shown.into_parts();
        Self {
            view: ValueView {
                expression: value.expression.as_ref().to_owned(),
                type_name: value.type_name.map(|name| name.as_ref().to_owned()),
                value: text,
                error: value.error,
            },
            datum,
        }
    }
}

impl From<SharedValue> for ValueView {
    fn from(value: SharedValue) -> Self {
        TypedValue::from(value).view
    }
}

/// An expression that a tracepoint collects at a place, and what data its values are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueShape {
    /// As [`ValueView::expression`].
    pub expression: String,
    /// None where the expression has no meaning there.
    pub shape: Option<Shape>,
}

/// A frame of a list without its values.
#[derive(Clone, Debug)]
pub struct TypedRow {
    /// Its kind: `hit`, `step` of a `while-stepping`, `span` or `return`.
    pub kind: &'static str,
    /// The source place.
    pub place: Option<SourcePlace>,
    /// Where the thread was stopped.
    pub pc: Option<Address>,
    /// The span that it shows.
    pub span: Option<Span>,
    /// The frame of the span that the span is in.
    pub parent: Option<u64>,
}

impl<'a> Viewer<'a> {
    /// The kind and place of a frame.
    #[must_use]
    pub fn typed_row(&self, frame: Frame<'a>) -> TypedRow {
        TypedRow {
            place: self.place(frame),
            pc: frame.program_counter(),
            ..self.placeless_row(frame)
        }
    }

    /// As [`typed_row`](Self::typed_row), without a place and an address: symbols are not asked.
    #[must_use]
    pub fn placeless_row(&self, frame: Frame<'a>) -> TypedRow {
        let span = self.span(frame);
        TypedRow {
            kind: self.kind(frame),
            place: None,
            pc: None,
            span: span.copied(),
            parent: span.and_then(|span| self.parent_frame(span)),
        }
    }

    /// The values of a frame of a list, in display order. One that is collected twice is here once.
    #[must_use]
    pub fn typed_values(&self, frame: Frame<'a>) -> Vec<TypedValue> {
        self.some_typed_values(frame, |_| true)
    }

    /// As [`typed_values`](Self::typed_values), only those of the requested expressions. The others are not evaluated.
    #[must_use]
    pub fn some_typed_values(
        &self,
        frame: Frame<'a>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<TypedValue> {
        let values = self.shared_values(frame, &frame.saved_state(), is_wanted);
        values.into_iter().map(Into::into).collect()
    }

    /// As [`some_typed_values`](Self::some_typed_values), of a frame whose state is known.
    #[must_use]
    pub fn shared_values(
        &self,
        frame: Frame<'a>,
        saved: &SavedState<'a>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<SharedValue> {
        let mut values = Vec::new();
        if self.span(frame).is_none() {
            self.add_values(frame, saved, &is_wanted, &mut values);
            return values;
        }
        for part in self.frames_of(frame) {
            match part.number() == frame.number() {
                true => self.add_values(part, saved, &is_wanted, &mut values),
                false => self.add_values(part, &part.saved_state(), &is_wanted, &mut values),
            }
        }
        if is_wanted(DURATION)
            && let Some(duration) = self.duration(frame)
        {
            values.push(duration_value(duration));
        }
        values
    }

    /// The kinds of data of a frame's values. They are the same for all frames with one [`place_key`](Self::place_key).
    #[must_use]
    pub fn value_shapes(&self, frame: Frame<'a>) -> Vec<ValueShape> {
        let mut shapes = Vec::new();
        for part in self.frames_of(frame) {
            let Some(state) = FrameState::new(self.file(), part) else {
                continue;
            };
            let here = self.cached_place(part, tracewire_expr::State::pc(&state));
            for item in self.items(part, &state) {
                let watched = self.watched(part, item);
                let of = watched
                    .as_ref()
                    .map_or(item, |(_, watched)| &watched.expression);
                let parts = here.item(of).shapes(here.walks()).into_iter();
                shapes.extend(parts.map(|(expression, shape)| ValueShape {
                    expression: match watched {
                        Some(_) => item.to_owned(),
                        None => expression,
                    },
                    shape,
                }));
            }
        }
        if self.duration(frame).is_some() {
            shapes.push(ValueShape {
                expression: DURATION.to_owned(),
                shape: Some(Shape::Integer),
            });
        }
        shapes
    }

    /// The names of all values that frames of the file have, in the order of tracepoints and lists. That of the duration of a span is not
    /// among them.
    #[must_use]
    pub fn value_names(&self) -> Vec<String> {
        let mut frames: BTreeMap<_, Frame<'a>> = BTreeMap::new();
        let mut add = |frame: Frame<'a>| {
            if self.is_listed(frame) {
                let key = (frame.tracepoint(), self.place_key(frame));
                frames.entry(key).or_insert(frame);
            }
        };
        match self.representatives() {
            Some(numbers) => (numbers.iter())
                .filter_map(|number| self.file().frame(*number))
                .for_each(&mut add),
            None => self.file().frames().for_each(&mut add),
        }
        let mut names: Vec<String> = Vec::new();
        for frame in frames.into_values() {
            for shape in self.value_shapes(frame) {
                if shape.expression != DURATION && !names.contains(&shape.expression) {
                    names.push(shape.expression);
                }
            }
        }
        names
    }

    /// Frames that have every [`place_key`](Self::place_key) of each tracepoint among them, found without reading the frames of a file;
    /// none where that is not possible.
    #[must_use]
    pub fn representatives(&self) -> Option<Vec<FrameNumber>> {
        let file = self.file();
        let mut tracepoints = file.description().tracepoints().iter();
        // Of a span there are two places, of a step and a hit one may be the same; modules that lie at one address
        // make several places of it.
        let steps = tracepoints.any(|tracepoint| {
            let locations = file.locations(tracepoint.definition.number);
            locations.is_some_and(|locations| locations.steps())
        });
        if steps || !file.spans().is_empty() || !self.program().is_at_all_times() {
            return None;
        }
        file.representatives()
    }

    /// The key on which the shapes of a frame's values depend: the places where they were collected, and whether by a step.
    #[must_use]
    pub fn place_key(&self, frame: Frame<'a>) -> Vec<(Option<Address>, Option<bool>, usize)> {
        let parts = self.frames_of(frame).into_iter();
        parts
            .map(|part| {
                let symbols: *const _ = self.symbols(part);
                (part.program_counter(), part.is_step(), symbols as usize)
            })
            .collect()
    }
}
