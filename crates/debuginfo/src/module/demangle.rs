//! Names as the linker has them, made readable.

use crate::dwarf::name::{squeezed, without_parameters};
use crate::dwarf::parameters::library_names;

/// Nothing real is longer; demangling a hostile name may take long.
const LONGEST: usize = 16384;

/// The C++ or Rust name for a linkage name, with parameters (C++), without hash (Rust); `None` if it is not a mangled name.
pub(crate) fn demangle(name: &str) -> Option<String> {
    if name.len() > LONGEST {
        return None;
    }
    if is_rust(name) {
        let rust = rustc_demangle::try_demangle(name).ok()?;
        return Some(format!("{rust:#}"));
    }
    if !name.starts_with("_Z") {
        return None;
    }
    // GDB names a function by its debug information, which does not include the return type.
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
    Some(as_binutils(demangle_cpp(name, &options)?))
}

fn demangle_cpp(name: &str, options: &cpp_demangle::DemangleOptions) -> Option<String> {
    let demangled = |name: &str| {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        let demangled = symbol.demangle_with_options(options).ok()?;
        (!demangled.is_empty()).then_some(demangled)
    };
    let found = demangled(name)?;
    let Some(constructor) = ["C1I", "C2I", "C3I"].iter().find_map(|it| name.find(it)) else {
        return Some(found);
    };
    // An instance of a constructor's template has no return type in its name. The crate takes the first parameter for one: it gets one
    // to take, after the end of the qualified name.
    let plain = without_parameters(&found);
    let pairs = (constructor..).zip(name.as_bytes().get(constructor..)?.windows(2));
    let ends = pairs.filter(|(_, pair)| *pair == b"EE").take(MOST_ENDS);
    let corrected = ends.into_iter().find_map(|(at, ends)| {
        let (before, after) = name.split_at_checked(at + ends.len())?;
        demangled(&format!("{before}v{after}")).filter(|other| without_parameters(other) == plain)
    });
    Some(corrected.unwrap_or(found))
}

/// How many places in a linker's name are tried for the end of the qualified name in it.
const MOST_ENDS: usize = 16;

/// Whether a linker's name reads so in the output of `nm -C`, `perf` or a backtrace, blanks aside: without what an instance of a
/// template returns, with the hash of a Rust name or without.
pub(crate) fn reads(name: &str, squeezed_text: &str) -> bool {
    let is_it = |readable: &str| {
        let readable = squeezed(readable);
        readable == squeezed_text || library_names(&readable) == library_names(squeezed_text)
    };
    demangle(name).is_some_and(|readable| is_it(&readable))
        || (is_rust(name) && is_it(&readable_with_hash(name)))
}

/// Whether a linkage name is that of a thunk, or of a copy of a function for transactions. A thunk adjusts `this` and continues in
/// a virtual function. The name contains the function's name.
pub(crate) fn is_thunk(name: &str) -> bool {
    ["_ZTh", "_ZTv", "_ZTc", "_ZGT"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Binutils' and GDB's words for a class's tables and thunks.
fn as_binutils(demangled: String) -> String {
    let thunk = demangled
        .strip_prefix("{virtual override thunk({")
        .and_then(|rest| rest.strip_suffix(")}"))
        .and_then(|rest| rest.split_once("}, "));
    if let Some((offset, function)) = thunk {
        let kind = if offset.starts_with("virtual") {
            "virtual"
        } else {
            "non-virtual"
        };
        return format!("{kind} thunk to {function}");
    }
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

/// Whether rustc made the name: in its own scheme, or in C++'s with a hash as the last component.
pub(crate) fn is_rust(name: &str) -> bool {
    if name.starts_with("_R") {
        return true;
    }
    let Some(rest) = name.strip_prefix("_ZN") else {
        return false;
    };
    // LLVM's suffixes (`.llvm.123`, `.cold`) follow the name, which may contain dots, too.
    let Some((_, rest)) = rest.rsplit_once("17h") else {
        return false;
    };
    let (Some(hash), Some(after)) = (rest.get(..16), rest.get(16..)) else {
        return false;
    };
    hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        && matches!(after.strip_prefix('E'), Some(after) if after.is_empty() || after.starts_with('.'))
}

/// Whether a linkage name is that of a part that is entered only by jumps from within the function, and so is no entry of it. GCC
/// and LLVM move code out of the way (`f.cold`, `f.part.0.cold`, `f.cold.1`). LLVM's sections of single blocks (`f.__part.1`,
/// `f.eh`) are parts too, though GDB 13 takes them for entries. A clone (`f.isra.0`, `f.constprop.0`) is a function and is called.
pub(crate) fn is_part(name: &str) -> bool {
    name.split('.')
        .skip(1)
        .any(|suffix| matches!(suffix, "cold" | "__part" | "eh"))
}

/// Whether a linkage name is that of the rest of a function whose beginning GCC has inlined into the callers, or has left in the
/// function itself (`f.part.0`): only these call it.
pub(crate) fn is_split_off(name: &str) -> bool {
    name.split('.').skip(1).any(|suffix| suffix == "part")
}

/// As [`demangle`], or the name itself.
pub(crate) fn readable(name: &str) -> String {
    demangle(name).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{demangle, is_rust, reads};

    #[test]
    fn names_are_read() {
        for (name, readable) in [
            ("_ZN4shop4Cart5totalEi", "shop::Cart::total(int)"),
            ("_Z1fIiEvT_", "f<int>(int)"),
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC2IS3_EEPKcRKS3_",
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> \
                 >::basic_string<std::allocator<char> >(char const*, std::allocator<char> const&)",
            ),
            (
                "_ZN40_$LT$rsx..Shape$u20$as$u20$rsx..Area$GT$4area17h0123456789abcdefE",
                "<rsx::Shape as rsx::Area>::area",
            ),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
            ("_ZThn16_N1AD1Ev", "non-virtual thunk to A::~A()"),
            ("_ZTv0_n24_N1AD1Ev", "virtual thunk to A::~A()"),
        ] {
            assert_eq!(demangle(name).as_deref(), Some(readable));
        }
        assert!(reads("_Z1fIiEvT_", "f<int>(int)"));
        assert!(!reads("_Z1fIiEvT_", "f<char>(int)"));
        assert!(reads("_ZNSi6ignoreEl", "std::istream::ignore(long)"));
        assert!(reads(
            "_ZNSsC1IPcEET_S1_RKSaIcE",
            "std::basic_string<char,std::char_traits<char>,std::allocator<char>>::basic_string<char*>(char*,char*,\
             std::allocator<char>const&)"
        ));
        assert!(reads(
            "_ZNSolsEDn",
            "std::ostream::operator<<(decltype(nullptr))"
        ));
        assert!(reads(
            "_ZGTtNKSt13bad_exceptionD1Ev",
            "transaction clone for std::bad_exception::~bad_exception()const"
        ));
        assert!(reads(
            "_ZNSoC1Ev",
            "std::basic_ostream<char,std::char_traits<char>>::basic_ostream()"
        ));
        assert!(reads(
            "_ZN1a1b17h0123456789abcdefE",
            "a::b::h0123456789abcdef"
        ));
        assert!(is_rust("_ZN1a1b17h0123456789abcdefE.llvm.12"));
        assert!(!is_rust("_ZN1a1b17h0123456789abcdexE"));
        assert!(!is_rust("_ZN4shop4Cart5totalEi"));
    }
}
