//! The implementations that a program selects for its GNU indirect functions, observed when it selects them.
//!
//! The code at the address of such a function is its resolver. It is called once for each module that uses the
//! function, when that module is relocated or makes its first call, and returns the address of the implementation. A
//! breakpoint at the resolver finds its caller, and a breakpoint where it returns finds the address.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::ptrace::Tid;

/// The resolvers that are followed.
#[derive(Debug, Default)]
pub(crate) struct IndirectFunctions {
    resolvers: BTreeSet<u64>,
    /// The calls of resolvers that have not returned.
    calls: Vec<Call>,
    /// Where calls have returned to. The breakpoints there stay inserted: a breakpoint that is removed and put back
    /// cannot be distinguished from the one that a thread has hit.
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

impl IndirectFunctions {
    pub(crate) fn follows(&self, resolver: u64) -> bool {
        self.resolvers.contains(&resolver)
    }

    pub(crate) fn follow(&mut self, resolver: u64) {
        self.resolvers.insert(resolver);
    }

    /// Stops following a resolver. Returns whether it was followed.
    pub(crate) fn leave(&mut self, resolver: u64) -> bool {
        self.resolvers.remove(&resolver)
    }

    /// Forgets what is in a range of addresses. Returns the breakpoints that are no longer needed.
    pub(crate) fn forget(&mut self, range: Range<u64>) -> Vec<u64> {
        let mut gone: Vec<u64> = Vec::new();
        for addresses in [&mut self.resolvers, &mut self.returns] {
            gone.extend(addresses.extract_if(range.clone(), |_| true));
        }
        self.calls.retain(|call| !gone.contains(&call.returns_to));
        gone
    }

    /// Notes that a thread has called a resolver; a breakpoint is where it returns to, with this stack pointer.
    pub(crate) fn call(&mut self, thread: Tid, resolver: u64, returns_to: u64, stack: u64) {
        self.returns.insert(returns_to);
        self.calls.push(Call {
            thread,
            resolver,
            returns_to,
            stack,
        });
    }

    /// The resolver from which a thread has returned to an address, with this stack pointer, if it has called one.
    pub(crate) fn returned(&mut self, thread: Tid, at: u64, stack: u64) -> Option<u64> {
        let index = self.calls.iter().position(|call| {
            call.thread == thread && call.returns_to == at && call.stack == stack
        })?;
        Some(self.calls.remove(index).resolver)
    }
}
