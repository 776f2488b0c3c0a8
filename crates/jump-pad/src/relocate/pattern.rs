//! Constraints on the bytes of a displacement, and the targets that fit.

use std::ops::Range;

/// Bytes that begin no instruction in 64-bit mode, today or in any announced extension. The processor raises an invalid-opcode
/// fault (Intel's manual, volume 2, A.3: those marked i64 that are not reused as prefixes). In rising order.
const NOT_INSTRUCTIONS: [u8; 18] = [
    0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x82, 0x9a, 0xce,
    0xd4, 0xea,
];

/// The constraint on one byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteRule {
    /// Nothing.
    Any,
    /// It is in memory already, and does not change.
    Is(u8),
    /// It begins no instruction.
    NoInstruction,
}

impl ByteRule {
    fn admits(self, byte: u8) -> bool {
        match self {
            Self::Any => true,
            Self::Is(only) => only == byte,
            Self::NoInstruction => NOT_INSTRUCTIONS.contains(&byte),
        }
    }

    /// The lowest byte that it admits from this one on.
    fn next(self, byte: u8) -> Option<u8> {
        match self {
            Self::Any => Some(byte),
            Self::Is(only) => (only >= byte).then_some(only),
            Self::NoInstruction => {
                let mut rising = NOT_INSTRUCTIONS.iter();
                rising.find(|admitted| **admitted >= byte).copied()
            }
        }
    }
}

/// The constraints on the four bytes of a displacement, lowest first, and the address that it is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// The address after the jump.
    from: u64,
    rules: [ByteRule; 4],
}

/// How far addresses of programs go.
const HIGHEST: u64 = 1 << 47;

impl Pattern {
    /// For a jump that ends at `from`.
    #[must_use]
    pub const fn new(from: u64, rules: [ByteRule; 4]) -> Self {
        Self { from, rules }
    }

    /// Whether any displacement will do.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.rules == [ByteRule::Any; 4]
    }

    /// The displacement to a target; `None` if it does not fit.
    #[must_use]
    pub fn displacement(&self, target: u64) -> Option<[u8; 4]> {
        let distance = i32::try_from(target.wrapping_sub(self.from).cast_signed()).ok()?;
        let bytes = distance.to_le_bytes();
        self.rules
            .iter()
            .zip(bytes)
            .all(|(rule, byte)| rule.admits(byte))
            .then_some(bytes)
    }

    /// The lowest address in a range that fits.
    #[must_use]
    pub fn first_target(&self, range: Range<u64>) -> Option<u64> {
        // Displacements in their order as unsigned numbers of 33 bits, shifted so that none is negative.
        const SHIFT: u64 = 1 << 31;
        let lowest = self.from.saturating_sub(SHIFT).max(range.start);
        let end = range.end.min(self.from.saturating_add(SHIFT)).min(HIGHEST);
        let mut target = lowest;
        while target < end {
            let distance = i32::try_from(target.wrapping_sub(self.from).cast_signed()).ok()?;
            let bytes = distance.to_le_bytes();
            // The highest byte that does not fit is the one to count up; all below it begin again.
            let mut places = (0..4_u32).zip(self.rules).zip(bytes).rev();
            let wrong = places.find(|((_, rule), byte)| !rule.admits(*byte));
            let Some(((index, rule), byte)) = wrong else {
                return Some(target);
            };
            // Where none is left, the byte above counts up.
            let next = rule.next(byte).map_or(1 << 8, u64::from);
            let unit = 1_u64 << (8 * index);
            let above = target.wrapping_sub(self.from) & (unit - 1);
            target = target.checked_add((next - u64::from(byte)) * unit - above)?;
        }
        None
    }

    /// The ranges that contain all fitting targets, near ones first. The bytes above the lowest two are the same within a range.
    pub fn windows(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        self.regions().flat_map(Region::windows)
    }

    /// The regions of 16 MiB that contain all fitting targets, near ones first.
    pub fn regions(&self) -> impl Iterator<Item = Region> + use<> {
        let pattern = *self;
        let [.., fourth] = pattern.rules;
        let near = match fourth {
            ByteRule::Is(only) => {
                let high = only.cast_signed();
                let near = high.max(-1 - high);
                near..=near
            }
            ByteRule::Any | ByteRule::NoInstruction => 0..=i8::MAX,
        };
        // 0, -1, 1, -2, and so on.
        near.flat_map(|high| [high, -1 - high])
            .filter(move |high| fourth.admits(high.cast_unsigned()))
            .map(move |high| Region { pattern, high })
    }
}

/// The targets of displacements with the same highest byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    pattern: Pattern,
    high: i8,
}

impl Region {
    /// The addresses of all targets, those that do not fit included.
    #[must_use]
    pub fn range(self) -> Range<u64> {
        const SPAN: i64 = 1 << 24;
        let start = i64::from(self.high) * SPAN;
        let [start, end] = [start, start + SPAN];
        let from = self.pattern.from;
        from.saturating_add_signed(start)..from.saturating_add_signed(end)
    }

    /// The [windows](Pattern::windows) in it.
    pub fn windows(self) -> impl Iterator<Item = Range<u64>> {
        const WINDOW: i64 = 1 << 16;
        let Self { pattern, high } = self;
        let [_, _, third, _] = pattern.rules;
        // Below zero, near targets have a large third byte.
        let turned = move |byte| if high < 0 { u8::MAX - byte } else { byte };
        let near = match third {
            ByteRule::Is(only) => turned(only)..=turned(only),
            ByteRule::Any | ByteRule::NoInstruction => 0..=u8::MAX,
        };
        near.map(turned)
            .filter(move |low| third.admits(*low))
            .filter_map(move |low| {
                let upper = i16::from_le_bytes([low, high.cast_unsigned()]);
                let start = (pattern.from).checked_add_signed(i64::from(upper) * WINDOW)?;
                let end = start.checked_add(WINDOW as u64)?;
                (end <= HIGHEST).then_some(start..end)
            })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule() -> impl Strategy<Value = ByteRule> {
        prop_oneof![
            Just(ByteRule::Any),
            any::<u8>().prop_map(ByteRule::Is),
            Just(ByteRule::NoInstruction)
        ]
    }

    proptest! {
        #[test]
        fn the_first_target_fits_and_nothing_before_it(
            rules in prop::array::uniform4(rule()),
            from in 0x1000_u64..0x7fff_ffff_0000,
            start in any::<i32>(),
            length in 1_u64..0x2_0000,
        ) {
            let pattern = Pattern::new(from, rules);
            let start = from.saturating_add_signed(i64::from(start));
            let range = start..start + length;
            let found = pattern.first_target(range.clone());
            let naive = range.take_while(|at| *at < HIGHEST).find(|at| pattern.displacement(*at).is_some());
            prop_assert_eq!(found, naive);
        }

        #[test]
        fn every_target_is_in_a_window(rules in prop::array::uniform4(rule()), distance in any::<i32>()) {
            let from = 0x5555_5555_0000;
            let pattern = Pattern::new(from, rules);
            let target = from.wrapping_add_signed(i64::from(distance));
            if pattern.displacement(target).is_some() {
                let inside = pattern.windows().any(|window| window.contains(&target));
                prop_assert!(inside);
                let inside = pattern.regions().any(|region| region.range().contains(&target));
                prop_assert!(inside);
            }
        }
    }
}
