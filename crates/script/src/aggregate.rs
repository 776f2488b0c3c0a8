//! Aggregates in a list: `count()`, `sum(E)` and the others, and the keys after `by`.

use tracewire_model::{AggregateFunction, Buckets, MAX_KEYS};

use crate::error::{Problem, ScriptError};
use crate::number::{constant, integer};
use crate::place::Located;
use crate::scan::{commas, keyword, outside};
use crate::span::in_nanoseconds;

/// An aggregate in a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptAggregate {
    /// The function.
    pub function: AggregateFunction,
    /// The call, `sum(bytes)`.
    pub call: Located,
    /// The expression that is aggregated; for `top(K, E)`, the key.
    pub value: Option<Located>,
    /// The keys, in order.
    pub keys: Vec<Located>,
}

impl ScriptAggregate {
    /// Its source text, with its keys.
    #[must_use]
    pub fn text(&self) -> String {
        let keys: Vec<&str> = self.keys.iter().map(Located::text).collect();
        match keys.is_empty() {
            true => self.call.text().to_owned(),
            false => format!("{} by {}", self.call.text(), keys.join(", ")),
        }
    }
}

/// Takes the aggregates out of a list. What follows `by` are keys, up to the next aggregate. They are keys of all aggregates before them
/// that have none yet.
pub(crate) fn take(
    items: Vec<Located>,
) -> Result<(Vec<Located>, Vec<ScriptAggregate>), ScriptError> {
    let mut others = Vec::new();
    let mut aggregates: Vec<ScriptAggregate> = Vec::new();
    // The first aggregate that the keys are of.
    let mut first = 0;
    let mut in_keys = false;
    for item in items {
        let by = keyword(item.text(), "by").filter(|at| *at > 0);
        let head = by.map_or(item.clone(), |at| item.part(0..at)).trimmed();
        let mut key = None;
        if let Some((name, open)) = call(head.text()) {
            if std::mem::take(&mut in_keys) {
                first = aggregates.len();
            }
            aggregates.push(aggregate(name, &head, open)?);
            if let Some(at) = by {
                in_keys = true;
                key = Some(item.after(at + "by".len()).trimmed());
            }
        } else if in_keys {
            key = Some(item.clone());
        } else {
            others.push(item.clone());
        }
        let Some(key) = key else { continue };
        if key.is_empty() {
            return Err(ScriptError::new(
                &item,
                Problem::Missing("a key after `by`"),
            ));
        }
        for aggregate in aggregates.iter_mut().skip(first) {
            aggregate.keys.push(key.clone());
            let own = usize::from(matches!(aggregate.function, AggregateFunction::Top(_)));
            if aggregate.keys.len() + own > MAX_KEYS {
                return Err(ScriptError::new(&key, Problem::ManyKeys(MAX_KEYS)));
            }
        }
    }
    Ok((others, aggregates))
}

/// The function of a call of an aggregate, and where its bracket opens.
fn call(text: &str) -> Option<(&'static str, usize)> {
    const NAMES: [&str; 8] = ["count", "sum", "min", "max", "avg", "hist", "lhist", "top"];
    let open = text.find('(')?;
    let name = text[..open].trim_end();
    let known = NAMES.into_iter().find(|known| *known == name)?;
    let outside: String = outside(text).map(|(_, character)| character).collect();
    (text.ends_with(')') && outside.trim_end() == name).then_some((known, open))
}

fn aggregate(name: &str, call: &Located, open: usize) -> Result<ScriptAggregate, ScriptError> {
    let inside = call.part(open + 1..call.text().len() - 1).trimmed();
    let mut arguments = Vec::new();
    if !inside.is_empty() {
        let mut start = 0;
        for end in commas(inside.text())
            .into_iter()
            .chain([inside.text().len()])
        {
            arguments.push(inside.part(start..end).trimmed());
            start = end + 1;
        }
    }
    let wrong = |form| Err(ScriptError::new(call, Problem::Aggregate(form)));
    if arguments.iter().any(Located::is_empty) {
        return wrong("no empty argument");
    }
    let linear = |call: &Located, bounds: &[Located]| {
        let number = |place: &Located| {
            let text = format!("$duration {}", place.text());
            let text = in_nanoseconds(&text);
            let text = text.trim_start_matches("$duration").trim();
            constant(text).map_err(|reason| ScriptError::new(place, Problem::NotConstant(reason)))
        };
        let [low, high, step] = bounds else {
            return Err(ScriptError::new(
                call,
                Problem::Aggregate("hist(E, LOW, HIGH, STEP)"),
            ));
        };
        let step = u64::try_from(number(step)?).unwrap_or(0);
        Buckets::linear(number(low)?, number(high)?, step)
            .ok_or_else(|| ScriptError::new(call, Problem::Buckets))
    };
    let (function, value) = match (name, arguments.as_slice()) {
        ("count", []) => (AggregateFunction::Count, None),
        ("count", _) => return wrong("count()"),
        ("sum", [value]) => (AggregateFunction::Sum, Some(value)),
        ("min", [value]) => (AggregateFunction::Minimum, Some(value)),
        ("max", [value]) => (AggregateFunction::Maximum, Some(value)),
        ("avg", [value]) => (AggregateFunction::Average, Some(value)),
        ("hist", [value]) => (AggregateFunction::Histogram(Buckets::Powers), Some(value)),
        ("hist" | "lhist", [value, bounds @ ..]) => (
            AggregateFunction::Histogram(linear(call, bounds)?),
            Some(value),
        ),
        ("top", [most, value]) => {
            let most = integer(most.text()).and_then(|most| u32::try_from(most).ok());
            match most.filter(|most| *most > 0) {
                Some(most) => (AggregateFunction::Top(most), Some(value)),
                None => return wrong("top(K, E), with a number K"),
            }
        }
        ("top", _) => return wrong("top(K, E)"),
        ("hist", _) => return wrong("hist(E) or hist(E, LOW, HIGH, STEP)"),
        ("lhist", _) => return wrong("lhist(E, LOW, HIGH, STEP)"),
        _ => return wrong("sum(E), min(E), max(E) or avg(E)"),
    };
    Ok(ScriptAggregate {
        function,
        call: call.clone(),
        value: value.cloned(),
        keys: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::take;
    use crate::actions::items;
    use crate::place::Located;

    fn taken(list: &str) -> Result<(Vec<String>, Vec<String>), String> {
        let list = Located::line(&std::sync::Arc::from("-t"), 1, list.to_owned());
        let (others, aggregates) = take(items(&list).map_err(|error| error.to_string())?)
            .map_err(|error| error.to_string())?;
        let others = others.iter().map(|item| item.text().to_owned()).collect();
        let aggregates = aggregates
            .iter()
            .map(|aggregate| aggregate.text())
            .collect();
        Ok((others, aggregates))
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn keys_are_of_the_aggregates_before_them() {
        let both = |others: &[&str], aggregates: &[&str]| Ok((texts(others), texts(aggregates)));
        assert_eq!(taken("a, b"), both(&["a", "b"], &[]));
        assert_eq!(taken("count()"), both(&[], &["count()"]));
        assert_eq!(
            taken("n, count() by a, b->c"),
            both(&["n"], &["count() by a, b->c"])
        );
        assert_eq!(
            taken("count(), sum(f[1, 2]) by a, max(x) by b, c"),
            both(
                &[],
                &["count() by a", "sum(f[1, 2]) by a", "max(x) by b, c"]
            )
        );
        assert_eq!(
            taken("hist($duration, 0, 1ms, 100us), top(5, name)"),
            both(&[], &["hist($duration, 0, 1ms, 100us)", "top(5, name)"])
        );
        // No calls of aggregates.
        assert_eq!(
            taken("count, sum + max"),
            both(&["count", "sum + max"], &[])
        );
        assert_eq!(taken("by, min(a) + 1"), both(&["by", "min(a) + 1"], &[]));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for list in [
            "count(a)",
            "sum()",
            "avg(a, b)",
            "hist(a, 1)",
            "hist(a, 10, 0, 1)",
            "hist(a, 0, 10, 0)",
            "lhist(a)",
            "top(a)",
            "top(0, a)",
            "count() by",
            "count() by a, b, c, d, e",
            "top(3, x) by a, b, c, d",
        ] {
            assert!(taken(list).is_err(), "{list}");
        }
    }
}
