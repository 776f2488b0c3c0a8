//! How several runs stood, told as one.

use std::collections::HashSet;

use tracewire_tracefile::{Status, StatusFields, TraceFile};

/// Frames are counted anew; created ones and the buffers are added up; it is running or circular if one is; the
/// start is the first, the stop the last, with the reason of the run that stopped last; texts that differ stand beside each
/// other. None when no file has a status.
pub(super) fn merge(files: &[TraceFile]) -> Option<Status> {
    let all: Vec<&StatusFields> = files
        .iter()
        .filter_map(|file| file.description().status())
        .map(|status| &status.fields)
        .collect();
    // Without times, the last of the files.
    let last = all.iter().max_by_key(|fields| fields.stop_time)?;
    let sum = |of: fn(&StatusFields) -> Option<u64>| {
        let told = all.iter().filter_map(|fields| of(fields));
        told.reduce(u64::saturating_add)
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
    let mut told = HashSet::new();
    let other = all.iter().flat_map(|fields| &fields.other);
    let other = other.filter(|field| told.insert(*field)).cloned().collect();
    Some(Status::from(StatusFields {
        running: all.iter().any(|fields| fields.running),
        stop_reason: last.stop_reason,
        stop_text: last.stop_text.clone(),
        stopping_tracepoint: None,
        frames: Some(files.iter().map(TraceFile::frame_count).sum()),
        frames_created: sum(|fields| fields.frames_created),
        buffer_size: sum(|fields| fields.buffer_size),
        buffer_free: sum(|fields| fields.buffer_free),
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
