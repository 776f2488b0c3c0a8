//! `.gnu_debugdata`: an ELF file within the file, compressed by xz, that has the symbols a distribution strips from its programs.

use std::io::Read as _;

use super::image::Image;

/// The section.
const SECTION: &str = ".gnu_debugdata";

/// The largest file that is decompressed.
const LARGEST: u64 = 1 << 30;

/// How much memory decompression may take, in KiB.
const MOST_MEMORY: u32 = 256 << 10;

/// The file within a file; none where there is none, and where it is damaged.
pub(super) fn read(image: &Image) -> Option<Image> {
    let compressed = image.section_reader(SECTION)?;
    let compressed = gimli::Reader::to_slice(&compressed).ok()?;
    let reader = lzma_rust2::XzReader::new_mem_limit(&*compressed, true, MOST_MEMORY);
    let mut bytes = Vec::new();
    reader.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Image::parse(&image.path, bytes.into()).ok()
}
