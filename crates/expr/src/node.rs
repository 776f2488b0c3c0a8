//! The typed tree of an expression: every name is looked up, every conversion is explicit.

use std::rc::Rc;

use tracewire_model::{RegisterNumber, VariableNumber};

use crate::error::Span;
use crate::search::SearchNode;
use crate::syntax::BinaryOperator;
use tracewire_debuginfo::{TypeId, Variable};

/// An expression with its type.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) type_id: TypeId,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    Integer(i128),
    Float(f64),
    /// The characters of a string literal, its NUL included.
    Bytes(Rc<[u8]>),
    /// A register, or the part of one from this byte on.
    Register(RegisterNumber, u64),
    /// A trace state variable.
    Variable(Rc<str>, Option<VariableNumber>),
    /// A variable of the program.
    Place(Rc<Variable>),
    /// A function, at its entry.
    Function(u64),
    /// An object of a type rule's expression.
    Subject(Subject),
    /// The target of a pointer.
    Dereference(Box<Node>),
    /// A part of an object, at a fixed place in it.
    Field {
        of: Box<Node>,
        offset: u64,
        bits: Option<(u64, u64)>,
    },
    /// The address of an object; what an array or a function decays to.
    AddressOf(Box<Node>),
    /// The number, converted to the node's type.
    Convert(Box<Node>),
    Negate(Box<Node>),
    BitNot(Box<Node>),
    LogicalNot(Box<Node>),
    /// Both operands have the node's type, but for a shift's right one.
    Arithmetic(BinaryOperator, Box<Node>, Box<Node>),
    /// Both operands have the same type.
    Compare(BinaryOperator, Box<Node>, Box<Node>),
    /// A pointer and an index in its target, in elements of this size; `subtract` means that the index is subtracted.
    PointerAdd {
        pointer: Box<Node>,
        index: Box<Node>,
        element: u64,
        subtract: bool,
    },
    /// How many elements of this size lie between two pointers.
    PointerDifference(Box<Node>, Box<Node>, u64),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Conditional(Box<Node>, Box<Node>, Box<Node>),
    Comma(Box<Node>, Box<Node>),
    /// Gives a trace state variable a value.
    Assign(Option<VariableNumber>, Box<Node>),
    /// So many objects like the first, one after the other: an array whose length is known at run time only.
    Repeat(Box<Node>, Box<Node>),
    /// Where something is that a container has: a pointer, null if there is none.
    Search(Rc<SearchNode>),
    /// The second, in which [`Subject::Known`] is the first.
    With(Known, Box<Node>, Box<Node>),
    /// Whether the characters from the address on are these. For a string that carries its length and no NUL,
    /// the length too.
    StringEqual {
        pointer: Box<Node>,
        length: Option<Box<Node>>,
        bytes: Rc<[u8]>,
    },
}

/// The objects of a type rule's expressions, which are bound when a value is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// The value that is walked.
    Object,
    /// The node of a list or a tree that the walk has come to: a pointer.
    Node,
    /// The number of an element in the node.
    Index,
    /// A value that is computed once, and used several times.
    Known(Known),
}

/// A value that is computed once, and used several times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// The result of a search: a pointer.
    Found,
    /// Where the characters of a text are.
    Data,
    /// How many there are.
    Length,
}

/// The operands of a kind of node, shared or to be changed: `$of` borrows one, `$if_any` one that may be missing.
macro_rules! operands {
    ($kind:expr, $of:expr, $if_any:expr) => {
        match $kind {
            NodeKind::Integer(_)
            | NodeKind::Float(_)
            | NodeKind::Bytes(_)
            | NodeKind::Register(..)
            | NodeKind::Variable(..)
            | NodeKind::Place(_)
            | NodeKind::Function(_)
            | NodeKind::Search(_)
            | NodeKind::Subject(_) => Vec::new(),
            NodeKind::Dereference(a)
            | NodeKind::Field { of: a, .. }
            | NodeKind::AddressOf(a)
            | NodeKind::Convert(a)
            | NodeKind::Negate(a)
            | NodeKind::BitNot(a)
            | NodeKind::LogicalNot(a)
            | NodeKind::Assign(_, a) => vec![$of(a)],
            NodeKind::Arithmetic(_, a, b)
            | NodeKind::Compare(_, a, b)
            | NodeKind::PointerAdd {
                pointer: a,
                index: b,
                ..
            }
            | NodeKind::PointerDifference(a, b, _)
            | NodeKind::And(a, b)
            | NodeKind::Or(a, b)
            | NodeKind::Comma(a, b)
            | NodeKind::With(_, a, b)
            | NodeKind::Repeat(a, b) => vec![$of(a), $of(b)],
            NodeKind::Conditional(a, b, c) => vec![$of(a), $of(b), $of(c)],
            NodeKind::StringEqual {
                pointer, length, ..
            } => {
                let mut operands = vec![$of(pointer)];
                operands.extend($if_any(length));
                operands
            }
        }
    };
}

impl Node {
    pub(crate) fn new(kind: NodeKind, type_id: TypeId, span: Span) -> Self {
        Self {
            kind,
            type_id,
            span,
        }
    }

    /// Whether it is an object: something that may have an address.
    pub(crate) fn is_object(&self) -> bool {
        matches!(
            self.kind,
            NodeKind::Register(..)
                | NodeKind::Place(_)
                | NodeKind::Function(_)
                | NodeKind::Dereference(_)
                | NodeKind::Field { .. }
                | NodeKind::Bytes(_)
                | NodeKind::Repeat(..)
                | NodeKind::Subject(Subject::Object)
        )
    }

    /// The operands.
    pub(crate) fn operands(&self) -> Vec<&Node> {
        operands!(&self.kind, Box::as_ref, Option::as_deref)
    }

    /// The operands, to be changed.
    pub(crate) fn operands_mut(&mut self) -> Vec<&mut Node> {
        operands!(&mut self.kind, Box::as_mut, Option::as_deref_mut)
    }
}
