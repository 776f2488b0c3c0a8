//! Goroutines: where Go's runtime keeps the number and the stack of each.

use tracewire_model::Address;

use crate::code_place::CodePlace;
use crate::lookup::Lookup;
use crate::types::{Language, Type, TypeId, Types};

/// The first version of Go whose functions have values in registers, and the goroutine in `r14`.
const FIRST_WITH_REGISTERS: u32 = 17;

/// So many bytes of a goroutine's stack are free in a function: the runtime's guard of 928 (880 before Go 1.16), without the frame of 128
/// that it lets a caller have there, and the return address. Memory of others is below.
pub(crate) const FREE_STACK: u32 = 880 - 128 - 8;

/// Whether code is compiled for the convention of Go 1.17, with registers.
pub(crate) fn has_register_convention(place: &CodePlace<'_>) -> bool {
    let facts = place.debug().facts(place.unit);
    let minor = facts.producer.split_once("go1.").and_then(|(_, version)| {
        let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok()
    });
    minor.is_none_or(|minor| minor >= FIRST_WITH_REGISTERS)
}

/// Where a goroutine's description, `runtime.g`, has what identifies its calls: offsets in bytes, each of eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoroutineLayout {
    /// The end of the stack, its highest address (`stack.hi`).
    pub stack_end: u64,
    /// The number (`goid`).
    pub number: u64,
}

impl GoroutineLayout {
    /// The layout by the program's debug information; it differs between versions of Go. None in code that has no register for the
    /// goroutine.
    pub(crate) fn at(types: Types<'_>, pc: Address) -> Option<Self> {
        let place = CodePlace::at(types.modules(), pc)?;
        if place.debug().facts(place.unit).language != Language::Go
            || !has_register_convention(&place)
        {
            return None;
        }
        let goroutine = Lookup::new(types, None).type_named("runtime.g")?;
        let (stack, stack_type) = member(types, goroutine, "stack")?;
        let (end, _) = member(types, stack_type, "hi")?;
        let (number, _) = member(types, goroutine, "goid")?;
        Some(Self {
            stack_end: stack.checked_add(end)?,
            number,
        })
    }
}

/// The offset and the type of a member.
fn member(types: Types<'_>, of: TypeId, name: &str) -> Option<(u64, TypeId)> {
    let Type::Structure { members, .. } = &*types.strip(of) else {
        return None;
    };
    let mut members = members.iter();
    let found = members.find(|member| member.name.as_deref() == Some(name))?;
    Some((found.offset, found.type_id))
}
