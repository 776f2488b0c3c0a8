//! The order of the frames of several files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tracewire_tracefile::Frame;

use crate::frame::Viewer;

/// The frames of several files by their times, those of one file in its order.
pub fn by_time<'v, 'a>(
    viewers: &'v [Viewer<'a>],
) -> impl Iterator<Item = (&'v Viewer<'a>, Frame<'a>)> {
    let mut files: Vec<_> = viewers
        .iter()
        .map(|viewer| {
            // A frame without a time comes with the one before it.
            let mut last = 0;
            viewer.file().frames().map(move |frame| {
                last = frame.timestamp().unwrap_or(last).max(last);
                (last, frame)
            })
        })
        .collect();
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut heads: Vec<Option<Frame<'a>>> = Vec::new();
    for (index, file) in files.iter_mut().enumerate() {
        let head = file.next();
        if let Some((time, _)) = head {
            next.push(Reverse((time, index)));
        }
        heads.push(head.map(|(_, frame)| frame));
    }
    std::iter::from_fn(move || {
        let Reverse((_, index)) = next.pop()?;
        let following = files.get_mut(index)?.next();
        if let Some((time, _)) = following {
            next.push(Reverse((time, index)));
        }
        let head = heads.get_mut(index)?;
        let frame = std::mem::replace(head, following.map(|(_, frame)| frame));
        Some((viewers.get(index)?, frame?))
    })
}
