//! Values of types that are known at run time.

use tracewire_agent_expr::Opcode;

use super::{DEEPEST_PART, LARGEST_POINTEE};
use crate::collect::Collection;
use crate::int_expr::{Binary, IntExpr};
use crate::lower::Subjects;
use crate::object::Object;
use crate::walk::{Interface, Walk};
use tracewire_debuginfo::TypeId;

/// How many types a value of an interface is compared with.
const MOST_CANDIDATES: usize = 16;
/// The most bytes that are collected of a value whose type is not among them.
const LARGEST_UNKNOWN: u64 = 512;

impl Collection<'_> {
    /// Collects the target of an interface value. Types that lead further have separate code; of the others the descriptor gives
    /// the size. The stack has the value's address, or the value itself, and the descriptor.
    pub(super) fn interface(
        &mut self,
        subjects: &Subjects,
        interface: &Interface,
        depth: u32,
    ) -> Option<()> {
        let data = self.value_of(subjects, &interface.data)?;
        let descriptor = self.value_of(subjects, &interface.descriptor)?;
        let size = self.value_of(subjects, &interface.size)?;
        let data = self.code.push(&data);
        let descriptor = self.code.push(&descriptor);
        let done = self.code.label();
        self.code.push(&descriptor.clone().into_is_zero());
        self.code.if_goto(done);
        // An interface inside another one's value leads no further: each may have values of all types.
        let is_within = std::mem::replace(&mut self.is_in_interface, true);
        let most = if is_within { 0 } else { MOST_CANDIDATES };
        let further: Vec<(u64, TypeId)> = (interface.candidates.iter())
            .filter(|(_, type_id)| self.leads_as_whole(*type_id, depth - 1))
            .take(most)
            .copied()
            .collect();
        let mut costs = self.code.alternatives();
        for (address, type_id) in further {
            self.code.next_of(&mut costs);
            let next = self.code.label();
            let is_this = IntExpr::binary(
                Binary::Equal,
                descriptor.clone(),
                IntExpr::constant(address),
            );
            self.code.push(&is_this.into_is_zero());
            self.code.if_goto(next);
            self.value_behind(&data, interface, type_id, depth - 1);
            self.code.goto(done);
            self.code.place(next);
        }
        self.is_in_interface = is_within;
        self.code.end_of(&costs);
        self.code.push(&data);
        self.code.push(&size);
        self.code.clamp(LARGEST_UNKNOWN);
        self.code.trace(LARGEST_UNKNOWN);
        self.code.place(done);
        self.code.op(Opcode::Pop);
        self.code.op(Opcode::Pop);
        Some(())
    }

    fn leads_as_whole(&self, type_id: TypeId, depth: u32) -> bool {
        depth > 0
            && (self.walks.leads(type_id, depth)
                || matches!(
                    self.walks.walk(type_id).as_deref(),
                    Some(Walk::Reference { .. })
                ))
    }

    /// A value of a type that is known now.
    fn value_behind(&mut self, data: &IntExpr, interface: &Interface, type_id: TypeId, depth: u32) {
        let symbols = self.lower.symbols();
        // The interface has a pointer in it as it is.
        let is_pointer = matches!(
            crate::scalar::scalar(symbols, type_id),
            crate::scalar::Scalar::Pointer { .. }
        );
        if interface.direct.is_some() && is_pointer {
            let subjects = Subjects::of(Object::Value(data.clone()));
            if let Some(Walk::Reference { pointer, target }) = self.walks.walk(type_id).as_deref() {
                self.pointer(&subjects, pointer, *target, depth);
            } else {
                self.part(&subjects.object, type_id, depth, DEEPEST_PART);
            }
            return;
        }
        let Some(size) = symbols.size_of(type_id) else {
            return;
        };
        let size = size.min(LARGEST_POINTEE);
        self.code.push(data);
        self.code.constant(size);
        self.code.trace(size);
        self.part(&Object::Memory(data.clone()), type_id, depth, DEEPEST_PART);
    }
}
