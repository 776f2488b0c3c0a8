//! What all frames of a tracepoint at one place have in common, found once. Their values are computed by it without the general way
//! through an expression, where they are numbers.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tracewire_debuginfo::{SourcePlace, Symbols};
use tracewire_expr::{PlainState, PlainValue, PreparedItem, StackItem, State as _};
use tracewire_model::{Address, RegisterNumber, TracepointNumber};
use tracewire_tracefile::{Frame, SavedState};

use crate::frame::Viewer;
use crate::json::PlaceText;
use crate::place_cache::CachedPlace;
use crate::state::FrameState;
use crate::typed::SharedValue;

/// The capacity of the cache, as that of [`PlaceCache`](crate::place_cache::PlaceCache).
const MOST_PLACES: usize = 500;

/// What a [`FramePlace`] depends on. The address is the frame's own; none where only its tracepoint says where it is.
type Key = (
    TracepointNumber,
    Option<Address>,
    Option<bool>,
    *const Symbols,
);

/// The places that frames were looked at of.
#[derive(Debug, Default)]
pub(crate) struct FramePlaces<'a> {
    known: RefCell<HashMap<Key, Rc<FramePlace<'a>>>>,
    /// That of the last frame: most frames are of the same place as the one before.
    last: RefCell<Option<(Key, Rc<FramePlace<'a>>)>>,
}

/// A tracepoint at one place.
#[derive(Debug)]
pub(crate) struct FramePlace<'a> {
    pc: Option<Address>,
    is_step: Option<bool>,
    /// Where its names are seen from.
    here: Rc<CachedPlace<'a>>,
    /// The place that its frames are shown with.
    shown: Rc<CachedPlace<'a>>,
    marker: Option<Rc<str>>,
    stack_item: Option<StackItem>,
    /// The values of its list; none where the list has to be taken apart for each frame.
    values: Option<Vec<ListedValue<'a>>>,
    text: OnceCell<PlaceText>,
}

/// One of the values.
#[derive(Debug)]
struct ListedValue<'a> {
    item: Rc<PreparedItem<'a>>,
    /// Which of the item's values it is.
    at: usize,
    name: Rc<str>,
    plain: Option<PlainValue>,
}

/// The state of a frame.
struct Plain<'s, 'a>(&'s SavedState<'a>);

impl PlainState for Plain<'_, '_> {
    fn register(&self, register: RegisterNumber) -> Option<u64> {
        let bytes = self.0.register(register)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn load(&self, address: u64, size: u8) -> Option<u64> {
        self.0.load(address, size.into())
    }

    fn has_memory(&self, address: u64, length: u64) -> bool {
        self.0.has_memory(address, length)
    }
}

impl<'a> FramePlace<'a> {
    /// As [`Frame::program_counter`].
    pub(crate) const fn pc(&self) -> Option<Address> {
        self.pc
    }

    /// As [`Frame::is_step`].
    pub(crate) const fn is_step(&self) -> Option<bool> {
        self.is_step
    }

    /// What its frames have as text, made once.
    pub(crate) fn text(&self, make: impl FnOnce(&Self) -> PlaceText) -> &PlaceText {
        self.text.get_or_init(|| make(self))
    }

    /// The source place, which its frames share.
    pub(crate) fn source(&self) -> Option<&Rc<SourcePlace>> {
        self.shown.source()
    }

    /// The source place for a cell of a table.
    pub(crate) fn words(&self) -> Option<&str> {
        self.shown.words()
    }

    /// The USDT probe that the thread was at, as `PROVIDER:NAME`.
    pub(crate) const fn marker(&self) -> Option<&Rc<str>> {
        self.marker.as_ref()
    }

    /// The item that collects the stack.
    pub(crate) const fn stack_item(&self) -> Option<&StackItem> {
        self.stack_item.as_ref()
    }
}

impl<'a> Viewer<'a> {
    /// The source place of a frame whose state is known. Frames of one place share it.
    #[must_use]
    pub fn shared_place(
        &self,
        frame: Frame<'a>,
        saved: &SavedState<'a>,
    ) -> Option<Rc<SourcePlace>> {
        self.frame_place(frame, saved)?.source().cloned()
    }

    /// What a frame has in common with the others of its place; none where it is not known where it was.
    pub(crate) fn frame_place(
        &self,
        frame: Frame<'a>,
        saved: &SavedState<'a>,
    ) -> Option<Rc<FramePlace<'a>>> {
        let symbols: *const Symbols = self.program().symbols(saved.timestamp());
        let pc = frame.program_counter();
        let key = (frame.tracepoint(), pc, frame.is_step(), symbols);
        if let Some((known, place)) = &*self.frame_places.last.borrow()
            && *known == key
        {
            return Some(Rc::clone(place));
        }
        let known = self.frame_places.known.borrow().get(&key).cloned();
        let place = match known {
            Some(place) => place,
            None => {
                let made = Rc::new(self.make_frame_place(frame)?);
                let mut known = self.frame_places.known.borrow_mut();
                if known.len() >= MOST_PLACES {
                    known.clear();
                }
                known.insert(key, Rc::clone(&made));
                made
            }
        };
        *self.frame_places.last.borrow_mut() = Some((key, Rc::clone(&place)));
        Some(place)
    }

    fn make_frame_place(&self, frame: Frame<'a>) -> Option<FramePlace<'a>> {
        let state = FrameState::new(self.file(), frame)?;
        let here = self.cached_place(frame, state.pc());
        Some(FramePlace {
            shown: self.source_place(frame, state.pc()),
            marker: self.marker(frame).map(Into::into),
            stack_item: self.stack_item(frame, &state),
            values: self.list_values(frame, &state, &here),
            here,
            pc: frame.program_counter(),
            is_step: frame.is_step(),
            text: OnceCell::new(),
        })
    }

    fn list_values(
        &self,
        frame: Frame<'a>,
        state: &FrameState<'a>,
        here: &CachedPlace<'a>,
    ) -> Option<Vec<ListedValue<'a>>> {
        let mut values: Vec<ListedValue<'a>> = Vec::new();
        for text in self.items(frame, state) {
            // Its value may be the one before the write.
            if self.watched(frame, text).is_some() {
                return None;
            }
            let item = here.item(text);
            for (at, (name, plain)) in item.plain(here.walks()).into_iter().enumerate() {
                // One that is collected twice is shown once, if it has the same value.
                if values.iter().any(|known| *known.name == *name) {
                    return None;
                }
                values.push(ListedValue {
                    item: Rc::clone(&item),
                    at,
                    name: name.into(),
                    plain: plain.filter(|_| self.has_plain_values()),
                });
            }
        }
        Some(values)
    }

    /// Adds the values that one frame has, without those of the frame that it makes a span with. One that is there is not added
    /// again. Only the requested names are evaluated.
    pub(crate) fn add_values(
        &self,
        frame: Frame<'a>,
        saved: &SavedState<'a>,
        is_wanted: &dyn Fn(&str) -> bool,
        values: &mut Vec<SharedValue>,
    ) {
        let Some(place) = self.frame_place(frame, saved) else {
            return;
        };
        match &place.values {
            Some(list) => self.add_listed(frame, saved, (&place.here, list), is_wanted, values),
            None => self.add_expanded(frame, &place.here, is_wanted, values),
        }
    }

    /// Adds the values of a list that is the same for all frames of its place.
    fn add_listed(
        &self,
        frame: Frame<'a>,
        saved: &SavedState<'a>,
        (here, list): (&CachedPlace<'a>, &[ListedValue<'a>]),
        is_wanted: &dyn Fn(&str) -> bool,
        values: &mut Vec<SharedValue>,
    ) {
        let plain_state = Plain(saved);
        let mut state = None;
        // The names of one list differ.
        let of_others = values.len();
        for value in list.iter().filter(|value| is_wanted(&value.name)) {
            let plain = value.plain.as_ref();
            let shown = plain.and_then(|plain| Some((plain, plain.show(&plain_state)?)));
            let shared = match shown {
                Some((plain, shown)) => SharedValue {
                    expression: Rc::clone(&value.name),
                    type_name: Some(Rc::clone(plain.type_name())),
                    error: None,
                    shown,
                },
                None => {
                    if state.is_none() {
                        state = FrameState::new(self.file(), frame);
                    }
                    let Some(state) = &state else { return };
                    let Some(evaluated) = value.item.value(value.at, state) else {
                        continue;
                    };
                    let shared = self.value(here, Rc::clone(&value.name), evaluated, state);
                    if let Some(plain) = plain
                        && shared.error.is_none()
                    {
                        plain.remember(&plain_state, &shared.shown);
                    }
                    shared
                }
            };
            let others = values.get(..of_others).unwrap_or_default();
            if !others.iter().any(|other| other.is_shown_as(&shared)) {
                values.push(shared);
            }
        }
    }

    /// Adds the values of a list that is taken apart for this frame.
    fn add_expanded(
        &self,
        frame: Frame<'a>,
        here: &CachedPlace<'a>,
        is_wanted: &dyn Fn(&str) -> bool,
        values: &mut Vec<SharedValue>,
    ) {
        let Some(state) = FrameState::new(self.file(), frame) else {
            return;
        };
        for item in self.items(frame, &state) {
            for named in self.expand(frame, here, item, &state, is_wanted) {
                let shared = self.value(here, named.name.into(), named.value, &state);
                if !values.iter().any(|other| other.is_shown_as(&shared)) {
                    values.push(shared);
                }
            }
        }
    }
}
