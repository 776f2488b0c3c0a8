//! Saving a trace on the server (`QTSave`), in a folder that its user has named.
//!
//! GDB, which waits for the answer, would rather not wait for half a gigabyte: so the frames of a linear buffer are copied
//! into a file without a name as they come, and saving gives that file its name.

use std::path::{Component, Path, PathBuf};

use tracewire_experiment::tell_as_gdb_takes;
use tracewire_packets::{Failure, HexBytes, Reply};
use tracewire_tracefile::{
    Description, DescriptionParts, Spool, Status, TraceFileWriter, WriteError,
};

use super::Trace;

/// The folder that a client may have traces saved in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveFolder(pub PathBuf);

impl SaveFolder {
    /// The file of a name, which must not lead out of the folder.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let path = Path::new(name);
        let inside = path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        (inside && path.file_name().is_some()).then(|| self.0.join(path))
    }
}

impl Trace {
    /// What a file of this run says of itself.
    pub(super) fn parts(&self) -> DescriptionParts {
        let mut tracepoints = self.tracepoints();
        tell_as_gdb_takes(&mut tracepoints, &self.machine.layout);
        DescriptionParts {
            register_block_size: self.machine.layout.size(),
            target_xml: Some(self.machine.xml.clone()),
            status: Some(Status::from(self.status())),
            variables: self.told_variables(),
            tracepoints,
            modules: Vec::new(),
        }
    }

    /// A file for the copy of the frames of a run that begins; none where nothing can be saved, or not in this way.
    pub(super) fn copy_to_save(&self) -> Option<Spool> {
        let SaveFolder(folder) = self.save.as_ref()?;
        let description = Description::build(&self.parts()).ok()?;
        Spool::create_unnamed(folder, &description).ok()
    }

    pub(crate) fn save(&mut self, HexBytes(name): &HexBytes) -> Reply {
        let name = String::from_utf8_lossy(name);
        let Some(folder) = &self.save else {
            return Reply::Error(Failure::text(
                "the server was not given a folder for files (--files)",
            ));
        };
        let Some(path) = folder.file(&name) else {
            return Reply::Error(Failure::text(
                "the name of the file leads out of the folder that the server was given",
            ));
        };
        let written = Description::build(&self.parts())
            .map_err(Into::into)
            .and_then(|description| self.write(&path, &description));
        match written {
            Ok(()) => Reply::Ok,
            Err(error) => Reply::Error(Failure::text(&error.to_string())),
        }
    }

    fn write(&mut self, path: &Path, description: &Description) -> Result<(), WriteError> {
        // While a run is on, more frames are to come, which do not belong into what is saved now.
        if !self.experiment.is_running()
            && let Some(copy) = self.experiment.store().take_copy()
            && matches!(copy.finish_as(path, description), Ok(true))
        {
            return Ok(());
        }
        let mut writer = TraceFileWriter::create(path, description)?;
        // A frame may begin in one part and end in the other.
        let (first, second) = self.experiment.store().bytes();
        if second.is_empty() {
            if !first.is_empty() {
                writer.append(first)?;
            }
        } else {
            writer.append(&[first, second].concat())?;
        }
        writer.finish()
    }
}
