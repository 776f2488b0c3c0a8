//! The fields of packets: numbers, addresses, bytes, texts.

use std::fmt;

use tracewire_model::{Address, RegisterNumber, TracepointNumber, VariableNumber};

use crate::escape::{escape, unescape};
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

/// A field of a packet, which parses its own part.
pub(crate) trait Field: Sized {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected>;
    fn print(&self, out: &mut Vec<u8>);
}

/// Support for tests of a field: any value that it can have in a packet.
#[cfg(test)]
pub(crate) trait Sample: Sized {
    fn strategy() -> proptest::strategy::BoxedStrategy<Self>;
}

macro_rules! hexadecimal {
    ($( $type:ty, $inner:ty, $what:literal, $make:expr, $value:expr; )*) => {$(
        impl Field for $type {
            fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
                scanner.hex_up_to(<$inner>::MAX as u64, $what).map(|value| $make(value as $inner))
            }

            fn print(&self, out: &mut Vec<u8>) {
                hex::put_number($value(self) as u64, out);
            }
        }

        #[cfg(test)]
        impl Sample for $type {
            fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
                use proptest::strategy::Strategy;
                (0..=<$inner>::MAX).prop_map($make).boxed()
            }
        }
    )*};
}

hexadecimal! {
    u8, u8, "a hexadecimal number of at most ff", |value| value, |value: &u8| *value;
    u16, u16, "a hexadecimal number of at most ffff", |value| value, |value: &u16| *value;
    u32, u32, "a hexadecimal number of at most ffffffff", |value| value, |value: &u32| *value;
    u64, u64, "a hexadecimal number", |value| value, |value: &u64| *value;
    Address, u64, "a hexadecimal address", Address, |value: &Address| value.0;
    RegisterNumber, u16, "a register number of at most ffff", RegisterNumber, |value: &RegisterNumber| value.0;
    TracepointNumber, i32, "a tracepoint number of at most 7fffffff", TracepointNumber, |value: &TracepointNumber| value.0 as u32;
    VariableNumber, i32, "a variable number of at most 7fffffff", VariableNumber, |value: &VariableNumber| value.0 as u32;
}

/// `1` or `0`.
impl Field for bool {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        match scanner.byte() {
            Some(b'0') => Ok(false),
            Some(b'1') => Ok(true),
            _ => Err(start.expected("1 or 0")),
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        out.push(b'0' + u8::from(*self));
    }
}

/// An address with all its 16 digits, as GDB writes it in some packets (`phex` in its source, beside `phex_nz`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WideAddress(pub Address);

impl Field for WideAddress {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        scanner.hex().map(|value| Self(Address(value)))
    }

    fn print(&self, out: &mut Vec<u8>) {
        hex::put_padded(self.0.0, 16, out);
    }
}

impl fmt::Display for WideAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A signal, by the protocol's numbers (GDB's `enum gdb_signal`, not the host's).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Signal(pub u8);

impl Signal {
    /// SIGINT, the signal of an interrupt.
    pub const INTERRUPT: Self = Self(2);
    /// SIGTRAP, the signal of a breakpoint or a step.
    pub const TRAP: Self = Self(5);
}

/// Two digits.
impl Field for Signal {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        scanner
            .hex_up_to(0xff, "a signal number of at most ff")
            .map(|value| Self(value as u8))
    }

    fn print(&self, out: &mut Vec<u8>) {
        hex::encode(&[self.0], out);
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 16] = [
            "0", "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGEMT", "SIGFPE",
            "SIGKILL", "SIGBUS", "SIGSEGV", "SIGSYS", "SIGPIPE", "SIGALRM", "SIGTERM",
        ];
        match NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// Bytes, two digits each: names, texts, contents of registers and memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HexBytes(pub Vec<u8>);

impl Field for HexBytes {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        hex::decode(scanner.digits())
            .map(Self)
            .ok_or_else(|| start.expected("bytes of two hexadecimal digits each"))
    }

    fn print(&self, out: &mut Vec<u8>) {
        hex::encode(&self.0, out);
    }
}

/// As text where it is one, or by the number of bytes.
impl fmt::Display for HexBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.0, f)
    }
}

/// Binary data up to the end of the packet, escaped there and plain here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Binary(pub Vec<u8>);

impl Field for Binary {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        unescape(scanner.take_rest())
            .map(Self)
            .ok_or_else(|| start.expected("binary data that does not end in an escape"))
    }

    fn print(&self, out: &mut Vec<u8>) {
        escape(&self.0, out);
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.0, f)
    }
}

/// How many characters of a text an explanation shows.
const SHOWN: usize = 60;

fn show(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n') => {
            let shown: String = text.chars().take(SHOWN).collect();
            let rest = if shown.len() < text.len() { "…" } else { "" };
            write!(f, "`{}{rest}`", shown.escape_debug())
        }
        _ => write!(f, "{} bytes", bytes.len()),
    }
}

/// `length:bytes` in hexadecimal (`M`), where the length must be true.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CountedHex(pub Vec<u8>);

impl Field for CountedHex {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let length = scanner.hex()?;
        scanner.literal(":")?;
        let HexBytes(bytes) = Field::scan(scanner)?;
        counted(start, length, bytes).map(Self)
    }

    fn print(&self, out: &mut Vec<u8>) {
        hex::put_number(self.0.len() as u64, out);
        out.push(b':');
        hex::encode(&self.0, out);
    }
}

/// `length:bytes` in binary (`X`), where the length must be true.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CountedBinary(pub Vec<u8>);

impl Field for CountedBinary {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let length = scanner.hex()?;
        scanner.literal(":")?;
        let Binary(bytes) = Field::scan(scanner)?;
        counted(start, length, bytes).map(Self)
    }

    fn print(&self, out: &mut Vec<u8>) {
        hex::put_number(self.0.len() as u64, out);
        out.push(b':');
        escape(&self.0, out);
    }
}

fn counted(start: Scanner<'_>, length: u64, bytes: Vec<u8>) -> Result<Vec<u8>, Expected> {
    if bytes.len() as u64 == length {
        Ok(bytes)
    } else {
        Err(start.expected("the number of bytes that follow"))
    }
}

/// A number that may be negative: `-` and the digits of its magnitude.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SignedHex(pub i64);

impl Field for SignedHex {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let negative = scanner.take("-");
        let magnitude = i128::from(scanner.hex()?);
        i64::try_from(if negative { -magnitude } else { magnitude })
            .map(Self)
            .map_err(|_| start.expected("a signed hexadecimal number of at most 64 bits"))
    }

    fn print(&self, out: &mut Vec<u8>) {
        if self.0 < 0 {
            out.push(b'-');
        }
        hex::put_number(self.0.unsigned_abs(), out);
    }
}

impl fmt::Display for SignedHex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A word of the protocol, up to the next `:`, `;`, `,` or `=`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Word(pub String);

impl Field for Word {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let bytes = scanner.until(|byte| matches!(byte, b':' | b';' | b',' | b'='));
        match std::str::from_utf8(bytes) {
            Ok(word) => Ok(Self(word.to_owned())),
            Err(_) => Err(start.expected("text")),
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Numbers with a `;` between them, or after each of them where GDB writes it so (`QPassSignals`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    /// The numbers.
    pub list: Vec<u64>,
    /// Whether a `;` is after the last one too.
    pub ends_in_semicolon: bool,
}

impl Field for Numbers {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut numbers = Self::default();
        while !scanner.is_at_end() {
            numbers.list.push(scanner.hex()?);
            numbers.ends_in_semicolon = scanner.take(";");
            if !numbers.ends_in_semicolon {
                break;
            }
        }
        Ok(numbers)
    }

    fn print(&self, out: &mut Vec<u8>) {
        for (place, number) in self.list.iter().enumerate() {
            if place > 0 {
                out.push(b';');
            }
            hex::put_number(*number, out);
        }
        if self.ends_in_semicolon && !self.list.is_empty() {
            out.push(b';');
        }
    }
}

#[cfg(test)]
mod samples {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::strategy::BoxedStrategy;

    use super::{
        Address, Binary, CountedBinary, CountedHex, HexBytes, Numbers, Sample, Signal, SignedHex,
        WideAddress, Word,
    };

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..40)
    }

    macro_rules! samples {
        ($( $type:ty = $strategy:expr; )*) => {$(
            impl Sample for $type {
                fn strategy() -> BoxedStrategy<Self> {
                    $strategy.boxed()
                }
            }
        )*};
    }

    samples! {
        bool = any::<bool>();
        WideAddress = any::<u64>().prop_map(|address| WideAddress(Address(address)));
        Signal = any::<u8>().prop_map(Signal);
        SignedHex = any::<i64>().prop_map(SignedHex);
        HexBytes = bytes().prop_map(HexBytes);
        Binary = bytes().prop_map(Binary);
        CountedHex = bytes().prop_map(CountedHex);
        CountedBinary = bytes().prop_map(CountedBinary);
        Word = "[A-Za-z][A-Za-z0-9.+-]{0,12}".prop_map(Word);
        Numbers = (vec(any::<u64>(), 0..6), any::<bool>()).prop_map(|(list, ends)| Numbers {
            ends_in_semicolon: ends && !list.is_empty(),
            list,
        });
    }

    impl<T: Sample + std::fmt::Debug + 'static> Sample for Option<T> {
        fn strategy() -> BoxedStrategy<Self> {
            proptest::option::of(T::strategy()).boxed()
        }
    }
}
