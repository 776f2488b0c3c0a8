//! The arguments of a marker: `-4@%eax 8@-16(%rbp) 8@$5`, in the assembler's notation for x86, as agent expressions.

use tracewire_agent_expr::{Builder, Opcode};
use tracewire_tracefile::{Architecture, RegisterLayout, RegisterNumber, X86Registers};

use crate::location::Marker;
use crate::symbols::Symbols;

/// One argument of a marker, ready to be read where a thread is at the marker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkerArgument {
    /// Whether it is a signed number.
    pub signed: bool,
    /// How many bits it has: 8, 16, 32 or 64.
    pub bits: u8,
    /// An agent expression that leaves the number, extended to 64 bits; none for an operand that is not known.
    pub program: Option<Vec<u8>>,
}

/// The most arguments a marker has (`sys/sdt.h` has macros for 12).
const MOST: usize = 64;

impl Symbols {
    /// The arguments of a marker, in order.
    #[must_use]
    pub fn marker_arguments(&self, marker: &Marker) -> Vec<MarkerArgument> {
        let machine = self
            .module(marker.module)
            .map_or(Architecture::X86_64, |module| module.architecture);
        let layout = match machine {
            Architecture::X86_64 => X86Registers::Sse.layout_64(),
            Architecture::I386 => X86Registers::Sse.layout_32(),
            _ => return Vec::new(),
        };
        let reader = OperandReader {
            symbols: self,
            marker,
            layout,
            narrow: machine == Architecture::I386,
        };
        marker
            .arguments
            .split_whitespace()
            .take(MOST)
            .map(|text| reader.argument(text))
            .collect()
    }
}

struct OperandReader<'s> {
    symbols: &'s Symbols,
    marker: &'s Marker,
    layout: RegisterLayout,
    narrow: bool,
}

/// A register by any of its names: which one, and which part of it.
struct Part {
    register: RegisterNumber,
    /// By how many bits it is to be shifted down.
    shift: u8,
    bits: u8,
}

impl OperandReader<'_> {
    fn argument(&self, text: &str) -> MarkerArgument {
        let word = if self.narrow { 4 } else { 8 };
        let (size, operand) = text.split_once('@').unwrap_or(("", text));
        let size: i32 = size.parse().unwrap_or(word);
        let bytes = match size.unsigned_abs() {
            bytes @ (1 | 2 | 4 | 8) => bytes as u8,
            // Markers of old have no sizes: GDB takes the machine's word.
            _ => word as u8,
        };
        let (signed, bits) = (size < 0, bytes * 8);
        let mut builder = Builder::new();
        let program = self.operand(operand, bytes, &mut builder).and_then(|()| {
            if bits < 64 {
                if signed {
                    builder.ext(bits);
                } else {
                    builder.zero_ext(bits);
                }
            }
            builder.op(Opcode::End);
            builder.finish().ok()
        });
        MarkerArgument {
            signed,
            bits,
            program,
        }
    }

    /// Leaves the operand's value; none when it is not known.
    fn operand(&self, text: &str, size: u8, builder: &mut Builder) -> Option<()> {
        if let Some(value) = text.strip_prefix('$') {
            builder.constant(self.displacement(value)?);
            return Some(());
        }
        if let Some(name) = text.strip_prefix('%')
            && !text.contains(['(', ':'])
        {
            let part = self.part(name)?;
            builder.reg(part.register.0);
            if part.shift > 0 {
                builder
                    .constant(i64::from(part.shift))
                    .op(Opcode::RshUnsigned);
            }
            // An argument that is wider than its register has what the register has.
            if part.bits < 64 && part.bits < size * 8 {
                builder.zero_ext(part.bits);
            }
            return Some(());
        }
        self.address(text, builder)?;
        builder.load(size);
        Some(())
    }

    /// Leaves the address of `segment:displacement(base,index,scale)`.
    fn address(&self, text: &str, builder: &mut Builder) -> Option<()> {
        let (segment, rest) = match text.split_once(':') {
            Some((segment, rest)) => (Some(segment), rest),
            None => (None, text),
        };
        let (displacement, registers) = match rest.split_once('(') {
            Some((displacement, registers)) => (displacement, registers.strip_suffix(')')?),
            None => (rest, ""),
        };
        let mut parts = registers.split(',').map(str::trim);
        let base = parts.next().unwrap_or_default();
        let index = parts.next().unwrap_or_default();
        let scale: i64 = match parts.next() {
            None | Some("") => 1,
            Some(scale) => scale.parse().ok()?,
        };
        let empty = displacement.is_empty() && base.is_empty() && index.is_empty();
        if empty || parts.next().is_some() || !matches!(scale, 1 | 2 | 4 | 8) {
            return None;
        }
        builder.constant(match displacement {
            "" => 0,
            displacement => self.displacement(displacement)?,
        });
        match base.strip_prefix('%') {
            // What stands before it is a symbol's address already.
            Some("rip") => {}
            Some(name) => {
                builder.reg(self.whole(name)?.0).op(Opcode::Add);
            }
            None if base.is_empty() => {}
            None => return None,
        }
        if let Some(name) = index.strip_prefix('%') {
            builder
                .reg(self.whole(name)?.0)
                .constant(scale)
                .op(Opcode::Mul)
                .op(Opcode::Add);
        } else if !index.is_empty() {
            return None;
        }
        match segment {
            None => {}
            Some(name @ ("%fs" | "%gs")) => {
                let base = format!("{}_base", name.trim_start_matches('%'));
                builder.reg(self.whole(&base)?.0).op(Opcode::Add);
            }
            Some(_) => return None,
        }
        if self.narrow {
            builder.zero_ext(32);
        }
        Some(())
    }

    /// A number, or the address of a symbol and a number.
    fn displacement(&self, text: &str) -> Option<i64> {
        if let Some(number) = number(text) {
            return Some(number);
        }
        // From the second letter on: a sign at the start belongs to a number.
        let end = text
            .char_indices()
            .skip(1)
            .find(|(_, letter)| matches!(letter, '+' | '-'))
            .map_or(text.len(), |(place, _)| place);
        let (name, offset) = text.split_at(end);
        let offset = if offset.is_empty() {
            0
        } else {
            number(offset)?
        };
        let module = self.symbols.module_of(self.marker.module)?;
        let symbol = module.elf_symbols().named(name).next()?;
        let address = module.biased(symbol.address);
        Some(address.0.cast_signed().wrapping_add(offset))
    }

    fn whole(&self, name: &str) -> Option<RegisterNumber> {
        self.part(name)
            .filter(|part| part.shift == 0 && part.bits >= 32)
            .map(|part| part.register)
    }

    fn part(&self, name: &str) -> Option<Part> {
        let full = if self.narrow { 'e' } else { 'r' };
        let part = |base: &str, shift: u8, bits: u8| {
            let register = self
                .layout
                .registers()
                .iter()
                .find(|register| register.name == base)?;
            Some(Part {
                register: register.number,
                shift,
                bits,
            })
        };
        let own = if self.narrow { 32 } else { 64 };
        // The names as the target description has them.
        if let Some(found) = part(name, 0, own) {
            return Some(found);
        }
        // r8d, r8w, r8b
        if name.starts_with('r') && name.as_bytes().get(1).is_some_and(u8::is_ascii_digit) {
            let (base, last) = name.split_at(name.len() - 1);
            let bits = match last {
                "d" => 32,
                "w" => 16,
                "b" => 8,
                _ => return None,
            };
            return part(base, 0, bits);
        }
        match (name.len(), name.chars().last()?) {
            (3, _) if name.starts_with('e') => part(&format!("{full}{}", name.get(1..)?), 0, 32),
            (3, 'l') => part(&format!("{full}{}", name.get(..2)?), 0, 8),
            (2, 'l') => part(&format!("{full}{}x", name.get(..1)?), 0, 8),
            (2, 'h') => part(&format!("{full}{}x", name.get(..1)?), 8, 8),
            (2, _) => part(&format!("{full}{name}"), 0, 16),
            _ => None,
        }
    }
}

/// A number of C's, with its sign.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    let value = value.cast_signed();
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tracewire_agent_expr::{Context, Evaluation, verify};
    use tracewire_tracefile::Address;

    use super::*;
    use crate::ModuleId;

    /// Every register holds its own number in each of its bytes, and memory the address.
    struct Machine;

    impl Context for Machine {
        fn register(&mut self, register: u16) -> Option<u64> {
            Some(u64::from(register) * 0x0101_0101_0101_0101)
        }

        fn memory(&mut self, address: u64, _: u8) -> Option<u64> {
            Some(address)
        }

        fn variable(&mut self, _: u16) -> i64 {
            0
        }

        fn set_variable(&mut self, _: u16, _: i64) {}
    }

    fn read(narrow: bool, text: &str) -> MarkerArgument {
        let symbols = Symbols::new();
        let marker = Marker {
            provider: String::new(),
            name: String::new(),
            address: Address(0),
            arguments: String::new(),
            semaphore: None,
            module: ModuleId(0),
        };
        let layout = if narrow {
            X86Registers::Sse.layout_32()
        } else {
            X86Registers::Sse.layout_64()
        };
        OperandReader {
            symbols: &symbols,
            marker: &marker,
            layout,
            narrow,
        }
        .argument(text)
    }

    fn value(text: &str) -> Option<i64> {
        let program = read(false, text).program?;
        let value = Evaluation::new().evaluate(&program, &mut Machine);
        value.unwrap().map(u64::cast_signed)
    }

    #[test]
    fn operands_are_read_as_the_assembler_writes_them() {
        // rax is 0, rbx 1, rcx 2, rdx 3, rsi 4, rdi 5, rbp 6, rsp 7, r8 to r15.
        assert_eq!(value("8@$5"), Some(5));
        assert_eq!(value("-4@$-7"), Some(-7));
        assert_eq!(value("4@$-1"), Some(0xffff_ffff));
        assert_eq!(value("8@%rbx"), Some(0x0101_0101_0101_0101));
        assert_eq!(value("-4@%edi"), Some(0x0505_0505));
        assert_eq!(value("2@%r9w"), Some(0x0909));
        assert_eq!(value("1@%sil"), Some(4));
        assert_eq!(value("1@%dh"), Some(3));
        assert_eq!(value("8@%ecx"), Some(0x0202_0202));
        assert_eq!(value("8@-16(%rbx)"), Some(0x0101_0101_0101_0101 - 16));
        assert_eq!(
            value("8@4(%rbx,%rcx,2)"),
            Some(4 + 0x0101_0101_0101_0101 + 2 * 0x0202_0202_0202_0202)
        );
        assert_eq!(value("-1@255(%rax)"), Some(-1));
        // What is not known is not made up.
        for text in [
            "8@%xmm0x",
            "8@(%rbx",
            "8@nowhere(%rip)",
            "8@(%rbx,%rcx,3)",
            "8@",
            "4@%",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
        let narrow = read(true, "-4@8(%ebp)");
        assert!(narrow.signed && narrow.program.is_some());
    }

    proptest! {
        #[test]
        fn any_text_gives_a_program_that_can_be_evaluated_or_none(
            narrow: bool,
            text in "-?[0-9]{0,3}@?[%$a-z0-9(),:+*-]{0,24}",
        ) {
            if let Some(program) = read(narrow, &text).program {
                prop_assert!(verify(&program).unwrap().has_result());
            }
        }
    }
}
