//! The operands of an expression: literals, names, brackets, and postfix operators.

use crate::error::{ExpressionError, ExpressionErrorKind, Span};
use crate::parse::{Parser, Result};
use crate::syntax::{Expression, ExpressionKind};
use crate::token::{Literal, TokenKind};
use tracewire_debuginfo::Language;

impl Parser<'_> {
    pub(crate) fn postfix(&mut self) -> Result<Expression> {
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
            TokenKind::Literal(Literal::Integer { value, suffix, .. }) if suffix.is_empty() => {
                value.to_string()
            }
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
            TokenKind::Literal(literal) => ExpressionKind::Literal(literal),
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
        let type_name = self.whole_type()?;
        self.expect(">")?;
        self.expect("(")?;
        let operand = self.nested(Self::comma)?;
        self.expect(")")?;
        self.cast(type_name, operand, start)
    }

    /// A qualified name from the `ahead`-th token on: the name, how many tokens it takes, and where it is.
    pub(crate) fn path(&self, ahead: usize) -> Result<(String, usize, Span)> {
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
        if *self.peek_at(ahead) != TokenKind::Mark("<") || self.language.is_like_c() || !adjoins {
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
