//! Saving a trace on the server (`QTSave`), in a directory that its user has given.
//!
//! GDB waits for the answer, and should not wait for half a gigabyte. So the frames of a linear buffer are copied into an unnamed
//! file as they come, and saving gives that file its name.

use std::path::{Component, Path, PathBuf};

use tracewire_experiment::tell_as_gdb_takes;
use tracewire_model::Status;
use tracewire_packets::{Failure, HexBytes, Reply};
use tracewire_tracefile::{
    Description, DescriptionParts, RegisterSets, Spool, TraceFileWriter, WriteError,
};

use super::Trace;
use super::buffer::Copy;

/// The folder that a client may have traces saved in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveFolder(pub PathBuf);

impl SaveFolder {
    /// The path of a client's name, which must not lead out of the directory.
    ///
    /// # Errors
    /// When there is no directory, or the name leads out of it: the answer to the client.
    pub(crate) fn destination(
        folder: Option<&Self>,
        HexBytes(name): &HexBytes,
    ) -> Result<PathBuf, Failure> {
        let Some(Self(folder)) = folder else {
            return Err(Failure::text(
                "the server was not given a folder for files (--files)",
            ));
        };
        let name = String::from_utf8_lossy(name);
        let path = Path::new(&*name);
        let inside = path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside || path.file_name().is_none() {
            return Err(Failure::text(
                "the name of the file leads out of the folder that the server was given",
            ));
        }
        Ok(folder.join(path))
    }
}

impl Trace {
    /// The size of the register blocks in a file of this run, which end after the last collected register. Registers
    /// after it are then unavailable to GDB too, which has no other term for them.
    fn file_block_size(&self) -> usize {
        let sets = self.experiment.register_sets();
        match sets.map_or(0, RegisterSets::end) {
            // GDB opens no file without a size.
            0 => self.machine.layout.size() as usize,
            end => end,
        }
    }

    /// As [`parts`](Self::parts), of a file whose register blocks have this size.
    fn file_parts(&self, block_size: usize) -> DescriptionParts {
        DescriptionParts {
            register_block_size: u32::try_from(block_size).unwrap_or(u32::MAX),
            ..self.parts()
        }
    }

    /// The description in a file of this run.
    pub(super) fn parts(&self) -> DescriptionParts {
        let mut tracepoints = self.tracepoints();
        tell_as_gdb_takes(&mut tracepoints, &self.machine.layout);
        DescriptionParts {
            register_block_size: self.machine.layout.size(),
            target_xml: Some(self.machine.xml.clone()),
            status: Some(Status::from(self.status())),
            variables: self.known_variables(),
            tracepoints,
            ..DescriptionParts::default()
        }
    }

    /// A file for the copy of a new run's frames; `None` if nothing can be saved, or not in this way.
    pub(super) fn copy_to_save(&self) -> Option<Copy> {
        let SaveFolder(folder) = self.save.as_ref()?;
        let block_size = self.file_block_size();
        let description = Description::build(&self.file_parts(block_size)).ok()?;
        let file = Spool::create_unnamed(folder, &description).ok()?;
        Some(Copy::new(file, block_size, self.machine.byte_order))
    }

    pub(crate) fn save(&mut self, name: &HexBytes) -> Reply {
        let path = match SaveFolder::destination(self.save.as_ref(), name) {
            Ok(path) => path,
            Err(failure) => return Reply::Error(failure),
        };
        match self.write(&path) {
            Ok(()) => Reply::Ok,
            Err(error) => Reply::Error(Failure::text(&error.to_string())),
        }
    }

    fn write(&mut self, path: &Path) -> Result<(), WriteError> {
        // During a run more frames come, which do not belong in the file that is saved now.
        if !self.experiment.is_running()
            && let Some(copy) = self.experiment.store().take_copy()
        {
            let description = Description::build(&self.file_parts(copy.block_size))?;
            if matches!(copy.file.finish_as(path, &description), Ok(true)) {
                return Ok(());
            }
        }
        let block_size = self.file_block_size();
        let description = Description::build(&self.file_parts(block_size))?;
        let mut writer = TraceFileWriter::create(path, &description)?;
        self.kept_frames(block_size)
            .for_each(|frame| writer.append(frame))?;
        writer.finish()
    }
}
