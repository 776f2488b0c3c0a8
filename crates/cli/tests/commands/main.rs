//! The real program, command by command, as a user and a script meet it.

mod attach;
mod bad_input;
mod cache;
mod cut;
mod demo;
mod ending;
mod generated;
mod jumps;
mod killed;
mod look;
mod machine;
mod messages;
mod opened;
mod out_of_memory;
mod progress;
mod record;
mod registers;
mod repair;
mod repaired;
mod rescue;
mod seal;
mod specification;
mod streams;
mod support;
mod waiting;
mod working;
