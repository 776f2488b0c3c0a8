//! `$old` of a watch: the watched object as it was before the write. The frame has its bytes in a trace state variable, and its
//! type is that of the object.

use tracewire_expr::{NamedValue, State};
use tracewire_model::{Address, ByteOrder, OLD_VALUE, RegisterNumber, WatchedObject};
use tracewire_tracefile::Frame;

use crate::frame::Viewer;
use crate::place_cache::CachedPlace;
use crate::state::FrameState;

/// A frame with the watched object as it was.
struct Before<'s, 'a> {
    state: &'s FrameState<'a>,
    address: Address,
    bytes: Vec<u8>,
}

impl State for Before<'_, '_> {
    fn pc(&self) -> Address {
        self.state.pc()
    }

    fn register(&self, register: RegisterNumber) -> Option<Vec<u8>> {
        self.state.register(register)
    }

    fn memory(&self, address: Address, bytes: &mut [u8], known: &mut [bool]) {
        self.state.memory(address, bytes, known);
        for (index, old) in (0..).zip(&self.bytes) {
            let at = self.address.0.wrapping_add(index).wrapping_sub(address.0);
            if let Ok(at) = usize::try_from(at)
                && let (Some(byte), Some(known)) = (bytes.get_mut(at), known.get_mut(at))
            {
                *byte = *old;
                *known = true;
            }
        }
    }

    fn variable(&self, name: &str) -> Option<i64> {
        self.state.variable(name)
    }
}

/// The bytes that a number of this size has in memory.
fn bytes_of(number: i64, size: usize, order: ByteOrder) -> Vec<u8> {
    let whole = order.u64_bytes(number.cast_unsigned());
    let size = size.min(whole.len());
    match order {
        ByteOrder::Little => whole[..size].to_vec(),
        ByteOrder::Big => whole[whole.len() - size..].to_vec(),
    }
}

impl<'a> Viewer<'a> {
    /// The object that a frame's tracepoint watches, if an item is `$old`.
    pub(crate) fn watched(&self, frame: Frame<'a>, item: &str) -> Option<(Address, WatchedObject)> {
        if item.strip_prefix('$') != Some(OLD_VALUE) {
            return None;
        }
        let definition = self.definition(frame.tracepoint())?;
        let watched = definition.source.watched_object()?;
        Some((definition.address, watched)).filter(|(_, watched)| watched.has_old_value())
    }

    /// The values of an item of a list.
    pub(crate) fn expand(
        &self,
        frame: Frame<'a>,
        here: &CachedPlace<'a>,
        item: &str,
        state: &FrameState<'a>,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Vec<NamedValue> {
        if let Some((address, watched)) = self.watched(frame, item)
            && let Some(old) = state.variable(OLD_VALUE)
        {
            if !is_wanted(item) {
                return Vec::new();
            }
            let size = usize::try_from(watched.length).unwrap_or(usize::MAX);
            let before = Before {
                state,
                address,
                bytes: bytes_of(old, size, self.file().byte_order()),
            };
            let mut values = here.item(&watched.expression).expand(&before);
            for value in &mut values {
                item.clone_into(&mut value.name);
            }
            return values;
        }
        here.item(item).expand_some(state, is_wanted)
    }
}
