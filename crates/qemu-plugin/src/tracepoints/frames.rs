//! The frames of a run that a debugger's side keeps: in memory until it has them.

use tracewire_experiment::{CircularStore, FrameStore, LinearStore, StoreError};
use tracewire_model::ByteOrder;

/// Tracepoint number and size, before a frame's blocks.
const HEADER: usize = 6;

/// The frames of a run.
#[derive(Debug)]
pub struct Frames {
    store: Store,
    order: ByteOrder,
    /// How many frames of a linear store were given out last, and how many bytes they have.
    given: (u64, usize),
}

#[derive(Debug)]
enum Store {
    /// All of them, until there is no room.
    Linear(LinearStore),
    /// The newest.
    Circular(CircularStore),
}

impl Frames {
    /// Room for frames.
    ///
    /// # Errors
    /// If there is not as much memory.
    pub fn new(size: u64, circular: bool, order: ByteOrder) -> Result<Self, StoreError> {
        let store = if circular {
            Store::Circular(CircularStore::new(size, order)?)
        } else {
            Store::Linear(LinearStore::new(size)?)
        };
        Ok(Self {
            store,
            order,
            given: (0, 0),
        })
    }

    /// The bytes of the frames that were made after the first `since`, as far as they are still there, of `created` in all.
    pub fn since(&mut self, since: u64, created: u64) -> Vec<u8> {
        let present = self.frames();
        let skipped = since.saturating_sub(created.saturating_sub(present));
        match &self.store {
            Store::Linear(store) => {
                let bytes = store.bytes();
                let (mut number, mut place) = match self.given {
                    (number, place) if number <= skipped => (number, place),
                    _ => (0, 0),
                };
                while number < skipped {
                    place += length(bytes.get(place..).unwrap_or_default(), self.order);
                    number += 1;
                }
                self.given = (present, bytes.len());
                bytes.get(place..).unwrap_or_default().to_vec()
            }
            Store::Circular(store) => {
                let (first, second) = store.bytes();
                let bytes = [first, second].concat();
                let mut place = 0;
                for _ in 0..skipped {
                    place += length(bytes.get(place..).unwrap_or_default(), self.order);
                }
                bytes.get(place..).unwrap_or_default().to_vec()
            }
        }
    }

    fn store(&self) -> &dyn FrameStore {
        match &self.store {
            Store::Linear(store) => store,
            Store::Circular(store) => store,
        }
    }

    fn store_mut(&mut self) -> &mut dyn FrameStore {
        match &mut self.store {
            Store::Linear(store) => store,
            Store::Circular(store) => store,
        }
    }
}

/// How many bytes the frame at the beginning has.
fn length(bytes: &[u8], order: ByteOrder) -> usize {
    let Some([_, _, size @ ..]) = bytes.first_chunk::<HEADER>() else {
        debug_assert!(false, "a store has whole frames");
        return bytes.len();
    };
    let size = match order {
        ByteOrder::Little => u32::from_le_bytes(*size),
        ByteOrder::Big => u32::from_be_bytes(*size),
    };
    HEADER + size as usize
}

impl FrameStore for Frames {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        self.store_mut().append(frame)
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.given = (0, 0);
        self.store_mut().clear()
    }

    fn frames(&self) -> u64 {
        self.store().frames()
    }

    fn size(&self) -> Option<u64> {
        self.store().size()
    }

    fn used(&self) -> u64 {
        self.store().used()
    }

    fn is_circular(&self) -> bool {
        self.store().is_circular()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![number, 0, length, 0, 0, 0];
        frame.resize(HEADER + usize::from(length), number);
        frame
    }

    #[test]
    fn the_frames_after_a_number_are_given() {
        let all = [frame(1, 3), frame(2, 0), frame(3, 5)];
        for circular in [false, true] {
            let mut frames = Frames::new(100, circular, ByteOrder::Little).expect("memory");
            for one in &all {
                frames.append(one).expect("room");
            }
            for since in [3, 0, 2, 1, 3] {
                let rest = all.get(since..).unwrap_or_default().concat();
                assert_eq!(frames.since(since as u64, 3), rest, "{circular} {since}");
            }
        }
    }

    #[test]
    fn of_a_circular_store_the_newest_are_there() {
        let mut frames = Frames::new(20, true, ByteOrder::Little).expect("memory");
        for number in 0..5 {
            frames.append(&frame(number, 2)).expect("room");
        }
        let newest = [frame(3, 2), frame(4, 2)].concat();
        assert_eq!(frames.since(1, 5), newest);
        assert_eq!(frames.since(4, 5), frame(4, 2));
    }
}
