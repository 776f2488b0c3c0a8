//! `printf` of agent expressions: the output of a breakpoint's commands.
//!
//! The format is as the user wrote it between quotes, escapes included; the values are integers and addresses, since an agent
//! expression has nothing else.

/// Appends what C's `printf` would print. `string` reads the string at an address, up to its zero byte. A directive that is not
/// supported, such as one for floating point, is copied unchanged.
pub(crate) fn print(
    format: &[u8],
    arguments: &[u64],
    string: &mut dyn FnMut(u64) -> Vec<u8>,
    output: &mut Vec<u8>,
) {
    let format = unescaped(format);
    let mut arguments = arguments.iter().copied();
    let mut rest = format.as_slice();
    while let Some(percent) = rest.iter().position(|byte| *byte == b'%') {
        let (literal, from_percent) = rest.split_at(percent);
        output.extend_from_slice(literal);
        let Some((directive, behind)) = Directive::read(from_percent) else {
            output.extend_from_slice(from_percent);
            return;
        };
        let text = from_percent
            .get(..from_percent.len() - behind.len())
            .unwrap_or_default();
        rest = behind;
        if directive.letter == b'%' {
            output.push(b'%');
            continue;
        }
        let value = arguments.next().unwrap_or(0);
        match directive.letter {
            b's' => {
                let mut bytes = match value {
                    0 => b"(null)".to_vec(),
                    address => string(address),
                };
                bytes.truncate(directive.precision.unwrap_or(usize::MAX));
                directive.pad(&bytes, b"", output);
            }
            b'c' => directive.pad(&[value as u8], b"", output),
            b'p' => directive.pad(format!("{value:#x}").as_bytes(), b"", output),
            b'd' | b'i' => directive.signed(directive.sized(value), output),
            b'u' => {
                let number = directive.truncated(value);
                directive.number(number.to_string(), b"", output);
            }
            b'x' => {
                let prefix = directive.prefix(b"0x", value);
                let number = directive.truncated(value);
                directive.number(format!("{number:x}"), prefix, output);
            }
            b'X' => {
                let prefix = directive.prefix(b"0X", value);
                let number = directive.truncated(value);
                directive.number(format!("{number:X}"), prefix, output);
            }
            b'o' => {
                let prefix = directive.prefix(b"0", value);
                let number = directive.truncated(value);
                directive.number(format!("{number:o}"), prefix, output);
            }
            _ => output.extend_from_slice(text),
        }
    }
    output.extend_from_slice(rest);
}

/// The widest field that is padded.
const WIDEST: usize = 4096;

/// The part between a `%` and its letter.
#[derive(Default)]
struct Directive {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    width: usize,
    precision: Option<usize>,
    bits: u32,
    letter: u8,
}

impl Directive {
    /// Reads one at a `%`, and returns the rest of the text; `None` if the text ends before the letter.
    fn read(text: &[u8]) -> Option<(Self, &[u8])> {
        let mut rest = text.strip_prefix(b"%")?;
        let mut directive = Self {
            bits: 32,
            ..Self::default()
        };
        loop {
            let (flag, behind) = rest.split_first()?;
            match flag {
                b'-' => directive.left = true,
                b'0' => directive.zeros = true,
                b'+' => directive.plus = true,
                b' ' => directive.space = true,
                b'#' => directive.alternative = true,
                _ => break,
            }
            rest = behind;
        }
        (directive.width, rest) = number(rest);
        if let Some(behind) = rest.strip_prefix(b".") {
            let (precision, behind) = number(behind);
            directive.precision = Some(precision);
            rest = behind;
        }
        while let (letter @ (b'l' | b'z' | b'j' | b't' | b'h'), behind) = rest.split_first()? {
            directive.bits = match letter {
                b'h' => directive.bits / 2,
                _ => 64,
            };
            rest = behind;
        }
        let (letter, behind) = rest.split_first()?;
        directive.letter = *letter;
        Some((directive, behind))
    }

    fn truncated(&self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - self.bits.clamp(8, 64)))
    }

    fn sized(&self, value: u64) -> i64 {
        let unused = 64 - self.bits.clamp(8, 64);
        (value << unused).cast_signed() >> unused
    }

    fn prefix(&self, prefix: &'static [u8], value: u64) -> &'static [u8] {
        if self.alternative && self.truncated(value) != 0 {
            prefix
        } else {
            b""
        }
    }

    fn signed(&self, value: i64, output: &mut Vec<u8>) {
        let sign: &[u8] = match value {
            ..0 => b"-",
            _ if self.plus => b"+",
            _ if self.space => b" ",
            _ => b"",
        };
        self.number(value.unsigned_abs().to_string(), sign, output);
    }

    fn number(&self, digits: String, sign: &[u8], output: &mut Vec<u8>) {
        let least = self.precision.unwrap_or(1).min(WIDEST);
        let digits = match self.precision {
            Some(0) if digits == "0" => String::new(),
            _ => format!("{digits:0>least$}"),
        };
        self.pad(digits.as_bytes(), sign, output);
    }

    /// Fills the field: blanks before the sign, zeros after it, or blanks at the end.
    fn pad(&self, text: &[u8], sign: &[u8], output: &mut Vec<u8>) {
        let missing = self
            .width
            .min(WIDEST)
            .saturating_sub(text.len() + sign.len());
        let is_number = matches!(self.letter, b'd' | b'i' | b'u' | b'x' | b'X' | b'o');
        let zeros = self.zeros && !self.left && is_number && self.precision.is_none();
        let fill = |output: &mut Vec<u8>, byte: u8| output.resize(output.len() + missing, byte);
        if !self.left && !zeros {
            fill(output, b' ');
        }
        output.extend_from_slice(sign);
        if zeros {
            fill(output, b'0');
        }
        output.extend_from_slice(text);
        if self.left {
            fill(output, b' ');
        }
    }
}

fn number(text: &[u8]) -> (usize, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let number = digits.iter().fold(0_usize, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(usize::from(digit - b'0'))
    });
    (number, rest)
}

/// The format with C's escapes replaced. Unknown ones are kept.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let octal = rest
            .iter()
            .take(3)
            .take_while(|digit| (b'0'..=b'7').contains(digit))
            .count();
        if octal > 0 {
            let (digits, behind) = rest.split_at(octal);
            plain.push(digits.iter().fold(0_u8, |value, digit| {
                value.wrapping_mul(8).wrapping_add(digit - b'0')
            }));
            rest = behind;
            continue;
        }
        let Some((letter, behind)) = rest.split_first() else {
            plain.push(b'\\');
            break;
        };
        rest = behind;
        match letter {
            b'a' => plain.push(7),
            b'b' => plain.push(8),
            b't' => plain.push(b'\t'),
            b'n' => plain.push(b'\n'),
            b'v' => plain.push(11),
            b'f' => plain.push(12),
            b'r' => plain.push(b'\r'),
            b'e' => plain.push(27),
            b'\\' | b'"' | b'\'' => plain.push(*letter),
            other => plain.extend([b'\\', *other]),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::print;

    fn printed(format: &str, arguments: &[u64]) -> String {
        let mut output = Vec::new();
        let mut string = |address: u64| format!("at {address:x}").into_bytes();
        print(format.as_bytes(), arguments, &mut string, &mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn prints_as_c_does() {
        let minus = (-5_i64).cast_unsigned();
        assert_eq!(printed(r"a=%d\n", &[minus]), "a=-5\n");
        assert_eq!(printed("%u %lu", &[minus, 7]), "4294967291 7");
        assert_eq!(
            printed("[%5d|%-5d|%05d|%+d]", &[42, 42, minus, 42]),
            "[   42|42   |-0005|+42]"
        );
        assert_eq!(printed("%x %#lx %o", &[255, 255, 8]), "ff 0xff 10");
        assert_eq!(
            printed("%.3d %5.1s|%c%%", &[7, 16, u64::from(b'x')]),
            "007     a|x%"
        );
        assert_eq!(printed("%s, %s", &[0, 0x40]), "(null), at 40");
        assert_eq!(printed(r#"\"\101\\"#, &[]), "\"A\\");
        assert_eq!(printed("%f and %", &[1]), "%f and %");
        assert_eq!(printed("%hhd %hd", &[0x1ff, 0x18000]), "-1 -32768");
    }
}
