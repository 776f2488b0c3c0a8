//! Unavailable registers, which recordings have and live programs do not.

use crate::target::StoppedThread;

/// Which bytes of the register blocks are known, from the frame of each number on, counted from the run's start; none
/// means all.
#[derive(Debug, Default)]
pub(crate) struct KnownRegisters(Vec<(u64, Option<Vec<bool>>)>);

impl KnownRegisters {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Has those of a run that is carried out elsewhere.
    pub(crate) fn adopt(&mut self, all: &[(u64, Option<Vec<bool>>)]) {
        self.0 = all.to_vec();
    }

    pub(crate) fn all(&self) -> &[(u64, Option<Vec<bool>>)] {
        &self.0
    }

    /// The known registers of a frame; `None` if all are known.
    pub(crate) fn of(&self, frame: u64) -> Option<&[bool]> {
        let after = self.0.partition_point(|(first, _)| *first <= frame);
        let (_, known) = self.0.get(after.checked_sub(1)?)?;
        known.as_deref()
    }

    /// Notes those of the next kept frame, if they differ from the previous one.
    pub(crate) fn note(&mut self, frame: u64, thread: &mut dyn StoppedThread) {
        let known = thread.known_registers();
        let last = self.0.last();
        if last.and_then(|(_, known)| known.as_deref()) != known {
            let known = known.map(<[bool]>::to_vec);
            self.0.push((frame, known));
        }
    }
}
