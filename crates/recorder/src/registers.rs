//! Which registers a frame has room for. That is settled once, before the first frame.

use tracewire_agent_expr::verify;
use tracewire_arch::{Architecture, Machine, RegisterLayout, X86Registers};
use tracewire_model::{Action, RegisterMask, RegisterNumber, TracepointDefinition};

/// What a frame has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    pub set: X86Registers,
    /// The set whose description the file has. It has the registers of `set`, and those that expressions read.
    pub described: X86Registers,
    /// x86-64 or i386.
    pub machine: Architecture,
}

impl Room {
    pub fn layout(self) -> &'static RegisterLayout {
        match self.machine {
            Architecture::I386 => self.set.layout_32(),
            _ => self.set.layout_64(),
        }
    }

    pub fn target_xml(self) -> String {
        match self.machine {
            Architecture::I386 => self.described.target_xml_32(),
            _ => self.described.target_xml_64(),
        }
    }
}

/// The smallest set of registers that has all that is collected, with the smallest description that has all that is read, too, so that
/// the file says what the numbers mean. What a tracepoint collects that waits is not
/// known; it gets the vector registers, in which arguments may be, and with them all that a script can name.
pub fn choose(definitions: &[TracepointDefinition], waiting: bool, machine: Architecture) -> Room {
    let least = match waiting {
        true => X86Registers::Sse,
        false => X86Registers::General,
    };
    let set = covering(definitions.iter().flat_map(asked_by), machine).max(least);
    let mut read = covering(definitions.iter().flat_map(read_by), machine);
    // `longjmp` may get a tracepoint later, which reads a word of the thread's memory.
    let has_span = (definitions.iter()).any(|definition| definition.source.span.is_some());
    if let (true, Architecture::X86_64) = (has_span, machine) {
        let thread = Machine::with_linux(machine).thread_pointer();
        read = read.max(covering(thread.into_iter(), machine));
    }
    Room {
        set,
        described: set.max(read),
        machine,
    }
}

fn covering(
    registers: impl Iterator<Item = RegisterNumber>,
    machine: Architecture,
) -> X86Registers {
    let covering = match machine {
        Architecture::I386 => X86Registers::covering_32(registers),
        _ => X86Registers::covering_64(registers),
    };
    covering.unwrap_or(X86Registers::Avx512)
}

/// The registers a tracepoint collects for which a frame has no room, by their names.
pub fn left_out(definition: &TracepointDefinition, room: Room) -> Vec<String> {
    let there = room.layout();
    let all = Room {
        set: X86Registers::Avx512,
        ..room
    };
    let all = all.layout();
    let mut left_out: Vec<RegisterNumber> = asked_by(definition)
        .filter(|number| there.by_number(*number).is_none())
        .collect();
    left_out.sort_unstable();
    left_out.dedup();
    let names = left_out
        .into_iter()
        .map(|number| match all.by_number(number) {
            Some(register) => format!("${}", register.name),
            None => format!("register {}", number.0),
        });
    names.collect()
}

fn asked_by(definition: &TracepointDefinition) -> impl Iterator<Item = RegisterNumber> + '_ {
    definition
        .actions
        .iter()
        .chain(&definition.step_actions)
        .filter_map(|action| match action {
            Action::Registers(mask) => Some(mask),
            _ => None,
        })
        .flat_map(RegisterMask::iter)
}

/// The registers that a tracepoint collects or reads.
pub fn named_by(definition: &TracepointDefinition) -> impl Iterator<Item = RegisterNumber> + '_ {
    asked_by(definition).chain(read_by(definition))
}

/// The registers that its expressions read, and those that addresses of memory are counted from.
fn read_by(definition: &TracepointDefinition) -> impl Iterator<Item = RegisterNumber> + '_ {
    let actions = || definition.actions.iter().chain(&definition.step_actions);
    let bases = actions().filter_map(|action| match action {
        Action::Memory { base, .. } => *base,
        _ => None,
    });
    let expressions = actions().filter_map(|action| match action {
        Action::Expression(code) => Some(code),
        _ => None,
    });
    let read = expressions
        .chain(&definition.condition)
        // One that is none is refused where it is defined.
        .filter_map(|code| verify(code).ok())
        .flat_map(|program| program.registers().iter().copied().collect::<Vec<_>>())
        .map(RegisterNumber);
    bases.chain(read)
}

#[cfg(test)]
mod tests {
    use tracewire_model::{Address, TracepointNumber};

    use super::*;

    #[test]
    fn what_has_no_room_is_named() {
        let all = X86Registers::Avx512.layout_64();
        let number = |name: &str| all.by_name(name).expect("a register").number;
        let mask = RegisterMask::from_iter(["rip", "ymm0h", "k1"].map(number));
        let definition = TracepointDefinition {
            actions: vec![Action::Registers(mask)],
            ..TracepointDefinition::new(TracepointNumber(1), Address(0x1000))
        };
        let left_out = |set| {
            let machine = Architecture::X86_64;
            let room = Room {
                set,
                described: set,
                machine,
            };
            left_out(&definition, room)
        };
        assert_eq!(left_out(X86Registers::Sse), ["$ymm0h", "$k1"]);
        assert_eq!(left_out(X86Registers::Avx), ["$k1"]);
        assert!(left_out(X86Registers::Avx512).is_empty());
    }
}
