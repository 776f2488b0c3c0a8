//! The index: where in the compact form things are, and memory at any instant.
//!
//! The records themselves are [`crate::compact`]'s, where the form of the file is described as a whole. What is
//! here makes it ([`mod@build`]), finds its way in it ([`store`]), and has what it needs for memory: accesses in the
//! order of addresses.
//!
//! # Memory
//!
//! Memory is cut into granules of 8 bytes, and accesses at the borders of granules. Each segment's accesses are
//! sorted by granule and time and kept as a run in a temporary file ([`run`]); at the end all runs are merged
//! ([`merge`]) into *pages* of 128 accesses ([`page`]), and a table has the first granule and slot of each. A page
//! begins with what was known of its first granule before, so that one page answers what a granule held at an
//! instant, however often it was accessed: a search in the table, and at most 128 entries. The merge follows each
//! granule's value, which makes an access that gives nothing new (a read of what was known) two or three bytes,
//! and finds the reads that contradict.
//!
//! What a byte held before all accesses is what the first of them read, if it did: that is in the granule's
//! first page, or in a table for granules whose accesses are in several.
//!
//! # Code
//!
//! Each address of code has a list of the segments in which it is executed ([`mod@code`]), and each template of a segment the
//! blocks that have it. So the next execution of an instruction is found without a look at what lies between.
//!
//! # Which index is right
//!
//! An index is keyed to its trace by size, time of change and checksums of samples ([`key`]), and to the byte
//! order and the order of data that were asked for. An index of another version or key, or one that is cut, is made again.
//! An index that turns out to be damaged while it is used is made again at that moment.
//!
//! # Memory that making it takes
//!
//! Text is read in chunks of 4 MiB ([`cut`]), of which two more are there than processors, and the room of one that was read;
//! encoded segments are
//! written as they come. Runs are read back in buffers of 64 MiB in all. What grows with the trace are the tables: 80
//! bytes for 4096 instructions, 24 for 128 accesses, and two or three for each time that code is executed again after some
//! segments without it.

mod block;
mod build;
mod bytes;
mod code;
mod cut;
mod key;
mod merge;
mod page;
mod run;
mod store;
mod table;
mod write;

pub(crate) use block::{BlockAt, Groups};
pub(crate) use build::{BuildError, Plan, build};
pub(crate) use bytes::Bytes;
pub(crate) use code::Segments;
pub(crate) use cut::CHUNK;
pub(crate) use key::Key;
pub(crate) use merge::read_contradictions;
pub(crate) use page::{Entry, Follower, Item, State as PageState, byte_bits};
pub(crate) use run::Scratch;
pub(crate) use store::{Store, Unusable};
pub(crate) use write::{MAGIC, Table, Target, VERSION};
