//! Types as written to types as known.

use crate::error::ExpressionErrorKind;
use crate::resolve::{Resolver, Result};
use crate::syntax::TypeSyntax;
use tracewire_debuginfo::{ReferenceKind, Type, TypeId};

impl Resolver<'_> {
    fn named_type(&self, name: &str) -> Option<TypeId> {
        match &self.rule {
            Some(rule) => rule.argument(name),
            None => self.symbols.lookup_type(Some(self.scope.get()), name),
        }
    }

    /// The type that is written there.
    pub(crate) fn type_syntax(&self, syntax: &TypeSyntax) -> Result<TypeId> {
        let symbols = self.symbols;
        Ok(match syntax {
            TypeSyntax::Builtin(name) => {
                // Rust's `char` is not C's.
                let own =
                    matches!(*name, "char") && self.language == tracewire_debuginfo::Language::Rust;
                match own
                    .then(|| symbols.lookup_type(Some(self.scope.get()), name))
                    .flatten()
                {
                    Some(found) => found,
                    None => self.builtin(name),
                }
            }
            TypeSyntax::Named { name, span } => match self.named_type(name) {
                Some(found) => found,
                None => {
                    let kind = ExpressionErrorKind::NoType {
                        what: "type",
                        name: name.clone(),
                    };
                    return self.error(kind, *span);
                }
            },
            TypeSyntax::Tagged { tag, name, span } => {
                match symbols.lookup_type(Some(self.scope.get()), &format!("{tag} {name}")) {
                    Some(found) => found,
                    None => {
                        let what = match *tag {
                            "union" => "union type",
                            "enum" => "enum type",
                            _ => "struct type",
                        };
                        return self.error(
                            ExpressionErrorKind::NoType {
                                what,
                                name: name.clone(),
                            },
                            *span,
                        );
                    }
                }
            }
            TypeSyntax::Pointer(target) => symbols.pointer_to(self.type_syntax(target)?),
            TypeSyntax::Reference(target) => {
                let target = self.type_syntax(target)?;
                let size = symbols
                    .architecture()
                    .map_or(8, |found| u64::from(found.pointer_size()));
                symbols.make_type(Type::Reference {
                    target,
                    size,
                    kind: ReferenceKind::LValue,
                })
            }
            TypeSyntax::Array(element, count) => {
                let element = self.type_syntax(element)?;
                symbols.make_type(Type::Array {
                    element,
                    count: *count,
                    vector: false,
                })
            }
            TypeSyntax::Function(returns, parameters) => {
                let returns = self.type_syntax(returns)?;
                let parameters: Result<Vec<TypeId>> = parameters
                    .iter()
                    .map(|parameter| self.type_syntax(parameter))
                    .collect();
                symbols.make_type(Type::Function {
                    returns,
                    parameters: parameters?,
                    variadic: false,
                })
            }
            TypeSyntax::Qualified(qualifier, target) => {
                let target = self.type_syntax(target)?;
                symbols.make_type(Type::Qualified { qualifier, target })
            }
        })
    }
}
