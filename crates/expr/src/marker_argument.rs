//! The arguments of a marker, as agent expressions and as GDB's `$_probe_arg0`.

use std::collections::HashMap;
use std::rc::Rc;

use tracewire_agent_expr::Builder;
use tracewire_arch::Architecture;
use tracewire_model::{Address, RegisterMask};

use crate::code::finish;
use crate::emit::{Emitter, Traced, Tracing};
use crate::error::{ExpressionErrorKind, Span};
use crate::location::Locator;
use crate::lower::Lower;
use crate::marker_operand::{Form, OperandReader};
use crate::node::{Node, NodeKind};
use crate::resolve::{NoVariables, Resolver, Result};
use tracewire_debuginfo::{Language, Marker, ModuleId, Symbols};

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

/// The arguments of a marker, in order.
#[must_use]
pub fn marker_arguments(symbols: &Symbols, marker: &Marker) -> Vec<MarkerArgument> {
    let Some(machine) = machine(symbols, marker) else {
        return Vec::new();
    };
    let pc = marker.address;
    texts(marker)
        .map(|text| argument(symbols, marker.module, machine, pc, text))
        .collect()
}

fn argument(
    symbols: &Symbols,
    module: ModuleId,
    machine: Architecture,
    pc: Address,
    text: &str,
) -> MarkerArgument {
    let resolver = Resolver::in_language(symbols, pc.into(), Language::C, text, &NoVariables);
    let form = Form::of(text, machine);
    MarkerArgument {
        signed: form.signed,
        bits: form.bytes * 8,
        program: compiled(&resolver, module, machine, &form),
    }
}

/// The machine of the marker's module; none of whose operands nothing is known.
fn machine(symbols: &Symbols, marker: &Marker) -> Option<Architecture> {
    let machine = symbols.module(marker.module)?.architecture;
    matches!(machine, Architecture::X86_64 | Architecture::I386).then_some(machine)
}

fn texts(marker: &Marker) -> impl Iterator<Item = &str> {
    marker.arguments.split_whitespace().take(MOST)
}

fn compiled(
    resolver: &Resolver<'_>,
    module: ModuleId,
    machine: Architecture,
    form: &Form<'_>,
) -> Option<Vec<u8>> {
    let span = Span {
        start: 0,
        end: resolver.text.len(),
    };
    let node = OperandReader {
        resolver,
        module,
        machine,
        span,
    }
    .argument(form)?;
    let lower = Lower {
        locator: Locator {
            symbols: resolver.symbols,
            pc: resolver.scope.get().pc,
            callers: false,
        },
        text: resolver.text,
        subjects: None,
        names: Rc::default(),
        known: Vec::new(),
    };
    let value = lower.value(&node).ok()?;
    let mut registers = RegisterMask::default();
    let mut emitter = Emitter {
        builder: Builder::new(),
        tracing: Tracing::Nothing,
        depth: 0,
        registers: &mut registers,
        traced: Traced::default(),
        bound: HashMap::new(),
    };
    emitter.expr(&value);
    finish(emitter.builder, resolver.text).ok()
}

impl Resolver<'_> {
    /// GDB's `$_probe_argc` and `$_probe_arg0` to `$_probe_arg11`: the values of the USDT probe at this place. `None` for another
    /// name.
    pub(crate) fn marker_value(&self, name: &str, span: Span) -> Option<Result<Node>> {
        let which = name.strip_prefix("_probe_arg")?;
        let index = match which {
            "c" => None,
            _ => Some((0..12_usize).find(|index| index.to_string() == which)?),
        };
        let Some(marker) = self.symbols.marker_at(self.scope.get().pc) else {
            return Some(self.error(ExpressionErrorKind::NoMarker(self.scope.get().pc), span));
        };
        let Some(index) = index else {
            let count = NodeKind::Integer(texts(&marker).count() as i128);
            return Some(Ok(Node::new(count, self.builtin("int"), span)));
        };
        let Some(text) = texts(&marker).nth(index) else {
            let count = texts(&marker).count();
            return Some(self.error(ExpressionErrorKind::NoMarkerArgument { index, count }, span));
        };
        let node = machine(self.symbols, &marker).and_then(|machine| {
            OperandReader {
                resolver: self,
                module: marker.module,
                machine,
                span,
            }
            .argument(&Form::of(text, machine))
        });
        Some(match node {
            Some(node) => Ok(node),
            None => {
                let message =
                    format!("The marker's argument `{text}' is in no form that is known.");
                self.error(ExpressionErrorKind::Unsupported(message), span)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tracewire_agent_expr::{Context, Evaluation, verify};

    use super::*;

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
        let mut symbols = Symbols::new();
        let machine = if narrow {
            Architecture::I386
        } else {
            Architecture::X86_64
        };
        symbols.set_architecture(machine);
        argument(&symbols, ModuleId(0), machine, Address(0), text)
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
        // Unknown forms are errors.
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
