//! What recordings need that live programs do not: registers that are not known, and addresses as GDB has them.

use crate::experiment::Experiment;
use crate::store::FrameStore;
use crate::target::StoppedThread;

impl<S: FrameStore> Experiment<S> {
    /// Which bytes of the register block of a frame are known, of the frames that are kept the one of this number; none
    /// where all of them are.
    #[must_use]
    pub fn known_registers(&self, frame: u64) -> Option<&[bool]> {
        let dropped = self.created.saturating_sub(self.store.frames());
        let number = dropped.saturating_add(frame);
        let after = self
            .known_registers
            .partition_point(|(first, _)| *first <= number);
        let (_, known) = self.known_registers.get(after.checked_sub(1)?)?;
        known.as_deref()
    }

    /// Which bytes of the register blocks are known, from the frame of each number on, counted from the run's start; none
    /// means all.
    #[must_use]
    pub fn known_registers_of_frames(&self) -> &[(u64, Option<Vec<bool>>)] {
        &self.known_registers
    }

    /// Lets frames tell addresses as GDB has those of 32-bit MIPS: extended with their sign. It finds memory at no others.
    pub const fn extend_addresses(&mut self) {
        self.collector.pieces.extends_sign = true;
    }

    /// Takes note of the registers that are known of the frame that is about to be kept, if they are not those of the one
    /// before.
    pub(crate) fn note_known_registers(&mut self, thread: &mut dyn StoppedThread) {
        if !self.has_registers {
            return;
        }
        let known = thread.known_registers();
        let last = self.known_registers.last();
        if last.and_then(|(_, known)| known.as_deref()) != known {
            let known = known.map(<[bool]>::to_vec);
            self.known_registers.push((self.created, known));
        }
    }
}
