//! Settings of tests that run some times, or many times.

use std::str::FromStr;

/// A number from the environment, or the standard one.
///
/// # Panics
/// When the environment has something else under this name.
#[must_use]
#[track_caller]
pub fn setting<N: FromStr>(name: &str, standard: N) -> N {
    std::env::var(name).map_or(standard, |value| match value.parse() {
        Ok(number) => number,
        Err(_) => panic!("{name}={value}: expected a number"),
    })
}
