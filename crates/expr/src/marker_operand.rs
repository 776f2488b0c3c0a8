//! The operands of a marker's arguments: `-4@%eax`, `8@-16(%rbp)`, `8@$5`, in the assembler's notation for x86, as
//! expressions.

use tracewire_arch::Architecture;

use crate::error::Span;
use crate::node::{Node, NodeKind};
use crate::register_names::{NamedRegister, named_register};
use crate::resolve::Resolver;
use crate::syntax::BinaryOperator;
use tracewire_debuginfo::{ModuleId, TypeId};

/// An argument taken apart: `-4@%eax` is a signed number of 4 bytes.
pub(crate) struct Form<'t> {
    pub(crate) signed: bool,
    pub(crate) bytes: u8,
    operand: &'t str,
}

impl<'t> Form<'t> {
    pub(crate) fn of(text: &'t str, machine: Architecture) -> Self {
        let word = i32::from(machine.pointer_size());
        let (size, operand) = text.split_once('@').unwrap_or(("", text));
        let size: i32 = size.parse().unwrap_or(word);
        let bytes = match size.unsigned_abs() {
            bytes @ (1 | 2 | 4 | 8) => bytes as u8,
            // Markers of old have no sizes: GDB takes the machine's word.
            _ => word as u8,
        };
        Self {
            signed: size < 0,
            bytes,
            operand,
        }
    }
}

/// Reads the operand of an argument, of a marker in this module of this machine.
pub(crate) struct OperandReader<'s> {
    pub(crate) resolver: &'s Resolver<'s>,
    pub(crate) module: ModuleId,
    pub(crate) machine: Architecture,
    pub(crate) span: Span,
}

impl OperandReader<'_> {
    fn node(&self, kind: NodeKind, type_id: TypeId) -> Node {
        Node::new(kind, type_id, self.span)
    }

    fn number_type(&self, signed: bool, bytes: u8) -> TypeId {
        self.resolver.builtin(match (signed, bytes) {
            (true, 1) => "int8_t",
            (true, 2) => "int16_t",
            (true, 4) => "int32_t",
            (true, _) => "int64_t",
            (false, 1) => "uint8_t",
            (false, 2) => "uint16_t",
            (false, 4) => "uint32_t",
            (false, _) => "uint64_t",
        })
    }

    fn word(&self) -> TypeId {
        self.number_type(false, self.machine.pointer_size())
    }

    /// The argument, as a number of its type; none when it is not known.
    pub(crate) fn argument(&self, form: &Form<'_>) -> Option<Node> {
        let type_id = self.number_type(form.signed, form.bytes);
        let text = form.operand;
        if let Some(value) = text.strip_prefix('$') {
            let value = self.node(
                NodeKind::Integer(self.displacement(value)?.into()),
                self.number_type(true, 8),
            );
            return Some(self.resolver.convert(value, type_id));
        }
        if let Some(name) = text.strip_prefix('%')
            && !text.contains(['(', ':'])
        {
            let register = self.register(name)?;
            let kind = NodeKind::Register(register.number, register.offset);
            // An argument that is wider than its register has the register's value.
            if register.size < u64::from(form.bytes) {
                let whole = self.node(kind, self.number_type(false, register.size as u8));
                return Some(self.resolver.convert(whole, type_id));
            }
            return Some(self.node(kind, type_id));
        }
        let pointer = self.resolver.symbols.pointer_to(type_id);
        let address = self.resolver.convert(self.address(text)?, pointer);
        Some(self.node(NodeKind::Dereference(address.into()), type_id))
    }

    fn operation(&self, operator: BinaryOperator, left: Node, right: Node) -> Node {
        let kind = NodeKind::Arithmetic(operator, left.into(), right.into());
        self.node(kind, self.word())
    }

    fn constant(&self, number: i64) -> Node {
        let number = self.node(NodeKind::Integer(number.into()), self.number_type(true, 8));
        self.resolver.convert(number, self.word())
    }

    /// The address `segment:displacement(base,index,scale)`.
    fn address(&self, text: &str) -> Option<Node> {
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
        let mut address = self.constant(match displacement {
            "" => 0,
            displacement => self.displacement(displacement)?,
        });
        match base.strip_prefix('%') {
            // The text before it is already a symbol's address.
            Some("rip") => {}
            Some(name) => {
                address = self.operation(BinaryOperator::Add, self.whole(name)?, address);
            }
            None if base.is_empty() => {}
            None => return None,
        }
        if let Some(name) = index.strip_prefix('%') {
            let scale = self.constant(scale);
            let index = self.operation(BinaryOperator::Multiply, self.whole(name)?, scale);
            address = self.operation(BinaryOperator::Add, address, index);
        } else if !index.is_empty() {
            return None;
        }
        match segment {
            None => {}
            Some(name @ ("%fs" | "%gs")) => {
                let base = format!("{}_base", name.trim_start_matches('%'));
                address = self.operation(BinaryOperator::Add, address, self.whole(&base)?);
            }
            Some(_) => return None,
        }
        Some(address)
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
        let address = self.resolver.symbols.symbol_address(self.module, name)?;
        Some(address.0.cast_signed().wrapping_add(offset))
    }

    /// A register that is part of an address.
    fn whole(&self, name: &str) -> Option<Node> {
        let register = self
            .register(name)
            .filter(|register| register.offset == 0 && register.size >= 4)?;
        let register = self.node(
            NodeKind::Register(register.number, 0),
            self.number_type(false, register.size as u8),
        );
        Some(self.resolver.convert(register, self.word()))
    }

    /// A register of at most 64 bits, or a part of one.
    fn register(&self, name: &str) -> Option<NamedRegister> {
        let found = match name.strip_suffix('b') {
            // The low byte is `r8b` to the assembler and `r8l` to GDB.
            Some(numbered) if numbered.ends_with(|last: char| last.is_ascii_digit()) => {
                named_register(self.machine, &format!("{numbered}l"))
            }
            _ => named_register(self.machine, name),
        };
        found.filter(|register| register.size <= 8)
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
