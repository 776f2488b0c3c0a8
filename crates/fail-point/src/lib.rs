//! Named places in the code at which a test ends a process.
//!
//! [`fail_point!`] marks a step after which the process may be gone. Where debug assertions are off it is nothing: a released
//! program has neither the names nor the code. Otherwise these environment variables say what happens:
//!
//! | variable | what it says |
//! |---|---|
//! | `TRACEWIRE_FAIL_POINT` | `NAME:COUNT`: something happens when this place is reached for the COUNT-th time |
//! | `TRACEWIRE_FAIL_SIGNAL` | `PROCESS:THREAD:SIGNAL`: which signal is sent then; without it this process ends by SIGKILL |
//! | `TRACEWIRE_FAIL_COPY` | `FROM:TO`: a file that is copied before |
//! | `TRACEWIRE_FAIL_LOG` | a file that gets a line with each name that is reached, once |
//!
//! ```
//! use tracewire_fail_point::fail_point;
//!
//! fn replace(old: &mut u64, new: u64) {
//!     fail_point!("example/before");
//!     *old = new;
//!     fail_point!("example/after");
//! }
//! # let mut one = 1;
//! # replace(&mut one, 2);
//! # assert_eq!(one, 2);
//! ```

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
