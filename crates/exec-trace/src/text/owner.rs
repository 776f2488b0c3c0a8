//! To which instruction a line of memory or a register belongs.

use super::{Dialect, LineState, Lines};
use crate::record::{CpuNumber, Owner, Record, Time};

/// How many instructions before a line are looked at for one of its time.
pub const WINDOW: usize = 64;

/// How many lines after a line are looked at for an instruction of its time.
pub const AHEAD: usize = 64;

type Key = (Time, Option<CpuNumber>);

/// The latest instructions, and what comes next once that was asked.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    latest: Option<Key>,
    /// The latest instructions by their number modulo the window's size.
    ring: Box<[Key; WINDOW]>,
    count: u64,
    /// The next instruction, found since the latest one: it does not change before it comes.
    next: Option<Option<Key>>,
}

impl Owners {
    pub(super) fn new() -> Self {
        Self {
            latest: None,
            ring: Box::new([(Time::ZERO, None); WINDOW]),
            count: 0,
            next: None,
        }
    }

    #[inline]
    pub(super) fn instruction(&mut self, time: Time, cpu: Option<CpuNumber>) {
        self.latest = Some((time, cpu));
        self.ring[self.count as usize % WINDOW] = (time, cpu);
        self.count += 1;
        self.next = None;
    }

    /// The owner of a line. `next` finds the next instruction.
    #[inline]
    pub(super) fn of(
        &mut self,
        state: &LineState,
        cpu: Option<CpuNumber>,
        next: impl FnOnce() -> Option<Key>,
    ) -> Owner {
        if let Some(latest) = self.latest
            && fits(latest.1, cpu)
            && (!state.explicit || latest.0 == state.time)
        {
            return Owner::Latest;
        }
        self.search(state, cpu, next)
    }

    #[cold]
    fn search(
        &mut self,
        state: &LineState,
        cpu: Option<CpuNumber>,
        next: impl FnOnce() -> Option<Key>,
    ) -> Owner {
        let same_time = |key: &Key| key.0.compare(state.time).is_eq();
        if state.explicit
            && let Some(owner) = self.back(|key| fits(key.1, cpu) && same_time(key))
        {
            return owner;
        }
        if state.explicit {
            let next = *self.next.get_or_insert_with(next);
            if next.is_some_and(|key| fits(key.1, cpu) && same_time(&key)) {
                return Owner::Next;
            }
        }
        match self.back(|key| fits(key.1, cpu)) {
            Some(owner) => owner,
            None if self.count > 0 => Owner::Latest,
            None => Owner::Start,
        }
    }

    /// The latest instruction of the window that is meant.
    fn back(&self, is_selected: impl Fn(&Key) -> bool) -> Option<Owner> {
        let there = self.count.min(WINDOW as u64);
        (0..there)
            .find(|back| is_selected(&self.ring[(self.count - 1 - back) as usize % WINDOW]))
            .map(|back| match back {
                0 => Owner::Latest,
                _ => Owner::Earlier(back as u32),
            })
    }
}

/// Whether an instruction of one cpu can be that of a line of another: not where both are given and differ.
fn fits(instruction: Option<CpuNumber>, line: Option<CpuNumber>) -> bool {
    match (instruction, line) {
        (Some(instruction), Some(line)) => instruction == line,
        _ => true,
    }
}

/// The next instruction after the line at `start`, within [`AHEAD`] lines.
#[cold]
pub(super) fn next_instruction<D: Dialect>(
    dialect: &D,
    text: &[u8],
    start: usize,
    mut state: LineState,
) -> Option<Key> {
    let mut lines = Lines::new(text, start, text.len());
    lines.next();
    lines.take(AHEAD).find_map(|(_, content)| {
        let mut found = None;
        state.explicit = false;
        let _ = dialect.line(&mut state, content, &mut |_, record| {
            if let Record::Instruction(instruction) = record {
                found = Some((instruction.time, instruction.cpu));
            }
        });
        found
    })
}
