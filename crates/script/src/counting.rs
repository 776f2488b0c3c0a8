//! The aggregates of a location, compiled for it.
//!
//! Keys, values and conditions of a span are evaluated at the entry, unless they use the return value or the duration. The entry
//! keeps the values that the end of the call needs. Those of a `return` are evaluated at the return, where possible.

use tracewire_debuginfo::{Scope, Symbols};
use tracewire_expr::{CompiledOperand, ExpressionError, compile_condition, compile_operand};
use tracewire_model::{
    Aggregate, AggregateFunction, CAPTURED_WORDS, CallPart, Counted, Counting, DURATION_VARIABLE,
    KeyKind, Operand, SpanRole, SpanStatement, VariableDefinition, VariableNumber,
};

use crate::aggregate::ScriptAggregate;
use crate::error::{Problem, ScriptError};
use crate::model::ScriptTracepoint;
use crate::place::Located;
use crate::span::{DURATION, RETURN_VALUE, SpanLocation, conjuncts, in_nanoseconds, mentions};

/// Compiles the aggregates of a tracepoint at one of its locations.
pub(crate) struct CountingCompiler<'a> {
    pub(crate) symbols: &'a Symbols,
    pub(crate) variables: &'a [VariableDefinition],
    pub(crate) scope: Scope,
    pub(crate) span: Option<&'a SpanLocation>,
    /// An error about an expression, at its place.
    pub(crate) error: &'a dyn Fn(&Located, &ExpressionError) -> ScriptError,
}

impl CountingCompiler<'_> {
    fn number(&self, name: &str) -> Option<VariableNumber> {
        if self.span.is_some() && name == "duration" {
            return Some(DURATION_VARIABLE);
        }
        let mut variables = self.variables.iter();
        let found = variables.find(|variable| variable.name == name);
        found.map(|variable| variable.number)
    }

    fn operand(&self, scope: Scope, text: &Located) -> Result<CompiledOperand, ScriptError> {
        let numbers = |name: &str| self.number(name);
        compile_operand(self.symbols, scope, text.text(), &numbers)
            .map_err(|error| (self.error)(text, &error))
    }

    fn condition(&self, place: &Located, parts: &[&str]) -> Result<Option<Vec<u8>>, ScriptError> {
        if parts.is_empty() {
            return Ok(None);
        }
        let numbers = |name: &str| self.number(name);
        let parts: Vec<_> = parts.iter().map(|part| in_nanoseconds(part)).collect();
        let text = parts.join(") && (");
        let text = if parts.len() > 1 {
            format!("({text})")
        } else {
            text
        };
        compile_condition(self.symbols, self.scope, &text, &numbers)
            .map(Some)
            .map_err(|error| (self.error)(place, &error))
    }

    /// The aggregates of the location, and their form in a file.
    pub(crate) fn counting(
        &self,
        tracepoint: &ScriptTracepoint,
        aggregates: &[&ScriptAggregate],
    ) -> Result<(Counting, Vec<String>), ScriptError> {
        let pick = tracepoint.pick.as_ref();
        let mut counting = Counting {
            picks: pick.is_some(),
            ..Counting::default()
        };
        let mut words = Vec::new();
        let aggregates = || (0..).zip(aggregates.iter().copied().chain(pick));
        let Some(span) = self.span else {
            for (index, aggregate) in aggregates() {
                let counted =
                    self.counted(index, aggregate, &mut |text| self.operand(self.scope, text))?;
                words.push(counted.aggregate.to_string());
                counting.aggregates.push(counted);
            }
            return Ok((counting, words));
        };
        let role = span.point.role;
        let is_exit = matches!(role, SpanRole::Return | SpanRole::TailCall);
        let is_whole = matches!(role, SpanRole::EntryAndReturn | SpanRole::EntryAndTailCall);
        let condition = tracepoint.condition.as_ref();
        let parts = condition.map_or_else(Vec::new, |condition| conjuncts(condition.text()));
        let (at_end, at_entry): (Vec<&str>, Vec<&str>) = parts
            .into_iter()
            .partition(|part| self.is_at_end(span, part));
        let returns_value = role.is_return();
        let mut captured = 0;
        let mut ends = false;
        for (index, aggregate) in aggregates() {
            let mut operands = aggregate.value.iter().chain(&aggregate.keys);
            let is_pick = aggregate.function.is_pick();
            let is_end = !is_pick
                && (span.point.statement == SpanStatement::Return
                    || !at_end.is_empty()
                    || operands.any(|operand| self.is_at_end(span, operand.text())));
            ends |= is_end;
            if is_end && pick.is_some() {
                return Err(ScriptError::new(&aggregate.call, Problem::PickOfMeasured));
            }
            if matches!(aggregate.function, AggregateFunction::First(_)) && !at_end.is_empty() {
                return Err(ScriptError::new(&aggregate.call, Problem::FirstAtEnd));
            }
            let needs_value = aggregate
                .value
                .iter()
                .chain(&aggregate.keys)
                .map(Located::text)
                .chain(at_end.iter().copied())
                .any(|text| mentions(text, RETURN_VALUE));
            let mut captures = Vec::new();
            let is_here = match is_end {
                true => is_exit || is_whole,
                false => role.is_entry(),
            };
            // An aggregate of another location is compiled only for its form in the file.
            let counted = self.counted(index, aggregate, &mut |text| {
                if is_pick {
                    return match [RETURN_VALUE, DURATION]
                        .iter()
                        .any(|name| mentions(text.text(), name))
                    {
                        true => Err(ScriptError::new(text, Problem::PickAtEnd)),
                        false => self.operand(span.entry, text),
                    };
                }
                if self.is_at_end(span, text.text()) {
                    let scope = match is_exit || is_whole {
                        true => self.scope,
                        false => span.returns.first().copied().unwrap_or(span.entry),
                    };
                    // A tail call has no return value; nothing is counted there then.
                    let scope = match returns_value || !mentions(text.text(), RETURN_VALUE) {
                        true => scope,
                        false => span.returns.first().copied().unwrap_or(scope),
                    };
                    return self.operand(scope, text);
                }
                let mut compiled = self.operand(span.entry, text)?;
                if is_end && !is_whole {
                    let at = captured;
                    captured += compiled.operand.words();
                    let is_text = compiled.operand.is_text();
                    let kept = Operand::Captured {
                        at: u16::try_from(at).unwrap_or(u16::MAX),
                        is_text,
                    };
                    captures.push(std::mem::replace(&mut compiled.operand, kept));
                    if captured > CAPTURED_WORDS {
                        return Err(ScriptError::new(
                            text,
                            Problem::ManyCaptured(CAPTURED_WORDS),
                        ));
                    }
                }
                Ok(compiled)
            })?;
            words.push(counted.aggregate.to_string());
            if role.is_entry() && !is_whole {
                counting.captures.extend(captures);
            }
            if is_here && (is_pick || returns_value || !needs_value) {
                counting.aggregates.push(counted);
            }
        }
        let place = condition.unwrap_or(&tracepoint.location);
        counting.call = match role {
            _ if !ends && pick.is_none() => CallPart::None,
            _ if is_whole => CallPart::Whole,
            _ if is_exit => CallPart::End,
            _ if role.is_entry() => CallPart::Begin {
                is_loop: role == SpanRole::EntryAndLoop,
            },
            SpanRole::MayTailCall if pick.is_some() => CallPart::Within,
            _ => CallPart::None,
        };
        if counting.is_empty() {
            return Ok((Counting::default(), words));
        }
        let of_value = |part: &&str| mentions(part, RETURN_VALUE);
        let is_lost = at_end.iter().any(of_value) && !returns_value;
        let mut parts = Vec::new();
        if role.is_entry() {
            parts.extend(at_entry);
        }
        // Of picked calls, what is known at their ends is asked when they are shown.
        if (is_exit || is_whole) && !is_lost && pick.is_none() {
            parts.extend(at_end);
        }
        counting.condition = self.condition(place, &parts)?;
        Ok((counting, words))
    }

    /// Whether an expression is worked out at the end of a call.
    fn is_at_end(&self, span: &SpanLocation, text: &str) -> bool {
        if mentions(text, RETURN_VALUE) || mentions(text, DURATION) {
            return true;
        }
        let numbers = |name: &str| self.number(name);
        let is_argument = text.to_ascii_lowercase().starts_with("$arg");
        let fits = |scope: &Scope| compile_operand(self.symbols, *scope, text, &numbers).is_ok();
        span.point.statement == SpanStatement::Return
            && !is_argument
            && !span.returns.is_empty()
            && span.returns.iter().all(fits)
    }

    fn counted(
        &self,
        index: u16,
        aggregate: &ScriptAggregate,
        operand: &mut dyn FnMut(&Located) -> Result<CompiledOperand, ScriptError>,
    ) -> Result<Counted, ScriptError> {
        let mut keys = Vec::new();
        let mut kinds = Vec::new();
        let mut key = |compiled: CompiledOperand| {
            keys.push(compiled.operand);
            kinds.push(compiled.kind);
        };
        for text in &aggregate.keys {
            key(operand(text)?);
        }
        let mut value = None;
        let mut is_unsigned = false;
        if let Some(text) = &aggregate.value {
            let compiled = operand(text)?;
            if matches!(aggregate.function, AggregateFunction::Top(_)) {
                key(compiled);
            } else {
                if compiled.kind == KeyKind::Text {
                    return Err(ScriptError::new(text, Problem::TextOfAggregate));
                }
                is_unsigned = matches!(
                    compiled.kind,
                    KeyKind::Unsigned | KeyKind::Address | KeyKind::Truth
                );
                value = Some(compiled.operand);
            }
        }
        let is_time = |text: &Located| text.text() == DURATION;
        Ok(Counted {
            aggregate: Aggregate {
                index,
                text: aggregate.text(),
                function: aggregate.function,
                is_unsigned,
                is_time: aggregate.value.as_ref().is_some_and(is_time),
                keys: kinds,
            },
            keys,
            value,
        })
    }
}
