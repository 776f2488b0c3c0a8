//! The end of a run of several processes: all of them are left in the same stops.
//!
//! Each process has one turn, in which its tracepoints are taken out, threads are run out of pads, and the pads go. Threads that
//! are still in pads then wait for something. All threads run for a while after the turns of all, and the process has
//! another turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracewire_target_linux::{Event, ThreadsInPads};

use crate::error::RecordError;
use crate::origin::{Origin, leave};
use crate::processes::{Member, run_members};
use crate::report::Ending;
use crate::together::{Gate, Halting as _, Place, Work};

/// How long threads are run out of pads while the others are stopped. They nearly always need a tenth of it. Threads of a process that has
/// another turn stop when they get a processor, and those of the others run then.
const RUN_OUT: Duration = Duration::from_millis(12);
/// How often it is looked whether threads have left pads.
const TURN: Duration = Duration::from_millis(5);
/// How long they may take. What is in a pad for longer sleeps there, and is dealt with one by one.
const LONGEST: Duration = Duration::from_millis(500);

/// Leaves the processes of a thread, together with those of the others of the run, and calls `end` for each.
pub(crate) fn leave_together<'r>(
    mut members: Vec<Member<'r>>,
    ending: &dyn Fn() -> Result<Ending, RecordError>,
    place: &Arc<Place>,
    mut end: impl FnMut(Member<'r>, Result<Ending, RecordError>),
) {
    members.halt();
    place.begin(Work::TakeOut, &mut members);
    let mut inside = ThreadsInPads::default();
    for member in &mut members {
        member.recording.take_out(ending());
        inside.extend(member.recording.parts().0.run_out_of_pads(RUN_OUT));
    }
    if inside.is_empty() {
        leave_pads(&mut members);
        place.end(&mut members);
        place.leave();
    } else {
        place.end(&mut members);
        for (member, ending) in run_out(&mut members, inside, place) {
            end(member, ending);
        }
        members.halt();
        place.begin(Work::Leave, &mut members);
        leave_pads(&mut members);
        place.end(&mut members);
    }
    for member in &mut members {
        member.recording.let_go();
    }
    for member in members {
        end(member, ending());
    }
}

fn leave_pads(members: &mut [Member<'_>]) {
    for member in members {
        member.recording.leave_pads();
    }
}

/// Lets all threads run until those in pads have left them. Returns the processes that have ended meanwhile.
fn run_out<'r>(
    members: &mut Vec<Member<'r>>,
    inside: ThreadsInPads,
    place: &Arc<Place>,
) -> Vec<(Member<'r>, Result<Ending, RecordError>)> {
    let mut ended = Vec::new();
    let Some(first) = members.first_mut() else {
        return ended;
    };
    // Those that one has made have the same interrupter.
    let interrupter = first.recording.parts().0.interrupter();
    let (is_over, own) = (Arc::new(AtomicBool::new(false)), Arc::clone(place));
    let over = Arc::clone(&is_over);
    let waits = std::thread::Builder::new()
        .name("pads".to_owned())
        .spawn(move || {
            let begun = Instant::now();
            while !inside.have_run() && begun.elapsed() < LONGEST {
                std::thread::sleep(TURN);
            }
            own.wait(Gate::Empty);
            over.store(true, Ordering::Release);
            interrupter.interrupt();
        });
    // Without it, threads are run out of pads while the others are stopped.
    if waits.is_err() {
        return ended;
    }
    while !members.is_empty() && !is_over.load(Ordering::Acquire) {
        let (at, event) = run_members(members);
        match event {
            Ok(event @ (Event::Exited(_) | Event::Killed { .. })) => {
                ended.push((members.swap_remove(at), Ok(Ending::Program(event))));
            }
            Ok(Event::Children) => {
                if let Some(member) = members.get_mut(at) {
                    for (child, _) in member.recording.parts().0.take_children() {
                        leave(child, Origin::Forked);
                    }
                }
            }
            Ok(Event::Interrupted) => {}
            Ok(event) => {
                // The run is over already, however it goes on.
                if let Some(Err(error)) =
                    (members.get_mut(at)).map(|member| member.recording.happened(event))
                {
                    ended.push((members.swap_remove(at), Err(error)));
                }
            }
            Err(error) => ended.push((members.swap_remove(at), Err(error.into()))),
        }
    }
    ended
}
