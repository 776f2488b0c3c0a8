//! Queries about values: types, variables, their places, and redaction.

use std::sync::Arc;

use tracewire_model::{Address, Redactions};

use super::Symbols;
use crate::call_site::CallSites;
use crate::code_place::CodePlace;
use crate::dwarf::Die;
use crate::dynamic::DynamicTypes;
use crate::frame::{CfaRule, UnwindRow};
use crate::goroutine::{FREE_STACK, GoroutineLayout};
use crate::location_expression::{BaseTypeOffset, LocationExpression, VariableLocation};
use crate::lookup::Lookup;
use crate::nearest::{ValuePlace, nearest_value};
use crate::redaction::ByteRange;
use crate::return_value::{ReturnValueError, ReturnValues};
use crate::scope::{Scope, ScopeVariables, Variable};
use crate::types::{ArrayBound, Type, TypeId};
use crate::variables::{FrameVariables, frame_base, referred};

impl Symbols {
    /// A type. An id of another `Symbols` gives [`Type::Unknown`].
    #[must_use]
    pub fn type_of(&self, type_id: TypeId) -> Arc<Type> {
        self.types().type_of(type_id)
    }

    /// A type's size in bytes, as C's `sizeof` gives it, after typedefs and qualifiers; `None` for one that has
    /// none (an incomplete structure, a flexible array). `void` and functions have 1, as in GDB.
    #[must_use]
    pub fn size_of(&self, type_id: TypeId) -> Option<u64> {
        self.types().size_of(type_id)
    }

    /// A type without its typedefs and qualifiers.
    #[must_use]
    pub fn strip(&self, type_id: TypeId) -> Arc<Type> {
        self.types().strip(type_id)
    }

    /// The number of the type without typedefs and qualifiers.
    #[must_use]
    pub fn strip_id(&self, type_id: TypeId) -> TypeId {
        self.types().strip_id(type_id)
    }

    /// The pointer type to a type.
    #[must_use]
    pub fn pointer_to(&self, target: TypeId) -> TypeId {
        self.types().pointer_to(target)
    }

    /// The array type of `count` elements.
    #[must_use]
    pub fn array_of(&self, element: TypeId, count: u64) -> TypeId {
        self.types().array_of(element, count)
    }

    /// A type made on the fly.
    #[must_use]
    pub fn make_type(&self, made: Type) -> TypeId {
        self.types().make_type(made)
    }

    /// One of C's base types by its name (`int`, `unsigned long`, `char`, `double`, …) with the sizes of the
    /// program's machine, there in programs without debug information too.
    #[must_use]
    pub fn base_type(&self, name: &str) -> Option<TypeId> {
        self.types().base_type(name)
    }

    /// Where the upper bound of a variable-length array (an [`Type::Array`] without count) is found at `pc`: the
    /// variable or expression gives the last index; `None` for a flexible array.
    #[must_use]
    pub fn array_bound(&self, array: TypeId, pc: Address) -> Option<ArrayBound> {
        self.types().array_bound(array, pc)
    }

    /// The types among a type's template arguments, in order. A parameter pack is replaced by its arguments. Arguments that are
    /// values are left out.
    #[must_use]
    pub fn template_arguments(&self, type_id: TypeId) -> Vec<TypeId> {
        self.types().template_arguments(type_id)
    }

    /// The values among a type's template arguments, in order.
    #[must_use]
    pub fn template_values(&self, type_id: TypeId) -> Vec<i128> {
        self.types().template_values(type_id)
    }

    /// The type whose descriptor, or whose table of methods, is at an address.
    #[must_use]
    pub fn dynamic_type(&self, descriptor: Address) -> Option<TypeId> {
        DynamicTypes::new(self.types()).at(descriptor)
    }

    /// The types that a value of an interface may have, as far as the symbols say so, and where their descriptors are.
    #[must_use]
    pub fn implementations(&self, interface: &str) -> Vec<(Address, TypeId)> {
        DynamicTypes::new(self.types()).implementations(interface)
    }

    /// Finds a type by name, as seen from `scope`: `int`, `unsigned long`, `struct job`, `enum color`,
    /// `ns::Type<int>`, `Type` from inside `ns`, a typedef, Rust's `u8` or `crate::module::Type`. C's base types
    /// are found without debug information too. Pointers and arrays are the caller's business.
    #[must_use]
    pub fn lookup_type(&self, scope: Option<Scope>, name: &str) -> Option<TypeId> {
        Lookup::new(self.types(), scope).type_named(name)
    }

    /// Finds a variable as an expression at `scope` sees it: innermost block outwards to the function, then the
    /// file, the namespaces of the function, the module's globals, the other modules', symbols without debug
    /// information. Also `'file.c'::name`, `ns::name`, and `function::name`: a variable of any frame at `scope`'s address,
    /// or a static one of any function. Without `scope`, globals only.
    #[must_use]
    pub fn lookup_variable(&self, scope: Option<Scope>, name: &str) -> Option<Variable> {
        Lookup::new(self.types(), scope).variable(name)
    }

    /// Finds a function as an expression at `scope` sees it (`&main`, `*table[i].handler == work`): its entry and
    /// its type.
    #[must_use]
    pub fn lookup_function(&self, scope: Option<Scope>, name: &str) -> Option<(Address, TypeId)> {
        Lookup::new(self.types(), scope).function(name)
    }

    /// The arguments and local variables of a frame; at an address, of its innermost one.
    #[must_use]
    pub fn variables_at(&self, scope: impl Into<Scope>) -> ScopeVariables {
        let place = CodePlace::of_frame(&self.modules, scope.into());
        place.map_or_else(ScopeVariables::default, |place| {
            FrameVariables::new(self.types(), &place).all()
        })
    }

    /// Why nothing is known of a frame's variables; none where they are known.
    #[must_use]
    pub fn no_variables(&self, scope: Scope) -> Option<String> {
        match CodePlace::at(&self.modules, scope.pc) {
            Some(place) if place.block.is_some() => (scope.level == Scope::OUTSIDE)
                .then(|| "the address is outside of the function's own code".to_owned()),
            _ => Some("no debug information says which there are".to_owned()),
        }
    }

    /// The nearest place in the same function at which one of the frame's variables has a value; `None` if it has none anywhere.
    #[must_use]
    pub fn nearest_value(&self, scope: Scope, name: &str) -> Option<ValuePlace> {
        nearest_value(&CodePlace::of_frame(&self.modules, scope)?, name)
    }

    /// The expression that gives the frame base of the function at `pc` (`DW_AT_frame_base`; resolved at `pc` if
    /// it is a list), for `DW_OP_fbreg`.
    #[must_use]
    pub fn frame_base(&self, pc: Address) -> Option<LocationExpression> {
        frame_base(&CodePlace::at(&self.modules, pc)?)
    }

    /// The rule for the canonical frame address at `pc`, for `DW_OP_call_frame_cfa`.
    #[must_use]
    pub fn cfa(&self, pc: Address) -> Option<CfaRule> {
        Some(self.unwind(pc)?.cfa)
    }

    /// The rules to find the caller's frame from `pc`.
    #[must_use]
    pub fn unwind(&self, pc: Address) -> Option<UnwindRow> {
        let module = self.modules.at(pc)?;
        module
            .frames()
            .row(module.info.id, module.info.bias, module.unbiased(pc))
    }

    /// The expression, in terms of the caller's frame, for the value of a register (DWARF's number) at the entry of the function
    /// that `callee` is in (`DW_TAG_call_site_parameter`). The call is the one that returns to `return_pc`. It is `None` without
    /// such an entry, and where the call was of another function, which then jumped to this one. It is also `None` where jumps may
    /// have entered this one again, which the return address does not show.
    #[must_use]
    pub fn call_site_value(
        &self,
        return_pc: Address,
        callee: Address,
        register: u16,
    ) -> Option<LocationExpression> {
        let sites = CallSites::new(self.types(), &self.tail_calls);
        sites.value(return_pc, callee, register)
    }

    /// The return type of the function around an address, and the place of the value when it returns.
    ///
    /// # Errors
    /// When it returns nothing, or the place of the value is not known.
    pub fn return_value(
        &self,
        pc: Address,
    ) -> Result<(TypeId, VariableLocation), ReturnValueError> {
        ReturnValues::new(self.types()).at(pc)
    }

    /// Where the runtime of a Go program describes goroutines, of which one is in `r14` on x86-64. None at an address of another
    /// language or of a Go before 1.17, and without debug information.
    #[must_use]
    pub fn goroutine_layout(&self, pc: Address) -> Option<GoroutineLayout> {
        GoroutineLayout::at(self.types(), pc)
    }

    /// How many bytes below the stack pointer are free at an address, where they are few: a goroutine's stack is only as large as
    /// needed. Unknown on other stacks, which end at a page that cannot be written.
    #[must_use]
    pub fn free_stack(&self, pc: Address) -> Option<u32> {
        self.is_go_code(pc).then_some(FREE_STACK)
    }

    /// The base type that a typed operation of an expression names.
    #[must_use]
    pub fn base_type_at(
        &self,
        expression: &LocationExpression,
        offset: BaseTypeOffset,
    ) -> Option<TypeId> {
        let module = self.modules.any(expression.module)?;
        let unit = expression.unit?;
        Some(self.types().type_id(module, Die { unit, offset }))
    }

    /// The object that a `DW_OP_implicit_pointer` of an expression points to: the variable it names, with its
    /// location at `pc`, or the procedure's expression for the operand of a `DW_OP_call`.
    #[must_use]
    pub fn implicit_pointer_target(
        &self,
        expression: &LocationExpression,
        target: gimli::DebugInfoOffset<usize>,
        pc: Address,
    ) -> Option<(TypeId, VariableLocation)> {
        referred(self.types(), expression, target, pc)
    }

    /// The patterns of names whose values are neither collected nor shown.
    #[must_use]
    pub const fn redactions(&self) -> &Arc<Redactions> {
        self.redacted.patterns()
    }

    /// Whether a variable, a member or a function of this name is redacted.
    #[must_use]
    pub fn redacts_name(&self, name: &str) -> bool {
        self.redacted.has_name(name)
    }

    /// Whether values of a type are redacted by one of its names, or by one of its target or its elements. A pointer is no value of
    /// its target.
    #[must_use]
    pub fn redacts_type(&self, type_id: TypeId) -> bool {
        self.redacted.of_types(self.types()).redacts(type_id)
    }

    /// The redacted bytes of a value of the type, in order and apart from each other. They may reach beyond the value.
    #[must_use]
    pub fn redacted_ranges(&self, type_id: TypeId) -> Arc<[ByteRange]> {
        self.redacted.of_types(self.types()).ranges(type_id)
    }
}
