//! Processes that are chosen by what the kernel knows of them: proc(5), cgroups(7).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tracewire_model::ThreadId;

/// How many bytes of a process's name the kernel keeps.
const NAME_BYTES: usize = 15;

/// The fewest characters of a container's identifier that select it.
const ID_CHARACTERS: usize = 12;

/// Processes by name, user and control group.
///
/// A process is chosen if one of the names, one of the users and one of the control groups fit, as far as any are given. The calling
/// process, threads of the kernel, and processes that have ended are never chosen.
///
/// ```
/// use tracewire_recorder::ProcessSelection;
///
/// let mut selection = ProcessSelection::default();
/// selection.name("nginx").unit("nginx.service");
/// for process in selection.running()? {
///     println!("{process}");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessSelection {
    names: Vec<OsString>,
    users: Vec<u32>,
    groups: Vec<Group>,
}

/// Control groups that a process may be in.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Group {
    /// This one, or one below it.
    Path(PathBuf),
    /// That of a unit of systemd, or one below it.
    Unit(OsString),
    /// That of a container.
    Container(OsString),
}

impl ProcessSelection {
    /// Processes that have this name (`/proc/PID/comm`), or whose program's file has it. A name with `/` is the path of the file.
    pub fn name(&mut self, name: impl Into<OsString>) -> &mut Self {
        self.names.push(name.into());
        self
    }

    /// Processes that have the rights of this user (the effective user identifier).
    pub fn user(&mut self, user: u32) -> &mut Self {
        self.users.push(user);
        self
    }

    /// Processes in this control group or below it: a path below `/sys/fs/cgroup`, of any hierarchy.
    pub fn cgroup(&mut self, path: impl AsRef<Path>) -> &mut Self {
        let path = path.as_ref();
        let path = path.strip_prefix("/sys/fs/cgroup").unwrap_or(path);
        let path = path.strip_prefix("/").unwrap_or(path);
        self.groups.push(Group::Path(path.to_owned()));
        self
    }

    /// Processes of this unit of systemd. `.service` is added where the name has no kind.
    pub fn unit(&mut self, unit: impl AsRef<OsStr>) -> &mut Self {
        let mut unit = unit.as_ref().to_owned();
        if !unit.as_bytes().contains(&b'.') {
            unit.push(".service");
        }
        self.groups.push(Group::Unit(unit));
        self
    }

    /// Processes of this container of Docker, Podman, containerd, LXC or systemd-nspawn: its identifier, at least 12 characters of
    /// it, or the name where the control group has that.
    pub fn container(&mut self, container: impl Into<OsString>) -> &mut Self {
        self.groups.push(Group::Container(container.into()));
        self
    }

    /// Whether nothing is given that could be chosen by.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty() && self.users.is_empty() && self.groups.is_empty()
    }

    /// The chosen processes that run now, by rising number.
    ///
    /// # Errors
    /// When `/proc` cannot be read. What cannot be read of one process does not choose it.
    pub fn running(&self) -> io::Result<Vec<ThreadId>> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if self.chooses(process) {
                found.push(ThreadId(process));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn chooses(&self, process: u32) -> bool {
        let folder = PathBuf::from(format!("/proc/{process}"));
        !self.is_empty()
            && process != std::process::id()
            && (self.names.is_empty() || self.is_named(&folder))
            && (self.users.is_empty() || self.is_of_user(&folder))
            && (self.groups.is_empty() || self.is_in_group(&folder))
            // Threads of the kernel, and processes that have ended, have no program.
            && !fs::read_link(folder.join("exe"))
                .is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    fn is_named(&self, folder: &Path) -> bool {
        let Ok(own) = fs::read(folder.join("comm")) else {
            return false;
        };
        let own = own.strip_suffix(b"\n").unwrap_or(&own);
        let kept = |name: &OsString| {
            let bytes = name.as_bytes();
            !is_path(name) && bytes.get(..NAME_BYTES).unwrap_or(bytes) == own
        };
        if self.names.iter().any(kept) {
            return true;
        }
        let program = fs::read_link(folder.join("exe")).unwrap_or_default();
        let file = program.file_name();
        let is_it =
            |name: &OsString| file == Some(name) || is_path(name) && program == Path::new(name);
        self.names.iter().any(is_it)
    }

    fn is_of_user(&self, folder: &Path) -> bool {
        let status = fs::read_to_string(folder.join("status"));
        let effective = status.ok().and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
            line.split_whitespace().nth(1)?.parse().ok()
        });
        effective.is_some_and(|user| self.users.contains(&user))
    }

    fn is_in_group(&self, folder: &Path) -> bool {
        let Ok(groups) = fs::read(folder.join("cgroup")) else {
            return false;
        };
        // Lines of HIERARCHY:CONTROLLERS:PATH.
        let mut paths = groups
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.splitn(3, |byte| *byte == b':').nth(2))
            .map(|path| Path::new(OsStr::from_bytes(path)));
        paths.any(|path| self.groups.iter().any(|group| group.has(path)))
    }
}

impl Group {
    /// Whether a process is in it whose control group has this path.
    fn has(&self, path: &Path) -> bool {
        let mut parts = path.iter();
        match self {
            Self::Path(wanted) => path.strip_prefix("/").unwrap_or(path).starts_with(wanted),
            Self::Unit(unit) => parts.any(|part| part == unit),
            Self::Container(container) => {
                parts.any(|part| is_container(part.as_bytes(), container.as_bytes()))
            }
        }
    }
}

/// Whether a name is the path of a file. The kernel gives absolute ones.
fn is_path(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}

/// Whether a part of a control group's path is that of a container: `ID`, `docker-ID.scope`, `cri-containerd-ID.scope`,
/// `libpod-ID.scope`, `lxc.payload.NAME`, `machine-NAME.scope`.
fn is_container(part: &[u8], container: &[u8]) -> bool {
    let part = part.strip_suffix(b".scope").unwrap_or(part);
    const PREFIXES: [&[u8]; 8] = [
        b"docker-",
        b"libpod-conmon-",
        b"libpod-",
        b"cri-containerd-",
        b"crio-",
        b"machine-",
        b"lxc.payload.",
        b"lxc.monitor.",
    ];
    let name = PREFIXES
        .iter()
        .find_map(|prefix| part.strip_prefix(*prefix));
    let name = name.unwrap_or(part);
    let is_short = container.len() >= ID_CHARACTERS && name.iter().all(u8::is_ascii_hexdigit);
    name == container || is_short && name.starts_with(container)
}

/// Finds chosen processes that were not there before.
#[derive(Debug)]
pub(crate) struct Arrivals {
    selection: ProcessSelection,
    /// The processes that were found, each with the time at which it started, which tells it from another of the same number.
    known: HashMap<ThreadId, u64>,
}

impl Arrivals {
    /// Finds processes but those that are known now.
    pub fn new(selection: ProcessSelection, known: &[ThreadId]) -> Self {
        let known = known
            .iter()
            .filter_map(|known| Some((*known, start_time(*known)?)));
        Self {
            known: known.collect(),
            selection,
        }
    }

    /// The processes that have come since this was asked last.
    pub fn take(&mut self) -> io::Result<Vec<ThreadId>> {
        let chosen = self.selection.running()?;
        self.known.retain(|process, _| chosen.contains(process));
        let mut new = Vec::new();
        for process in chosen {
            // Children that are followed belong to the thread that traces their parent. Others are looked at again.
            if is_traced_by_us(process) {
                continue;
            }
            // One that has ended meanwhile is not new.
            let Some(started) = start_time(process) else {
                continue;
            };
            if self.known.insert(process, started) != Some(started) {
                new.push(process);
            }
        }
        Ok(new)
    }
}

/// When a process has started, in ticks of the clock since the machine has: field 22 of `/proc/PID/stat`.
fn start_time(process: ThreadId) -> Option<u64> {
    let line = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses, and may have any of these characters.
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(line.get(end + 1..)?).ok()?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

fn is_traced_by_us(process: ThreadId) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| Path::new("/proc/self/task").join(tracer.trim()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_of_containers() {
        let id = "3f4e5d6c7b8a99887766554433221100ffeeddccbbaa00112233445566778899";
        for path in [
            format!("/docker/{id}"),
            format!("/system.slice/docker-{id}.scope"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
            format!("/machine.slice/libpod-{id}.scope/container"),
        ] {
            let path = Path::new(&path);
            for (given, is_it) in [
                (id, true),
                (&id[..12], true),
                // Too short for one of many.
                (&id[..11], false),
                ("4f4e5d6c7b8a", false),
                ("container1", false),
            ] {
                assert_eq!(
                    Group::Container(given.into()).has(path),
                    is_it,
                    "{given} {path:?}"
                );
            }
        }
        let named = Group::Container("web".into());
        assert!(named.has(Path::new("/lxc.payload.web/init.scope")));
        assert!(named.has(Path::new("/machine.slice/machine-web.scope")));
        assert!(named.has(Path::new("/lxc/web")));
        assert!(!named.has(Path::new("/lxc/website")));
    }

    #[test]
    fn units_and_paths() {
        let path = Path::new("/system.slice/nginx.service/worker");
        let mut selection = ProcessSelection::default();
        selection.unit("nginx");
        assert!(selection.groups[0].has(path));
        selection.cgroup("/sys/fs/cgroup/system.slice/nginx.service");
        selection.cgroup("/system.slice");
        selection.cgroup("system.slice/nginx.service/worker");
        selection.cgroup("/");
        assert!(selection.groups.iter().all(|group| group.has(path)));
        let mut others = ProcessSelection::default();
        others.unit("nginx.socket").cgroup("/system.slice/nginx");
        assert!(!others.groups.iter().any(|group| group.has(path)));
    }

    #[test]
    fn nothing_chooses_nothing() {
        assert_eq!(ProcessSelection::default().running().expect("/proc"), []);
    }
}
