//! Values of frames that are numbers, computed without the general way through an expression.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tracewire_debuginfo::{SourcePlace, Symbols};
use tracewire_expr::{PlainState, PlainValue, PreparedItem, State as _};
use tracewire_model::{Address, RegisterNumber, TracepointNumber};
use tracewire_tracefile::{Frame, SavedState};

use crate::frame::Viewer;
use crate::place_cache::CachedPlace;
use crate::state::FrameState;
use crate::typed::SharedValue;

/// The capacity of the cache, as that of [`PlaceCache`](crate::place_cache::PlaceCache).
const MOST_PLACES: usize = 500;

/// What the items of a tracepoint's list at one place depend on, besides the saved state.
type Key = (TracepointNumber, Address, Option<bool>, *const Symbols);

/// The places that frames were looked at of.
#[derive(Debug, Default)]
pub(crate) struct PlainPlaces<'a> {
    known: RefCell<HashMap<Key, Rc<PlainPlace<'a>>>>,
    /// That of the last frame: most frames are of the same place as the one before.
    last: RefCell<Option<(Key, Rc<PlainPlace<'a>>)>>,
}

/// A tracepoint at one place.
#[derive(Debug)]
struct PlainPlace<'a> {
    source: Option<Rc<SourcePlace>>,
    here: Rc<CachedPlace<'a>>,
    /// The values of its list; none where the list has to be taken apart for each frame.
    values: Option<Vec<ListedValue<'a>>>,
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

impl<'a> Viewer<'a> {
    /// As [`place`](Self::place), of a frame whose state is known. Frames of one place share it.
    #[must_use]
    pub fn shared_place(
        &self,
        frame: Frame<'a>,
        saved: &SavedState<'a>,
    ) -> Option<Rc<SourcePlace>> {
        match self.plain_place(frame, saved) {
            Some(place) => place.source.clone(),
            None => self.place(frame).map(Rc::new),
        }
    }

    /// The values of a frame whose list is the same for all frames of its place.
    pub(crate) fn listed_values(
        &self,
        frame: Frame<'a>,
        saved: &SavedState<'a>,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<SharedValue>> {
        if self.span(frame).is_some() {
            return None;
        }
        let place = self.plain_place(frame, saved)?;
        let list = place.values.as_ref()?;
        let saved = Plain(saved);
        let mut state = None;
        let mut values = Vec::with_capacity(list.len());
        for value in list.iter().filter(|value| is_wanted(&value.name)) {
            if let Some(plain) = &value.plain
                && let Some(shown) = plain.show(&saved)
            {
                values.push(SharedValue {
                    expression: Rc::clone(&value.name),
                    type_name: Some(Rc::clone(plain.type_name())),
                    error: None,
                    shown,
                });
                continue;
            }
            if state.is_none() {
                state = Some(FrameState::new(self.file(), frame)?);
            }
            let Some(named) = value.item.value(value.at, state.as_ref()?) else {
                continue;
            };
            let is_known = named.value.is_ok();
            let (view, datum) = self.value(&place.here, named, state.as_ref()?, true);
            let shared = SharedValue::new(view, datum);
            if let Some(plain) = &value.plain
                && is_known
            {
                plain.remember(&saved, &shared.shown);
            }
            values.push(shared);
        }
        Some(values)
    }

    /// The place of a frame; none where its address is not known.
    fn plain_place(&self, frame: Frame<'a>, saved: &SavedState<'a>) -> Option<Rc<PlainPlace<'a>>> {
        let symbols: *const Symbols = self.program().symbols(saved.timestamp());
        let pc = frame.program_counter()?;
        let key = (frame.tracepoint(), pc, frame.is_step(), symbols);
        if let Some((known, place)) = &*self.plain.last.borrow()
            && *known == key
        {
            return Some(Rc::clone(place));
        }
        let known = self.plain.known.borrow().get(&key).cloned();
        let place = match known {
            Some(place) => place,
            None => {
                let made = Rc::new(self.make_plain_place(frame)?);
                let mut known = self.plain.known.borrow_mut();
                if known.len() >= MOST_PLACES {
                    known.clear();
                }
                known.insert(key, Rc::clone(&made));
                made
            }
        };
        *self.plain.last.borrow_mut() = Some((key, Rc::clone(&place)));
        Some(place)
    }

    fn make_plain_place(&self, frame: Frame<'a>) -> Option<PlainPlace<'a>> {
        let state = FrameState::new(self.file(), frame)?;
        let here = self.cached_place(frame, state.pc());
        let source = self.source_place(frame, state.pc()).source().cloned();
        let values = self.list_values(frame, &state, &here);
        Some(PlainPlace {
            source,
            here,
            values,
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
                    plain,
                });
            }
        }
        Some(values)
    }
}
