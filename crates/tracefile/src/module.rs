//! Where the program and its shared libraries were loaded: `module` lines of our own in the description.
//!
//! GDB's format does not say where a position-independent program was loaded, so its readers show bare addresses. It does
//! say that unknown lines are skipped (GDB warns about each). `docs/formats/trace-file-extensions.md` has the form.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use tracewire_model::Address;
use tracewire_model::hex::Hex;
use tracewire_model::text::{Expected, Scanner, TextError};

/// The program or a shared library, and where and when it was loaded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Module {
    /// What is added to an address of the ELF file to give the address in memory.
    pub bias: u64,
    /// The first address of its mappings.
    pub start: Address,
    /// The first address after its mappings.
    pub end: Address,
    /// When it was loaded, in microseconds; 0 when it was there from the start, or it is not known.
    pub loaded: u64,
    /// When it was unloaded, in microseconds; 0 when it stayed to the end, or it is not known.
    pub unloaded: u64,
    /// The GNU build id, empty when it has none.
    pub build_id: Vec<u8>,
    /// Its file, as the program sees it; bytes, because a path need not be text.
    pub path: Vec<u8>,
}

impl Module {
    /// A module that is there all the time, of a file of this machine whose links are followed.
    #[must_use]
    #[cfg(unix)]
    pub fn of_file(path: &Path, build_id: Vec<u8>, bias: u64, range: Range<Address>) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        let real = path.canonicalize();
        let path = real.as_deref().unwrap_or(path);
        Self {
            bias,
            start: range.start,
            end: range.end,
            build_id,
            path: path.as_os_str().as_bytes().to_vec(),
            ..Self::default()
        }
    }

    /// Whether the address is within the module's mappings, at a time at which it was loaded. A time of 0
    /// means any time.
    #[must_use]
    pub fn contains(&self, address: Address, time: u64) -> bool {
        (self.start..self.end).contains(&address)
            && (time == 0 || self.loaded <= time && (self.unloaded == 0 || time < self.unloaded))
    }

    /// Reads what follows `module `.
    ///
    /// # Errors
    /// Where the text departs from the grammar above.
    pub fn parse(text: &[u8]) -> Result<Self, TextError> {
        Self::scan(&mut Scanner::new(text)).map_err(|expected| expected.in_text(text))
    }

    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut number = || {
            let value = scanner.hex()?;
            scanner.colon()?;
            Ok(value)
        };
        let (bias, start, end) = (number()?, number()?, number()?);
        let (loaded, unloaded) = (number()?, number()?);
        let digits = { *scanner }.digits().len();
        let build_id = scanner.hex_bytes(digits as u64 / 2)?;
        scanner.colon()?;
        let path = scanner.hex_bytes(scanner.rest().len() as u64 / 2)?;
        scanner.end("the end")?;
        Ok(Self {
            bias,
            start: Address(start),
            end: Address(end),
            loaded,
            unloaded,
            build_id,
            path,
        })
    }

    /// The lines that tell this module, each at most `limit` bytes (but never less than one byte of path).
    pub(crate) fn lines(&self, limit: usize) -> Vec<String> {
        let head = Head(self).to_string();
        let room = |used: usize| (limit.saturating_sub(used) / 2).max(1);
        let first = room("module ".len() + head.len()).min(self.path.len());
        let (start, rest) = self.path.split_at(first);
        std::iter::once(format!("module {head}{}", Hex(start)))
            .chain(
                rest.chunks(room("module+ ".len()))
                    .map(|part| format!("module+ {}", Hex(part))),
            )
            .collect()
    }
}

/// What follows `module `, however long.
impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Head(self), Hex(&self.path))
    }
}

/// What comes before the path.
struct Head<'m>(&'m Module);

impl fmt::Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Module {
            bias,
            start,
            end,
            loaded,
            unloaded,
            build_id,
            path: _,
        } = self.0;
        let (start, end, build_id) = (start.0, end.0, Hex(build_id));
        write!(
            f,
            "{bias:x}:{start:x}:{end:x}:{loaded:x}:{unloaded:x}:{build_id}:"
        )
    }
}
