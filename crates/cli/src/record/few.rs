//! Messages that may occur thousands of times: the first of each kind, and the number of others.

use std::fmt::Display;

use tracewire_views::words;

/// How many messages of a kind are printed.
pub const MOST_PRINTED: usize = 20;

/// Prints the first of the messages with `print`, and then how many more `what` there are, and how to get the rest.
pub fn tell<M: Display>(
    messages: impl IntoIterator<Item = M>,
    verbose: bool,
    what: &str,
    mut print: impl FnMut(String),
) {
    let mut messages = messages.into_iter();
    let limit = if verbose { usize::MAX } else { MOST_PRINTED };
    for message in messages.by_ref().take(limit) {
        print(message.to_string());
    }
    let more = messages.count() as u64;
    if more > 0 {
        print(format!("{more} more {what}; --verbose prints all"));
    }
}

/// Joins equal messages about several addresses: `MESSAGE (at ADDRESS and 19 more)`.
pub fn once_each<A: Display>(messages: impl IntoIterator<Item = (String, A)>) -> Vec<String> {
    let mut known: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    let mut all: Vec<(String, A, u64)> = Vec::new();
    for (message, address) in messages {
        match known.get(&message).and_then(|at| all.get_mut(*at)) {
            Some((_, _, more)) => *more += 1,
            None => {
                known.insert(message.clone(), all.len());
                all.push((message, address, 0));
            }
        }
    }
    let joined = all.into_iter().map(|(message, address, more)| match more {
        0 => format!("{message} (at {address})"),
        more => format!(
            "{message} (at {address} and {})",
            words::count(more, "more location")
        ),
    });
    joined.collect()
}
