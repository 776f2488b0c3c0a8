//! The numbers of the protocol, each with its own type, so that they are not confused.

use std::fmt;

/// An address in the traced program's memory. Shown as GDB shows it: `0x` and lower-case digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(pub u64);

impl Address {
    /// The address `offset` bytes further on, wrapping at the end of the address space as the machine does.
    #[must_use]
    pub const fn offset(self, offset: i64) -> Self {
        Self(self.0.wrapping_add_signed(offset))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

macro_rules! decimal_number {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

decimal_number! {
    /// A register, by the number the target description gives it (GDB's numbering, not DWARF's).
    RegisterNumber(u16);
    /// A tracepoint's number, GDB's `$tpnum`. In a trace file it is a signed 16-bit number, so a writer refuses one over 32767; in
    /// a damaged file it may be negative.
    TracepointNumber(i32);
    /// A trace frame, by its place in the file or the buffer, from 0.
    FrameNumber(u64);
    /// A trace state variable's number.
    VariableNumber(i32);
    /// A thread, by the number the kernel gives it.
    ThreadId(u32);
}
