//! Which files are parts of one run.

use tracewire_tracefile::TraceFile;

/// The files of each run, by their indices: files with the same start and stop of their run, and the same of every tracepoint and
/// variable. Their counts are those of the whole run.
pub(super) fn runs(files: &[TraceFile]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for (place, file) in files.iter().enumerate() {
        let known = runs.iter_mut().find(|run| {
            let first = run.first().and_then(|first| files.get(*first));
            first.is_some_and(|first| is_same_run(first, file))
        });
        match known {
            Some(run) => run.push(place),
            None => runs.push(vec![place]),
        }
    }
    runs
}

fn is_same_run(one: &TraceFile, other: &TraceFile) -> bool {
    let times = |file: &TraceFile| {
        let fields = &file.description().status()?.fields;
        let start = fields.start_time.filter(|start| *start > 0)?;
        Some((start, fields.stop_time))
    };
    let (one_times, other_times) = (times(one), times(other));
    let (one, other) = (one.description(), other.description());
    one_times.is_some()
        && one_times == other_times
        && one.tracepoints() == other.tracepoints()
        && one.variables() == other.variables()
}
