//! Stacks in the form that flame graph tools read: `main;work;leaf 42`.

use std::io::{self, Write};

/// Writes the stacks of a tree of calls, row by row, each caller before its callees.
///
/// ```
/// use tracewire_call_flow::FoldedStacks;
///
/// let mut out = Vec::new();
/// let mut stacks = FoldedStacks::new(&mut out);
/// stacks.row(0, "main", 3)?;
/// stacks.row(1, "operator()(int; int)", 42)?;
/// assert_eq!(String::from_utf8_lossy(&out), "main 3\nmain;operator()(int: int) 42\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FoldedStacks<W> {
    out: W,
    /// The names above the next row.
    path: String,
    /// Where in `path` each of them ends.
    ends: Vec<usize>,
}

impl<W: Write> FoldedStacks<W> {
    /// Writes to `out`.
    pub const fn new(out: W) -> Self {
        Self {
            out,
            path: String::new(),
            ends: Vec::new(),
        }
    }

    /// Writes a row of the tree, `depth` callers below a root, with its own weight. One with weight 0 has no line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn row(&mut self, depth: usize, name: &str, own: u64) -> io::Result<()> {
        self.ends.truncate(depth);
        self.path.truncate(self.ends.last().copied().unwrap_or(0));
        if !self.path.is_empty() {
            self.path.push(';');
        }
        // A semicolon separates.
        let name = name.chars().map(|c| if c == ';' { ':' } else { c });
        self.path.extend(name);
        self.ends.push(self.path.len());
        if own > 0 {
            writeln!(self.out, "{} {own}", self.path)?;
        }
        Ok(())
    }
}
