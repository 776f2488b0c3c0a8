//! Debug information that is kept in a file of its own.

use std::path::{Path, PathBuf};

use object::Object;

use super::image::Image;

/// Where distributions put debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// Finds the file with the debug information of a stripped program, in GDB's order: by build id under
/// `/usr/lib/debug/.build-id`, then by `.gnu_debuglink` beside the program, in its `.debug`, and under
/// `/usr/lib/debug`.
pub(crate) fn find(image: &Image) -> Option<Image> {
    by_build_id(image).or_else(|| by_link(image))
}

/// `/usr/lib/debug/.build-id/ab/cdef….debug`.
pub(crate) fn build_id_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(
        Path::new(DEBUG_ROOT)
            .join(".build-id")
            .join(format!("{first:02x}"))
            .join(format!("{rest}.debug")),
    )
}

fn by_build_id(image: &Image) -> Option<Image> {
    let build_id = image.build_id.as_ref()?;
    let found = Image::read(&build_id_path(build_id)?).ok()?;
    (found.build_id.as_ref() == Some(build_id)).then_some(found)
}

fn by_link(image: &Image) -> Option<Image> {
    let file = object::File::parse(&*image.bytes).ok()?;
    let (name, checksum) = file.gnu_debuglink().ok()??;
    let name = Path::new(std::str::from_utf8(name).ok()?);
    let directory = std::fs::canonicalize(&image.path)
        .ok()?
        .parent()?
        .to_owned();
    let below_root = directory.strip_prefix("/").unwrap_or(&directory);
    [
        directory.join(name),
        directory.join(".debug").join(name),
        Path::new(DEBUG_ROOT).join(below_root).join(name),
    ]
    .iter()
    .filter(|candidate| candidate.is_file())
    .find_map(|candidate| {
        let bytes = std::fs::read(candidate).ok()?;
        if crc32(&bytes) != checksum {
            return None;
        }
        Image::parse(candidate, bytes.into()).ok()
    })
}

/// The file that `.gnu_debugaltlink` names, where it cannot be read.
pub(crate) fn missing_supplementary(image: &Image) -> Option<String> {
    let file = object::File::parse(&*image.bytes).ok()?;
    let (name, _) = file.gnu_debugaltlink().ok()??;
    let name = String::from_utf8_lossy(name).into_owned();
    supplementary(image).is_none().then_some(name)
}

/// The file that `.gnu_debugaltlink` names (dwz's shared parts), if its build id is the one asked for.
pub(crate) fn supplementary(image: &Image) -> Option<Image> {
    let file = object::File::parse(&*image.bytes).ok()?;
    let (name, build_id) = file.gnu_debugaltlink().ok()??;
    let name = Path::new(std::str::from_utf8(name).ok()?);
    let beside = std::fs::canonicalize(&image.path)
        .ok()?
        .parent()?
        .join(name);
    let by_build_id = build_id_path(build_id);
    std::iter::once(beside).chain(by_build_id).find_map(|path| {
        Image::read_debug(&path)
            .ok()
            .filter(|found| found.build_id.as_deref() == Some(build_id))
    })
}

/// The checksum of `.gnu_debuglink`: CRC-32 of ISO 3309, reflected.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (value, entry) in (0u32..).zip(table.iter_mut()) {
        *entry = (0..8).fold(value, |sum, _| {
            if sum & 1 == 1 {
                (sum >> 1) ^ 0xedb8_8320
            } else {
                sum >> 1
            }
        });
    }
    !bytes.iter().fold(!0u32, |sum, &byte| {
        let index = (sum.to_le_bytes()[0] ^ byte) as usize;
        table.get(index).copied().unwrap_or(0) ^ (sum >> 8)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn checksum_is_the_usual_one() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
