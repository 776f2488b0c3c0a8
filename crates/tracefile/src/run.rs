//! A run of several processes: a folder with a trace file for each, and an index of them.
//!
//! Each part is a whole trace file, which GDB opens as it is. The index names the parts in the order in which they began, and whose
//! they are. The format is in `docs/formats/run-folder.md`.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tracewire_model::ThreadId;

use crate::follow::{GROWING, is_written};
use crate::private;

/// The name of the index in the folder.
const INDEX: &str = "processes";

/// Its first line.
const HEADER: &str = "tracewire run 1\n";

/// How long an index may be that is read: a million parts.
const MAX_INDEX: u64 = 256 << 20;

/// The trace file of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The process.
    pub process: ThreadId,
    /// The recorded process that has made it.
    pub parent: Option<ThreadId>,
    /// Its program.
    pub program: PathBuf,
    /// The trace file.
    pub path: PathBuf,
}

/// A folder to which a run of several processes is written.
#[derive(Debug)]
pub struct RunWriter {
    folder: PathBuf,
    /// It is locked as long as the run goes on.
    index: File,
    /// How many parts each process has.
    parts: HashMap<ThreadId, u32>,
}

impl RunWriter {
    /// Makes the folder, which may be there and must be empty.
    ///
    /// # Errors
    /// When it cannot be made, or has something in it.
    pub fn create(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = folder.as_ref();
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read_dir(folder)?.next().is_some() {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
            }
            made => made?,
        }
        let mut index = private::options()
            .write(true)
            .create_new(true)
            .open(folder.join(INDEX))?;
        // Where a file system has no locks, the run is a good one, and only those who follow it cannot.
        let _ = index.try_lock();
        index.write_all(HEADER.as_bytes())?;
        Ok(Self {
            folder: folder.to_owned(),
            index,
            parts: HashMap::new(),
        })
    }

    /// The last part of a process has no trace file: its name is free.
    pub fn withdraw(&mut self, process: ThreadId) {
        if let Some(count) = self.parts.get_mut(&process) {
            *count = count.saturating_sub(1);
        }
    }

    /// Leaves no folder, unless there is a trace file in it: the run has not begun.
    pub fn discard(self) {
        let _ = fs::remove_file(self.folder.join(INDEX));
        // One with something in it stays.
        let _ = fs::remove_dir(&self.folder);
    }

    /// Adds a part to the index, and names its file. A process that becomes another program, or whose number is used again, has
    /// several.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn add(
        &mut self,
        process: ThreadId,
        parent: Option<ThreadId>,
        program: &Path,
    ) -> io::Result<PathBuf> {
        let count = self.parts.entry(process).or_default();
        *count += 1;
        let name = match *count {
            1 => format!("{process}.tf"),
            count => format!("{process}-{count}.tf"),
        };
        let mut line = format!("{name} {process} ");
        match parent {
            Some(parent) => drop(write!(line, "{parent} ")),
            None => line.push_str("- "),
        }
        let mut line = line.into_bytes();
        let program = program.as_os_str().as_encoded_bytes();
        // A line is a part.
        line.extend(program.iter().map(|byte| match byte {
            b'\n' => b'?',
            byte => *byte,
        }));
        line.push(b'\n');
        // At once, so that who follows the run reads no half of it.
        self.index.write_all(&line)?;
        Ok(self.folder.join(name))
    }
}

/// A folder to which a run of several processes was written, or is being written.
#[derive(Debug)]
pub struct RunFolder {
    folder: PathBuf,
    index: File,
}

impl RunFolder {
    /// Opens a folder; `None` where it has no index of a run.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<Option<Self>> {
        let folder = folder.as_ref();
        let index = match File::open(folder.join(INDEX)) {
            Ok(index) => index,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if !index.metadata()?.is_file() {
            return Ok(None);
        }
        let run = Self {
            folder: folder.to_owned(),
            index,
        };
        Ok(run.text()?.starts_with(HEADER.as_bytes()).then_some(run))
    }

    /// Whether the recorder still writes to it. More parts may have come before it ended.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn is_written(&self) -> io::Result<bool> {
        is_written(&self.index)
    }

    /// The parts that there are, in the order in which they began. One that a recorder writes, or wrote when it was killed, has
    /// the name that it has meanwhile. A process that made no frames has none.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn parts(&self) -> io::Result<Vec<Part>> {
        let text = self.text()?;
        let lines = text.split(|byte| *byte == b'\n').skip(1);
        let mut parts: Vec<Part> = lines.filter_map(|line| self.part(line)).collect();
        // A name that was used again is of the last one.
        let mut known = HashSet::new();
        parts.reverse();
        parts.retain(|part| known.insert(part.path.clone()));
        parts.reverse();
        Ok(parts)
    }

    fn part(&self, line: &[u8]) -> Option<Part> {
        let mut words = line.splitn(4, |byte| *byte == b' ');
        let mut word = || std::str::from_utf8(words.next()?).ok();
        let (name, process, parent) = (word()?, word()?, word()?);
        let program = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
        // The index names files of its own folder alone.
        if !name.ends_with(".tf") || name.contains('/') {
            return None;
        }
        let finished = self.folder.join(name);
        let growing = self.folder.join(format!("{name}{GROWING}"));
        let path = [finished, growing].into_iter().find(|path| path.exists())?;
        Some(Part {
            process: ThreadId(process.parse().ok()?),
            parent: parent.parse().ok().map(ThreadId),
            program,
            path,
        })
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        use std::io::Seek as _;
        let mut file = &self.index;
        file.seek(io::SeekFrom::Start(0))?;
        let mut text = Vec::new();
        file.take(MAX_INDEX).read_to_end(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        let mut writer = RunWriter::create(&run).expect("made");
        let (one, two) = (ThreadId(12), ThreadId(34));
        let first = writer.add(one, None, Path::new("/a b")).expect("added");
        let second = writer.add(two, Some(one), Path::new("")).expect("added");
        let third = writer
            .add(two, Some(one), Path::new("x\ny"))
            .expect("added");
        writer
            .add(ThreadId(5), None, Path::new("none"))
            .expect("added");
        writer.withdraw(ThreadId(5));
        let again = writer
            .add(ThreadId(5), None, Path::new("again"))
            .expect("added");
        writer.withdraw(ThreadId(5));
        assert_eq!(again, run.join("5.tf"));
        for path in [&first, &third, &again] {
            File::create(path).expect("made");
        }
        File::create(run.join("34.tf.recording")).expect("made");
        let reader = RunFolder::open(&run).expect("read").expect("a run");
        assert!(reader.is_written().expect("known"));
        let part = |process, parent, program: &str, path| Part {
            process,
            parent,
            program: program.into(),
            path,
        };
        assert_eq!(second, run.join("34.tf"));
        assert_eq!(third, run.join("34-2.tf"));
        assert_eq!(
            reader.parts().expect("read"),
            [
                part(one, None, "/a b", first),
                part(two, Some(one), "", run.join("34.tf.recording")),
                part(two, Some(one), "x?y", third),
                part(ThreadId(5), None, "again", again),
            ]
        );
        drop(writer);
        assert!(!reader.is_written().expect("known"));
        let refused = RunWriter::create(&run).expect_err("it is not empty");
        assert_eq!(refused.kind(), io::ErrorKind::DirectoryNotEmpty);
    }

    #[test]
    fn a_hostile_index_names_no_file_outside() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(RunFolder::open(folder.path()).expect("read").is_none());
        let index = folder.path().join(INDEX);
        fs::write(&index, "something else\n").expect("written");
        assert!(RunFolder::open(folder.path()).expect("read").is_none());
        let outside = tempfile::Builder::new()
            .suffix(".tf")
            .tempfile()
            .expect("a file");
        let lines = format!(
            "{HEADER}{0} 1 - x\n../1.tf 1 - x\n1.tf x - y\n\n1.tf 1\n2.tf 2 99999999999 p",
            outside.path().display()
        );
        fs::write(&index, lines).expect("written");
        for name in ["1.tf", "2.tf"] {
            File::create(folder.path().join(name)).expect("made");
        }
        let run = RunFolder::open(folder.path())
            .expect("read")
            .expect("a run");
        let parts = run.parts().expect("read");
        let known: Vec<_> = parts
            .iter()
            .map(|part| (part.process, part.parent))
            .collect();
        assert_eq!(known, [(ThreadId(2), None)]);
    }
}
