//! The stores against lists of frames.

use std::collections::VecDeque;

use proptest::prelude::*;
use tracewire_experiment::{CircularStore, FrameStore, LinearStore, StoreError};
use tracewire_model::ByteOrder;

/// A frame with this many bytes of blocks, identified by its filling.
fn frame(length: usize, filling: u8, order: ByteOrder) -> Vec<u8> {
    let mut frame = vec![0, 1];
    frame.extend(match order {
        ByteOrder::Little => (length as u32).to_le_bytes(),
        ByteOrder::Big => (length as u32).to_be_bytes(),
    });
    frame.resize(frame.len() + length, filling);
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_circular_store_keeps_the_newest_to_the_byte(
        size in 0..400_u64,
        lengths in proptest::collection::vec(0..120_usize, 0..200),
        big in any::<bool>(),
    ) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let mut store = CircularStore::new(size, order).unwrap();
        let mut kept: VecDeque<Vec<u8>> = VecDeque::new();
        for (filling, length) in lengths.into_iter().enumerate() {
            let frame = frame(length, filling as u8, order);
            let result = store.append(&frame);
            if frame.len() as u64 > size {
                prop_assert!(matches!(result, Err(StoreError::Full)));
            } else {
                prop_assert!(result.is_ok());
                kept.push_back(frame);
                while kept.iter().map(Vec::len).sum::<usize>() as u64 > size {
                    kept.pop_front();
                }
            }
            let all: Vec<u8> = kept.iter().flatten().copied().collect();
            let (one, two) = store.bytes();
            prop_assert_eq!([one, two].concat(), all);
            prop_assert_eq!(store.frames(), kept.len() as u64);
        }
        store.clear().unwrap();
        prop_assert_eq!((store.used(), store.frames(), store.size()), (0, 0, Some(size)));
    }

    #[test]
    fn a_linear_store_keeps_the_oldest_to_the_byte(
        size in 0..4000_u64,
        lengths in proptest::collection::vec(0..120_usize, 0..60),
    ) {
        let mut store = LinearStore::new(size).unwrap();
        let mut kept = vec![];
        let mut count = 0;
        for (filling, length) in lengths.into_iter().enumerate() {
            let frame = frame(length, filling as u8, ByteOrder::Little);
            let fits = (kept.len() + frame.len()) as u64 <= size;
            prop_assert_eq!(store.append(&frame).is_ok(), fits);
            if fits {
                kept.extend(frame);
                count += 1;
            }
            prop_assert_eq!(store.bytes(), &kept[..]);
            prop_assert_eq!((store.frames(), store.used()), (count, kept.len() as u64));
        }
    }
}

#[test]
fn a_size_that_no_machine_has_is_an_error() {
    assert!(matches!(
        LinearStore::new(u64::MAX),
        Err(StoreError::NoMemory(u64::MAX))
    ));
    assert!(matches!(
        CircularStore::new(1 << 62, ByteOrder::Little),
        Err(StoreError::NoMemory(_))
    ));
}
