#![doc = include_str!("../README.md")]
//!
//! [`fail_point!`] marks a step after which the process may be gone. Where debug assertions are off it is nothing: a released
//! program has neither the names nor the code. Otherwise these environment variables say what happens:
//!
//! | variable | what it says |
//! |---|---|
//! | `TRACEWIRE_FAIL_POINT` | `NAME:COUNT`: something happens when this place is reached for the COUNT-th time |
//! | `TRACEWIRE_FAIL_SIGNAL` | `PROCESS:THREAD:SIGNAL`: which signal is sent then; without it this process ends by SIGKILL |
//! | `TRACEWIRE_FAIL_COPY` | `FROM:TO`: a file that is copied before |
//! | `TRACEWIRE_FAIL_LOG` | a file that gets a line `NAME COUNT` when a place is reached for the first, second, fourth, eighth time, and so on |
/// A place that a test can name, `SUBJECT/STEP`.
#[macro_export]
macro_rules! fail_point {
    ($name:literal) => {
        #[cfg(debug_assertions)]
        $crate::points::reach($name);
    };
}

#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod points;
