//! Locations of numbers that GCC computes in fewer bits than an address has, without a note of it.
//!
//! GCC writes `(unsigned)x >> 3` as `DW_OP_breg3 0; DW_OP_lit3; DW_OP_shr`, with all of the register, whose upper half may have any
//! value. It writes `x >> 3` of 64 bits in the same way. Bits shifted out of the upper half change the number. The same is true of
//! signed shifts, quotients, remainders and absolute values. Sums and products are right: their low bits depend on low bits only.
//!
//! Here a location is evaluated with known bits: which low bits of each number are the same in any width of the code's computation.

use gimli::Operation;

use crate::location_expression::{BaseTypeOffset, ExpressionOperation};

/// In how many bits the code may compute.
const WIDTHS: [u32; 4] = [8, 16, 32, 64];

/// The known bits of a number on the stack.
#[derive(Clone, Copy)]
struct Number {
    /// The bits above these are zero.
    bits: u32,
    /// This many low bits are the same for each width in which it may be computed; 64 if all are.
    sure: u32,
    /// It, or a number that it is computed from, depends on bits that are not the same in each width.
    cut: bool,
    /// It has a DWARF type, which fixes the width.
    typed: bool,
    constant: Option<u64>,
}

impl Number {
    const fn any() -> Self {
        Self::of_bits(64)
    }

    const fn of_bits(bits: u32) -> Self {
        Self {
            bits,
            sure: 64,
            cut: false,
            typed: false,
            constant: None,
        }
    }

    const fn of(value: u64) -> Self {
        Self {
            constant: Some(value),
            ..Self::of_bits(64 - value.leading_zeros())
        }
    }

    const fn is_sure(self) -> bool {
        self.sure >= 64
    }

    /// The result of using only this many low bits of it.
    const fn taken(self, bits: u32) -> Self {
        let same = self.sure >= bits;
        Self {
            sure: 64,
            cut: self.cut || !same,
            ..self
        }
    }
}

/// Whether the low `wanted` bits of a location's result are the same for each width in which the code may compute it. Addresses
/// have `word` bits.
pub(crate) fn is_sure(operations: &[(usize, ExpressionOperation)], word: u32, wanted: u32) -> bool {
    let computes = (operations.iter()).any(|(_, operation)| {
        matches!(
            operation,
            Operation::Shr | Operation::Shra | Operation::Div | Operation::Mod | Operation::Abs
        )
    });
    // Nothing is known of a location with branches, or of one that is damaged.
    !computes || Analysis::of(operations, word, wanted).unwrap_or(false)
}

struct Analysis {
    word: u32,
    /// The least width in which the code may compute: the number of bits that are used of a result, rounded up.
    least: u32,
    stack: Vec<Number>,
}

impl Analysis {
    fn of(operations: &[(usize, ExpressionOperation)], word: u32, wanted: u32) -> Option<bool> {
        let mut analysis = Self {
            word,
            least: least_width(operations, word, wanted),
            stack: Vec::new(),
        };
        let mut is_value = false;
        let mut is_whole = true;
        for (_, operation) in operations {
            match operation {
                Operation::StackValue => is_value = true,
                Operation::Piece { size_in_bits, .. } => {
                    let bits = u32::try_from(*size_in_bits).unwrap_or(word);
                    if !analysis.is_result_sure(is_value, bits) {
                        return Some(false);
                    }
                    analysis.stack.clear();
                    is_value = false;
                    is_whole = false;
                }
                other => analysis.step(other)?,
            }
        }
        Some(!is_whole || analysis.is_result_sure(is_value, wanted))
    }

    fn is_result_sure(&self, is_value: bool, wanted: u32) -> bool {
        // Of an address, and of a number as wide, all bits are taken: the code has computed them all.
        let is_wide = !is_value || wanted >= self.word;
        (self.stack.last()).is_none_or(|top| !top.cut && (is_wide || top.sure >= wanted))
    }

    fn pop(&mut self) -> Option<Number> {
        self.stack.pop()
    }

    fn step(&mut self, operation: &ExpressionOperation) -> Option<()> {
        let typed = |base_type: &BaseTypeOffset| Number {
            typed: base_type.0 != 0,
            ..Number::any()
        };
        let number = match operation {
            Operation::Nop
            | Operation::Uninitialized
            | Operation::Register { .. }
            | Operation::ImplicitValue { .. }
            | Operation::ImplicitPointer { .. } => return Some(()),
            Operation::Drop => {
                self.pop()?;
                return Some(());
            }
            Operation::Pick { index } => {
                let place = self.stack.len().checked_sub(1 + usize::from(*index))?;
                *self.stack.get(place)?
            }
            Operation::Swap => {
                let (top, below) = (self.pop()?, self.pop()?);
                self.stack.push(top);
                below
            }
            Operation::Rot => {
                let (top, second, third) = (self.pop()?, self.pop()?, self.pop()?);
                self.stack.extend([top, third]);
                second
            }
            Operation::UnsignedConstant { value } => Number::of(*value),
            Operation::SignedConstant { value } => Number::of(value.cast_unsigned()),
            Operation::RegisterOffset { base_type, .. }
            | Operation::TypedLiteral { base_type, .. } => typed(base_type),
            Operation::Address { .. }
            | Operation::FrameOffset { .. }
            | Operation::CallFrameCFA
            | Operation::EntryValue { .. } => Number::any(),
            Operation::Deref {
                base_type, size, ..
            } => Number {
                bits: u32::from(*size).saturating_mul(8).min(64),
                cut: self.pop()?.cut,
                ..typed(base_type)
            },
            Operation::Convert { base_type } | Operation::Reinterpret { base_type } => Number {
                cut: self.pop()?.taken(64).cut,
                ..typed(base_type)
            },
            Operation::PlusConstant { .. } | Operation::Neg | Operation::Not => Number {
                bits: 64,
                constant: None,
                ..self.pop()?
            },
            Operation::Abs => {
                let operand = self.pop()?;
                self.by_width(operand, None, operand.bits < self.least)
            }
            other => {
                let (right, left) = (self.pop()?, self.pop()?);
                self.binary(other, left, right)?
            }
        };
        self.stack.push(number);
        Some(())
    }

    fn binary(
        &self,
        operation: &ExpressionOperation,
        left: Number,
        right: Number,
    ) -> Option<Number> {
        let both = Number {
            bits: 64,
            sure: left.sure.min(right.sure),
            cut: left.cut || right.cut,
            typed: left.typed || right.typed,
            constant: None,
        };
        if both.typed {
            return Some(both);
        }
        // A count is in the low bits of its number, and so is no other right operand.
        let of_left = Number {
            cut: both.cut || !right.is_sure(),
            ..left
        };
        let by = right.constant;
        Some(match operation {
            Operation::And => Number {
                bits: left.bits.min(right.bits),
                constant: None,
                ..match by {
                    Some(_) if right.bits < self.word => left.taken(right.bits),
                    _ if left.constant.is_some() => right.taken(left.bits),
                    _ => both,
                }
            },
            Operation::Or | Operation::Xor => Number {
                bits: left.bits.max(right.bits),
                ..both
            },
            Operation::Plus | Operation::Minus | Operation::Mul => both,
            Operation::Shl => {
                let by = count(by);
                // This is how a sign is made from the highest bit, and how narrow numbers are compared.
                let taken = match by >= self.word / 2 {
                    true => of_left.taken(self.word.saturating_sub(by)),
                    false => of_left,
                };
                Number {
                    bits: 64,
                    sure: taken.sure.saturating_add(by).min(64),
                    constant: None,
                    ..taken
                }
            }
            Operation::Shr => {
                let is_same = left.bits <= self.width_above(by);
                Number {
                    bits: left.bits.saturating_sub(count(by)),
                    ..self.by_width(of_left, by, is_same)
                }
            }
            Operation::Shra => self.by_width(of_left, by, left.bits < self.width_above(by)),
            Operation::Div | Operation::Mod => {
                let is_same = left.bits < self.least && right.bits < self.least;
                self.by_width(of_left, None, is_same)
            }
            Operation::Eq
            | Operation::Ne
            | Operation::Lt
            | Operation::Le
            | Operation::Gt
            | Operation::Ge => Number {
                bits: 1,
                sure: 64,
                ..both
            },
            _ => return None,
        })
    }

    /// The least width in which a number can be shifted by a constant.
    fn width_above(&self, by: Option<u64>) -> u32 {
        let mut widths = WIDTHS.into_iter();
        widths
            .find(|&width| width >= self.least && u64::from(width) > by.unwrap_or(0))
            .unwrap_or(64)
    }

    /// The result of an operation whose low bits depend on upper bits of its operand, which may be the same in all widths. `by` is
    /// of a shift by a constant.
    fn by_width(&self, operand: Number, by: Option<u64>, is_same: bool) -> Number {
        let width = self.width_above(by);
        let sure = if operand.typed || operand.is_sure() && (is_same || width >= self.word) {
            64
        } else {
            let known = by.map_or(0, |_| operand.sure.min(width));
            known.saturating_sub(count(by))
        };
        Number {
            bits: 64,
            sure,
            constant: None,
            ..operand
        }
    }
}

fn count(by: Option<u64>) -> u32 {
    by.and_then(|by| u32::try_from(by).ok()).unwrap_or(0)
}

/// The least number of bits in which the code computes: the fewest that a location uses of a result. A compiler extends narrower
/// results, by a mask or by shifts to the left and back.
fn least_width(operations: &[(usize, ExpressionOperation)], word: u32, wanted: u32) -> u32 {
    let constant = |operation: &ExpressionOperation| match operation {
        Operation::UnsignedConstant { value } => Some(*value),
        Operation::SignedConstant { value } => Some(value.cast_unsigned()),
        _ => None,
    };
    let mut taken = wanted.min(word);
    for pair in operations.windows(2) {
        let [(_, first), (_, second)] = pair else {
            continue;
        };
        let bits = match (second, constant(first)) {
            (Operation::And, Some(mask)) => 64 - mask.leading_zeros(),
            (Operation::Shl, Some(by)) => match u32::try_from(by) {
                Ok(by) if by >= word / 2 => word.saturating_sub(by),
                _ => continue,
            },
            (Operation::Piece { size_in_bits, .. }, _) => {
                u32::try_from(*size_in_bits).unwrap_or(word)
            }
            (Operation::Convert { .. }, _) => 8,
            _ => continue,
        };
        taken = taken.min(bits);
    }
    let mut widths = WIDTHS.into_iter();
    widths.find(|&width| width >= taken).unwrap_or(64)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    fn low(number: u64, width: u32) -> u64 {
        number & (u64::MAX >> (64 - width))
    }

    fn signed(number: u64, width: u32) -> i64 {
        (number << (64 - width)).cast_signed() >> (64 - width)
    }

    /// A computation of the code in GCC's form: its result in the code, and its operations.
    struct Written {
        operations: Vec<ExpressionOperation>,
        registers: Vec<u64>,
    }

    impl Written {
        fn constant(&mut self, value: u64) {
            let value = Operation::UnsignedConstant { value };
            self.operations.push(value);
        }

        /// Writes a computation of this many bits, and returns its value.
        fn compute(&mut self, chance: &mut Rng, width: u32, depth: u32) -> u64 {
            let kind = if depth == 0 {
                chance.u64(..2)
            } else {
                chance.u64(..16)
            };
            match kind {
                0 => {
                    let register = chance.u64(..);
                    self.registers.push(register);
                    self.operations.push(Operation::RegisterOffset {
                        register: gimli::Register(self.registers.len() as u16 - 1),
                        offset: 0,
                        base_type: gimli::UnitOffset(0),
                    });
                    low(register, width)
                }
                1 => {
                    let value = low(chance.u64(..) >> chance.u64(..64), width);
                    self.constant(value);
                    value
                }
                // A part of a wider number.
                2 if width < 64 => low(self.compute(chance, width * 2, depth - 1), width),
                3 if width > 8 => {
                    let narrow = (width / 2) >> chance.u64(..u64::from(width / 16).min(2));
                    let value = self.compute(chance, narrow, depth - 1);
                    self.constant(low(u64::MAX, narrow));
                    self.operations.push(Operation::And);
                    value
                }
                4 if width > 8 => {
                    let value = self.compute(chance, width / 2, depth - 1);
                    let by = u64::from(64 - width / 2);
                    self.constant(by);
                    self.operations.push(Operation::Shl);
                    self.constant(by);
                    self.operations.push(Operation::Shra);
                    low(signed(value, width / 2).cast_unsigned(), width)
                }
                5 => {
                    let value = self.compute(chance, width, depth - 1);
                    let mask = low(chance.u64(..) >> chance.u64(..64), width);
                    self.constant(mask);
                    self.operations.push(Operation::And);
                    value & mask
                }
                6..=8 => {
                    let value = self.compute(chance, width, depth - 1);
                    let by = chance.u64(..u64::from(width));
                    self.constant(by);
                    let (operation, value) = match kind {
                        6 => (Operation::Shl, value << by),
                        7 => (Operation::Shr, value >> by),
                        _ => (
                            Operation::Shra,
                            (signed(value, width) >> by).cast_unsigned(),
                        ),
                    };
                    self.operations.push(operation);
                    low(value, width)
                }
                9 => {
                    let value = signed(self.compute(chance, width, depth - 1), width);
                    self.operations.push(Operation::Abs);
                    low(value.unsigned_abs(), width)
                }
                _ => {
                    let left = self.compute(chance, width, depth - 1);
                    let right = self.compute(chance, width, depth - 1);
                    let (a, b) = (signed(left, width), signed(right, width));
                    let (operation, value) = match kind {
                        10 => (Operation::Plus, left.wrapping_add(right)),
                        11 => (Operation::Minus, left.wrapping_sub(right)),
                        12 => (Operation::Mul, left.wrapping_mul(right)),
                        13 => (Operation::Xor, left ^ right),
                        14 => (Operation::Mod, left.checked_rem(right).unwrap_or(0)),
                        _ => (
                            Operation::Div,
                            a.checked_div(b).unwrap_or(0).cast_unsigned(),
                        ),
                    };
                    self.operations.push(operation);
                    low(value, width)
                }
            }
        }

        /// The result of the operations in DWARF.
        fn run(&self) -> u64 {
            let mut stack: Vec<u64> = Vec::new();
            for operation in &self.operations {
                let mut pop = || stack.pop().expect("an operand");
                let number = match operation {
                    Operation::UnsignedConstant { value } => *value,
                    Operation::RegisterOffset { register, .. } => {
                        self.registers[usize::from(register.0)]
                    }
                    Operation::Abs => pop().cast_signed().unsigned_abs(),
                    other => {
                        let (right, left) = (pop(), pop());
                        let (a, b) = (left.cast_signed(), right.cast_signed());
                        match other {
                            Operation::And => left & right,
                            Operation::Shl => left << right,
                            Operation::Shr => left >> right,
                            Operation::Shra => (a >> right).cast_unsigned(),
                            Operation::Plus => left.wrapping_add(right),
                            Operation::Minus => left.wrapping_sub(right),
                            Operation::Mul => left.wrapping_mul(right),
                            Operation::Xor => left ^ right,
                            Operation::Mod => left.checked_rem(right).unwrap_or(0),
                            _ => a.checked_div(b).unwrap_or(0).cast_unsigned(),
                        }
                    }
                };
                stack.push(number);
            }
            stack.pop().expect("a result")
        }
    }

    #[test]
    fn what_is_sure_is_what_the_code_computes() {
        let mut chance = Rng::with_seed(1);
        let (mut sure, mut wrong) = (0, 0);
        for _ in 0..200_000 {
            let mut written = Written {
                operations: Vec::new(),
                registers: Vec::new(),
            };
            let width = WIDTHS[chance.usize(..4)];
            let depth = 1 + chance.u32(..4);
            let value = written.compute(&mut chance, width, depth);
            let is_same = low(written.run(), width) == value;
            let mut operations: Vec<_> =
                written.operations.into_iter().map(|one| (0, one)).collect();
            operations.push((0, Operation::StackValue));
            let is_sure = is_sure(&operations, 64, width);
            assert!(!is_sure || is_same, "{width} bits: {operations:?}");
            sure += u32::from(is_sure);
            wrong += u32::from(!is_same);
        }
        assert!(sure > 100_000, "{sure} are sure");
        assert!(wrong > 10_000, "{wrong} are wrong");
    }
}
