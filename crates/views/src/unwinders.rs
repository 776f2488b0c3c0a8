//! The unwinders of a run: one for the symbols of each process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tracewire_debuginfo::Symbols;
use tracewire_expr::Unwinder;

/// Unwinders, made when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Unwinders<'a>(RefCell<HashMap<*const Symbols, Rc<Unwinder<'a>>>>);

impl<'a> Unwinders<'a> {
    /// The one that uses these symbols.
    pub(crate) fn of(&self, symbols: &'a Symbols) -> Rc<Unwinder<'a>> {
        let mut unwinders = self.0.borrow_mut();
        let unwinder = unwinders.entry(std::ptr::from_ref(symbols));
        Rc::clone(unwinder.or_insert_with(|| Rc::new(Unwinder::new(symbols))))
    }
}
