//! The parts of a file for who looks into a damaged one, or changes it.

pub use crate::encode::FRAME_HEADER;
pub use crate::file::{ExpandedBytes, FileBytes, Locations, read_file};
pub use crate::frame::{FrameShape, blocks_fit};
pub use crate::paused::parse as parse_paused;
pub use crate::served::parse as parse_served;
pub use crate::skipped::parse as parse_skipped;
pub use crate::write::write_as_it_is;
