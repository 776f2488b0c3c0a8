//! What a program selects for its GNU indirect functions, seen as it does so.
//!
//! The code at the address of such a function is its resolver: it is called once for each module that uses the function,
//! when that module is relocated or makes its first call, and returns the address of the implementation to use. A
//! breakpoint at the resolver finds its caller, and one there the address.

use std::collections::BTreeSet;

use tracewire_experiment::TargetError;
use tracewire_model::{Address, ThreadId};

use crate::breakpoints::Purpose;
use crate::process::Process;
use crate::ptrace::Tid;

/// The resolvers that are followed.
#[derive(Debug, Default)]
pub(crate) struct IndirectFunctions {
    resolvers: BTreeSet<u64>,
    /// The calls of resolvers that have not returned.
    calls: Vec<Call>,
    /// Where calls have returned to. The breakpoints there stay: one that is taken out under a thread and put back is not
    /// told from the one that the thread has met.
    returns: BTreeSet<u64>,
}

/// A thread in a resolver.
#[derive(Clone, Copy, Debug)]
struct Call {
    thread: Tid,
    resolver: u64,
    returns_to: u64,
    /// The stack pointer when it has returned.
    stack: u64,
}

impl Process {
    /// Follows the resolver of an indirect function: [`Event::Resolver`](crate::Event::Resolver) reports a thread there, and
    /// where it returns to.
    ///
    /// # Errors
    /// When there is no code that can be written to.
    pub fn follow_resolver(&mut self, resolver: Address) -> Result<(), TargetError> {
        if self.program.indirect.resolvers.contains(&resolver.0) {
            return Ok(());
        }
        self.insert_breakpoint(resolver.0, Purpose::Resolver)?;
        self.program.indirect.resolvers.insert(resolver.0);
        Ok(())
    }

    /// Follows a resolver no longer.
    pub fn leave_resolver(&mut self, resolver: Address) {
        if self.program.indirect.resolvers.remove(&resolver.0) {
            // Memory that is gone needs no byte back.
            let _ = self.remove_breakpoint(resolver.0, Purpose::Resolver);
        }
    }

    /// Follows no resolver in a range of addresses, whose module is gone, nor calls from there.
    pub fn forget_resolvers(&mut self, from: Address, to: Address) {
        let followed = &mut self.program.indirect;
        let mut gone: Vec<u64> = Vec::new();
        for addresses in [&mut followed.resolvers, &mut followed.returns] {
            gone.extend(addresses.extract_if(from.0..to.0, |_| true));
        }
        followed
            .calls
            .retain(|call| !gone.contains(&call.returns_to));
        for address in gone {
            // Memory that is gone needs no byte back.
            let _ = self.remove_breakpoint(address, Purpose::Resolver);
        }
    }

    /// Takes note of a thread that an event has reported at a resolver or behind its call: the resolver's address and that
    /// of the implementation, once it is known.
    pub fn resolver_reached(&mut self, thread: ThreadId) -> Option<(Address, Address)> {
        let id = thread.0.cast_signed();
        let registers = self.threads.registers(id)?;
        let at = self.threads.get(id)?.at?;
        if self.program.indirect.resolvers.contains(&at) {
            self.resolver_called(id, at, registers.rsp);
        }
        let index = self.program.indirect.calls.iter().position(|call| {
            call.thread == id && call.returns_to == at && call.stack == registers.rsp
        })?;
        let call = self.program.indirect.calls.remove(index);
        let selected = match self.program.width().bytes() {
            4 => registers.rax & 0xffff_ffff,
            _ => registers.rax,
        };
        Some((Address(call.resolver), Address(selected)))
    }

    fn resolver_called(&mut self, thread: Tid, resolver: u64, stack: u64) {
        let Some(returns_to) = self.program.width().read_at(&self.memory, stack, 0) else {
            return;
        };
        if self
            .insert_breakpoint(returns_to, Purpose::Resolver)
            .is_err()
        {
            return;
        }
        self.program.indirect.returns.insert(returns_to);
        self.program.indirect.calls.push(Call {
            thread,
            resolver,
            returns_to,
            stack: stack.wrapping_add(self.program.width().bytes() as u64),
        });
    }
}
