//! State that the tracer shares with running pads: thread numbers, whether the tracer lives, the time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracewire_arch::X86Registers;
use tracewire_fail_point::fail_point;
use tracewire_jump_pad::call_events::CallRings;
use tracewire_jump_pad::{Features, PadMemory, PadNews, Shared, SharedLayout};

use super::journal::{self, FramesFileNote, Journal};
use super::{Fast, Ownership, SharedMemory};
use crate::abi::Abi;
use crate::maps::AuxiliaryVector;
use crate::memory::Memory;
use crate::ptrace::{PAGE_SIZE, Tid};
use crate::ring_memory::Claim;
use crate::thread::State;
use crate::threads::Threads;

/// The memory that pads use, and the threads that are entered in it.
#[derive(Debug)]
pub(crate) struct SharedState {
    shared: Shared,
    news: Arc<PadNews>,
    /// The threads by their `fs` bases.
    threads: BTreeMap<u64, Tid>,
    /// The program's only thread, if there are no others.
    sole: Option<Tid>,
    pub(super) journal: Journal,
    /// The rings of threads whose calls are followed.
    call_rings: Option<Rc<RefCell<CallRings>>>,
    /// Held as long as the tracer lives.
    _ownership: Ownership,
}

impl SharedState {
    /// Has pads read `fs` bases by the instruction for it.
    fn note_foreign_base(&self) {
        self.shared.note_foreign_base();
        if let Some(rings) = &self.call_rings {
            rings.borrow().note_foreign_base();
        }
    }
}

impl Drop for SharedState {
    fn drop(&mut self) {
        self.news.gone.store(true, Ordering::Release);
    }
}

impl Fast {
    /// Sets up memory for pads that the program has mapped too. The previous one is already released.
    pub(crate) fn attend(
        &mut self,
        threads: &Threads,
        program: &Memory,
        memory: SharedMemory,
        claim: Option<Claim>,
        layout: SharedLayout,
        registers: X86Registers,
    ) -> Result<PadMemory, String> {
        let owner = usize::try_from(layout.owner()).map_err(|error| error.to_string())?;
        let ownership = memory.own(owner).map_err(|error| error.to_string())?;
        fail_point!("attend/owned");
        let base = memory.as_ptr();
        // SAFETY: the mapping has the layout's size, and the `SharedMemory` returned with the value keeps it mapped.
        let shared = unsafe { Shared::create(base, layout) };
        fail_point!("attend/set-up");
        // SAFETY: as above; `Ownership` keeps the mapping, and is kept beside the value.
        let own = unsafe { Shared::open(base, memory.size() as u64) }
            .map_err(|error| error.to_string())?;
        let news = Arc::new(PadNews::default());
        self.attended = Some(SharedState {
            shared: own,
            news: Arc::clone(&news),
            threads: BTreeMap::new(),
            sole: None,
            // At the end, where a later tracer looks for it; the memory may be larger than the layout.
            journal: Journal::create(
                &memory,
                memory.size() as u64 - journal::SIZE,
                threads.process(),
            ),
            call_rings: None,
            _ownership: ownership,
        });
        for id in threads.all_stopped() {
            self.introduce(threads, program, id);
        }
        Ok(PadMemory {
            shared,
            address: memory.address(),
            registers,
            features: features(threads.any()),
            news,
            keeper: Box::new((memory, claim)),
        })
    }

    /// Gives the threads rings for call events from now on.
    pub(crate) fn follow_calls(&mut self, threads: &Threads, rings: &Rc<RefCell<CallRings>>) {
        let Some(attended) = &mut self.attended else {
            debug_assert!(false, "what pads share has been set up");
            return;
        };
        attended.call_rings = Some(Rc::clone(rings));
        let mut rings = rings.borrow_mut();
        if attended.shared.has_foreign_base() {
            rings.note_foreign_base();
        }
        for (base, id) in &attended.threads {
            rings.begin_thread(crate::error::thread_id(*id), *base);
        }
        rings.set_sole(threads.only().map(crate::error::thread_id));
    }

    /// Writes the description of the frames of pads to the journal.
    pub(crate) fn write_note(&self, description: &[u8]) {
        if let Some(attended) = &self.attended {
            attended.journal.note(description);
        }
    }

    /// Where word is left of the file that the frames of pads go to.
    pub(crate) fn frames_file_note(&self) -> Option<FramesFileNote> {
        let attended = self.attended.as_ref();
        attended.map(|attended| attended.journal.frames_file())
    }

    /// Enters a stopped thread in the pads' table, if it is not there.
    pub(crate) fn introduce(&mut self, threads: &Threads, program: &Memory, id: Tid) {
        let Some(attended) = &mut self.attended else {
            return;
        };
        let sole = threads.only();
        if attended.sole != sole {
            attended.sole = sole;
            let sole = sole.map(crate::error::thread_id);
            attended.shared.set_sole_thread(sole);
            if let Some(rings) = &attended.call_rings {
                rings.borrow_mut().set_sole(sole);
            }
        }
        if attended.threads.values().any(|known| *known == id) {
            return;
        }
        let Some(registers) = threads.registers(id) else {
            return;
        };
        let base = registers.fs_base;
        if base == 0 {
            return;
        }
        if let Some(other) = attended.threads.get(&base).copied() {
            // A thread that shares its pointer with the thread that made it belongs to that one. But the memory of a
            // thread that ends is given to the next one before the end is reported.
            if !is_leaving(other) {
                return;
            }
            let other = crate::error::thread_id(other);
            attended.shared.forget_thread(other);
            if let Some(rings) = &attended.call_rings {
                rings.borrow_mut().end_thread(other);
            }
        }
        attended.threads.insert(base, id);
        if program.read_u64(base) != Some(base) {
            attended.note_foreign_base();
        }
        let id = crate::error::thread_id(id);
        attended.shared.set_thread(base, id);
        if let Some(rings) = &attended.call_rings {
            rings.borrow_mut().begin_thread(id, base);
        }
    }

    /// Asks threads that are not in the pads' table to stop, so that they are entered when they go on.
    pub(crate) fn look_for_strangers(&self, threads: &Threads) {
        let Some(attended) = &self.attended else {
            return;
        };
        for thread in threads.iter() {
            if thread.process == threads.process()
                && matches!(thread.state, State::Running(_))
                && thread.can_be_stopped()
                && !attended.threads.values().any(|known| *known == thread.id)
            {
                thread.interrupt();
            }
        }
    }

    /// Notes that the first word of a thread's memory could not be read in a pad.
    pub(super) fn note_foreign_base(&self) {
        if let Some(attended) = &self.attended {
            attended.note_foreign_base();
        }
    }

    pub(super) fn count_without_stack(&self) {
        if let Some(attended) = &self.attended {
            attended.news.without_stack.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a probe's counter was incremented, at this address of a process.
    pub(crate) fn note_raised(&mut self, marker: u64, counter: u64, process: Tid) {
        if let Some(attended) = &mut self.attended {
            let process = process.cast_unsigned();
            attended.journal.add_counter(marker, counter, process);
        }
    }

    /// Notes that a probe's counter is about to be decremented.
    pub(crate) fn note_lowered(&mut self, marker: u64) {
        if let Some(attended) = &mut self.attended {
            attended.journal.remove_counter(marker);
        }
    }

    /// Notes that a thread has ended.
    pub(crate) fn forget_thread(&mut self, id: Tid) {
        if let Some(attended) = &mut self.attended {
            attended.threads.retain(|_, thread| *thread != id);
            let id = crate::error::thread_id(id);
            attended.shared.forget_thread(id);
            if let Some(rings) = &attended.call_rings {
                rings.borrow_mut().end_thread(id);
            }
        }
    }
}

/// Memory that the pad at the hook shares with the tracer: the futex that shows whether the tracer lives, and the
/// jump's journal.
#[derive(Debug)]
pub(crate) struct HookMemory {
    hook: u64,
    /// Its address in the program, and its size.
    place: (u64, u64),
    journal: Journal,
    /// Held as long as the tracer lives.
    _ownership: Ownership,
}

impl HookMemory {
    /// The offset of the futex.
    pub(super) const OWNER: u64 = 64;

    /// Begins a journal in memory for the hook at this address, and marks the tracer as alive.
    pub(super) fn create(hook: u64, memory: &SharedMemory, process: Tid) -> std::io::Result<Self> {
        Ok(Self {
            hook,
            place: (memory.address().0, memory.size() as u64),
            _ownership: memory.own(Self::OWNER as usize)?,
            journal: Journal::create(memory, PAGE_SIZE, process),
        })
    }

    /// The address of the hook.
    pub(super) const fn hook(&self) -> u64 {
        self.hook
    }

    /// Its address in the program, and its size.
    pub(super) const fn place(&self) -> (u64, u64) {
        self.place
    }

    pub(super) const fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }
}

impl Fast {
    /// Drops the hook: its jump is removed, and its memory is freed with that of the other pads.
    pub(crate) fn give_hook_up(&mut self) {
        if let Some(memory) = self.hook.take() {
            let (address, size) = memory.place();
            self.mappings.note(address, size);
        }
    }

    /// The pad of the jump at the hook.
    pub(super) fn hook_pad(&self) -> Option<u64> {
        Some(self.jumps.get(&self.hook.as_ref()?.hook())?.pad)
    }
}

/// Whether a thread has begun to end, or has ended.
fn is_leaving(thread: Tid) -> bool {
    /// `PF_EXITING` of the kernel.
    const EXITING: u64 = 4;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{thread}/stat")) else {
        return true;
    };
    // After the name, which can contain any byte: state, parent, group, session, terminal, its group, flags.
    let flags = stat
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

/// The features of this machine, for a program that runs on it.
pub(super) fn features(thread: Tid) -> Features {
    /// The bit of `AT_HWCAP2` that shows that the kernel allows `rdfsbase`.
    const FSGSBASE: u64 = 2;
    let hwcap2 = AuxiliaryVector::read(thread, Abi::Bits64.bytes())
        .ok()
        .and_then(|vector| vector.get(libc::AT_HWCAP2))
        .unwrap_or(0);
    Features {
        fsgsbase: hwcap2 & FSGSBASE != 0,
        ..Features::of_this_machine()
    }
}
