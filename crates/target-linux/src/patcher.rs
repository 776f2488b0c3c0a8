//! Changes to the memory of a traced process: breakpoints, jumps, pads, and memory for them.

use std::ops::Range;

use tracewire_fail_point::fail_point;
use tracewire_jump_pad::{PadMemory, SharedLayout};
use tracewire_model::Address;

use crate::address_space::{NoMemory, error_of};
use crate::fast::{ChildMemory, JOURNAL_SIZE, Mapping, NoJump, SharedMemory};
use crate::orphan;
use crate::ptrace::PAGE_SIZE;
use crate::ring_memory::{Claim, has_free_addresses};
use crate::tracee::{Children, Tracee};

/// A process with all threads stopped, whose memory is to be changed.
pub(crate) struct Patcher<'t> {
    pub(crate) tracee: &'t mut Tracee,
}

impl Patcher<'_> {
    /// Sets up memory for pads.
    pub(crate) fn attend(&mut self, layout: SharedLayout) -> Result<PadMemory, String> {
        if !self.tracee.program.is_64_bit() {
            return Err("pads are 64-bit code, and the program is not".to_owned());
        }
        self.tracee.fast.leave_attended();
        // A server may make a child for each request. Megabytes that it never uses would cost more than its work.
        let busy = match self.tracee.fast.is_copy() {
            true => Vec::new(),
            false => layout.busy(),
        };
        let claim = match layout.has_large_rings() {
            true => {
                let (start, end) = layout.rings();
                Some(Claim::new(self.tracee.threads.any(), end - start)?)
            }
            false => None,
        };
        let size = layout.size() + JOURNAL_SIZE;
        let memory = match self.tracee.fast.mappings.take_prepared(size) {
            Some(memory) => {
                // The pages are there; this only maps them. Where the kernel refuses, there are page faults.
                for part in &busy {
                    let start = part.start.next_multiple_of(PAGE_SIZE);
                    let length = part.end.next_multiple_of(PAGE_SIZE).saturating_sub(start);
                    self.advise(&memory, start, length, libc::MADV_POPULATE_READ);
                }
                memory
            }
            None => match self.tracee.fast.take_pads_of_child(size) {
                Some(memory) => memory,
                None => {
                    if let Some(small) = self.tracee.fast.mappings.give_prepared_up() {
                        self.tracee.unmap_page(small.start, small.end - small.start);
                    }
                    let memory = self.share_memory_partly(size, &busy)?;
                    self.keep_from_dumps(&memory);
                    memory
                }
            },
        };
        let is_large = claim.is_some();
        let registers = self.tracee.collecting.settings().registers;
        let Tracee {
            fast,
            threads,
            memory: program,
            ..
        } = &mut *self.tracee;
        let pads = fast.attend(threads, program, memory, claim, layout, registers)?;
        if !is_large && self.tracee.children == Children::Followed {
            self.prepare_children();
        }
        Ok(pads)
    }

    /// Has memory for the pads of the children that the process makes, if it has pads itself.
    pub(crate) fn prepare_children(&mut self) {
        let fast = &self.tracee.fast;
        let Some(pads_size) = fast.memory().map(|memory| memory.size() as u64) else {
            return;
        };
        if fast.has_child_memory() || !has_free_addresses(self.tracee.threads.any()) {
            return;
        }
        // Where it cannot be had, each child maps its own.
        if let Ok(memory) = self.make_shared(ChildMemory::size(pads_size), &[]) {
            self.keep_from_dumps(&memory);
            let memory = ChildMemory::new(memory, pads_size);
            self.tracee.fast.note_child_memory(memory);
            self.prepare_child_hooks();
            fail_point!("share/children");
        }
    }

    /// Has memory for pads that are to be set up later with a layout like this one. Nothing uses it until then.
    pub(crate) fn prepare(&mut self, layout: SharedLayout) {
        if !self.tracee.program.is_64_bit() || layout.has_large_rings() {
            return;
        }
        self.unmap_unused();
        // Where it cannot be had, the reason is reported when the pads are set up.
        if let Ok(memory) = self.make_shared(layout.size() + JOURNAL_SIZE, &[]) {
            self.tracee
                .fast
                .mappings
                .prepare(memory.clone(), layout.busy());
            self.keep_from_dumps(&memory);
            fail_point!("share/prepared");
        }
    }

    /// Unmaps what a killed tracer has [prepared](Self::prepare) and not used.
    fn unmap_unused(&mut self) {
        let thread = self.tracee.threads.any();
        let process = self.tracee.threads.process();
        for unused in orphan::unused(&self.tracee.memory, thread, process) {
            self.tracee
                .unmap_page(unused.start, unused.end - unused.start);
        }
    }

    /// Keeps the memory out of core dumps, which would have the frames, too.
    fn keep_from_dumps(&mut self, memory: &SharedMemory) {
        self.advise(memory, 0, memory.size() as u64, libc::MADV_DONTDUMP);
    }

    /// Tells the kernel about a part of the memory.
    fn advise(&mut self, memory: &SharedMemory, start: u64, length: u64, advice: libc::c_int) {
        let start = memory.address().0 + start;
        let all = [start, length, advice as u64, 0, 0, 0];
        self.tracee.system_call(libc::SYS_madvise, all);
    }

    /// As [`share_memory_of`](Self::share_memory_of). The `busy` parts are there at once, so that no access to them is a
    /// page fault; the others take no memory until they are used.
    pub(crate) fn share_memory_partly(
        &mut self,
        size: u64,
        busy: &[Range<u64>],
    ) -> Result<SharedMemory, String> {
        self.make_shared(size, busy)
            .map_err(|error| error.to_string())
    }

    pub(crate) fn make_shared(
        &mut self,
        size: u64,
        busy: &[Range<u64>],
    ) -> Result<SharedMemory, NoJump> {
        const NAME: &[u8] = b"tracewire\0";
        const PRIVATE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let size = size.next_multiple_of(PAGE_SIZE);
        let length = usize::try_from(size).map_err(|_| NoMemory::NoRoom)?;
        let thread = self
            .tracee
            .volunteer()
            .ok_or_else(|| self.tracee.why_no_call())?;
        fail_point!("share/begun");
        let name = self.call_for_us(
            libc::SYS_mmap,
            [0, PAGE_SIZE, READ_WRITE, PRIVATE, u64::MAX, 0],
        )?;
        let named = self.tracee.memory.write(name, NAME);
        fail_point!("share/named");
        let descriptor = self.call_for_us(
            libc::SYS_memfd_create,
            [name, u64::from(libc::MFD_CLOEXEC), 0, 0, 0, 0],
        );
        self.tracee.unmap_page(name, PAGE_SIZE);
        named.map_err(|error| NoJump::Write(error.to_string()))?;
        let descriptor = descriptor?;
        fail_point!("share/made");
        let opened = Mapping::open(thread, descriptor, length);
        let place = match &opened {
            Ok(_) => self
                .tracee
                .map_fixed(
                    &mut |space| space.room_for_data(size),
                    [READ_WRITE, libc::MAP_SHARED as u64, descriptor],
                )
                .inspect(|place| {
                    for part in busy {
                        let (start, end) = (
                            part.start.next_multiple_of(PAGE_SIZE),
                            part.end.next_multiple_of(PAGE_SIZE).min(size),
                        );
                        if start >= end {
                            continue;
                        }
                        // Maps the same memory as one mapping, populated. Where the kernel refuses, there are page faults.
                        let populated = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
                        let at = [
                            place.start + start,
                            end - start,
                            READ_WRITE,
                            populated as u64,
                            descriptor,
                            start,
                        ];
                        self.tracee.system_call(libc::SYS_mmap, at);
                    }
                }),
            Err(_) => Err(NoMemory::Unreadable),
        };
        fail_point!("share/mapped");
        self.tracee
            .system_call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]);
        fail_point!("share/closed");
        let mapping = opened.map_err(|error| NoJump::Write(error.to_string()))?;
        let address = place?.start;
        self.tracee.fast.mappings.note(address, size);
        Ok(SharedMemory::new(mapping, Address(address)))
    }

    /// Makes the process execute a system call. Returns its result.
    fn call_for_us(&mut self, number: libc::c_long, arguments: [u64; 6]) -> Result<u64, NoMemory> {
        let result = self
            .tracee
            .system_call(number, arguments)
            .ok_or_else(|| self.tracee.why_no_call())?;
        error_of(result).map_or(Ok(result), |error| Err(NoMemory::Refused(error)))
    }
}
