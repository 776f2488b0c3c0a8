//! `span` and `return`: a tracepoint with a location for the entry of a function and one for each of its exits.

use std::borrow::Cow;

use tracewire_arch::{Architecture, gdb_register};
use tracewire_debuginfo::{ResolvedLocation, Scope, Symbols};
use tracewire_model::{
    Action, Address, GoroutinePoint, RegisterNumber, SpanPoint, SpanRole, SpanStatement,
};

use crate::actions::collect_items;
use crate::exits::call_points;
use crate::model::{ScriptAction, ScriptActionKind, ScriptTracepoint};
use crate::place::Located;
use crate::scan::outside;

/// Functions through which other functions are left without a return, and the role of each. A name may be in several libraries.
const DEPARTURES: [(&str, SpanRole); 12] = [
    ("_Unwind_RaiseException", SpanRole::Exception),
    ("_Unwind_Resume_or_Rethrow", SpanRole::Exception),
    ("_Unwind_Resume", SpanRole::Resume),
    ("__cxa_begin_catch", SpanRole::Landing),
    ("longjmp", SpanRole::Longjmp),
    ("_longjmp", SpanRole::Longjmp),
    ("siglongjmp", SpanRole::Longjmp),
    ("__longjmp_chk", SpanRole::Longjmp),
    ("__libc_siglongjmp", SpanRole::Longjmp),
    ("_Unwind_ForcedUnwind", SpanRole::ThreadExit),
    ("pthread_exit", SpanRole::ThreadExit),
    ("__pthread_exit", SpanRole::ThreadExit),
];

/// As [`DEPARTURES`], in Go: what recovers from a panic goes on where the deferred functions of its own function are called.
const GO_DEPARTURES: [(&str, SpanRole); 3] = [
    ("runtime.gopanic", SpanRole::Exception),
    ("runtime.deferreturn", SpanRole::Landing),
    ("runtime.Goexit", SpanRole::ThreadExit),
];

/// The DWARF number of the register that has the goroutine's address in compiled Go code on x86-64, `r14`.
const GOROUTINE: u16 = 14;

/// How the goroutine is found at an address; none in other languages, and on other machines.
fn goroutine(symbols: &Symbols, pc: Address) -> Option<GoroutinePoint> {
    let architecture = symbols.architecture()?;
    if architecture != Architecture::X86_64 {
        return None;
    }
    let layout = symbols.goroutine_layout(pc)?;
    Some(GoroutinePoint {
        register: gdb_register(architecture, GOROUTINE)?,
        stack_end: layout.stack_end.try_into().ok()?,
        number: layout.number.try_into().ok()?,
    })
}

/// What a location of a span collects, so that its call can be told from others.
pub(crate) fn identity(point: &SpanPoint) -> Vec<Action> {
    let goroutine = point.goroutine;
    let registers = [Some(point.register), goroutine.map(|of| of.register)];
    let registers = registers.into_iter().flatten().collect();
    let mut actions = vec![Action::Registers(registers)];
    if let Some(goroutine) = goroutine {
        for offset in [goroutine.stack_end, goroutine.number] {
            actions.push(Action::Memory {
                base: Some(goroutine.register),
                offset: offset.into(),
                length: 8,
            });
        }
    }
    actions
}

/// A location of a span.
pub(crate) struct SpanLocation {
    pub(crate) location: ResolvedLocation,
    pub(crate) point: SpanPoint,
    /// Where the function returns.
    pub(crate) returns: Vec<Scope>,
    /// Where it is entered.
    pub(crate) entry: Scope,
}

/// The locations of the calls of a function; none where it is an inlined copy, which nothing calls, or no function.
pub(crate) fn locations(
    symbols: &Symbols,
    statement: SpanStatement,
    location: &ResolvedLocation,
) -> Vec<SpanLocation> {
    let Some(function) = symbols.function_at(location.address) else {
        return Vec::new();
    };
    let inlined = symbols
        .place(Scope::from(location.address))
        .map_or(0, |place| place.callers.len());
    if location.level as usize != inlined {
        return Vec::new();
    }
    let points = call_points(symbols, &function, location.address);
    let goroutine = goroutine(symbols, location.address);
    let scope = |pc| symbols.same_function(location.scope(), pc);
    let returns = points.iter().filter(|point| point.role.is_return());
    let returns: Vec<Scope> = returns.map(|point| scope(point.address)).collect();
    let of_point = |point: &crate::exits::CallPoint| {
        let mut found = if point.address == location.address {
            location.clone()
        } else {
            at_address(symbols, point.address)?
        };
        found.level = scope(point.address).level;
        found.function.clone_from(&location.function);
        Some(SpanLocation {
            location: found,
            point: SpanPoint {
                statement,
                role: point.role,
                function: function.entry,
                register: point.register,
                offset: point.offset,
                goroutine,
            },
            returns: returns.clone(),
            entry: location.scope(),
        })
    };
    points.iter().filter_map(of_point).collect()
}

/// Where functions are left without a return, in every loaded module.
pub(crate) fn departures(symbols: &Symbols, stack_pointer: RegisterNumber) -> Vec<SpanLocation> {
    let mut found: Vec<SpanLocation> = Vec::new();
    for module in symbols.modules() {
        for (name, role) in DEPARTURES.into_iter().chain(GO_DEPARTURES) {
            let Some(address) = symbols.symbol_address(module.id, name) else {
                continue;
            };
            if found.iter().any(|known| known.location.address == address) {
                continue;
            }
            let Some(location) = at_address(symbols, address) else {
                continue;
            };
            found.push(SpanLocation {
                entry: location.scope(),
                location,
                point: SpanPoint {
                    statement: SpanStatement::Span,
                    role,
                    function: address,
                    register: stack_pointer,
                    offset: 0,
                    goroutine: goroutine(symbols, address),
                },
                returns: Vec::new(),
            });
        }
    }
    found
}

fn at_address(symbols: &Symbols, address: Address) -> Option<ResolvedLocation> {
    let found = symbols.resolve(&format!("*{address}"), None).ok()?;
    let mut location = found.into_iter().next()?;
    location.elsewhere_in_gdb = true;
    Some(location)
}

/// Whether an expression has a `$name`.
pub(crate) fn mentions(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[at + name.len()..].starts_with(is_word))
}

/// The name of the return value.
pub(crate) const RETURN_VALUE: &str = "$retval";

/// How long it took.
pub(crate) const DURATION: &str = "$duration";

/// Parts a condition at each `&&` that is outside quotes and brackets.
#[must_use]
pub fn conjuncts(condition: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut before) = (0, None);
    let mut is_or = false;
    for (at, character) in outside(condition) {
        if character == '|' && before == Some((at.wrapping_sub(1), '|')) || character == '?' {
            is_or = true;
        }
        if character == '&' && before == Some((at.wrapping_sub(1), '&')) && at > start {
            parts.push(&condition[start..at - 1]);
            start = at + 1;
            before = None;
            continue;
        }
        before = Some((at, character));
    }
    if is_or {
        return vec![condition.trim()];
    }
    parts.push(&condition[start..]);
    parts.into_iter().map(str::trim).collect()
}

/// A condition with the times in it, as in `$duration > 1.5ms`, as numbers of nanoseconds.
#[must_use]
pub fn in_nanoseconds(condition: &str) -> Cow<'_, str> {
    if !condition.contains(DURATION) {
        return Cow::Borrowed(condition);
    }
    let mut text = String::new();
    let mut rest = condition;
    let mut is_word = false;
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_digit() && !is_word {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            let unit = after
                .find(|c: char| !c.is_alphanumeric())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(unit);
            let factor = match unit {
                "ns" => Some(1.0),
                "us" | "µs" | "μs" => Some(1e3),
                "ms" => Some(1e6),
                "s" => Some(1e9),
                _ => None,
            };
            match factor.and_then(|factor| Some(number.parse::<f64>().ok()? * factor)) {
                Some(nanoseconds) => text.push_str(&format!("{nanoseconds:.0}")),
                None => {
                    text.push_str(number);
                    text.push_str(unit);
                }
            }
            rest = after;
            continue;
        }
        is_word = first.is_alphanumeric() || first == '_';
        text.push(first);
        rest = &rest[first.len_utf8()..];
    }
    Cow::Owned(text)
}

/// The data that is collected at a location of a span.
pub(crate) struct Collected {
    /// The action lines there.
    pub(crate) actions: Vec<ScriptAction>,
    /// The parts of the condition whose values are collected there.
    pub(crate) condition: Vec<String>,
}

impl Collected {
    /// The part of a tracepoint's list that belongs to a location. `fits` returns whether an expression can be collected in
    /// another scope.
    pub(crate) fn at(
        tracepoint: &ScriptTracepoint,
        of: &SpanLocation,
        fits: &dyn Fn(Scope, &str) -> bool,
    ) -> Self {
        let SpanPoint {
            statement, role, ..
        } = of.point;
        let belongs = |text: &str| {
            if text == DURATION {
                // It is listed where the span is shown, and not collected anywhere.
                return match statement {
                    SpanStatement::Span => role.is_entry(),
                    SpanStatement::Return => !matches!(role, SpanRole::MayTailCall),
                };
            }
            if mentions(text, RETURN_VALUE) {
                return role.is_return();
            }
            match statement {
                SpanStatement::Span => role.is_entry(),
                SpanStatement::Return => {
                    // Data that exists at the return is of the return; the rest is of the entry.
                    let is_kept = text.to_ascii_lowercase();
                    let is_arguments = is_kept.starts_with("$arg");
                    let at_return = |scope: &Scope| !is_arguments && fits(*scope, text);
                    let everywhere = !of.returns.is_empty() && of.returns.iter().all(at_return);
                    match role {
                        _ if role.is_entry() && role.is_return() => true,
                        _ if role.is_entry() => !everywhere,
                        _ if role.is_return() => at_return(&of.location.scope()),
                        _ => false,
                    }
                }
            }
        };
        let mut actions = Vec::new();
        for action in &tracepoint.actions {
            match &action.kind {
                ScriptActionKind::Collect {
                    string_limit,
                    items,
                    ..
                } => {
                    let items: Vec<Located> = items
                        .iter()
                        .filter(|item| belongs(item.text()))
                        .cloned()
                        .collect();
                    if !items.is_empty() {
                        actions.push(collect_items(*string_limit, items));
                    }
                }
                ScriptActionKind::Evaluate { .. } => {
                    let here = match statement {
                        SpanStatement::Span => role.is_entry(),
                        SpanStatement::Return => role.is_return(),
                    };
                    if here {
                        actions.push(action.clone());
                    }
                }
                ScriptActionKind::Switch { .. } | ScriptActionKind::WhileStepping { .. } => {}
            }
        }
        let condition = tracepoint.condition.as_ref();
        let parts = condition.map_or_else(Vec::new, |condition| conjuncts(condition.text()));
        let parts = parts
            .into_iter()
            .filter(|part| !mentions(part, DURATION) && belongs(part));
        Self {
            actions,
            condition: parts.map(str::to_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{conjuncts, in_nanoseconds, mentions};

    #[test]
    fn times_in_conditions() {
        assert_eq!(in_nanoseconds("$duration > 1ms"), "$duration > 1000000");
        assert_eq!(in_nanoseconds("$duration>=1.5us"), "$duration>=1500");
        assert_eq!(
            in_nanoseconds("$duration > 2s || 3 ns"),
            "$duration > 2000000000 || 3 ns"
        );
        assert_eq!(in_nanoseconds("x1ms > 1ms"), "x1ms > 1ms");
        assert_eq!(in_nanoseconds("$duration > x1ms"), "$duration > x1ms");
        assert_eq!(in_nanoseconds("$duration > 0x10"), "$duration > 0x10");
    }

    #[test]
    fn conditions_are_parted_at_and() {
        assert_eq!(conjuncts("a > 1"), ["a > 1"]);
        assert_eq!(
            conjuncts("a > 1 && $retval < 0&&b"),
            ["a > 1", "$retval < 0", "b"]
        );
        assert_eq!(conjuncts("(a && b) && c & d"), ["(a && b)", "c & d"]);
        assert_eq!(conjuncts("a && b || c"), ["a && b || c"]);
        assert_eq!(conjuncts("s == \"&&\""), ["s == \"&&\""]);
    }

    #[test]
    fn a_name_is_a_whole_word() {
        assert!(mentions("n + $retval", "$retval"));
        assert!(mentions("$retval->next", "$retval"));
        assert!(!mentions("$retvals", "$retval"));
        assert!(!mentions("retval", "$retval"));
    }
}
