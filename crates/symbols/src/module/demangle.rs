//! Names as the linker has them, made readable.

/// The C++ or Rust name behind a linker's name, with parameters (C++), without hash (Rust); `None` if it is
/// not a mangled name.
pub(crate) fn demangle(name: &str) -> Option<String> {
    // Nothing real is longer; demangling a hostile name may take long.
    if name.len() > 16384 {
        return None;
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Some(format!("{rust:#}"));
    }
    if !name.starts_with("_Z") {
        return None;
    }
    cpp_demangle::Symbol::new(name)
        .ok()?
        .demangle()
        .ok()
        .filter(|demangled| !demangled.is_empty())
}

/// As [`demangle`], or the name itself.
pub(crate) fn readable(name: &str) -> String {
    demangle(name).unwrap_or_else(|| name.to_owned())
}
