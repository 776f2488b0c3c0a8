//! The variables that are visible at a pc.

use crate::TypeId;
use crate::location_expression::VariableLocation;

/// What a variable is to its function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VariableKind {
    /// A formal parameter.
    Argument,
    /// A local variable of a block; static ones too.
    Local,
    /// A variable of the file or of a namespace, seen only there.
    FileStatic,
    /// A variable seen everywhere.
    Global,
    /// A symbol without debug information: its type is not known.
    Symbol,
}

/// A variable, at one pc.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name; qualified (`ns::counter`) for one of a namespace or class.
    pub name: String,
    /// Its type. For a [`VariableKind::Symbol`] it is `int`, of which GDB says that it has unknown type.
    pub type_id: TypeId,
    /// What it is to its function.
    pub kind: VariableKind,
    /// Where it is, at the pc asked for.
    pub location: VariableLocation,
    /// Whether the compiler made it (`this`).
    pub artificial: bool,
    /// Whether a variable of an inner block has the same name.
    pub shadowed: bool,
    /// Which block it is of: 0 for the innermost at the pc, counted outwards.
    pub depth: usize,
}

/// The variables of the function that a pc is in: of the innermost inlined one where there are inlined frames.
#[derive(Clone, Default, Debug)]
pub struct ScopeVariables {
    /// The formal parameters, in order (GDB's `info args`, a collect's `$args`).
    pub arguments: Vec<Variable>,
    /// The local variables, innermost block first, in the order of each block (GDB's `info locals`, a collect's
    /// `$locals`); shadowed ones are among them.
    pub locals: Vec<Variable>,
}
