//! Expressions that are understood once and evaluated at many states.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use tracewire_model::{Address, VariableNumber};

use super::contents::{Known, Value};
use super::datum::Shape;
use super::evaluate::{Evaluator, Result};
use super::state::State;
use crate::ExpressionError;
use crate::Span;
use crate::location::{Locator, Unlocatable};
use crate::node::Node;
use crate::object::Object;
use crate::redaction::is_redacted;
use crate::resolve::{NoVariables, Resolver, StateVariables};
use crate::walk::TypeWalks;
use tracewire_debuginfo::{Language, Scope, Symbols, Variable};

/// Every name may be a variable's: which were saved shows when they are read.
struct AnyName;

impl StateVariables for AnyName {
    fn lookup(&self, _: &str) -> Option<Option<VariableNumber>> {
        Some(None)
    }
}

/// An expression, prepared for threads that were stopped at one place of a program. Names and types are resolved, and the places
/// of variables are computed as far as the debug information goes. The rest depends on the state.
pub struct PreparedExpression<'a> {
    symbols: &'a Symbols,
    scope: Scope,
    language: Language,
    text: Box<str>,
    node: Node,
    /// Whether it leads to redacted data, by a name.
    is_redacted: bool,
    is_the_same_elsewhere: bool,
    objects: Objects,
}

/// The places of a node's variables, once they are computed. The key is the variable's address in this process: the node owns it.
#[derive(Default)]
pub(crate) struct Objects(RefCell<HashMap<*const Variable, Result<Rc<Object>, Unlocatable>>>);

impl Objects {
    /// The variable's object, which `work_out` computes the first time.
    pub(super) fn get(
        &self,
        variable: &Rc<Variable>,
        work_out: impl FnOnce() -> Result<Object, Unlocatable>,
    ) -> Result<Rc<Object>, Unlocatable> {
        let key = Rc::as_ptr(variable);
        if let Some(known) = self.0.borrow().get(&key) {
            return known.clone();
        }
        let object = work_out().map(Rc::new);
        self.0.borrow_mut().insert(key, object.clone());
        object
    }
}

impl<'a> PreparedExpression<'a> {
    /// Reads an expression as it is to be understood where it is seen from.
    ///
    /// # Errors
    /// When the text is no expression, or names something that is not there.
    pub fn new(
        symbols: &'a Symbols,
        scope: impl Into<Scope>,
        text: &str,
    ) -> Result<Self, ExpressionError> {
        let scope = scope.into();
        let resolver = Resolver::new(symbols, scope, text, &AnyName);
        let node = resolver.node()?;
        // Which registers may hold redacted data depends on the place.
        let is_the_same_elsewhere = !resolver.scope.is_asked() && symbols.redactions().is_empty();
        Ok(Self {
            is_the_same_elsewhere,
            ..Self::of(symbols, scope, text, node)
        })
    }

    /// A single variable.
    pub(super) fn of_variable(symbols: &'a Symbols, scope: Scope, variable: Variable) -> Self {
        let name = variable.name.clone();
        let resolver = Resolver::new(symbols, scope, &name, &NoVariables);
        let span = Span {
            start: 0,
            end: name.len(),
        };
        let node = resolver.place(variable, span);
        Self::of(symbols, scope, &name, node)
    }

    pub(super) fn of(symbols: &'a Symbols, scope: Scope, text: &str, node: Node) -> Self {
        Self {
            symbols,
            scope,
            language: symbols.language_at(Some(scope.pc)),
            text: text.into(),
            is_redacted: is_redacted(symbols, scope, &node),
            node,
            is_the_same_elsewhere: false,
            objects: Objects::default(),
        }
    }

    /// Whether it means the same at every place of the program whose language is the same: no name of the program is in it.
    #[must_use]
    pub const fn is_the_same_elsewhere(&self) -> bool {
        self.is_the_same_elsewhere
    }

    /// Where it is understood.
    #[must_use]
    pub const fn pc(&self) -> Address {
        self.scope.pc
    }

    /// The kind of data of its values.
    #[must_use]
    pub fn shape(&self, walks: &TypeWalks<'_>) -> Shape {
        Shape::of(walks, self.node.type_id, self.language)
    }

    /// Its value at a state where the thread was at [`Self::pc`], or anywhere if it [is the same
    /// elsewhere](Self::is_the_same_elsewhere), as [`evaluate`](super::evaluate()) gives it.
    ///
    /// # Errors
    /// When it computes with what was not saved.
    pub fn evaluate(&self, state: &dyn State) -> Result<Value, ExpressionError> {
        let evaluator = self.evaluator(state);
        if self.is_redacted {
            let size = evaluator.size(&self.node)?.max(1);
            return Ok(evaluator.unknown(self.node.type_id, size, Known::Redacted));
        }
        evaluator.value(&self.node)
    }

    pub(super) fn evaluator<'s>(&'s self, state: &'s dyn State) -> Evaluator<'s> {
        Evaluator {
            symbols: self.symbols,
            state,
            text: &self.text,
            language: self.language,
            locator: Locator {
                symbols: self.symbols,
                pc: self.scope.pc,
                callers: true,
            },
            objects: Some(&self.objects),
            subjects: None,
        }
    }

    pub(super) const fn symbols(&self) -> &Symbols {
        self.symbols
    }

    pub(super) const fn language(&self) -> Language {
        self.language
    }

    pub(super) const fn is_redacted(&self) -> bool {
        self.is_redacted
    }

    pub(super) const fn node(&self) -> &Node {
        &self.node
    }
}

impl fmt::Debug for PreparedExpression<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.text, self.scope.pc)
    }
}
