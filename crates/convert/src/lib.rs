//! GDB trace files in other formats, merged, split and cut.
//!
//! A trace file is easy to make and, outside of GDB, hard to use: a table for a spreadsheet, a time line, a diff of two
//! runs all want another shape of the same frames. This crate gives each of them one, from a [`TraceFile`] that is open
//! to any [`Write`](std::io::Write) sink, frame by frame; nothing here opens or names a file.
//!
//! | module | what it makes |
//! |---|---|
//! | [`json`] | JSON lines with everything that is in the file, and the file back from them, byte for byte |
//! | [`csv`] | a table of chosen columns: registers, variables, memory, expressions |
//! | [`ctf`] | a Common Trace Format 1.8 trace, for babeltrace2 and Trace Compass |
//! | [`chrome`] | a JSON time line for Chrome and Perfetto |
//! | [`part`] | a trace file of some of the frames: a range cut out, a file split |
//! | [`merge`] | one trace file of several, in the order of time |
//!
//! [`Format`] tells them apart by name and content. What is lost is said where it is: JSON lines keep every byte, damaged
//! ones too; parts and merged files keep frames byte for byte, but for numbers that had to change; CTF keeps every value;
//! Chrome and CSV keep what they can show.
//!
//! The reader's view counts everywhere: a frame that is cut off is no frame ([`TraceFile::ending`] tells), the byte order
//! is the one the reader settled on.
//!
//! ```
//! use tracewire_convert::{csv, json, part};
//! use tracewire_tracefile::TraceFile;
//! use tracewire_model::FrameNumber;
//!
//! let bytes = b"\x7fTRACE0\nR 4\nstatus 0;tstop::0;tframes:2\ntp T1:1000:E:0:0\ntsv 4:0:0:68697473\n\n\
//!     \x01\x00\x0d\x00\x00\x00V\x04\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\
//!     \x01\x00\x0d\x00\x00\x00V\x04\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\0\0\0\0";
//! let file = TraceFile::from_bytes(bytes.to_vec())?;
//!
//! // To JSON lines, and back.
//! let mut lines = Vec::new();
//! json::write(&file, &mut lines)?;
//! let mut back = Vec::new();
//! json::read(&mut lines.as_slice(), &mut back)?;
//! assert_eq!(back, bytes);
//!
//! // A table. There are no expressions among the columns, so nothing has to evaluate any.
//! let columns = ["frame", "pc", "$hits"].map(|column| column.parse().unwrap());
//! let mut table = Vec::new();
//! csv::write(&file, &columns, |_, _| None, &mut table)?;
//! assert_eq!(table, b"frame,pc,$hits\n0,0x1000,1\n1,0x1000,2\n");
//!
//! // The second frame alone.
//! let mut cut = Vec::new();
//! assert_eq!(part::write(&file, [FrameNumber(1)].into_iter(), &mut cut)?, 1);
//! assert_eq!(TraceFile::from_bytes(cut)?.description().status().unwrap().fields.frames, Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`TraceFile`]: tracewire_tracefile::TraceFile
//! [`TraceFile::ending`]: tracewire_tracefile::TraceFile::ending

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod chrome;
pub mod csv;
pub mod ctf;
mod error;
mod format;
mod hex;
pub mod json;
pub mod merge;
pub mod part;
mod registers;
mod time;

pub use error::ConvertError;
pub use format::{Format, UnknownFormat};
