//! Merges the status of several runs.

use std::collections::HashSet;

use tracewire_model::{Status, StatusFields};
use tracewire_tracefile::TraceFile;

use super::number::Numbering;
use crate::part::frames_size;

/// Frames are counted again; the created ones and the buffers of different runs are added up; it is running or circular if one is.
/// The start is the first, the stop is the last, with the reason of the run that stopped last; different texts are joined. `None`
/// when no file has a status.
pub(super) fn merge(
    files: &[TraceFile],
    runs: &[Vec<usize>],
    numbering: &Numbering,
) -> Option<Status> {
    let all: Vec<&StatusFields> = files.iter().filter_map(fields).collect();
    // Without times, the last of the files.
    let (last_file, last) = files
        .iter()
        .enumerate()
        .filter_map(|(place, file)| Some((place, fields(file)?)))
        .max_by_key(|(_, fields)| fields.stop_time)?;
    let counts: Vec<Counts> = runs
        .iter()
        .map(|run| Counts::of(run.iter().filter_map(|place| files.get(*place))))
        .collect();
    let sum = |of: fn(&Counts) -> Option<u64>| {
        let known = counts.iter().filter_map(of);
        known.reduce(u64::saturating_add)
    };
    let any = |of: fn(&StatusFields) -> Option<bool>| {
        all.iter()
            .filter_map(|fields| of(fields))
            .reduce(|one, other| one | other)
    };
    let text = |of: fn(&StatusFields) -> &Option<String>| {
        let mut texts: Vec<&str> = Vec::new();
        for text in all.iter().filter_map(|fields| of(fields).as_deref()) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        (!texts.is_empty()).then(|| texts.join("; "))
    };
    let mut seen = HashSet::new();
    let other = all.iter().flat_map(|fields| &fields.other);
    let other = other.filter(|field| seen.insert(*field)).cloned().collect();
    Some(Status::from(StatusFields {
        running: all.iter().any(|fields| fields.running),
        stop_reason: last.stop_reason,
        stop_text: last.stop_text.clone(),
        stopping_tracepoint: last
            .stopping_tracepoint
            .and_then(|number| numbering.defined_tracepoint(last_file, number)),
        frames: Some(files.iter().map(TraceFile::frame_count).sum()),
        frames_created: sum(|run| run.created),
        buffer_size: sum(|run| run.size),
        buffer_free: sum(|run| run.free),
        circular: any(|fields| fields.circular),
        disconnected: any(|fields| fields.disconnected),
        start_time: all.iter().filter_map(|fields| fields.start_time).min(),
        stop_time: all.iter().filter_map(|fields| fields.stop_time).max(),
        notes: text(|fields| &fields.notes),
        user: text(|fields| &fields.user),
        sealed: true,
        other,
    }))
}

fn fields(file: &TraceFile) -> Option<&StatusFields> {
    Some(&file.description().status()?.fields)
}

/// The counts of one run in all its parts.
#[derive(Clone, Copy, Default)]
struct Counts {
    created: Option<u64>,
    size: Option<u64>,
    free: Option<u64>,
}

impl Counts {
    fn of<'f>(parts: impl Iterator<Item = &'f TraceFile>) -> Self {
        let mut counts = Self::default();
        let mut frames = 0;
        for part in parts {
            frames += part.frame_count();
            let Some(fields) = fields(part) else {
                continue;
            };
            counts.created = counts.created.max(fields.frames_created);
            // The frames of the other parts count as free in a part's own count.
            counts.free = match counts.free {
                Some(free) => Some(free.saturating_sub(frames_size(part))),
                None => fields.buffer_free,
            };
            counts.size = counts.size.max(fields.buffer_size);
        }
        // More than the run made only where parts have frames in common.
        counts.created = counts.created.map(|created| created.max(frames));
        counts
    }
}
