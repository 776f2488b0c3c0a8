//! The list of a one-line specification: the part after its colon.

use crate::actions::{collect_items, format, items};
use crate::aggregate;
use crate::chain;
use crate::error::{Problem, ScriptError};
use crate::model::{ScriptAction, ScriptActionKind};
use crate::place::Located;

/// Reads the list: an action for each run of expressions with the same format.
pub(crate) fn actions(list: &Located) -> Result<Vec<ScriptAction>, ScriptError> {
    let list = match word_collect(list.text()) {
        Some(length) => list.after(length).trimmed(),
        None => list.clone(),
    };
    let (for_all, list) = format(&list)?;
    let mut groups: Vec<(Option<u32>, Vec<Located>)> = Vec::new();
    let (others, switches) = chain::take(items(&list)?)?;
    let (others, aggregates) = aggregate::take(others)?;
    for item in others {
        let (own, expression) = format(&item)?;
        if expression.is_empty() {
            return Err(ScriptError::new(
                &item,
                Problem::Missing("an expression after the format"),
            ));
        }
        let limit = own.or(for_all);
        match groups.last_mut() {
            Some((same, group)) if *same == limit => group.push(expression),
            _ => groups.push((limit, vec![expression])),
        }
    }
    let actions = groups.into_iter();
    let mut actions: Vec<ScriptAction> = actions
        .map(|(limit, group)| collect_items(limit, group))
        .collect();
    for aggregate in aggregates {
        let line = format!("collect {}", aggregate.text());
        let call = &aggregate.call;
        actions.push(ScriptAction {
            line: Located::line(&call.file().into(), call.line_number(), line),
            kind: ScriptActionKind::Collect {
                string_limit: None,
                items: Vec::new(),
                aggregates: vec![aggregate],
            },
        });
    }
    actions.extend(switches);
    Ok(actions)
}

/// The length of the word `collect` at the front of a list, where it is the action and no variable of that name: a
/// format or an expression follows it.
fn word_collect(list: &str) -> Option<usize> {
    const WORD: &str = "collect";
    let rest = list.strip_prefix(WORD)?;
    let next = rest.trim_start();
    let is_action = is_format(next) || (next.len() < rest.len() && begins_expression(next));
    is_action.then_some(WORD.len())
}

/// Whether a text is `/s` or `/sN`, a blank and something else. A division by `s` has nothing, or no blank, there.
fn is_format(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("/s") else {
        return false;
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.starts_with(char::is_whitespace) && !rest.trim_start().is_empty()
}

/// Whether an expression can begin like this text, which has a name and a blank before it. An operator that can have
/// that name as its left operand is taken for one when a blank follows it: `collect * p` is a product, and
/// `collect *p` the action.
fn begins_expression(text: &str) -> bool {
    let mut characters = text.chars();
    let Some(first) = characters.next() else {
        return false;
    };
    let second = characters.next();
    match first {
        '$' | '_' | '"' | '\'' | '(' | '{' | '~' => true,
        '*' | '&' | '-' | '!' => {
            let doubled = first == '&' && second == Some('&');
            second.is_some_and(|c| !c.is_whitespace() && !matches!(c, '=' | '>')) && !doubled
        }
        ':' => second == Some(':'),
        // Rust's cast: two names, one after the other, are no expression otherwise.
        _ if text.strip_prefix("as").is_some_and(|rest| {
            rest.starts_with(char::is_whitespace)
                && rest
                    .trim_start()
                    .starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '*' | '&'))
        }) =>
        {
            false
        }
        _ => first.is_alphanumeric(),
    }
}

#[cfg(test)]
mod tests {
    use super::word_collect;

    #[test]
    fn collect_is_the_action_where_an_expression_follows() {
        for list in [
            "collect s",
            "collect *p",
            "collect &x, y",
            "collect -x",
            "collect !x",
            "collect !!x",
            "collect **p",
            "collect (x)",
            "collect ::x",
            "collect \"a\"",
            "collect 'a.c'::x",
            "collect {int} 4",
            "collect $regs",
            "collect collect",
            "collect as",
            "collect/s x",
            "collect/s80 x",
            "collect /s x",
            "collect/s - x",
        ] {
            assert_eq!(word_collect(list), Some(7), "{list}");
        }
        for list in [
            "collect",
            "collect, s",
            "collect->s",
            "collect -> s",
            "collect.s",
            "collect . s",
            "collect[0]",
            "collect [0]",
            "collect(x)",
            "collect * p",
            "collect*p",
            "collect & x",
            "collect && x",
            "collect&&x",
            "collect - 1",
            "collect != x",
            "collect != 0",
            "collect + 1",
            "collect / s",
            "collect/s",
            "collect /s",
            "collect/s, x",
            "collect/size",
            "collect % s",
            "collect ? a : b",
            "collect@2",
            "collect @ 2",
            "collect as u64",
            "collected",
            "collect_",
            "colle",
        ] {
            assert_eq!(word_collect(list), None, "{list}");
        }
    }
}
