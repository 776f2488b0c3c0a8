//! Threads: select, list, describe.

use tracewire_model::Address;

use crate::field::Field;
use crate::packets::packets;
use crate::thread_id::ThreadSelector;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// Requests about threads.
    pub enum ThreadRequest {
        /// `Hc`: whom `c`, `s`, `C` and `S` mean.
        SelectForResuming {
            /// Whom.
            thread: ThreadSelector,
        } = ["Hc" thread] => "resume {thread} from now on"

        /// `Hg`: whose registers and memory other packets mean.
        Select {
            /// Whose.
            thread: ThreadSelector,
        } = ["Hg" thread] => "select {thread}"

        /// `T`: whether a thread is alive.
        IsAlive {
            /// Which.
            thread: ThreadSelector,
        } = ["T" thread] => "ask whether {thread} is alive"

        /// `qC`: which thread is selected.
        Current = ["qC"] => "ask for the current thread"

        /// `qfThreadInfo`: the first part of the list of threads.
        FirstThreads = ["qfThreadInfo"] => "list threads"

        /// `qsThreadInfo`: the next part of it.
        MoreThreads = ["qsThreadInfo"] => "list more threads"

        /// `qThreadExtraInfo`: a description of a thread for the user.
        Describe {
            /// Which.
            thread: ThreadSelector,
        } = ["qThreadExtraInfo," thread] => "describe {thread}"

        /// `qL`: a part of the list of threads, from before `qfThreadInfo`; GDB 13 still uses it if that is not supported.
        OldList {
            /// Whether it is the first part.
            first: bool,
            /// How many threads at most.
            count: FixedHex<2>,
            /// After which thread.
            after: FixedHex<16>,
        } = ["qL" first count after] => "list threads, the old way"

        /// `qP`: details of a thread, the old way.
        OldDescribe {
            /// Which details, a set of bits.
            mode: FixedHex<8>,
            /// Which thread.
            thread: FixedHex<16>,
        } = ["qP" mode thread] => "describe a thread, the old way"

        /// `qGetTLSAddr`: where a thread-local variable is.
        ThreadLocalAddress {
            /// Whose.
            thread: ThreadSelector,
            /// Its offset in the module's thread-local storage.
            offset: u64,
            /// The module, by the address of its `struct link_map` (System V).
            module: Address,
        } = ["qGetTLSAddr:" thread "," offset "," module]
            => "find the thread-local address of offset {offset} of the module at {module} for {thread}"

        /// `qGetTIBAddr`: where a thread's information block is (Windows).
        InformationBlockAddress {
            /// Whose.
            thread: ThreadSelector,
        } = ["qGetTIBAddr:" thread] => "find the information block of {thread}"
    }
}

/// A number of exactly so many digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FixedHex<const DIGITS: u32>(pub u64);

impl<const DIGITS: u32> Field for FixedHex<DIGITS> {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let mut value = 0;
        for _ in 0..DIGITS {
            match scanner.byte().map(tracewire_model::hex::digit) {
                Some(digit @ 0..16) => value = value << 4 | u64::from(digit),
                _ => return Err(start.expected("a hexadecimal number of a fixed width")),
            }
        }
        Ok(Self(value))
    }

    fn print(&self, out: &mut Vec<u8>) {
        tracewire_model::hex::put_padded(self.0, DIGITS, out);
    }
}

#[cfg(test)]
impl<const DIGITS: u32> crate::field::Sample for FixedHex<DIGITS> {
    fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
        use proptest::prelude::*;
        any::<u64>()
            .prop_map(|value| Self(value >> (64 - 4 * DIGITS)))
            .boxed()
    }
}
