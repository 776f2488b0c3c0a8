//! Numbers as GDB writes them, and constant expressions of them.

/// Reads a number: decimal, `0x` hexadecimal or, with a leading 0, octal.
pub(crate) fn integer(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    // `from_str_radix` takes a sign; a number here has none.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// How deep brackets and signs may be nested.
const DEPTH_LIMIT: usize = 64;

/// The value of a constant expression of C: numbers, characters, brackets, signs and the operators of integers.
///
/// # Errors
/// The reason why it is not one.
pub(crate) fn constant(text: &str) -> Result<i64, &'static str> {
    let mut parser = Parser { rest: text };
    let value = parser.binary(0, 0)?;
    if parser.peek().is_some() {
        return Err("more follows it, or it holds something that is not a number");
    }
    Ok(value)
}

struct Parser<'a> {
    rest: &'a str,
}

/// The operators of two operands, with how tightly they bind. Longer ones first.
const BINARY: &[(&str, u8)] = &[
    ("<<", 5),
    (">>", 5),
    ("*", 7),
    ("/", 7),
    ("%", 7),
    ("+", 6),
    ("-", 6),
    ("&", 4),
    ("^", 3),
    ("|", 2),
];

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn binary(&mut self, least: u8, depth: usize) -> Result<i64, &'static str> {
        let mut left = self.unary(depth)?;
        loop {
            self.peek();
            let Some((operator, level)) = BINARY
                .iter()
                .find(|(operator, level)| *level > least && self.rest.starts_with(operator))
            else {
                return Ok(left);
            };
            self.rest = &self.rest[operator.len()..];
            let right = self.binary(*level, depth)?;
            left = apply(operator, left, right)?;
        }
    }

    fn unary(&mut self, depth: usize) -> Result<i64, &'static str> {
        if depth > DEPTH_LIMIT {
            return Err("it is nested too deeply");
        }
        let Some(first) = self.peek() else {
            return Err("there is nothing where a number should be");
        };
        let after = &self.rest[first.len_utf8()..];
        match first {
            '-' | '+' | '~' | '!' => {
                self.rest = after;
                let value = self.unary(depth + 1)?;
                Ok(match first {
                    '-' => value.wrapping_neg(),
                    '~' => !value,
                    '!' => i64::from(value == 0),
                    _ => value,
                })
            }
            '(' => {
                self.rest = after;
                let value = self.binary(0, depth + 1)?;
                if self.peek() != Some(')') {
                    return Err("`)` is missing");
                }
                self.rest = &self.rest[1..];
                Ok(value)
            }
            '\'' => {
                let mut characters = after.chars();
                match (characters.next(), characters.next()) {
                    (Some(character), Some('\'')) if character.is_ascii() && character != '\\' => {
                        self.rest = characters.as_str();
                        Ok(i64::from(character as u32))
                    }
                    _ => Err("this character is not understood"),
                }
            }
            '0'..='9' => {
                let end = self
                    .rest
                    .find(|c: char| !c.is_ascii_alphanumeric())
                    .unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(end);
                self.rest = rest;
                let digits = number.trim_end_matches(['u', 'U', 'l', 'L']);
                let value = integer(digits).ok_or("this number is not understood or too large")?;
                Ok(value as i64)
            }
            _ => Err("only numbers and operators are known before the program runs"),
        }
    }
}

fn apply(operator: &str, left: i64, right: i64) -> Result<i64, &'static str> {
    let shift = || u32::try_from(right).map_err(|_| "a shift by a negative or huge number");
    Ok(match operator {
        "*" => left.wrapping_mul(right),
        "/" | "%" if right == 0 => return Err("it divides by zero"),
        "/" => left.wrapping_div(right),
        "%" => left.wrapping_rem(right),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "<<" => left.checked_shl(shift()?).unwrap_or(0),
        ">>" => left.checked_shr(shift()?).unwrap_or(left >> 63),
        "&" => left & right,
        "^" => left ^ right,
        _ => left | right,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_c() {
        assert_eq!(constant("0"), Ok(0));
        assert_eq!(constant(" -5 "), Ok(-5));
        assert_eq!(constant("2 + 3 * 4 - 1"), Ok(13));
        assert_eq!(constant("10 - 3 - 2"), Ok(5));
        assert_eq!(constant("(1 << 10) | 0x0f & ~3"), Ok(1024 + 12));
        assert_eq!(constant("'A' + 010"), Ok(73));
        assert_eq!(constant("-9223372036854775808"), Ok(i64::MIN));
        assert!(constant("1 / 0").is_err());
        assert!(constant("total").is_err());
        assert!(constant("1 2").is_err());
        assert!(constant(&"(".repeat(100_000)).is_err());
        assert!(constant(&"-".repeat(100_000)).is_err());
    }
}
