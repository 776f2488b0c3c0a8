//! The result of resolving a location.

use std::fmt::{self, Write};

use tracewire_model::Address;

use crate::module::ModuleId;
use crate::scope::Scope;

/// Where a tracepoint on a function goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FunctionPlace {
    /// Past the prologue, as GDB has it.
    AfterPrologue,
    /// To the first instruction.
    Entry,
    /// To the first instruction where that has arguments which are lost past the prologue, and lacks none that is known
    /// there; else past the prologue.
    #[default]
    Arguments,
    /// To the first instruction, which each call executes once; only where an argument is known past the prologue and not
    /// there, past the prologue.
    Call,
}

/// One place in the program that a location names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResolvedLocation {
    /// Where a tracepoint goes.
    pub address: Address,
    /// The function it is in, as GDB names it, without parameters; `None` where no symbol covers the address.
    pub function: Option<String>,
    /// Which of the frames at the address the location means: of the function that it names, of the line that it names, else
    /// the innermost.
    pub level: u32,
    /// The source file, as the debug information names it.
    pub file: Option<String>,
    /// The source line; 0 when not known.
    pub line: u64,
    /// The module.
    pub module: ModuleId,
    /// Whether GDB finds the place by the location's text. GDB does not support patterns, modules before a `:`, and some names that
    /// other tools print.
    pub known_to_gdb: bool,
    /// For the implementation that was selected for an indirect function: that function's name.
    pub selected_for: Option<String>,
    /// For a marker: its arguments and its semaphore.
    pub marker: Option<Box<Marker>>,
    /// Whether GDB 13 puts a tracepoint on the location's words at other addresses than all those that they mean here.
    pub elsewhere_in_gdb: bool,
}

impl ResolvedLocation {
    /// Where the names in a tracepoint's condition and actions are seen from.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        Scope {
            pc: self.address,
            level: self.level,
        }
    }
}

/// `ADDRESS, marker PROVIDER:NAME, in FUNCTION (FILE:LINE)`, as far as it is known. Control characters, which names from a file may have in
/// them, are shown and not sent.
impl fmt::Display for ResolvedLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(marker) = &self.marker {
            f.write_str(", marker ")?;
            write_printable(f, &marker.provider)?;
            f.write_char(':')?;
            write_printable(f, &marker.name)?;
            if self.function.is_some() {
                f.write_char(',')?;
            }
        }
        if let Some(function) = &self.function {
            f.write_str(" in ")?;
            write_printable(f, function)?;
        }
        if let Some(name) = &self.selected_for {
            f.write_str(", selected for ")?;
            write_printable(f, name)?;
        }
        if let Some(file) = &self.file {
            f.write_str(" (")?;
            write_printable(f, file.strip_prefix("./").unwrap_or(file))?;
            write!(f, ":{})", self.line)?;
        }
        Ok(())
    }
}

fn write_printable(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|character| {
        if character.is_control() {
            write!(f, "{}", character.escape_default())
        } else {
            f.write_char(character)
        }
    })
}

impl Function {
    /// Its name as `nm -C` prints it: with the parameters of a C++ function, and of a method of Rust with the path of its type. As a
    /// location it names this function.
    #[must_use]
    pub fn readable_name(&self) -> String {
        let linkage_name = self.linkage_name.as_deref();
        linkage_name
            .and_then(crate::module::demangle::demangle)
            .unwrap_or_else(|| self.name.clone())
    }
}

/// A SystemTap marker (`sys/sdt.h`), as the `.note.stapsdt` section gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marker {
    /// The provider.
    pub provider: String,
    /// The marker's own name.
    pub name: String,
    /// Where the marker's `nop` is.
    pub address: Address,
    /// The arguments, in the assembler's notation: `-4@%eax 8@-8(%rbp) …`.
    pub arguments: String,
    /// The counter that must not be zero for the program to reach the probe.
    pub semaphore: Option<Address>,
    /// The module.
    pub module: ModuleId,
}

/// The source place of an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourcePlace {
    /// The function, as GDB names it in a frame line; the innermost inlined one where inlined frames are there.
    pub function: Option<String>,
    /// The source file, as the debug information names it.
    pub file: Option<String>,
    /// The source line; 0 when not known.
    pub line: u64,
    /// How far the address is from the start of the (not inlined) function or symbol.
    pub offset: u64,
    /// The module.
    pub module: ModuleId,
    /// The functions that `function` was inlined into, innermost first; the last is the real one.
    pub callers: Vec<CallerPlace>,
}

/// A function that another was inlined into, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallerPlace {
    /// The function.
    pub function: String,
    /// The file of the call.
    pub file: Option<String>,
    /// The line of the call.
    pub line: u64,
}

/// A function of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name as GDB shows it in a frame line: qualified, without parameters.
    pub name: String,
    /// Its name for the linker, where it differs.
    pub linkage_name: Option<String>,
    /// Where it starts.
    pub entry: Address,
    /// The addresses it covers, each from the first to one past the last; the first range starts at `entry`.
    pub ranges: Vec<(Address, Address)>,
    /// The file that declares it.
    pub file: Option<String>,
    /// The line that declares it; 0 when not known.
    pub line: u64,
    /// Its module.
    pub module: ModuleId,
    /// Its return type; `None` when there is no debug information.
    pub returns: Option<crate::TypeId>,
    /// Whether all that is known is a name in the code without type and size: assembler code may name a function so,
    /// or a place inside of one.
    pub is_label: bool,
}
