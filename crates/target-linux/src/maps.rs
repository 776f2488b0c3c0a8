//! What `/proc` reports of a process: its mappings, its auxiliary vector, its status.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::ptrace::Tid;

/// One line of `/proc/PID/maps`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) readable: bool,
    pub(crate) executable: bool,
    pub(crate) offset: u64,
    /// The inode of its file; 0 without one.
    pub(crate) inode: u64,
    pub(crate) path: PathBuf,
}

impl Mapping {
    /// Parses one line; `None` if it is not in the kernel's form.
    fn parse(line: &[u8]) -> Option<Self> {
        // start-end perms offset device inode [path]
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let mut range = std::str::from_utf8(fields.next()?).ok()?.split('-');
        let start = u64::from_str_radix(range.next()?, 16).ok()?;
        let end = u64::from_str_radix(range.next()?, 16).ok()?;
        let permissions = fields.next()?;
        let offset = u64::from_str_radix(std::str::from_utf8(fields.next()?).ok()?, 16).ok()?;
        let inode = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        Some(Self {
            start,
            end,
            readable: permissions.first() == Some(&b'r'),
            executable: permissions.get(2) == Some(&b'x'),
            offset,
            inode,
            path: PathBuf::from(OsStr::from_bytes(path)),
        })
    }
}

/// Reads a file of `/proc` whole. Its size is not known before, and each read costs a system call: `room` is more than
/// most such files have.
fn read_whole(file: &str, room: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(room);
    // `File` alone would ask for the size, which is 0.
    (File::open(file)?.take(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The mappings of the process that a thread belongs to, in rising order.
pub(crate) fn mappings(thread: Tid) -> io::Result<Vec<Mapping>> {
    const ROOM: usize = 64 << 10;
    Ok(read_whole(&format!("/proc/{thread}/maps"), ROOM)?
        .split(|byte| *byte == b'\n')
        .filter_map(Mapping::parse)
        .collect())
}

/// The auxiliary vector that the kernel gave the program at its start, by key (`AT_ENTRY` and the like).
#[derive(Clone, Debug, Default)]
pub(crate) struct AuxiliaryVector(Vec<(u64, u64)>);

impl AuxiliaryVector {
    /// Reads the vector of a program with this word size, in bytes.
    pub(crate) fn read(thread: Tid, word_size: usize) -> io::Result<Self> {
        const ROOM: usize = 1 << 10;
        let bytes = read_whole(&format!("/proc/{thread}/auxv"), ROOM)?;
        let words: Vec<u64> = bytes
            .chunks_exact(word_size)
            .map(|word| {
                word.iter()
                    .rev()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte))
            })
            .collect();
        Ok(Self(
            words
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[key, value]| (*key, *value))
                .collect(),
        ))
    }

    /// The value of a key; `None` if it is missing or zero.
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        self.0
            .iter()
            .find(|(candidate, value)| *candidate == key && *value != 0)
            .map(|(_, value)| *value)
    }
}

/// `/proc/TID/status`, by its field names.
#[derive(Debug)]
pub(crate) struct ThreadStatus(String);

impl ThreadStatus {
    pub(crate) fn read(thread: Tid) -> io::Result<Self> {
        const ROOM: usize = 4 << 10;
        let bytes = read_whole(&format!("/proc/{thread}/status"), ROOM)?;
        Ok(Self(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The text of a field, without the space around it.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            (field == name).then_some(value.trim())
        })
    }

    /// The first number of a field.
    pub(crate) fn number(&self, name: &str) -> Option<i32> {
        self.field(name)?.split_whitespace().next()?.parse().ok()
    }

    /// All numbers of a field.
    pub(crate) fn numbers(&self, name: &str) -> Vec<u32> {
        let words = self.field(name).unwrap_or_default().split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    }

    /// A field that holds a set: of signals, where bit n is signal n+1, or of capabilities.
    pub(crate) fn set(&self, name: &str) -> u64 {
        self.field(name)
            .and_then(|text| u64::from_str_radix(text, 16).ok())
            .unwrap_or(0)
    }

    /// Whether system calls of the thread may be refused, or kill it.
    pub(crate) fn filters_system_calls(&self) -> bool {
        self.number("Seccomp").is_some_and(|mode| mode != 0)
    }

    /// Whether returns are checked against a shadow stack.
    pub(crate) fn has_shadow_stack(&self) -> bool {
        self.field("x86_Thread_features").is_some_and(|features| {
            features
                .split_whitespace()
                .any(|feature| feature == "shstk")
        })
    }
}

/// The number of a process in its own namespace: all who see the process know it, whatever they call it.
pub(crate) fn own_number(process: Tid) -> u64 {
    let status = ThreadStatus::read(process).ok();
    let numbers = status.map(|status| status.numbers("NSpid"));
    // A kernel before 4.1 does not say.
    let number = numbers.and_then(|numbers| numbers.last().copied());
    u64::from(number.unwrap_or(process.cast_unsigned()))
}

/// Whether a thread has ended and is not reaped.
pub(crate) fn is_zombie(thread: Tid) -> bool {
    ThreadStatus::read(thread)
        .ok()
        .and_then(|status| Some(status.field("State")?.starts_with('Z')))
        .unwrap_or(false)
}

/// Whether a thread sleeps in the kernel; one that runs or waits for a processor does not.
pub(crate) fn sleeps(thread: Tid) -> bool {
    fs::read(format!("/proc/{thread}/stat")).is_ok_and(|line| {
        // The state follows the name, which can contain any byte and ends with the last parenthesis.
        let end = line.iter().rposition(|byte| *byte == b')');
        let state = end.and_then(|end| line.get(end + 2));
        matches!(state, Some(b'S' | b'D' | b'I'))
    })
}

/// The address in the program at which a sleeping thread entered the kernel; `None` where it is not known.
pub(crate) fn sleeping_at(thread: Tid) -> Option<u64> {
    // The number of the call and its arguments, or -1 for none; then the stack pointer and the instruction pointer.
    let line = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let last = line
        .split_whitespace()
        .nth(1)
        .and(line.split_whitespace().last())?;
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

/// Where the code and the stack of a thread's memory begin: threads that share their memory have them at the same places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Image([u64; 3]);

impl Image {
    /// Reads it; `None` where the kernel does not say, and for a thread without memory.
    pub(crate) fn of(thread: Tid) -> Option<Self> {
        let line = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
        Self::in_line(&line)
    }

    /// The fields `startcode`, `endcode` and `startstack` of a stat line.
    fn in_line(line: &str) -> Option<Self> {
        // The second field is a name in parentheses, which can contain any byte. The rest starts with the third field.
        let (_, rest) = line.rsplit_once(')')?;
        let mut fields = rest.split_whitespace().skip(23);
        let mut next = || fields.next()?.parse::<u64>().ok();
        let places = [next()?, next()?, next()?];
        // What this user may not know is 0 or 1.
        places
            .iter()
            .all(|place| *place > 1)
            .then_some(Self(places))
    }
}

/// All processes at this time.
pub(crate) fn all_processes() -> Vec<Tid> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The threads of a process at this time.
pub(crate) fn threads(process: Tid) -> io::Result<Vec<Tid>> {
    Ok(fs::read_dir(format!("/proc/{process}/task"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// The file of the program that a thread runs. The first name opens it even if it is deleted or not visible from here;
/// the second is the name that the process has for it.
pub(crate) fn program_file(thread: Tid) -> (PathBuf, PathBuf) {
    let link = PathBuf::from(format!("/proc/{thread}/exe"));
    let name = fs::read_link(&link).unwrap_or_else(|_| link.clone());
    (link, name)
}

/// The files that a thread sees, which may be others than ours by the same names: it may have another root, and other file systems
/// mounted.
#[derive(Debug)]
pub(crate) struct FileView {
    root: PathBuf,
    /// It has our root, and what is mounted for us.
    is_ours: bool,
}

impl FileView {
    pub(crate) fn of(thread: Tid) -> Self {
        let same = |own: &str, other: String| {
            let [own, other] = [fs::metadata(own), fs::metadata(other)];
            own.ok()
                .zip(other.ok())
                .is_some_and(|(own, other)| (own.dev(), own.ino()) == (other.dev(), other.ino()))
        };
        let is_ours = same("/proc/self/ns/mnt", format!("/proc/{thread}/ns/mnt"))
            && same("/", format!("/proc/{thread}/root/"));
        Self {
            root: PathBuf::from(format!("/proc/{thread}/root")),
            is_ours,
        }
    }

    /// Translates the kernel's path of a file of the process to one that we can open. The path may begin at the root of the process or
    /// at ours, and may name something that is mounted only for the process.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        if self.is_ours && path.is_absolute() {
            return path.to_path_buf();
        }
        let seen = (self.root).join(path.strip_prefix("/").unwrap_or(path));
        if seen.exists() {
            return seen;
        }
        if !path.exists()
            && let Ok(own) = fs::read_link(&self.root)
            && let Ok(inside) = path.strip_prefix(own)
        {
            return self.root.join(inside);
        }
        path.to_path_buf()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_spaces_in_its_path_is_read_whole() {
        let line = b"7f00-7fff r-xp 00001000 fe:00 1234                       /tmp/a b (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!(
            (mapping.start, mapping.end, mapping.offset),
            (0x7f00, 0x7fff, 0x1000)
        );
        assert!(mapping.readable && mapping.executable);
        assert_eq!(mapping.path, Path::new("/tmp/a b"));
    }

    #[test]
    fn the_threads_of_a_program_have_one_image_and_another_program_has_another() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1000 10 18446744073709551615 \
                    4096 8192 140000 0 0";
        assert_eq!(Image::in_line(line), Some(Image([4096, 8192, 140_000])));
        assert_eq!(Image::in_line(&line.replace("140000", "0")), None);
        let own = Image::of(std::process::id() as Tid);
        assert!(own.is_some());
        // SAFETY: gettid cannot fail and touches nothing.
        let thread = std::thread::spawn(|| Image::of(unsafe { libc::gettid() }));
        assert_eq!(thread.join().unwrap(), own);
        let mut other = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (other.stdin.take().unwrap(), other.stdout.take().unwrap());
        // It is there when it answers: while it is executed the kernel does not say.
        std::io::Write::write_all(&mut to, b"x").unwrap();
        std::io::Read::read_exact(&mut from, &mut [0]).unwrap();
        let image = Image::of(other.id() as Tid);
        assert!(image.is_some() && image != own);
        drop(to);
        assert!(other.wait().unwrap().success());
    }

    #[test]
    fn our_own_process_is_read() {
        let own = std::process::id() as Tid;
        assert!(
            mappings(own)
                .unwrap()
                .iter()
                .any(|mapping| mapping.executable)
        );
        assert!(
            AuxiliaryVector::read(own, 8)
                .unwrap()
                .get(libc::AT_ENTRY)
                .is_some()
        );
        assert_eq!(ThreadStatus::read(own).unwrap().number("Tgid"), Some(own));
    }
}
