//! Goroutines: where Go's runtime keeps the number and the stack of each.

use crate::lookup::Lookup;
use crate::types::{Type, TypeId, Types};

/// Where a goroutine's description, `runtime.g`, has what identifies its calls: offsets in bytes, each of eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoroutineLayout {
    /// The end of the stack, its highest address (`stack.hi`).
    pub stack_end: u64,
    /// The number (`goid`).
    pub number: u64,
}

impl GoroutineLayout {
    /// The layout by the program's debug information; it differs between versions of Go.
    pub(crate) fn of(types: Types<'_>) -> Option<Self> {
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
