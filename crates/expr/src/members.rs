//! Members of structures, and the comparison of strings.

use crate::error::{ExpressionErrorKind, Span};
use crate::node::{Node, NodeKind};
use crate::resolve::{Resolver, Result};
use crate::scalar::Scalar;
use crate::syntax::{Expression, ExpressionKind};
use crate::token::Literal;
use tracewire_debuginfo::{Member, Type, TypeId, Variable, VariantPart};

/// How deep structures are searched for a member.
const DEEPEST_MEMBER: u32 = 32;
/// The longest string that is compared with, in bytes.
const LONGEST_STRING: usize = 1024;

/// Where a member was found.
pub(crate) struct Found {
    pub(crate) offset: u64,
    pub(crate) type_id: TypeId,
    pub(crate) bits: Option<(u64, u64)>,
}

impl Resolver<'_> {
    /// `of.name`, through pointers and references.
    pub(crate) fn member(&self, of: Node, name: &str, name_span: Span, span: Span) -> Result<Node> {
        let mut of = self.coerce(of);
        for _ in 0..8 {
            let Scalar::Pointer { target, .. } = self.scalar(&of) else {
                break;
            };
            let inner = of.span;
            of = self.coerce(Node::new(NodeKind::Dereference(of.into()), target, inner));
        }
        let found = self.stripped(of.type_id);
        let Type::Structure {
            members,
            variants,
            declaration,
            ..
        } = &*found
        else {
            let message = "Attempt to extract a component of a value that is not a structure.";
            return self.type_error(message, span);
        };
        if *declaration {
            let type_name = crate::type_name(self.symbols, of.type_id);
            return self.type_error(
                format!("incomplete type: {type_name} is only declared here."),
                span,
            );
        }
        let rust_name = format!("__{name}");
        let numbered = name.bytes().all(|byte| byte.is_ascii_digit());
        let wanted = if numbered { rust_name.as_str() } else { name };
        let member = self
            .find_member(members, wanted, DEEPEST_MEMBER)
            .or_else(|| self.find_in_variants(variants.as_deref(), wanted));
        if let Some(Found {
            offset,
            type_id,
            bits,
        }) = member
        {
            if offset == u64::MAX {
                let message = format!(
                    "{name} is in a virtual base class, whose place is known at run time only."
                );
                return self.error(ExpressionErrorKind::Unsupported(message), name_span);
            }
            return Ok(Node::new(
                NodeKind::Field {
                    of: of.into(),
                    offset,
                    bits,
                },
                type_id,
                span,
            ));
        }
        if let Some(variable) = self.find_static(&found, name, DEEPEST_MEMBER) {
            return Ok(self.place(variable, span));
        }
        let near = crate::items::near(
            name,
            members.iter().filter_map(|member| member.name.as_deref()),
        );
        self.error(
            ExpressionErrorKind::NoMember {
                name: name.to_owned(),
                near,
            },
            name_span,
        )
    }

    /// A member by name, in anonymous members and base classes too. `Base::member` looks in that base.
    fn find_member(&self, members: &[Member], name: &str, depth: u32) -> Option<Found> {
        let depth = depth.checked_sub(1)?;
        let direct = members
            .iter()
            .find(|member| member.name.as_deref() == Some(name) && !member.base_class);
        if let Some(member) = direct {
            return Some(Found {
                offset: member.offset,
                type_id: member.type_id,
                bits: member.bits,
            });
        }
        for member in members
            .iter()
            .filter(|member| member.name.is_none() || member.base_class)
        {
            let found = self.stripped(member.type_id);
            let Type::Structure {
                name: inner_name,
                members: inner,
                ..
            } = &*found
            else {
                continue;
            };
            let in_base = name.split_once("::").filter(|(base, _)| {
                member.base_class
                    && inner_name
                        .as_deref()
                        .is_some_and(|full| full == *base || full.ends_with(&format!("::{base}")))
            });
            let name = in_base.map_or(name, |(_, rest)| rest);
            if let Some(found) = self.find_member(inner, name, depth) {
                let offset = if member.offset == u64::MAX || found.offset == u64::MAX {
                    u64::MAX
                } else {
                    member.offset.saturating_add(found.offset)
                };
                return Some(Found { offset, ..found });
            }
        }
        None
    }

    /// A static member by name, of the class or of a base class.
    fn find_static(&self, class: &Type, name: &str, depth: u32) -> Option<Variable> {
        let depth = depth.checked_sub(1)?;
        let Type::Structure {
            name: class_name,
            members,
            static_members,
            ..
        } = class
        else {
            return None;
        };
        if static_members.iter().any(|member| member.name == name) {
            let full = format!("{}::{name}", class_name.as_deref()?);
            return self.symbols.lookup_variable(Some(self.scope.get()), &full);
        }
        let mut bases = members.iter().filter(|member| member.base_class);
        bases.find_map(|base| self.find_static(&self.stripped(base.type_id), name, depth))
    }

    /// A field of a Rust enum that only one variant has, or all that have it at the same place.
    fn find_in_variants(&self, variants: Option<&VariantPart>, name: &str) -> Option<Found> {
        let mut found: Option<Found> = None;
        for variant in &variants?.variants {
            let inner = self.stripped(variant.member.type_id);
            let Type::Structure { members, .. } = &*inner else {
                continue;
            };
            let Some(field) = self.find_member(members, name, 2) else {
                continue;
            };
            let field = Found {
                offset: field.offset.saturating_add(variant.member.offset),
                ..field
            };
            let same =
                |other: &Found| (other.offset, other.type_id) == (field.offset, field.type_id);
            if found.as_ref().is_some_and(|other| !same(other)) {
                return None;
            }
            found = Some(field);
        }
        found
    }

    /// `$_streq (a, "text")`, GDB's function, and methods that a type rule replaces; others cannot be called.
    pub(crate) fn call(
        &self,
        function: &Expression,
        arguments: &[Expression],
        span: Span,
    ) -> Result<Node> {
        let streq = matches!(&function.kind, ExpressionKind::Dollar(name) if name == "_streq");
        if let ExpressionKind::Member(of, name, _) | ExpressionKind::Arrow(of, name, _) =
            &function.kind
            && let Some(found) = self.method(of, name, arguments, span)?
        {
            return Ok(found);
        }
        if !streq {
            let message = "A tracepoint cannot call functions of the program.";
            return self.error(ExpressionErrorKind::Unsupported(message.to_owned()), span);
        }
        let [left, right] = arguments else {
            return self.type_error("$_streq takes two arguments.", span);
        };
        let (pointer, text) = match (&left.kind, &right.kind) {
            (_, ExpressionKind::Literal(Literal::Text(text))) => (left, text),
            (ExpressionKind::Literal(Literal::Text(text)), _) => (right, text),
            _ => {
                let message = "One of $_streq's arguments must be a string literal.";
                return self.error(ExpressionErrorKind::Unsupported(message.to_owned()), span);
            }
        };
        if text.len() > LONGEST_STRING {
            let message = format!("the string is longer than {LONGEST_STRING} bytes");
            return self.error(ExpressionErrorKind::TooLarge(message), span);
        }
        let operand = self.coerce(self.expression(pointer)?);
        let rust_string = match &*self.stripped(operand.type_id) {
            Type::Structure { members, .. } => members
                .iter()
                .any(|member| member.name.as_deref() == Some("data_ptr")),
            _ => false,
        };
        let truth = crate::scalar::truth(self.symbols, self.language);
        let mut bytes = text.clone();
        let (pointer, length) = if rust_string {
            let length = self.member(operand.clone(), "length", span, span)?;
            (
                self.member(operand, "data_ptr", span, span)?,
                Some(Box::new(length)),
            )
        } else {
            bytes.push(0);
            (self.value(operand), None)
        };
        if !matches!(self.scalar(&pointer), Scalar::Pointer { .. }) {
            return self.type_error(
                "$_streq needs a pointer or an array of characters.",
                pointer.span,
            );
        }
        let kind = NodeKind::StringEqual {
            pointer: pointer.into(),
            length,
            bytes: bytes.into(),
        };
        Ok(Node::new(kind, truth, span))
    }
}
