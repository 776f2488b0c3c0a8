//! Where names are seen from, and the variables that are visible there.

use tracewire_model::Address;

use crate::TypeId;
use crate::location_expression::VariableLocation;

/// A place from which names are looked up: an address, and one of the frames there. An address in an inlined copy has a frame for
/// the copy and one for each function around it, and each has other arguments and variables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scope {
    /// The address.
    pub pc: Address,
    /// Which frame: 0 for that of the innermost inlined copy, as GDB numbers the frames of a stopped thread. Where it is more
    /// than there are ([`Scope::OUTSIDE`]), no arguments and local variables are seen.
    pub level: u32,
}

impl Scope {
    /// The level if the requested function has no frame at the address.
    pub const OUTSIDE: u32 = u32::MAX;
}

/// The innermost frame at an address.
impl From<Address> for Scope {
    fn from(pc: Address) -> Self {
        Self { pc, level: 0 }
    }
}

/// A variable's role in its function.
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
    /// Its type. For a [`VariableKind::Symbol`] it is `int`, which GDB calls an unknown type.
    pub type_id: TypeId,
    /// Its role in its function.
    pub kind: VariableKind,
    /// Its place, at the requested pc.
    pub location: VariableLocation,
    /// Whether the compiler made it (`this`).
    pub artificial: bool,
    /// Whether a variable of an inner block has the same name.
    pub shadowed: bool,
    /// Which block it is of: 0 for the innermost at the pc, counted outwards.
    pub depth: usize,
}

/// The variables of one frame: of the innermost inlined copy at a pc, or of one of those around it.
#[derive(Clone, Default, Debug)]
pub struct ScopeVariables {
    /// The formal parameters, in order (GDB's `info args`, a collect's `$args`).
    pub arguments: Vec<Variable>,
    /// The local variables, innermost block first, in the order of each block (GDB's `info locals`, a collect's
    /// `$locals`); shadowed ones are among them.
    pub locals: Vec<Variable>,
}
