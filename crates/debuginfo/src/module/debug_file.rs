//! Debug information in a separate file.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use object::Object;

use super::image::Image;

/// Where distributions put debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// Where files with debug information can be had that are not on this machine. It is asked once for each file, after all
/// places on this machine.
pub trait DebugFileSource: Debug + Send + Sync {
    /// A local copy of the debug information with a build id; none where there is none. `wanted_by` is the file that refers to it.
    /// The copy is used only if it has the build id.
    fn debug_file(&self, build_id: &[u8], wanted_by: &Path) -> Option<PathBuf>;
}

/// Finds the file with the debug information of a stripped program, in GDB's order: by build id under
/// `/usr/lib/debug/.build-id`, then by `.gnu_debuglink` beside the program, in its `.debug`, and under
/// `/usr/lib/debug`, then from the source of others.
pub(crate) fn find(image: &Image, others: Option<&dyn DebugFileSource>) -> Option<Image> {
    by_build_id(image).or_else(|| by_link(image)).or_else(|| {
        let build_id = image.build_id.as_ref()?;
        let found = Image::read(&others?.debug_file(build_id, &image.path)?).ok()?;
        (found.build_id.as_ref() == Some(build_id)).then_some(found)
    })
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
        let found = Image::read(candidate).ok()?;
        // The checksum of a large file takes as long as all else.
        let is_it = found.build_id.is_some() && found.build_id == image.build_id
            || crc32fast::hash(&found.bytes) == checksum;
        is_it.then_some(found)
    })
}

/// The file that `.gnu_debugaltlink` names, where it cannot be read.
pub(crate) fn missing_supplementary(
    image: &Image,
    others: Option<&dyn DebugFileSource>,
) -> Option<String> {
    let file = object::File::parse(&*image.bytes).ok()?;
    let (name, _) = file.gnu_debugaltlink().ok()??;
    let name = String::from_utf8_lossy(name).into_owned();
    supplementary(image, others).is_none().then_some(name)
}

/// The file that `.gnu_debugaltlink` names (dwz's shared parts), if it has the right build id.
pub(crate) fn supplementary(image: &Image, others: Option<&dyn DebugFileSource>) -> Option<Image> {
    let file = object::File::parse(&*image.bytes).ok()?;
    let (name, build_id) = file.gnu_debugaltlink().ok()??;
    let name = Path::new(std::str::from_utf8(name).ok()?);
    let beside = std::fs::canonicalize(&image.path)
        .ok()?
        .parent()?
        .join(name);
    let by_build_id = build_id_path(build_id);
    let read = |path: PathBuf| {
        Image::read_debug(&path)
            .ok()
            .filter(|found| found.build_id.as_deref() == Some(build_id))
    };
    (std::iter::once(beside).chain(by_build_id))
        .find_map(read)
        .or_else(|| read(others?.debug_file(build_id, &image.path)?))
}
