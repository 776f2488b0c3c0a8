//! Names as the linker has them, made readable.

/// The C++ or Rust name behind a linker's name, with parameters (C++), without hash (Rust); `None` if it is
/// not a mangled name.
pub(crate) fn demangle(name: &str) -> Option<String> {
    // Nothing real is longer; demangling a hostile name may take long.
    if name.len() > 16384 {
        return None;
    }
    if is_rust(name) {
        let rust = rustc_demangle::try_demangle(name).ok()?;
        return Some(format!("{rust:#}"));
    }
    if !name.starts_with("_Z") {
        return None;
    }
    // GDB names a function after its debug information, which says nothing of what it returns.
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
    let demangled = (cpp_demangle::Symbol::new(name).ok()?)
        .demangle_with_options(&options)
        .ok()
        .filter(|demangled| !demangled.is_empty())?;
    Some(as_binutils(demangled))
}

/// Binutils' and GDB's words for a class's tables.
fn as_binutils(demangled: String) -> String {
    for (start, words) in [("{vtable(", "vtable for "), ("{vtt(", "VTT for ")] {
        let inner = demangled
            .strip_prefix(start)
            .and_then(|rest| rest.strip_suffix(")}"));
        if let Some(class) = inner {
            return format!("{words}{class}");
        }
    }
    demangled
}

/// As [`readable`], but with the hash of a Rust name: GDB shows a variable by its linker's name, and a
/// function by its debug information's.
pub(crate) fn readable_with_hash(name: &str) -> String {
    if is_rust(name)
        && let Ok(rust) = rustc_demangle::try_demangle(name)
    {
        return rust.to_string();
    }
    readable(name)
}

/// Whether it is a name that rustc made: in its own scheme, or C++'s with a hash as the last component.
pub(crate) fn is_rust(name: &str) -> bool {
    if name.starts_with("_R") {
        return true;
    }
    let Some(rest) = name.strip_prefix("_ZN") else {
        return false;
    };
    // What LLVM makes of a function (`.llvm.123`, `.cold`) follows the name proper.
    let rest = rest.split('.').next().unwrap_or(rest);
    rest.strip_suffix('E')
        .and_then(|rest| rest.rsplit_once("17h"))
        .is_some_and(|(_, hash)| {
            hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// Whether a linker's name is that of a part of a function that is entered by jumps from within the function alone, and
/// so is no entry of it: what GCC and LLVM move out of the way (`f.cold`, `f.part.0.cold`, `f.cold.1`), and LLVM's
/// sections of single blocks (`f.__part.1`, `f.eh`), which GDB 13 takes for entries. A clone (`f.part.0`, `f.isra.0`,
/// `f.constprop.0`) is a function and is called.
pub(crate) fn is_part(name: &str) -> bool {
    name.split('.')
        .skip(1)
        .any(|suffix| matches!(suffix, "cold" | "__part" | "eh"))
}

/// As [`demangle`], or the name itself.
pub(crate) fn readable(name: &str) -> String {
    demangle(name).unwrap_or_else(|| name.to_owned())
}
