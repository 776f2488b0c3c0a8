//! Syntax tree to typed tree: names looked up, conversions made explicit.

use std::cell::Cell;
use std::sync::Arc;

use tracewire_model::VariableNumber;

use crate::error::{ExpressionError, ExpressionErrorKind, Span};
use crate::node::{Node, NodeKind};
use crate::parse::{Names, parse};
use crate::scalar::{Scalar, builtin, scalar, strip};
use crate::syntax::{BinaryOperator, Expression, ExpressionKind, UnaryOperator};
use crate::token::Literal;
use tracewire_debuginfo::{Language, Scope, Symbols, Type, TypeId, VariableKind, VariableLocation};

pub(crate) type Result<T, E = ExpressionError> = std::result::Result<T, E>;

/// Which `$name`s are trace state variables.
pub(crate) trait StateVariables {
    /// `Some` if there is such a variable; the number, where numbers matter.
    fn lookup(&self, name: &str) -> Option<Option<VariableNumber>>;
}

/// Where there are none.
pub(crate) struct NoVariables;

impl StateVariables for NoVariables {
    fn lookup(&self, _: &str) -> Option<Option<VariableNumber>> {
        None
    }
}

/// The scope that an expression is seen from. It notes whether the scope is asked for: then the meaning depends on it.
pub(crate) struct SeenFrom {
    scope: Scope,
    is_asked: Cell<bool>,
}

impl SeenFrom {
    /// The scope.
    pub(crate) fn get(&self) -> Scope {
        self.is_asked.set(true);
        self.scope
    }

    /// Whether it was asked for.
    pub(crate) const fn is_asked(&self) -> bool {
        self.is_asked.get()
    }
}

impl From<Scope> for SeenFrom {
    fn from(scope: Scope) -> Self {
        Self {
            scope,
            is_asked: Cell::new(false),
        }
    }
}

/// Gives an expression types, as it is seen from one place.
pub(crate) struct Resolver<'a> {
    pub(crate) symbols: &'a Symbols,
    pub(crate) scope: SeenFrom,
    pub(crate) language: Language,
    pub(crate) variables: &'a dyn StateVariables,
    pub(crate) text: &'a str,
    /// For an expression of a type rule: what its names are about.
    pub(crate) rule: Option<RuleNames<'a>>,
    /// Whether a part was found by a type rule, which GDB does not have.
    pub(crate) has_parts: Cell<bool>,
}

/// The names in a type rule's expression.
#[derive(Clone, Copy)]
pub(crate) struct RuleNames<'a> {
    /// The type of the value.
    pub(crate) object: TypeId,
    /// `T0`, `T1`, …
    pub(crate) arguments: &'a [TypeId],
    /// `V0`, `V1`, …
    pub(crate) values: &'a [i128],
    /// The type of `$node`, once it is known.
    pub(crate) node: Option<TypeId>,
    /// Whether there is `$index`.
    pub(crate) has_index: bool,
}

impl RuleNames<'_> {
    /// A type among the template arguments, by its name in a rule.
    pub(crate) fn argument(&self, name: &str) -> Option<TypeId> {
        let number: usize = name.strip_prefix('T')?.parse().ok()?;
        self.arguments.get(number).copied()
    }
}

/// Reads and resolves `text`.
pub(crate) fn resolve(
    symbols: &Symbols,
    scope: Scope,
    text: &str,
    variables: &dyn StateVariables,
) -> Result<Node> {
    Ok(resolve_with_parts(symbols, scope, text, variables)?.0)
}

/// Parses and resolves `text`, and returns whether type rules were used.
pub(crate) fn resolve_with_parts(
    symbols: &Symbols,
    scope: Scope,
    text: &str,
    variables: &dyn StateVariables,
) -> Result<(Node, bool)> {
    let resolver = Resolver::new(symbols, scope, text, variables);
    let node = resolver.node()?;
    Ok((node, resolver.has_parts.get()))
}

impl Names for Resolver<'_> {
    fn is_type(&self, name: &str) -> bool {
        if let Some(rule) = &self.rule {
            return rule.argument(name).is_some();
        }
        // A function of the same name is a constructor, and an enumerator one of another scope.
        let shadowed =
            (self.symbols.lookup_variable(Some(self.scope.get()), name)).is_some_and(|variable| {
                variable.kind != VariableKind::Symbol
                    && !matches!(variable.location, VariableLocation::Constant(_))
            });
        !shadowed
            && self
                .symbols
                .lookup_type(Some(self.scope.get()), name)
                .is_some()
    }

    fn is_known(&self, name: &str) -> bool {
        if self.rule.is_some() {
            return false;
        }
        self.symbols
            .lookup_variable(Some(self.scope.get()), name)
            .is_some()
            || self
                .symbols
                .lookup_function(Some(self.scope.get()), name)
                .is_some()
    }
}

impl<'a> Resolver<'a> {
    /// For an expression in the language of its place.
    pub(crate) fn new(
        symbols: &'a Symbols,
        scope: Scope,
        text: &'a str,
        variables: &'a dyn StateVariables,
    ) -> Self {
        let language = symbols.language_at(Some(scope.pc));
        Self::in_language(symbols, scope, language, text, variables)
    }

    /// For an expression in another language.
    pub(crate) fn in_language(
        symbols: &'a Symbols,
        scope: Scope,
        language: Language,
        text: &'a str,
        variables: &'a dyn StateVariables,
    ) -> Self {
        Self {
            symbols,
            scope: scope.into(),
            language,
            variables,
            text,
            rule: None,
            has_parts: Cell::new(false),
        }
    }

    /// Parses and resolves the text.
    pub(crate) fn node(&self) -> Result<Node> {
        self.expression(&parse(self.text, self.language, self)?)
    }
}

impl Resolver<'_> {
    pub(crate) fn error<T>(&self, kind: ExpressionErrorKind, span: Span) -> Result<T> {
        Err(ExpressionError::new(kind, self.text, span))
    }

    pub(crate) fn type_error<T>(&self, message: impl Into<String>, span: Span) -> Result<T> {
        self.error(ExpressionErrorKind::Type(message.into()), span)
    }

    pub(crate) fn builtin(&self, name: &str) -> TypeId {
        builtin(self.symbols, name)
    }

    pub(crate) fn scalar(&self, node: &Node) -> Scalar {
        scalar(self.symbols, node.type_id)
    }

    fn literal(&self, literal: &Literal, span: Span) -> Result<Node> {
        match literal {
            Literal::Integer {
                value,
                decimal,
                suffix,
            } => self.integer_literal(*value, *decimal, suffix, span),
            Literal::Float { value, suffix } => {
                let name = match (suffix.as_str(), self.language) {
                    ("f" | "F", _) => "float",
                    ("f32", _) => "f32",
                    ("l" | "L", _) => "long double",
                    (_, Language::Rust) => "f64",
                    _ => "double",
                };
                let value = if matches!(name, "float" | "f32") {
                    f64::from(*value as f32)
                } else {
                    *value
                };
                Ok(Node::new(NodeKind::Float(value), self.builtin(name), span))
            }
            Literal::Character { value, prefix } => Ok(self.character(*value, prefix, span)),
            Literal::Text(bytes) => Ok(self.string(bytes, span)),
        }
    }

    /// Resolves one expression. The depth of `expression` was bounded by the parser.
    pub(crate) fn expression(&self, expression: &Expression) -> Result<Node> {
        let span = expression.span;
        match &expression.kind {
            ExpressionKind::Literal(literal) => self.literal(literal, span),
            ExpressionKind::Name(name) => self.name(name, span),
            ExpressionKind::Scoped { scope, name } => {
                self.name(&format!("'{scope}'::{name}"), span)
            }
            ExpressionKind::Dollar(name) => self.dollar(name, span),
            ExpressionKind::Unary(operator, operand) => self.unary(*operator, operand, span),
            ExpressionKind::Binary(operator, left, right) => {
                let (left, right) = (self.expression(left)?, self.expression(right)?);
                self.binary(*operator, left, right, span)
            }
            ExpressionKind::LogicalAnd(left, right) => {
                let (left, right) = (self.condition(left)?, self.condition(right)?);
                Ok(Node::new(
                    NodeKind::And(left.into(), right.into()),
                    self.truth_type(),
                    span,
                ))
            }
            ExpressionKind::LogicalOr(left, right) => {
                let (left, right) = (self.condition(left)?, self.condition(right)?);
                Ok(Node::new(
                    NodeKind::Or(left.into(), right.into()),
                    self.truth_type(),
                    span,
                ))
            }
            ExpressionKind::Conditional(condition, yes, no) => {
                self.conditional(condition, yes, no, span)
            }
            ExpressionKind::Comma(first, second) => {
                let (first, second) = (self.expression(first)?, self.expression(second)?);
                let type_id = second.type_id;
                Ok(Node::new(
                    NodeKind::Comma(first.into(), second.into()),
                    type_id,
                    span,
                ))
            }
            ExpressionKind::Assign(operator, target, value) => {
                self.assign(*operator, target, value, span)
            }
            ExpressionKind::Cast(to, operand) => {
                let to = self.type_syntax(to)?;
                if let Some(symbol) = self.untyped_symbol(operand, to) {
                    return Ok(symbol);
                }
                let operand = self.expression(operand)?;
                self.cast(operand, to, span)
            }
            ExpressionKind::SizeOf(operand) => {
                let operand = self.coerce(self.expression(operand)?);
                self.size(operand.type_id, span)
            }
            ExpressionKind::SizeOfType(type_syntax) => {
                let type_id = self.type_syntax(type_syntax)?;
                self.size(type_id, span)
            }
            ExpressionKind::Member(of, name, name_span) => {
                let of = self.expression(of)?;
                match self.member(of.clone(), name, *name_span, span) {
                    Err(error) => self.part(&of, name).ok_or(error),
                    member => member,
                }
            }
            ExpressionKind::Arrow(of, name, name_span) => {
                let of = self.expression(of)?;
                let of = self.owned(&of, span).unwrap_or(of);
                self.member(of, name, *name_span, span)
            }
            ExpressionKind::Index(array, index) => {
                let (array, index) = (self.expression(array)?, self.expression(index)?);
                self.index(array, index, span)
            }
            ExpressionKind::Repeat(first, count) => {
                let (first, count) = (self.expression(first)?, self.expression(count)?);
                self.repeat(first, count, span)
            }
            ExpressionKind::Call(function, arguments) => self.call(function, arguments, span),
        }
    }

    pub(crate) fn truth_type(&self) -> TypeId {
        crate::scalar::truth(self.symbols, self.language)
    }

    fn unary(&self, operator: UnaryOperator, operand: &Expression, span: Span) -> Result<Node> {
        if operator == UnaryOperator::AddressOf
            && let Some(symbol) = self.untyped_symbol(operand, self.builtin("void"))
        {
            // GDB's `(<data variable, no debug info> *)`.
            let type_id = self.symbols.pointer_to(symbol.type_id);
            return Ok(Node::new(NodeKind::AddressOf(symbol.into()), type_id, span));
        }
        let operand = self.expression(operand)?;
        match operator {
            UnaryOperator::Dereference => self.dereference(operand, span),
            UnaryOperator::AddressOf => {
                let operand = self.coerce(operand);
                if !operand.is_object() || matches!(operand.kind, NodeKind::Bytes(_)) {
                    return self.type_error(
                        "Attempt to take address of value not located in memory.",
                        span,
                    );
                }
                if matches!(operand.kind, NodeKind::Field { bits: Some(_), .. }) {
                    return self.type_error("Cannot take the address of a bit field.", span);
                }
                if matches!(operand.kind, NodeKind::Register(..)) {
                    return self.type_error("Attempt to take address of value in register.", span);
                }
                let type_id = self.symbols.pointer_to(operand.type_id);
                Ok(Node::new(
                    NodeKind::AddressOf(operand.into()),
                    type_id,
                    span,
                ))
            }
            UnaryOperator::Negate | UnaryOperator::Plus | UnaryOperator::BitNot => {
                self.arithmetic_unary(operator, operand, span)
            }
            UnaryOperator::LogicalNot => {
                let operand = self.value(operand);
                let integer = matches!(self.scalar(&operand), Scalar::Integer { .. });
                if self.language == Language::Rust && integer {
                    return self.arithmetic_unary(UnaryOperator::BitNot, operand, span);
                }
                let operand = self.testable(operand)?;
                Ok(Node::new(
                    NodeKind::LogicalNot(operand.into()),
                    self.truth_type(),
                    span,
                ))
            }
        }
    }

    fn arithmetic_unary(&self, operator: UnaryOperator, operand: Node, span: Span) -> Result<Node> {
        let operand = self.value(operand);
        let shape = self.scalar(&operand);
        let int = Scalar::Integer {
            size: 1,
            signed: true,
        };
        let type_id = match shape {
            Scalar::Float { .. } if operator != UnaryOperator::BitNot => operand.type_id,
            Scalar::Integer { .. } | Scalar::Boolean { .. } => {
                // Rust does not promote; GDB does not either for a lone operand of it.
                if self.language == Language::Rust {
                    operand.type_id
                } else {
                    let wide = matches!(shape, Scalar::Integer { size, .. } if size >= 4);
                    let promoted = crate::scalar::promoted(self.symbols, self.language, shape, int);
                    if wide {
                        operand.type_id
                    } else {
                        promoted.unwrap_or(operand.type_id)
                    }
                }
            }
            _ => {
                return self.type_error(
                    "Argument to arithmetic operation not a number or boolean.",
                    span,
                );
            }
        };
        let operand = self.convert(operand, type_id);
        let kind = match operator {
            UnaryOperator::Negate => match operand.kind {
                NodeKind::Float(number) => NodeKind::Float(-number),
                _ => NodeKind::Negate(operand.into()),
            },
            UnaryOperator::BitNot => NodeKind::BitNot(operand.into()),
            _ => return Ok(operand),
        };
        Ok(Node::new(kind, type_id, span))
    }

    fn dereference(&self, operand: Node, span: Span) -> Result<Node> {
        if let Some(owned) = self.owned(&operand, span) {
            return Ok(owned);
        }
        let operand = self.value(operand);
        match self.scalar(&operand) {
            Scalar::Pointer { target, .. } => {
                if scalar(self.symbols, target) == Scalar::Void {
                    return self
                        .type_error("Attempt to take contents of a non-pointer value.", span);
                }
                Ok(Node::new(
                    NodeKind::Dereference(operand.into()),
                    target,
                    span,
                ))
            }
            // As GDB: an integer is taken for the address of a long.
            Scalar::Integer { .. } => {
                let type_id = self.builtin("long");
                let operand = self.convert(operand, self.symbols.pointer_to(type_id));
                Ok(Node::new(
                    NodeKind::Dereference(operand.into()),
                    type_id,
                    span,
                ))
            }
            _ => match &*self.stripped(operand.type_id) {
                Type::Unknown { name, .. } => {
                    self.type_error(format!("The type of this is not known: {name}."), span)
                }
                _ => self.type_error("Attempt to take contents of a non-pointer value.", span),
            },
        }
    }

    fn conditional(
        &self,
        condition: &Expression,
        yes: &Expression,
        no: &Expression,
        span: Span,
    ) -> Result<Node> {
        let condition = self.condition(condition)?;
        let (yes, no) = (self.expression(yes)?, self.expression(no)?);
        let (yes, no) = (self.value(yes), self.value(no));
        let common = crate::scalar::promoted(
            self.symbols,
            self.language,
            self.scalar(&yes),
            self.scalar(&no),
        );
        // The branches keep their types, as in GDB, whose result has the type of the branch that is taken.
        let type_id = common.unwrap_or(yes.type_id);
        let kind = NodeKind::Conditional(condition.into(), yes.into(), no.into());
        Ok(Node::new(kind, type_id, span))
    }

    fn assign(
        &self,
        operator: Option<BinaryOperator>,
        target: &Expression,
        value: &Expression,
        span: Span,
    ) -> Result<Node> {
        let refused = "May only assign to trace state variables";
        let ExpressionKind::Dollar(_) = &target.kind else {
            return self.type_error(refused, target.span);
        };
        let variable = self.expression(target)?;
        let NodeKind::Variable(_, number) = variable.kind.clone() else {
            return self.type_error(refused, target.span);
        };
        let type_id = variable.type_id;
        let value = self.expression(value)?;
        let value = match operator {
            Some(operator) => self.binary(operator, variable, value, span)?,
            None => self.value(value),
        };
        if self.scalar(&value).as_number().is_none() {
            return self.type_error("A trace state variable holds an integer.", value.span);
        }
        let value = self.convert(value, type_id);
        Ok(Node::new(
            NodeKind::Assign(number, value.into()),
            type_id,
            span,
        ))
    }

    fn size(&self, type_id: TypeId, span: Span) -> Result<Node> {
        match self.symbols.size_of(type_id) {
            Some(size) => {
                let kind = NodeKind::Integer(i128::from(size));
                Ok(Node::new(kind, self.builtin("int"), span))
            }
            None => self.type_error("The size of an incomplete type is not known.", span),
        }
    }

    /// The type of an object, stripped.
    pub(crate) fn stripped(&self, type_id: TypeId) -> Arc<Type> {
        strip(self.symbols, type_id).1
    }
}
