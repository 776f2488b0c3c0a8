//! Memory for large rings: whether the program and the machine can spare it.
//!
//! The pages of large rings come with the hits that use them. Where there is none then, a hit would end the program, or the kernel
//! would end one. So rings are only as large as a quarter of what is free: the tracer reads them into memory of its own, and others
//! need some, too.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::maps::ThreadStatus;
use crate::ptrace::Tid;

/// Rings may have one part of so many of what is free.
const PARTS: u64 = 4;

/// The bytes of all large rings that this process has set up, whose pages may be missing yet.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

/// Memory that large rings may take while this exists.
#[derive(Debug)]
pub(crate) struct Claim(u64);

impl Claim {
    /// Claims so many bytes for rings of a process.
    ///
    /// # Errors
    /// When too little is free, as a message for the user.
    pub(crate) fn new(thread: Tid, bytes: u64) -> Result<Self, String> {
        let free = free(thread);
        let claim = Self(bytes);
        let before = CLAIMED.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > free / PARTS {
            return Err(format!(
                "rings of {bytes} bytes are too large where {free} bytes of memory are free"
            ));
        }
        Ok(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// How many bytes of memory a process and its tracer can have.
fn free(thread: Tid) -> u64 {
    // Memory that is promised is always there, or a page that comes later may be refused.
    if read(Path::new("/proc/sys/vm/overcommit_memory")).is_some_and(|mode| mode.trim() == "2") {
        return 0;
    }
    let program = limits(Path::new("/proc").join(thread.to_string()));
    let tracer = limits(PathBuf::from("/proc/self"));
    let addresses = "Max address space";
    [
        available(),
        limit(&program, addresses),
        limit(&tracer, addresses),
        // The tracer gives the memory file its size.
        limit(&tracer, "Max file size"),
        free_of_groups(&groups(thread)),
    ]
    .into_iter()
    .flatten()
    .min()
    .unwrap_or(0)
}

/// Whether addresses cost nothing in a process and its tracer, so that more may be mapped than is ever used.
pub(crate) fn has_free_addresses(thread: Tid) -> bool {
    let program = limits(Path::new("/proc").join(thread.to_string()));
    let tracer = limits(PathBuf::from("/proc/self"));
    let addresses = "Max address space";
    let found = [
        limit(&program, addresses),
        limit(&tracer, addresses),
        // The tracer gives the memory file its size.
        limit(&tracer, "Max file size"),
    ];
    // What a program maps may be locked into memory, all of it.
    let locks = ThreadStatus::read(thread).is_ok_and(|status| status.number("VmLck") != Some(0));
    !locks && found.iter().all(Option::is_none)
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// What the machine can spare without swapping. Nothing where it does not say.
fn available() -> Option<u64> {
    let text = read(Path::new("/proc/meminfo")).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Some(kibibytes.unwrap_or(0).saturating_mul(1024))
}

fn limits(process: PathBuf) -> String {
    read(&process.join("limits")).unwrap_or_default()
}

/// A soft limit in the text of `/proc/PID/limits`; `None` where there is none.
fn limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The directories of the control groups that limit the memory of a process, with those above them.
fn groups(thread: Tid) -> Vec<PathBuf> {
    let text = read(&Path::new("/proc").join(thread.to_string()).join("cgroup"));
    groups_in(&text.unwrap_or_default())
}

/// As [`groups`], from the text of `/proc/PID/cgroup`.
fn groups_in(text: &str) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let top = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                Path::new("/sys/fs/cgroup/memory")
            }
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // A group outside of the tracer's namespace cannot be looked at.
        let is_inside = !path.components().any(|one| one == Component::ParentDir);
        let below = is_inside.then(|| path.ancestors().map(|one| top.join(one)));
        groups.extend(below.into_iter().flatten());
        groups.push(top.to_owned());
    }
    groups
}

/// The least that one of these control groups leaves free; `None` where none has a limit.
fn free_of_groups(groups: &[PathBuf]) -> Option<u64> {
    let number = |path: PathBuf| read(&path)?.trim().parse::<u64>().ok();
    let files = [
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ];
    let each = groups.iter().flat_map(|group| {
        files.iter().filter_map(move |(most, used)| {
            let most = number(group.join(most))?;
            Some(most.saturating_sub(number(group.join(used)).unwrap_or(0)))
        })
    });
    each.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_process_are_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
             Max file size             unlimited            unlimited            bytes\n\
             Max address space         1073741824           unlimited            bytes\n";
        assert_eq!(limit(text, "Max address space"), Some(1 << 30));
        assert_eq!(limit(text, "Max file size"), None);
        let own = limits(PathBuf::from("/proc/self"));
        assert!(own.contains("Max address space"), "{own}");
        assert!(available().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn the_tightest_group_says_what_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let (above, below) = (folder.path().to_owned(), folder.path().join("below"));
        fs::create_dir(&below).unwrap();
        for (group, most, used) in [(&above, "5000\n", "2000\n"), (&below, "max\n", "100\n")] {
            fs::write(group.join("memory.max"), most).unwrap();
            fs::write(group.join("memory.current"), used).unwrap();
        }
        assert_eq!(free_of_groups(std::slice::from_ref(&below)), None);
        assert_eq!(free_of_groups(&[below, above]), Some(3000));
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        let found =
            groups_in("12:cpu:/a\n5:memory:/docker/x\n0::/user.slice/one\n1:name=systemd:/\n");
        let found: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert!(found.contains(&"/sys/fs/cgroup/memory/docker/x"));
        assert!(found.contains(&"/sys/fs/cgroup/memory/docker"));
        assert!(found.contains(&"/sys/fs/cgroup/user.slice/one"));
        assert!(found.contains(&"/sys/fs/cgroup/user.slice"));
        assert!(!found.iter().any(|path| path.ends_with("/a")));
        let outside = groups_in("0::/../other\n");
        assert_eq!(outside, [PathBuf::from("/sys/fs/cgroup")]);
    }

    #[test]
    fn rings_for_which_no_memory_is_free_are_refused() {
        let own = Tid::from(std::process::id().cast_signed());
        let refused = Claim::new(own, u64::MAX / 2).unwrap_err();
        assert!(refused.contains("bytes of memory are free"), "{refused}");
        assert!(Claim::new(own, 4096).is_ok());
    }
}
