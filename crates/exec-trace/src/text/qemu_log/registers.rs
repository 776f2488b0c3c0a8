//! The lines in which QEMU shows a cpu's registers, of each machine, with the names that GDB has for them.

use super::super::cursor::is_blank;
use tracewire_model::hex;

/// What a line of registers gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown<'a> {
    name: Name<'a>,
    /// Hex digits, 32 at most.
    pub(super) digits: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name<'a> {
    /// Of the text, in lower case.
    Text(&'a [u8]),
    /// A letter and a number.
    Number(u8, u32),
}

impl Shown<'_> {
    /// Writes GDB's name of the register.
    pub(super) fn put_name(&self, out: &mut Vec<u8>) {
        match self.name {
            Name::Text(text) => out.extend(text.iter().map(u8::to_ascii_lowercase)),
            Name::Number(letter, number) => {
                out.push(letter);
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
        }
    }
}

/// What a cpu's registers say of its mode.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Mode<'a> {
    pub(super) set: Option<&'static str>,
    pub(super) mode: &'a [u8],
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| is_blank(*byte))
        .filter(|word| !word.is_empty())
}

fn is_value(word: &[u8]) -> bool {
    (1..=32).contains(&word.len()) && word.iter().all(|byte| hex::digit(*byte) <= 15)
}

/// The mode that a line of `PSR=` (Arm) or `PSTATE=` (AArch64) shows.
pub(super) fn mode(line: &[u8]) -> Option<Mode<'_>> {
    let is_64 = line.starts_with(b"PSTATE=");
    if !is_64 && !line.starts_with(b"PSR=") {
        return None;
    }
    let mut words = words(line).skip(2).peekable();
    let set = match words.peek() {
        _ if is_64 => Some("O"),
        Some(&b"A") => Some("A"),
        Some(&b"T") => Some("T"),
        _ => None,
    };
    let of_mode = |word: &&[u8]| {
        word.iter().all(u8::is_ascii_alphanumeric)
            && match is_64 {
                true => word.starts_with(b"EL"),
                false => word.ends_with(b"32") || word.ends_with(b"26"),
            }
    };
    Some(Mode {
        set,
        mode: words.find(of_mode).unwrap_or_default(),
    })
}

/// Whether a line can be one of a cpu's registers.
pub(super) fn is_line(line: &[u8]) -> bool {
    !line.is_empty()
        && !line.starts_with(b"---")
        && !line.starts_with(b"Trace ")
        && !line.starts_with(b"IN:")
        && !line.starts_with(b"Stopped ")
        && !line.starts_with(b"0x")
        && super::transcribe::exception(line).is_none()
}

/// The registers of a line. `width` is how many digits PowerPC's general registers have, which are shown with 16 in any case.
pub(super) fn each<'a>(line: &'a [u8], width: usize, mut give: impl FnMut(Shown<'a>)) {
    if let Some(rest) = line.strip_prefix(b"GPR") {
        return general(rest, width, give);
    }
    let mut pairs = |names: &[&'static [u8]]| {
        let mut words = words(line).peekable();
        while let Some(word) = words.next() {
            let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(word)) else {
                continue;
            };
            let value = words.peek().copied().unwrap_or_default();
            let digits = value.strip_prefix(b"0x").unwrap_or(value);
            if is_value(digits) {
                give(Shown {
                    name: Name::Text(name),
                    digits,
                });
            }
        }
    };
    match line {
        [b'N', b'I', b'P', b' ', ..] => return pairs(&[b"lr", b"ctr", b"xer"]),
        [b'M', b'S', b'R', b' ', ..] => return pairs(&[b"msr"]),
        [b'C', b'R', b' ', ..] => return pairs(&[b"cr"]),
        [b'C', b'P', b'0', b' ', ..] => return pairs(&[b"status", b"cause"]),
        _ => {}
    }
    if memchr::memchr(b'=', line).is_some() {
        assignments(line, give);
    } else if line.starts_with(b" ") && !line.starts_with(b"    ") {
        // RISC-V: `x2/sp    00000000000110ec`, ` mstatus  0000000a00000000`.
        let mut words = words(line);
        while let (Some(name), Some(digits)) = (words.next(), words.next()) {
            let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
            let is_name = name.first().is_some_and(u8::is_ascii_lowercase)
                && name
                    .iter()
                    .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                && name != b"pc";
            if !matches!(digits.len(), 8 | 16) || !is_value(digits) {
                return;
            }
            if is_name {
                give(Shown {
                    name: Name::Text(name),
                    digits,
                });
            }
        }
    }
}

/// The digits of PowerPC's counter, which has those of the machine.
pub(super) fn width(line: &[u8]) -> Option<usize> {
    let word = words(line.strip_prefix(b"NIP ")?).next()?;
    is_value(word).then_some(word.len())
}

/// `GPR04: a0 00000000 …` of MIPS, `GPR04 0000000000000000 …` of PowerPC.
fn general<'a>(rest: &'a [u8], width: usize, mut give: impl FnMut(Shown<'a>)) {
    let [tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] = rest else {
        return;
    };
    let mut number = u32::from(tens - b'0') * 10 + u32::from(ones - b'0');
    let mut put = |digits: &'a [u8]| {
        if is_value(digits) {
            give(Shown {
                name: Name::Number(b'r', number),
                digits,
            });
        }
        number += 1;
    };
    match rest.strip_prefix(b":") {
        Some(rest) => words(rest).skip(1).step_by(2).for_each(put),
        None => {
            words(rest).for_each(|word| put(&word[word.len().saturating_sub(width.clamp(8, 16))..]))
        }
    }
}

/// `NAME=VALUE`, blanks before the sign allowed: Arm, AArch64, x86, and HI and LO of MIPS.
fn assignments<'a>(line: &'a [u8], mut give: impl FnMut(Shown<'a>)) {
    for sign in memchr::memchr_iter(b'=', line) {
        let before = line[..sign].trim_ascii_end();
        let start = before
            .iter()
            .rposition(|byte| !byte.is_ascii_alphanumeric())
            .map_or(0, |at| at + 1);
        let after = &line[sign + 1..];
        let after = after.strip_prefix(b"0x").unwrap_or(after);
        let length = after
            .iter()
            .take_while(|byte| hex::digit(**byte) <= 15)
            .count();
        let digits = &after[..length];
        if !is_value(digits) {
            continue;
        }
        if let Some(name) = name(&before[start..], digits.len()) {
            give(Shown { name, digits });
        }
        // The base of a segment that 64-bit code uses is after its selector.
        if matches!(&before[start..], b"FS" | b"GS") {
            let base = words(&after[length..]).next().unwrap_or_default();
            if base.len() == 16 && is_value(base) {
                let name: &[u8] = match before[start] {
                    b'F' => b"fs_base",
                    _ => b"gs_base",
                };
                give(Shown {
                    name: Name::Text(name),
                    digits: base,
                });
            }
        }
    }
}

/// GDB's name for what is before a sign; none for what it has no register for.
fn name(shown: &[u8], digits: usize) -> Option<Name<'_>> {
    let number = |digits: &[u8]| match digits {
        [ones @ b'0'..=b'9'] => Some(u32::from(ones - b'0')),
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
        }
        _ => None,
    };
    Some(match shown {
        b"PSR" | b"PSTATE" => Name::Text(b"cpsr"),
        b"XPSR" => Name::Text(b"xpsr"),
        b"SP" | b"HI" | b"LO" | b"EFER" | b"CR0" | b"CR2" | b"CR3" | b"CR4" => Name::Text(shown),
        b"EFL" | b"RFL" => Name::Text(b"eflags"),
        b"ES" | b"CS" | b"SS" | b"DS" | b"FS" | b"GS" => Name::Text(shown),
        [b'E' | b'R', b'A' | b'B' | b'C' | b'D', b'X']
        | [b'E' | b'R', b'S' | b'D', b'I']
        | [b'E' | b'R', b'B' | b'S', b'P'] => Name::Text(shown),
        [b'X', rest @ ..] if digits == 16 => Name::Number(b'x', number(rest)?),
        [b'R', rest @ ..] => match (number(rest)?, digits) {
            (13, 8) => Name::Text(b"sp"),
            (14, 8) => Name::Text(b"lr"),
            (15, 8) => return None,
            (number, 8 | 16) => Name::Number(b'r', number),
            _ => return None,
        },
        _ => return None,
    })
}
