#![doc = include_str!("../README.md")]
//!
//! [`fail_point!`] marks a step at which a test can end the process. Without debug assertions it expands to nothing: a released
//! program has neither the names nor the code. With them, these environment variables control it:
//!
//! | variable | what it says |
//! |---|---|
//! | `TRACEWIRE_FAIL_POINT` | `NAME:COUNT`: the signal is sent when this place is reached for the COUNT-th time |
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
