//! Tokens to syntax tree, by precedence climbing.

use crate::error::{ExpressionError, ExpressionErrorKind, Span};
use crate::syntax::{BinaryOperator, Expression, ExpressionKind, TypeSyntax, UnaryOperator};
use crate::token::{Token, TokenKind, tokenize};
use tracewire_debuginfo::Language;

/// The deepest tree that is built, and the deepest nesting that is parsed.
const DEEPEST: u16 = 128;

/// The parser's questions to the symbols, because C's grammar depends on which names are types.
pub(crate) trait Names {
    /// Whether the (qualified, templated) name means a type here, and not a variable or a function.
    fn is_type(&self, name: &str) -> bool;
    /// Whether the name has a meaning here.
    fn is_known(&self, name: &str) -> bool;
}

/// Reads `text` as one expression in `language`.
pub(crate) fn parse(
    text: &str,
    language: Language,
    names: &dyn Names,
) -> Result<Expression, ExpressionError> {
    let mut parser = Parser {
        tokens: tokenize(text, language)?,
        next: 0,
        text,
        language,
        names,
        nesting: 0,
        declarators: 0,
    };
    let expression = parser.comma()?;
    match parser.peek() {
        TokenKind::End => Ok(expression),
        _ => parser.unexpected("an operator or the end"),
    }
}

pub(crate) type Result<T, E = ExpressionError> = std::result::Result<T, E>;

pub(crate) struct Parser<'a> {
    tokens: Vec<Token>,
    pub(crate) next: usize,
    pub(crate) text: &'a str,
    pub(crate) language: Language,
    pub(crate) names: &'a dyn Names,
    nesting: u16,
    /// How many pointers, arrays and functions the type that is being named has by now.
    pub(crate) declarators: u16,
}

/// How an infix operator is built.
#[derive(Clone, Copy)]
enum Infix {
    Binary(BinaryOperator),
    And,
    Or,
    Repeat,
}

/// (operator, its node, precedence in C, precedence in Rust); a higher number binds tighter.
const INFIX: &[(&str, Infix, u8, u8)] = &[
    ("||", Infix::Or, 1, 1),
    ("&&", Infix::And, 2, 2),
    ("|", Infix::Binary(BinaryOperator::Or), 3, 4),
    ("^", Infix::Binary(BinaryOperator::ExclusiveOr), 4, 5),
    ("&", Infix::Binary(BinaryOperator::And), 5, 6),
    ("==", Infix::Binary(BinaryOperator::Equal), 6, 3),
    ("!=", Infix::Binary(BinaryOperator::NotEqual), 6, 3),
    ("<", Infix::Binary(BinaryOperator::Less), 7, 3),
    (">", Infix::Binary(BinaryOperator::Greater), 7, 3),
    ("<=", Infix::Binary(BinaryOperator::LessOrEqual), 7, 3),
    (">=", Infix::Binary(BinaryOperator::GreaterOrEqual), 7, 3),
    ("<<", Infix::Binary(BinaryOperator::ShiftLeft), 8, 7),
    (">>", Infix::Binary(BinaryOperator::ShiftRight), 8, 7),
    ("@", Infix::Repeat, 9, 9),
    ("+", Infix::Binary(BinaryOperator::Add), 10, 8),
    ("-", Infix::Binary(BinaryOperator::Subtract), 10, 8),
    ("*", Infix::Binary(BinaryOperator::Multiply), 11, 10),
    ("/", Infix::Binary(BinaryOperator::Divide), 11, 10),
    ("%", Infix::Binary(BinaryOperator::Remainder), 11, 10),
];

const ASSIGN: &[(&str, Option<BinaryOperator>)] = &[
    ("=", None),
    ("+=", Some(BinaryOperator::Add)),
    ("-=", Some(BinaryOperator::Subtract)),
    ("*=", Some(BinaryOperator::Multiply)),
    ("/=", Some(BinaryOperator::Divide)),
    ("%=", Some(BinaryOperator::Remainder)),
    ("&=", Some(BinaryOperator::And)),
    ("|=", Some(BinaryOperator::Or)),
    ("^=", Some(BinaryOperator::ExclusiveOr)),
    ("<<=", Some(BinaryOperator::ShiftLeft)),
    (">>=", Some(BinaryOperator::ShiftRight)),
];

impl Parser<'_> {
    pub(crate) fn peek(&self) -> &TokenKind {
        self.peek_at(0)
    }

    pub(crate) fn peek_at(&self, ahead: usize) -> &TokenKind {
        (self.tokens.get(self.next + ahead)).map_or(&TokenKind::End, |token| &token.kind)
    }

    pub(crate) fn span(&self) -> Span {
        self.span_at(0)
    }

    pub(crate) fn span_at(&self, ahead: usize) -> Span {
        let end = self.text.len();
        (self.tokens.get(self.next + ahead)).map_or(Span { start: end, end }, |token| token.span)
    }

    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    pub(crate) fn at(&self, mark: &str) -> bool {
        matches!(self.peek(), TokenKind::Mark(found) if *found == mark)
    }

    pub(crate) fn at_name(&self, name: &str) -> bool {
        matches!(self.peek(), TokenKind::Name(found) if found == name)
    }

    pub(crate) fn eat(&mut self, mark: &str) -> bool {
        let found = self.at(mark);
        self.next += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, mark: &'static str) -> Result<Span> {
        let span = self.span();
        if self.eat(mark) {
            Ok(span)
        } else {
            self.unexpected(&format!("`{mark}`"))
        }
    }

    pub(crate) fn error<T>(&self, span: Span, message: impl Into<String>) -> Result<T> {
        let kind = ExpressionErrorKind::Syntax(message.into());
        Err(ExpressionError::new(kind, self.text, span))
    }

    pub(crate) fn unexpected<T>(&self, expected: &str) -> Result<T> {
        let span = self.span();
        let found = match self.text.get(span.start..span.end) {
            Some(token) if !token.is_empty() => format!("found `{token}`"),
            _ => "the expression ends here".to_owned(),
        };
        self.error(
            span,
            format!("A syntax error in expression: expected {expected}, {found}."),
        )
    }

    /// Counts one more pointer, array or function of a type.
    pub(crate) fn count_declarator(&mut self) -> Result<()> {
        self.declarators += 1;
        if self.declarators > DEEPEST {
            let message = format!("more than {DEEPEST} pointers and arrays in a type");
            let kind = ExpressionErrorKind::TooLarge(message);
            return Err(ExpressionError::new(kind, self.text, self.span()));
        }
        Ok(())
    }

    /// Runs `inner` one level deeper.
    pub(crate) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.nesting += 1;
        if self.nesting > DEEPEST {
            let kind =
                ExpressionErrorKind::TooLarge(format!("nested deeper than {DEEPEST} levels"));
            return Err(ExpressionError::new(kind, self.text, self.span()));
        }
        let result = inner(self);
        self.nesting -= 1;
        result
    }

    pub(crate) fn build(
        &self,
        kind: ExpressionKind,
        span: Span,
        below: &[u16],
    ) -> Result<Expression> {
        let depth = below.iter().max().map_or(0, |depth| depth + 1);
        if depth > DEEPEST {
            let kind =
                ExpressionErrorKind::TooLarge(format!("nested deeper than {DEEPEST} levels"));
            return Err(ExpressionError::new(kind, self.text, span));
        }
        Ok(Expression { kind, span, depth })
    }

    pub(crate) fn comma(&mut self) -> Result<Expression> {
        let mut left = self.assignment()?;
        while self.eat(",") {
            let right = self.assignment()?;
            let (span, below) = (left.span.to(right.span), [left.depth, right.depth]);
            left = self.build(
                ExpressionKind::Comma(left.into(), right.into()),
                span,
                &below,
            )?;
        }
        Ok(left)
    }

    pub(crate) fn assignment(&mut self) -> Result<Expression> {
        self.nested(|parser| {
            let left = parser.conditional()?;
            let operator = ASSIGN.iter().find(|(mark, _)| parser.at(mark));
            let Some((_, operator)) = operator else {
                return Ok(left);
            };
            parser.advance();
            let right = parser.assignment()?;
            let (span, below) = (left.span.to(right.span), [left.depth, right.depth]);
            let kind = ExpressionKind::Assign(*operator, left.into(), right.into());
            parser.build(kind, span, &below)
        })
    }

    pub(crate) fn conditional(&mut self) -> Result<Expression> {
        let condition = self.infix(1)?;
        if self.language == Language::Rust || !self.eat("?") {
            return Ok(condition);
        }
        let yes = self.nested(Self::comma)?;
        self.expect(":")?;
        let no = self.nested(Self::conditional)?;
        let span = condition.span.to(no.span);
        let below = [condition.depth, yes.depth, no.depth];
        let kind = ExpressionKind::Conditional(condition.into(), yes.into(), no.into());
        self.build(kind, span, &below)
    }

    fn infix(&mut self, lowest: u8) -> Result<Expression> {
        let mut left = self.unary()?;
        loop {
            let operator = INFIX.iter().find(|(mark, ..)| self.at(mark));
            let Some((_, infix, in_c, in_rust)) = operator else {
                return Ok(left);
            };
            let precedence = if self.language == Language::Rust {
                *in_rust
            } else {
                *in_c
            };
            if precedence < lowest {
                return Ok(left);
            }
            self.advance();
            let right = self.nested(|parser| parser.infix(precedence + 1))?;
            let (span, below) = (left.span.to(right.span), [left.depth, right.depth]);
            let (left_box, right_box) = (Box::new(left), Box::new(right));
            let kind = match infix {
                Infix::Binary(operator) => ExpressionKind::Binary(*operator, left_box, right_box),
                Infix::And => ExpressionKind::LogicalAnd(left_box, right_box),
                Infix::Or => ExpressionKind::LogicalOr(left_box, right_box),
                Infix::Repeat => ExpressionKind::Repeat(left_box, right_box),
            };
            left = self.build(kind, span, &below)?;
        }
    }

    fn unary(&mut self) -> Result<Expression> {
        self.nested(|parser| {
            let operand = parser.prefix()?;
            parser.as_casts(operand)
        })
    }

    fn prefix(&mut self) -> Result<Expression> {
        let start = self.span();
        let rust = self.language == Language::Rust;
        let operator = match self.peek() {
            TokenKind::Mark("*") => Some(UnaryOperator::Dereference),
            TokenKind::Mark("&") => Some(UnaryOperator::AddressOf),
            TokenKind::Mark("-") => Some(UnaryOperator::Negate),
            TokenKind::Mark("+") => Some(UnaryOperator::Plus),
            TokenKind::Mark("!") => Some(UnaryOperator::LogicalNot),
            TokenKind::Mark("~") => Some(UnaryOperator::BitNot),
            TokenKind::Mark(mark @ ("++" | "--")) => {
                let message =
                    format!("`{mark}` would change the program; a tracepoint only looks at it.");
                return self.error(start, message);
            }
            _ => None,
        };
        if let Some(operator) = operator {
            self.advance();
            if operator == UnaryOperator::AddressOf && rust && self.at_name("mut") {
                self.advance();
            }
            let operand = self.nested(Self::prefix)?;
            let (span, below) = (start.to(operand.span), [operand.depth]);
            return self.build(
                ExpressionKind::Unary(operator, operand.into()),
                span,
                &below,
            );
        }
        if self.at_name("sizeof") {
            return self.size_of();
        }
        if self.at("{") {
            // GDB's `{TYPE} ADDRESS`.
            self.advance();
            let type_name = self.whole_type()?;
            self.expect("}")?;
            let operand = self.nested(Self::prefix)?;
            return self.cast_and_dereference(type_name, operand, start);
        }
        if !rust && self.at("(") && self.type_starts_at(1) {
            self.advance();
            let type_name = self.whole_type()?;
            self.expect(")")?;
            let operand = self.nested(Self::prefix)?;
            return self.cast(type_name, operand, start);
        }
        self.postfix()
    }

    pub(crate) fn cast(
        &self,
        to: TypeSyntax,
        operand: Expression,
        start: Span,
    ) -> Result<Expression> {
        let (span, below) = (start.to(operand.span), [operand.depth]);
        self.build(ExpressionKind::Cast(to, operand.into()), span, &below)
    }

    fn cast_and_dereference(
        &self,
        to: TypeSyntax,
        operand: Expression,
        start: Span,
    ) -> Result<Expression> {
        let pointer = self.cast(TypeSyntax::Pointer(to.into()), operand, start)?;
        let (span, below) = (pointer.span, [pointer.depth]);
        let kind = ExpressionKind::Unary(UnaryOperator::Dereference, pointer.into());
        self.build(kind, span, &below)
    }

    /// Rust's `x as T`.
    fn as_casts(&mut self, mut operand: Expression) -> Result<Expression> {
        while self.language == Language::Rust && self.at_name("as") {
            self.advance();
            let type_name = self.whole_type()?;
            let start = operand.span;
            operand = self.cast(type_name, operand, start)?;
        }
        Ok(operand)
    }

    fn size_of(&mut self) -> Result<Expression> {
        let start = self.span();
        self.advance();
        if self.language != Language::Rust && self.at("(") && self.type_starts_at(1) {
            self.advance();
            let type_name = self.whole_type()?;
            let end = self.expect(")")?;
            return self.build(ExpressionKind::SizeOfType(type_name), start.to(end), &[]);
        }
        let operand = self.nested(Self::prefix)?;
        let (span, below) = (start.to(operand.span), [operand.depth]);
        self.build(ExpressionKind::SizeOf(operand.into()), span, &below)
    }
}
