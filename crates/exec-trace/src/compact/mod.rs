//! The compact form: a trace's records in columns, from which its text comes back byte for byte.
//!
//! # The file
//!
//! One form of file serves as the index of a trace (`NAME.twindex`, beside it) and in place of it (`NAME.twx`). It
//! has every record, so that nothing is ever looked up in the text. Numbers in tables and at the end are
//! little-endian; all others are of variable length, seven bits a byte, the least significant first, and where they
//! may be negative the sign stands in the lowest bit ([`bytes`]).
//!
//! | part | what |
//! |---|---|
//! | magic | 8 bytes |
//! | segments | blocks, forms and skeletons, see below |
//! | pages | memory accesses in the order of addresses (`index::page`) |
//! | contradictions | a frame |
//! | tables | blocks, segments, pages, granules over several pages (`index::write`) |
//! | description | the trace's key, format, machine, counts, names of registers, places of all other parts, checksums of the tables, one for 64 KiB |
//! | end | place, length and checksum of the description, version, length of the file, magic: 40 bytes |
//!
//! Opening reads the end and the description. Every other part has a checksum ([`frame`]) that is looked at when the
//! part is first used, so that opening takes the same time whatever the size, and damage is found wherever it is.
//!
//! # Segments
//!
//! A segment is some 16 MiB of text that is encoded by itself, side by side with others. It begins inside a line only
//! where that line is longer than a segment: the rest of the line is then a group of its own. A *group* is an
//! instruction's line with the lines of what it did. Groups that differ only in numbers have the same *form*
//! ([`form`]): a loop's body is one form an instruction, however often it runs. A form has what its instructions
//! have in common (cpu, address, whether it was taken, which registers and how much memory they touch) and a
//! *skeleton*: the text, with marks in the places of the numbers that change ([`gather`] finds them, [`segment`] puts
//! them back). A line that fits nothing is kept apart as it is.
//!
//! Forms are numbered as they appear, so that code that runs straight on is a row of numbers going up by one.
//!
//! # Blocks
//!
//! A block is at most 4096 groups, and the unit of reading. It has four frames and the registers at its start
//! ([`block`]):
//!
//! 1. its forms; the groups as *runs* of forms (first, length); the times and the instructions' numbers, which are a
//!    step where they go on evenly;
//! 2. what was written to registers;
//! 3. addresses and data of accesses;
//! 4. other numbers of the text, times of lines that are not their group's (as differences to it), and lines kept apart.
//!
//! Within a frame, numbers that the same place of the same form had stand one behind the other as a row
//! ([`mod@column`]): constant, going on by a step, near each other, or a copy of another row, such as a loaded register
//! and the memory it was loaded from. What is left Zstandard makes small.
//!
//! To find what a register held, the block's registers are taken and the block's writes to it are gone over: of 4096
//! instructions, the runs and the rows of the forms that write it. Blocks and segments end where no line belongs to
//! an instruction on the other side, if there is such a place near by.
//!
//! # Slots
//!
//! What instruction `n` did is seen from instruction `n + 1` on: that is its *slot*. Slot 0 is the state that the
//! trace starts with. Lines may stand elsewhere than behind their instruction (of an earlier time, of another cpu);
//! a form has the way from the group to the slot for each effect.

pub(crate) mod block;
pub(crate) mod bytes;
pub(crate) mod column;
pub(crate) mod effect;
pub(crate) mod encode;
pub(crate) mod form;
pub(crate) mod frame;
pub(crate) mod gather;
pub(crate) mod group;
pub(crate) mod map;
pub(crate) mod numbers;
pub(crate) mod part;
pub(crate) mod segment;
pub(crate) mod token;
pub(crate) mod value;

/// How many groups a block has at most.
pub(crate) const BLOCK: usize = 4096;
/// How many groups are known behind a place where a block ends.
pub(crate) const AHEAD: usize = 72;

pub use value::RegisterValue;
