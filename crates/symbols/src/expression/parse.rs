//! Tokens to syntax tree, by precedence climbing.

use super::error::{ExpressionError, ExpressionErrorKind, Span};
use super::syntax::{BinaryOperator, Expression, ExpressionKind, TypeSyntax, UnaryOperator};
use super::token::{Token, TokenKind, tokenize};
use crate::Language;

/// The deepest tree that is built, and the deepest nesting that is parsed.
const DEEPEST: u16 = 128;

/// What the parser has to ask the symbols, because C's grammar depends on which names are types.
pub(crate) trait Names {
    /// Whether the (qualified, templated) name means a type here, and not a variable or a function.
    fn is_type(&self, name: &str) -> bool;
    /// Whether the name means anything at all here.
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
    };
    let expression = parser.comma()?;
    match parser.peek() {
        TokenKind::End => Ok(expression),
        _ => parser.unexpected("an operator or the end"),
    }
}

pub(super) type Result<T, E = ExpressionError> = std::result::Result<T, E>;

pub(super) struct Parser<'a> {
    tokens: Vec<Token>,
    next: usize,
    text: &'a str,
    pub(super) language: Language,
    pub(super) names: &'a dyn Names,
    nesting: u16,
}

/// How an infix operator is built.
#[derive(Clone, Copy)]
enum Infix {
    Binary(BinaryOperator),
    And,
    Or,
    Repeat,
}

/// (mark, what it builds, precedence in C, precedence in Rust); a higher number binds tighter.
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
    pub(super) fn peek(&self) -> &TokenKind {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> &TokenKind {
        (self.tokens.get(self.next + ahead)).map_or(&TokenKind::End, |token| &token.kind)
    }

    pub(super) fn span(&self) -> Span {
        self.span_at(0)
    }

    pub(super) fn span_at(&self, ahead: usize) -> Span {
        let end = self.text.len();
        (self.tokens.get(self.next + ahead)).map_or(Span { start: end, end }, |token| token.span)
    }

    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    pub(super) fn at(&self, mark: &str) -> bool {
        matches!(self.peek(), TokenKind::Mark(found) if *found == mark)
    }

    pub(super) fn at_name(&self, name: &str) -> bool {
        matches!(self.peek(), TokenKind::Name(found) if found == name)
    }

    pub(super) fn eat(&mut self, mark: &str) -> bool {
        let found = self.at(mark);
        self.next += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, mark: &'static str) -> Result<Span> {
        let span = self.span();
        if self.eat(mark) {
            Ok(span)
        } else {
            self.unexpected(&format!("`{mark}`"))
        }
    }

    pub(super) fn error<T>(&self, span: Span, message: impl Into<String>) -> Result<T> {
        let kind = ExpressionErrorKind::Syntax(message.into());
        Err(ExpressionError::new(kind, self.text, span))
    }

    pub(super) fn unexpected<T>(&self, expected: &str) -> Result<T> {
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

    /// Runs `inner` one level deeper.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
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

    fn build(&self, kind: ExpressionKind, span: Span, below: &[u16]) -> Result<Expression> {
        let depth = below.iter().max().map_or(0, |depth| depth + 1);
        if depth > DEEPEST {
            let kind =
                ExpressionErrorKind::TooLarge(format!("nested deeper than {DEEPEST} levels"));
            return Err(ExpressionError::new(kind, self.text, span));
        }
        Ok(Expression { kind, span, depth })
    }

    fn comma(&mut self) -> Result<Expression> {
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

    fn assignment(&mut self) -> Result<Expression> {
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

    fn conditional(&mut self) -> Result<Expression> {
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
            let type_name = self.type_name()?;
            self.expect("}")?;
            let operand = self.nested(Self::prefix)?;
            return self.cast_and_dereference(type_name, operand, start);
        }
        if !rust && self.at("(") && self.type_starts_at(1) {
            self.advance();
            let type_name = self.type_name()?;
            self.expect(")")?;
            let operand = self.nested(Self::prefix)?;
            return self.cast(type_name, operand, start);
        }
        self.postfix()
    }

    fn cast(&self, to: TypeSyntax, operand: Expression, start: Span) -> Result<Expression> {
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
            let type_name = self.rust_type_name()?;
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
            let type_name = self.type_name()?;
            let end = self.expect(")")?;
            return self.build(ExpressionKind::SizeOfType(type_name), start.to(end), &[]);
        }
        let operand = self.nested(Self::prefix)?;
        let (span, below) = (start.to(operand.span), [operand.depth]);
        self.build(ExpressionKind::SizeOf(operand.into()), span, &below)
    }

    fn postfix(&mut self) -> Result<Expression> {
        let mut left = self.primary()?;
        loop {
            let (arrow, dot) = (self.at("->"), self.at("."));
            if arrow || dot {
                self.advance();
                let span = self.span();
                let name = self.member_name()?;
                let (whole, below) = (left.span.to(span), [left.depth]);
                let kind = if arrow {
                    ExpressionKind::Arrow(left.into(), name, span)
                } else {
                    ExpressionKind::Member(left.into(), name, span)
                };
                left = self.build(kind, whole, &below)?;
            } else if self.eat("[") {
                let index = self.nested(Self::comma)?;
                let end = self.expect("]")?;
                let (span, below) = (left.span.to(end), [left.depth, index.depth]);
                left = self.build(
                    ExpressionKind::Index(left.into(), index.into()),
                    span,
                    &below,
                )?;
            } else if self.eat("(") {
                left = self.call(left)?;
            } else if self.at("++") || self.at("--") {
                let message = "this would change the program; a tracepoint only looks at it.";
                return self.error(self.span(), message);
            } else {
                return Ok(left);
            }
        }
    }

    fn call(&mut self, function: Expression) -> Result<Expression> {
        let mut arguments = Vec::new();
        while !self.at(")") {
            arguments.push(self.assignment()?);
            if !self.eat(",") {
                break;
            }
        }
        let end = self.expect(")")?;
        let span = function.span.to(end);
        let mut below = vec![function.depth];
        below.extend(arguments.iter().map(|argument| argument.depth));
        self.build(
            ExpressionKind::Call(function.into(), arguments),
            span,
            &below,
        )
    }

    fn member_name(&mut self) -> Result<String> {
        let name = match self.peek() {
            TokenKind::Name(name) => name.clone(),
            // A field of a tuple.
            TokenKind::Integer { value, suffix, .. } if suffix.is_empty() => value.to_string(),
            _ => return self.unexpected("a member's name"),
        };
        self.advance();
        // `derived.Base::member`
        let mut full = name;
        while self.at("::") {
            self.advance();
            match self.peek() {
                TokenKind::Name(part) => {
                    full.push_str("::");
                    full.push_str(part);
                }
                _ => return self.unexpected("a member's name"),
            }
            self.advance();
        }
        Ok(full)
    }

    fn primary(&mut self) -> Result<Expression> {
        let start = self.span();
        let kind = match self.peek().clone() {
            TokenKind::Integer {
                value,
                decimal,
                suffix,
            } => ExpressionKind::Integer {
                value,
                decimal,
                suffix,
            },
            TokenKind::Float { value, suffix } => ExpressionKind::Float { value, suffix },
            TokenKind::Character { value, prefix } => ExpressionKind::Character { value, prefix },
            TokenKind::Text { bytes, .. } => ExpressionKind::Text(bytes),
            TokenKind::Dollar(name) => ExpressionKind::Dollar(name),
            TokenKind::Quoted(scope) => return self.quoted_name(scope),
            TokenKind::Mark("(") => {
                self.advance();
                let mut inner = self.nested(Self::comma)?;
                let end = self.expect(")")?;
                inner.span = start.to(end);
                return Ok(inner);
            }
            TokenKind::Name(name) if self.is_cast_operator(&name) => return self.cpp_cast(),
            TokenKind::Name(_) | TokenKind::Mark("::") => {
                let (name, tokens, span) = self.path(0)?;
                self.next += tokens;
                return self.build(ExpressionKind::Name(name), span, &[]);
            }
            _ => return self.unexpected("a value"),
        };
        self.advance();
        self.build(kind, start, &[])
    }

    fn quoted_name(&mut self, scope: String) -> Result<Expression> {
        let start = self.span();
        self.advance();
        if !self.at("::") {
            return self.build(ExpressionKind::Name(scope), start, &[]);
        }
        self.advance();
        let (name, tokens, span) = self.path(0)?;
        self.next += tokens;
        self.build(ExpressionKind::Scoped { scope, name }, start.to(span), &[])
    }

    fn is_cast_operator(&self, name: &str) -> bool {
        let cast = matches!(
            name,
            "static_cast" | "reinterpret_cast" | "const_cast" | "dynamic_cast"
        );
        cast && self.language == Language::Cpp && *self.peek_at(1) == TokenKind::Mark("<")
    }

    fn cpp_cast(&mut self) -> Result<Expression> {
        let start = self.span();
        self.advance();
        self.expect("<")?;
        let type_name = self.type_name()?;
        self.expect(">")?;
        self.expect("(")?;
        let operand = self.nested(Self::comma)?;
        self.expect(")")?;
        self.cast(type_name, operand, start)
    }

    /// A qualified name from the `ahead`-th token on: the name, how many tokens it takes, and where it stands.
    pub(super) fn path(&self, ahead: usize) -> Result<(String, usize, Span)> {
        let mut name = String::new();
        let mut used = 0;
        let start = self.span_at(ahead);
        if *self.peek_at(ahead) == TokenKind::Mark("::") {
            used += 1;
        }
        loop {
            let TokenKind::Name(part) = self.peek_at(ahead + used) else {
                let kind = ExpressionErrorKind::Syntax(
                    "A syntax error in expression: expected a name.".into(),
                );
                return Err(ExpressionError::new(
                    kind,
                    self.text,
                    self.span_at(ahead + used),
                ));
            };
            name.push_str(part);
            used += 1;
            if let Some((longer, tokens)) = self.template(&name, ahead + used) {
                name = longer;
                used += tokens;
            }
            if *self.peek_at(ahead + used) != TokenKind::Mark("::")
                || !matches!(self.peek_at(ahead + used + 1), TokenKind::Name(_))
            {
                break;
            }
            name.push_str("::");
            used += 1;
        }
        let span = start.to(self.span_at(ahead + used - 1));
        Ok((name, used, span))
    }

    /// `name<arguments>`, if `<` adjoins the name and what comes out is a name of the program: the whole name
    /// and how many tokens the arguments take.
    fn template(&self, name: &str, ahead: usize) -> Option<(String, usize)> {
        let open = self.span_at(ahead);
        let adjoins = ahead == 0 || self.span_at(ahead.checked_sub(1)?).end == open.start;
        if *self.peek_at(ahead) != TokenKind::Mark("<") || self.language == Language::C || !adjoins
        {
            return None;
        }
        let rest = self.text.get(open.start..)?;
        let mut depth = 0_u32;
        for (offset, c) in rest.char_indices() {
            match c {
                '<' | '(' => depth += 1,
                '>' | ')' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                let end = open.start + offset + 1;
                let whole = format!("{name}{}", rest.get(..=offset)?);
                let tokens = (0..)
                    .take_while(|n| {
                        self.span_at(ahead + n).end <= end
                            && *self.peek_at(ahead + n) != TokenKind::End
                    })
                    .count();
                let ends_on_token = self.span_at(ahead + tokens.checked_sub(1)?).end == end;
                let scope = rest
                    .get(offset + 1..)
                    .is_some_and(|rest| rest.trim_start().starts_with("::"));
                let known = scope || self.names.is_known(&whole) || self.names.is_type(&whole);
                return (ends_on_token && known).then_some((whole, tokens));
            }
        }
        None
    }
}
