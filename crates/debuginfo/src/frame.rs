//! How the frame of the caller is found, from call frame information.

use crate::location_expression::LocationExpression;

/// How a frame's canonical address (the caller's stack pointer) is found. Registers have DWARF's numbers.
#[derive(Clone, Debug)]
pub enum CfaRule {
    /// A register's value and an offset.
    RegisterOffset {
        /// Which register.
        register: u16,
        /// The offset to add.
        offset: i64,
    },
    /// The value of an expression.
    Expression(LocationExpression),
}

/// How a register of the caller is found.
#[derive(Clone, Debug)]
pub enum RegisterRule {
    /// It is lost. For the return address: this is the outermost frame.
    Undefined,
    /// It still has the caller's value.
    SameValue,
    /// Saved in memory, this far from the canonical frame address.
    Offset(i64),
    /// The canonical frame address plus this is its value.
    ValueOffset(i64),
    /// It is in another register.
    Register(u16),
    /// Saved in memory at the address that the expression gives; the canonical frame address is on the
    /// expression's stack at the start.
    Expression(LocationExpression),
    /// The expression gives its value; the canonical frame address is on the expression's stack at the start.
    ValueExpression(LocationExpression),
    /// It is this number.
    Constant(u64),
}

/// The rules to find the caller's frame, at one pc.
#[derive(Clone, Debug)]
pub struct UnwindRow {
    /// Where the frame is.
    pub cfa: CfaRule,
    /// How the registers are found that have a rule; the others have the same value as before.
    pub registers: Vec<(u16, RegisterRule)>,
    /// Which column is the return address (16 on x86-64, 8 on i386).
    pub return_address: u16,
    /// Whether this is the frame of a signal handler's trampoline: the caller's pc is then exact, not the end of
    /// a call.
    pub signal_frame: bool,
}
