//! The syntax tree of an expression, before any name is looked up.

use crate::error::Span;
use crate::token::Literal;

/// An expression and where it is in the text.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Expression {
    pub(crate) kind: ExpressionKind,
    pub(crate) span: Span,
    /// How many levels of operands lie below; bounded by the parser, so that a walk never runs out of stack.
    pub(crate) depth: u16,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ExpressionKind {
    Literal(Literal),
    /// A name, with `::` inside where it is qualified.
    Name(String),
    /// `'file.c'::name` or `function::name`, where the scope is quoted.
    Scoped {
        scope: String,
        name: String,
    },
    /// `$name`.
    Dollar(String),
    Unary(UnaryOperator, Box<Expression>),
    Binary(BinaryOperator, Box<Expression>, Box<Expression>),
    LogicalAnd(Box<Expression>, Box<Expression>),
    LogicalOr(Box<Expression>, Box<Expression>),
    Conditional(Box<Expression>, Box<Expression>, Box<Expression>),
    Comma(Box<Expression>, Box<Expression>),
    Assign(Option<BinaryOperator>, Box<Expression>, Box<Expression>),
    Cast(TypeSyntax, Box<Expression>),
    SizeOf(Box<Expression>),
    SizeOfType(TypeSyntax),
    /// `a.b`; through a pointer too, as GDB allows.
    Member(Box<Expression>, String, Span),
    /// `a->b`.
    Arrow(Box<Expression>, String, Span),
    Index(Box<Expression>, Box<Expression>),
    /// `a @ n`.
    Repeat(Box<Expression>, Box<Expression>),
    Call(Box<Expression>, Vec<Expression>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UnaryOperator {
    Dereference,
    AddressOf,
    Negate,
    Plus,
    LogicalNot,
    BitNot,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    ExclusiveOr,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl BinaryOperator {
    pub(crate) fn is_comparison(self) -> bool {
        use BinaryOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        matches!(
            self,
            Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual
        )
    }
}

/// A type as it is written in an expression.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TypeSyntax {
    /// A builtin type of the language, by GDB's name for it.
    Builtin(&'static str),
    /// A type of the program.
    Named {
        name: String,
        span: Span,
    },
    /// `struct name`, `union name`, `enum name`, `class name`.
    Tagged {
        tag: &'static str,
        name: String,
        span: Span,
    },
    Pointer(Box<TypeSyntax>),
    Reference(Box<TypeSyntax>),
    Array(Box<TypeSyntax>, Option<u64>),
    Function(Box<TypeSyntax>, Vec<TypeSyntax>),
    Qualified(&'static str, Box<TypeSyntax>),
}
