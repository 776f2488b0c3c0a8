//! The file that is to be written, looked at before anything is done.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Makes sure that a trace file can be written at `path`, and gives the path that it is to replace: a link is
/// followed, so that the file it names is replaced and not the link.
pub fn check(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    let path = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            bail!("the output {shown} is a folder; expected the name of a file to write")
        }
        Ok(metadata) if !metadata.is_file() => {
            bail!(
                "the output {shown} is no ordinary file, and would be replaced by one; choose another name"
            )
        }
        Ok(_) => path
            .canonicalize()
            .with_context(|| format!("cannot write {shown}"))?,
        Err(_) => path.to_owned(),
    };
    if path.file_name().is_none() {
        bail!("the output {shown} names no file");
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // The file is written beside its name and renamed, so that the folder is what must be writable.
    tempfile::Builder::new()
        .prefix(".tracewire")
        .tempfile_in(folder)
        .with_context(|| {
            format!(
                "cannot write {shown}: no file can be made in {}",
                folder.display()
            )
        })?;
    Ok(path)
}
