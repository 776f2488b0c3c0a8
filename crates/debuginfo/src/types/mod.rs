//! The types of a program, as its debug information gives them.

mod access;
mod array;
pub(crate) mod base;
pub(crate) mod read;
mod structure;
mod table;
mod template;

pub(crate) use access::Types;
pub use array::ArrayBound;
pub(crate) use table::TypeTable;

/// A type in a [`crate::Symbols`]; follow it with [`crate::Symbols::type_of`]. Two different ids may be the same type, read from
/// two units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypeId(pub(crate) u32);

/// The language a unit was written in, which settles how expressions are read and values are shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// C, and languages that are shown like it (assembler, D, unknown languages).
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go. Its names and expressions are handled as C's; its values are written as Go writes them.
    Go,
}

impl Language {
    /// Whether names have no scopes around them, and expressions are C's.
    #[must_use]
    pub const fn is_like_c(self) -> bool {
        matches!(self, Self::C | Self::Go)
    }
}

/// How the bits of a base type are to be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BaseEncoding {
    /// Two's complement number.
    Signed,
    /// Unsigned number.
    Unsigned,
    /// A signed number shown with its character (`char`, `signed char`).
    SignedChar,
    /// An unsigned number shown with its character (`unsigned char`).
    UnsignedChar,
    /// A Unicode character (`char16_t`, `char32_t`, Rust's `char`).
    Utf,
    /// Truth value.
    Boolean,
    /// IEEE number, or the 80-bit number of the x87 in 10, 12 or 16 bytes.
    Float,
    /// Two IEEE numbers, real part first.
    ComplexFloat,
    /// Others: shown as bytes.
    Unknown,
}

/// The keyword of a structure's declaration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StructureKind {
    /// `struct` (and Rust's structs, tuples and enums).
    Struct,
    /// C++ `class`.
    Class,
    /// `union`.
    Union,
}

/// The kind of a reference.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReferenceKind {
    /// `T &`.
    LValue,
    /// `T &&`.
    RValue,
}

/// One type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// No type: `void`, Rust's `()` where the debug information leaves it out.
    Void,
    /// A number, a character or a truth value.
    Base {
        /// Its name.
        name: String,
        /// Size in bytes.
        size: u64,
        /// How its bits are read.
        encoding: BaseEncoding,
    },
    /// A pointer.
    Pointer {
        /// Its target.
        target: TypeId,
        /// Size in bytes.
        size: u64,
        /// Its own name, which Rust's pointers have (`&str`, `*mut T`).
        name: Option<String>,
    },
    /// A C++ reference.
    Reference {
        /// Its target.
        target: TypeId,
        /// Size in bytes.
        size: u64,
        /// Which of the two kinds.
        kind: ReferenceKind,
    },
    /// An array of one dimension; several dimensions are arrays of arrays.
    Array {
        /// The element.
        element: TypeId,
        /// How many elements; none for a flexible or variable-length array.
        count: Option<u64>,
        /// Whether it is a vector type (`__attribute__((vector_size))`).
        vector: bool,
    },
    /// A structure, class, union, tuple, or Rust enum.
    Structure {
        /// With which keyword it was declared.
        kind: StructureKind,
        /// Its full name (`ns::Outer::Inner`), if it has one.
        name: Option<String>,
        /// Size in bytes.
        size: u64,
        /// Its members, in order; base classes are members with [`Member::base_class`].
        members: Vec<Member>,
        /// Static members of the class: variables that are defined elsewhere.
        static_members: Vec<StaticMember>,
        /// For a Rust enum.
        variants: Option<Box<VariantPart>>,
        /// Only declared: size and members are not known, and no definition was found anywhere.
        declaration: bool,
    },
    /// An enumeration of C or C++, or a Rust enum without data.
    Enumeration {
        /// Its full name, if it has one.
        name: Option<String>,
        /// Size in bytes.
        size: u64,
        /// Whether its values are signed.
        signed: bool,
        /// Its enumerators, in order.
        enumerators: Vec<Enumerator>,
    },
    /// Another name for a type.
    Typedef {
        /// The new name.
        name: String,
        /// The type it names.
        target: TypeId,
    },
    /// A qualified type.
    Qualified {
        /// `const`, `volatile`, `restrict` or `_Atomic`.
        qualifier: &'static str,
        /// The qualified type.
        target: TypeId,
    },
    /// A function's type.
    Function {
        /// The return type; [`Type::Void`] for none.
        returns: TypeId,
        /// The types of its parameters.
        parameters: Vec<TypeId>,
        /// Whether it takes more (`...`), or was declared without a prototype.
        variadic: bool,
    },
    /// A C++ pointer to member.
    MemberPointer {
        /// The class.
        class: TypeId,
        /// The member's type (a [`Type::Function`] for a pointer to member function).
        target: TypeId,
        /// Size in bytes.
        size: u64,
    },
    /// A type that the reader does not support; shown as bytes.
    Unknown {
        /// Its name in the debug information.
        name: String,
        /// Size in bytes, 0 if not given.
        size: u64,
    },
}

/// A member of a structure.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Its name; `None` for an anonymous structure or union, whose members are found as members of the outer one.
    pub name: Option<String>,
    /// Its type.
    pub type_id: TypeId,
    /// Where it starts, in bytes from the start of the structure.
    pub offset: u64,
    /// For a bit field: (first bit, counted from the structure's byte `offset` in memory order of the target's
    /// little-endian numbering, width in bits).
    pub bits: Option<(u64, u64)>,
    /// Whether it is a base class. A virtual base's offset is not known before run time: `offset` is then
    /// `u64::MAX`.
    pub base_class: bool,
    /// Whether the compiler made it (`_vptr`).
    pub artificial: bool,
}

/// A static member of a class.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StaticMember {
    /// Its own name; the variable's is qualified with the class's.
    pub name: String,
    /// How many of the class's members, base classes among them, are declared before it.
    pub position: usize,
}

/// The variants of a Rust enum.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VariantPart {
    /// The member that selects the variant; `None` when there is only one variant.
    pub discriminant: Option<Member>,
    /// The variants.
    pub variants: Vec<Variant>,
}

/// One variant of a Rust enum.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Variant {
    /// The discriminant's value, none for the variant that holds for all other values.
    pub value: Option<i128>,
    /// Its name and its fields: the member is of a structure type.
    pub member: Member,
}

/// A name for a value of an enumeration.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Enumerator {
    /// Its name, qualified as the language shows it.
    pub name: String,
    /// Its value.
    pub value: i128,
}
