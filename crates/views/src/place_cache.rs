//! Facts that are computed once for each place of frames, and not for each frame.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tracewire_debuginfo::{Language, Scope, SourcePlace, Symbols, TypeId};
use tracewire_expr::{
    ExpressionError, PreparedExpression, PreparedItem, State, TypeWalks, Value, type_name,
};

use crate::table::{SourceWords, cell};

/// The capacity of the cache. A file may step through any number of places. If each frame is at another one, a cache that does
/// not fit in the processor's cache makes a search slower.
const MOST_PLACES: usize = 500;

/// A place of the program, as it was loaded when the frame was made.
#[derive(Debug)]
pub(crate) struct CachedPlace<'a> {
    symbols: &'a Symbols,
    scope: Scope,
    source: OnceCell<Option<Rc<SourcePlace>>>,
    words: OnceCell<Option<Box<str>>>,
    items: RefCell<HashMap<Box<str>, Rc<PreparedItem<'a>>>>,
    expressions: RefCell<Expressions<'a>>,
    walks: OnceCell<TypeWalks<'a>>,
    type_names: RefCell<HashMap<TypeId, Rc<str>>>,
    everywhere: Rc<Everywhere<'a>>,
}

/// An expression as it is understood there, or why it is not.
pub(crate) type Expression<'a> = Result<PreparedExpression<'a>, ExpressionError>;

/// Expressions that mean the same at every place of a program, by language and text.
type Everywhere<'a> = RefCell<HashMap<(*const Symbols, Language), Expressions<'a>>>;

/// Expressions by their text.
type Expressions<'a> = HashMap<Box<str>, Rc<Expression<'a>>>;

/// The places that frames were looked at of.
#[derive(Debug, Default)]
pub(crate) struct PlaceCache<'a> {
    places: RefCell<HashMap<(*const Symbols, Scope), Rc<CachedPlace<'a>>>>,
    everywhere: Rc<Everywhere<'a>>,
}

impl<'a> PlaceCache<'a> {
    pub(crate) fn get(&self, symbols: &'a Symbols, scope: Scope) -> Rc<CachedPlace<'a>> {
        let mut places = self.places.borrow_mut();
        if places.len() >= MOST_PLACES {
            places.clear();
        }
        let here = places.entry((symbols, scope)).or_insert_with(|| {
            Rc::new(CachedPlace {
                symbols,
                scope,
                source: OnceCell::new(),
                words: OnceCell::new(),
                items: RefCell::default(),
                expressions: RefCell::default(),
                walks: OnceCell::new(),
                type_names: RefCell::default(),
                everywhere: self.everywhere.clone(),
            })
        });
        here.clone()
    }
}

impl<'a> CachedPlace<'a> {
    /// The source place.
    pub(crate) fn source(&self) -> Option<&Rc<SourcePlace>> {
        let source = || self.symbols.place(self.scope).map(Rc::new);
        self.source.get_or_init(source).as_ref()
    }

    /// The source place for a cell of a table.
    pub(crate) fn words(&self) -> Option<&str> {
        let words = self.words.get_or_init(|| {
            let source = self.source()?;
            let words = SourceWords {
                function: source.function.as_deref(),
                file: source.file.as_deref(),
                line: Some(source.line).filter(|line| *line != 0),
            };
            words.words(cell).map(Into::into)
        });
        words.as_deref()
    }

    /// The rules for the types of the values there.
    pub(crate) fn walks(&self) -> &TypeWalks<'a> {
        self.walks.get_or_init(|| TypeWalks::new(self.symbols))
    }

    /// The name of a type, as GDB's `whatis` shows it.
    pub(crate) fn type_name(&self, type_id: TypeId) -> Rc<str> {
        let mut known = self.type_names.borrow_mut();
        let name = || type_name(self.symbols, type_id).into();
        Rc::clone(known.entry(type_id).or_insert_with(name))
    }

    /// An item of a `collect`.
    pub(crate) fn item(&self, text: &str) -> Rc<PreparedItem<'a>> {
        if let Some(found) = self.items.borrow().get(text) {
            return found.clone();
        }
        let prepared = Rc::new(PreparedItem::new(self.symbols, self.scope, text));
        (self.items.borrow_mut()).insert(text.into(), prepared.clone());
        prepared
    }

    /// The value of an expression that is not kept for other frames.
    ///
    /// # Errors
    /// When it has none.
    pub(crate) fn evaluate_once(
        &self,
        text: &str,
        state: &dyn State,
    ) -> Result<Value, ExpressionError> {
        PreparedExpression::new(self.symbols, self.scope, text)?.evaluate(state)
    }

    /// An expression.
    pub(crate) fn expression(&self, text: &str) -> Rc<Expression<'a>> {
        if let Some(found) = self.expressions.borrow().get(text) {
            return found.clone();
        }
        let language = self.symbols.language_at(Some(self.scope.pc));
        let program = (std::ptr::from_ref(self.symbols), language);
        let mut everywhere = self.everywhere.borrow_mut();
        let everywhere = everywhere.entry(program).or_default();
        if let Some(found) = everywhere.get(text) {
            return found.clone();
        }
        let prepared = PreparedExpression::new(self.symbols, self.scope, text);
        let is_the_same_elsewhere = prepared
            .as_ref()
            .is_ok_and(PreparedExpression::is_the_same_elsewhere);
        let prepared = Rc::new(prepared);
        let known = match is_the_same_elsewhere {
            true => everywhere,
            false => &mut *self.expressions.borrow_mut(),
        };
        known.insert(text.into(), prepared.clone());
        prepared
    }
}
