//! Expressions and values against the real GDB: both look at the same core file.

mod collected;
mod compare;
mod core_file;

mod c;
mod cpp;
mod floating;
mod optimized;
mod rust;
mod trace_frame;
