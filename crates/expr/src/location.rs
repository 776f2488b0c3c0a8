//! Where a variable's bytes are: DWARF locations as computations.

use std::rc::Rc;

use tracewire_arch::{Architecture, Machine, gdb_register};
use tracewire_model::{Address, RegisterNumber};

use crate::dwarf_numbers::{Entry, Kind};
use crate::dwarf_run::Run;
use crate::int_expr::IntExpr;
use crate::object::Object;
use tracewire_debuginfo::{
    CfaRule, LocationExpression, Symbols, ThreadLocalOffset, VariableLocation,
};

/// Why a location cannot be worked out.
pub(crate) type Unlocatable = String;

/// How deep locations may refer to one another.
const DEEPEST: u32 = 8;
/// How many operations are run for one location, all branches together.
const MOST_OPERATIONS: u32 = 10_000;

/// Works out locations at one pc.
#[derive(Clone, Copy)]
pub(crate) struct Locator<'a> {
    pub(crate) symbols: &'a Symbols,
    pub(crate) pc: Address,
    /// Whether values from the caller's frame may be used: at a saved state and in collections, not in conditions.
    pub(crate) callers: bool,
}

impl<'a> Locator<'a> {
    pub(crate) fn architecture(&self) -> Architecture {
        self.symbols.architecture().unwrap_or(Architecture::X86_64)
    }

    /// Whether the place is the first instruction of a function.
    pub(crate) fn at_entry(&self) -> bool {
        self.symbols.is_entry(self.pc)
    }

    /// Where a variable's bytes are.
    pub(crate) fn object(&self, location: &VariableLocation) -> Result<Object, Unlocatable> {
        self.object_at_depth(location, 0)
    }

    pub(crate) fn object_at_depth(
        &self,
        location: &VariableLocation,
        depth: u32,
    ) -> Result<Object, Unlocatable> {
        if depth > DEEPEST {
            return Err("its location refers to itself".to_owned());
        }
        Ok(match location {
            VariableLocation::OptimizedOut => Object::OptimizedOut,
            VariableLocation::Constant(bytes) => Object::Bytes(Rc::from(&bytes[..])),
            VariableLocation::Static(address) => Object::Memory(IntExpr::constant(address.0)),
            VariableLocation::ThreadLocal(ThreadLocalOffset::FromThreadPointer(offset)) => {
                let register = Machine::with_linux(self.architecture())
                    .thread_pointer()
                    .ok_or("this machine's thread pointer is not known")?;
                Object::Memory(IntExpr::register(register).add(*offset as u64))
            }
            VariableLocation::ThreadLocal(ThreadLocalOffset::InLibrary(_)) => {
                return Err(
                    "only the run-time linker knows where a library's thread-local storage is"
                        .to_owned(),
                );
            }
            VariableLocation::Expression(expression) => {
                self.expression(expression, Vec::new(), depth)?
            }
            VariableLocation::Unknown(reason) => return Err(reason.clone()),
        })
    }

    /// The caller's stack pointer.
    pub(crate) fn frame_address(&self) -> Result<IntExpr, Unlocatable> {
        self.frame_address_at_depth(0)
    }

    pub(crate) fn frame_address_at_depth(&self, depth: u32) -> Result<IntExpr, Unlocatable> {
        match self.symbols.cfa(self.pc) {
            None => Err("no call frame information covers the address".to_owned()),
            Some(CfaRule::RegisterOffset { register, offset }) => {
                Ok(self.register(register)?.add(offset as u64))
            }
            Some(CfaRule::Expression(expression)) => {
                match self.expression(&expression, Vec::new(), depth + 1)? {
                    Object::Memory(expr) | Object::Value(expr) => Ok(expr),
                    _ => Err(
                        "the frame's address is given by an expression of no known kind".to_owned(),
                    ),
                }
            }
        }
    }

    pub(crate) fn register(&self, dwarf: u16) -> Result<IntExpr, Unlocatable> {
        self.register_number(dwarf).map(IntExpr::register)
    }

    pub(crate) fn register_number(&self, dwarf: u16) -> Result<RegisterNumber, Unlocatable> {
        gdb_register(self.architecture(), dwarf).ok_or_else(|| {
            format!("it is in register {dwarf} (DWARF's number), which cannot be collected")
        })
    }

    pub(crate) fn frame_base(&self, depth: u32) -> Result<IntExpr, Unlocatable> {
        let expression =
            (self.symbols.frame_base(self.pc)).ok_or("its function has no frame base here")?;
        match self.expression(&expression, Vec::new(), depth + 1)? {
            Object::Memory(expr) | Object::Value(expr) => Ok(expr),
            Object::Register(register, 0) => Ok(IntExpr::register(register)),
            _ => Err("its function's frame base is of no known kind".to_owned()),
        }
    }

    /// Runs a DWARF expression with `stack` on its stack.
    pub(crate) fn expression(
        &self,
        expression: &LocationExpression,
        stack: Vec<IntExpr>,
        depth: u32,
    ) -> Result<Object, Unlocatable> {
        if depth > DEEPEST {
            return Err("its location refers to itself".to_owned());
        }
        let operations = expression.operations()?;
        let mut run = Run {
            locator: self,
            expression,
            operations: &operations,
            depth,
            left: MOST_OPERATIONS,
        };
        let stack = stack
            .into_iter()
            .map(|expr| Entry {
                expr,
                kind: Kind::Generic,
            })
            .collect();
        run.run(0, stack, 0)
    }
}
