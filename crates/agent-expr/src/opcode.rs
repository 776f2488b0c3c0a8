//! The one table of opcodes; decoder, verifier, assembler, disassembler and builder all read it.

use std::fmt;

/// The operand after an opcode in the code. Numbers are big-endian for all targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandKind {
    /// Nothing.
    None,
    /// A plain number of so many bytes: 1, 2, 4 or 8.
    Number(u8),
    /// Two bytes: the offset of an instruction from the start of the program.
    Jump,
    /// Two bytes: a register number.
    Register,
    /// Two bytes: the number of a trace state variable.
    Variable,
    /// One byte, how many arguments; two bytes, the length of the format; the format, ended by a NUL that the
    /// length counts.
    Format,
}

macro_rules! opcodes {
    ($($(#[doc = $doc:literal])+ $code:literal $variant:ident $name:literal $operand:expr, $pops:literal => $pushes:literal, $use:ident;)*) => {
        /// An instruction's operation. The documentation of each gives its effect on the stack: the cells that it takes on the
        /// left, the top rightmost, and the cells that it leaves on the right.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[doc = $doc])+ $variant = $code,)*
        }

        impl Opcode {
            /// Every opcode, in rising order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// GDB's name of the operation, as `maint agent` prints it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The kind of the operand after the opcode.
            #[must_use]
            pub const fn operand(self) -> OperandKind {
                match self { $(Self::$variant => $operand,)* }
            }

            /// How many cells it takes from the stack. `pick` and `printf` take more, as their operands say.
            #[must_use]
            pub const fn pops(self) -> usize {
                match self { $(Self::$variant => $pops,)* }
            }

            /// How many cells it leaves on the stack.
            #[must_use]
            pub const fn pushes(self) -> usize {
                match self { $(Self::$variant => $pushes,)* }
            }

            /// Whether the operation has a number but no meaning: GDB never emits it, and evaluating it is an error.
            #[must_use]
            pub const fn is_reserved(self) -> bool {
                match self { $(Self::$variant => opcodes!(@reserved $use),)* }
            }

            /// The opcode with this number, if there is one.
            #[must_use]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
    (@reserved reserved) => { true };
    (@reserved used) => { false };
}

use OperandKind::{Format, Jump, None as Nothing, Number, Register, Variable};

opcodes! {
    /// Reserved: a prefix for floating-point operations.
    0x01 Float "float" Nothing, 0 => 0, reserved;
    /// `a b → a+b`, wrapping.
    0x02 Add "add" Nothing, 2 => 1, used;
    /// `a b → a-b`, wrapping.
    0x03 Sub "sub" Nothing, 2 => 1, used;
    /// `a b → a*b`, wrapping.
    0x04 Mul "mul" Nothing, 2 => 1, used;
    /// `a b → a/b`, signed; the smallest number divided by -1 is itself.
    0x05 DivSigned "div_signed" Nothing, 2 => 1, used;
    /// `a b → a/b`, unsigned.
    0x06 DivUnsigned "div_unsigned" Nothing, 2 => 1, used;
    /// `a b → a%b`, signed; has the sign of `a`.
    0x07 RemSigned "rem_signed" Nothing, 2 => 1, used;
    /// `a b → a%b`, unsigned.
    0x08 RemUnsigned "rem_unsigned" Nothing, 2 => 1, used;
    /// `a b → a<<b`; 0 from 64 bits on.
    0x09 Lsh "lsh" Nothing, 2 => 1, used;
    /// `a b → a>>b`, filled with the sign; all sign from 64 bits on.
    0x0a RshSigned "rsh_signed" Nothing, 2 => 1, used;
    /// `a b → a>>b`, filled with zeros; 0 from 64 bits on.
    0x0b RshUnsigned "rsh_unsigned" Nothing, 2 => 1, used;
    /// `address size →`, collects memory.
    0x0c Trace "trace" Nothing, 2 => 0, used;
    /// `address → address`, collects as many bytes of memory as the operand says.
    0x0d TraceQuick "trace_quick" Number(1), 1 => 1, used;
    /// `a → !a`: 1 for zero, 0 for all else.
    0x0e LogNot "log_not" Nothing, 1 => 1, used;
    /// `a b → a&b`.
    0x0f BitAnd "bit_and" Nothing, 2 => 1, used;
    /// `a b → a|b`.
    0x10 BitOr "bit_or" Nothing, 2 => 1, used;
    /// `a b → a^b`.
    0x11 BitXor "bit_xor" Nothing, 2 => 1, used;
    /// `a → ~a`.
    0x12 BitNot "bit_not" Nothing, 1 => 1, used;
    /// `a b → a==b`, as 1 or 0.
    0x13 Equal "equal" Nothing, 2 => 1, used;
    /// `a b → a<b`, signed, as 1 or 0.
    0x14 LessSigned "less_signed" Nothing, 2 => 1, used;
    /// `a b → a<b`, unsigned, as 1 or 0.
    0x15 LessUnsigned "less_unsigned" Nothing, 2 => 1, used;
    /// `a → a`, sign-extended from as many bits as the operand says; 64 and more change nothing, 0 leaves 0.
    0x16 Ext "ext" Number(1), 1 => 1, used;
    /// `address → value`, one byte, zero-extended.
    0x17 Ref8 "ref8" Nothing, 1 => 1, used;
    /// `address → value`, two bytes in target order, zero-extended.
    0x18 Ref16 "ref16" Nothing, 1 => 1, used;
    /// `address → value`, four bytes in target order, zero-extended.
    0x19 Ref32 "ref32" Nothing, 1 => 1, used;
    /// `address → value`, eight bytes in target order.
    0x1a Ref64 "ref64" Nothing, 1 => 1, used;
    /// Reserved: `address → value`, a float.
    0x1b RefFloat "ref_float" Nothing, 1 => 1, reserved;
    /// Reserved: `address → value`, a double.
    0x1c RefDouble "ref_double" Nothing, 1 => 1, reserved;
    /// Reserved: `address → value`, a long double.
    0x1d RefLongDouble "ref_long_double" Nothing, 1 => 1, reserved;
    /// Reserved: integer to double.
    0x1e LongToDouble "l_to_d" Nothing, 1 => 1, reserved;
    /// Reserved: double to integer.
    0x1f DoubleToLong "d_to_l" Nothing, 1 => 1, reserved;
    /// `a →`, jumps if `a` is not zero.
    0x20 IfGoto "if_goto" Jump, 1 => 0, used;
    /// Jumps.
    0x21 Goto "goto" Jump, 0 => 0, used;
    /// `→ n`, one byte, zero-extended.
    0x22 Const8 "const8" Number(1), 0 => 1, used;
    /// `→ n`, two bytes, zero-extended.
    0x23 Const16 "const16" Number(2), 0 => 1, used;
    /// `→ n`, four bytes, zero-extended.
    0x24 Const32 "const32" Number(4), 0 => 1, used;
    /// `→ n`, eight bytes.
    0x25 Const64 "const64" Number(8), 0 => 1, used;
    /// `→ value` of a register, zero-extended.
    0x26 Reg "reg" Register, 0 => 1, used;
    /// Ends the program; the result is the top of the stack.
    0x27 End "end" Nothing, 0 => 0, used;
    /// `a → a a`.
    0x28 Dup "dup" Nothing, 1 => 2, used;
    /// `a →`.
    0x29 Pop "pop" Nothing, 1 => 0, used;
    /// `a → a`, zero-extended from as many bits as the operand says; 64 and more change nothing.
    0x2a ZeroExt "zero_ext" Number(1), 1 => 1, used;
    /// `a b → b a`.
    0x2b Swap "swap" Nothing, 2 => 2, used;
    /// `→ value` of a trace state variable.
    0x2c GetV "getv" Variable, 0 => 1, used;
    /// `a → a`, and the trace state variable has the value.
    0x2d SetV "setv" Variable, 1 => 1, used;
    /// Collects a trace state variable; the stack stays as it is.
    0x2e TraceV "tracev" Variable, 0 => 0, used;
    /// `address limit →`, collects a string to its NUL, at most `limit` bytes, the NUL among them.
    0x2f TraceNz "tracenz" Nothing, 2 => 0, used;
    /// `address → address`, collects as many bytes of memory as the operand says.
    0x30 Trace16 "trace16" Number(2), 1 => 1, used;
    /// Reserved.
    0x31 Invalid2 "invalid2" Nothing, 0 => 0, reserved;
    /// `… → … a`, a copy of the cell so many below the top as the operand says; 0 is `dup`.
    0x32 Pick "pick" Number(1), 0 => 1, used;
    /// `a b c → c a b`.
    0x33 Rot "rot" Nothing, 3 => 3, used;
    /// `arguments… channel function →`, formatted output; the first argument lies highest.
    0x34 Printf "printf" Format, 2 => 0, used;
}

impl Opcode {
    /// The opcode with this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|opcode| opcode.name() == name)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
