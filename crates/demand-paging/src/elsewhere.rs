//! Systems without `userfaultfd`.

use std::io;
use std::ops::Deref;

use crate::Pager;

/// Memory that no other system than Linux has.
#[derive(Debug)]
pub enum PagedMemory {}

impl PagedMemory {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: usize, _: impl Pager + 'static) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Deref for PagedMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match *self {}
    }
}
