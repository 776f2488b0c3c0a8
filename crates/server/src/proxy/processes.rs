//! The processes of the program, as far as its stops have named them, and which of them the client has detached from.

use std::collections::BTreeSet;

/// The first process and those that forks have made.
#[derive(Debug, Default)]
pub(super) struct Processes {
    is_first_gone: bool,
    children: BTreeSet<u32>,
}

impl Processes {
    /// A fork has made a process.
    pub(super) fn made(&mut self, process: u32) {
        self.children.insert(process);
    }

    /// A process is gone, or the client lets it go: whether others are left.
    pub(super) fn leaves_others(&mut self, process: u32) -> bool {
        if !self.children.remove(&process) {
            self.is_first_gone = true;
        }
        !self.is_first_gone || !self.children.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_process_leaves_no_others() {
        let mut processes = Processes::default();
        assert!(!processes.leaves_others(1));
        let mut processes = Processes::default();
        processes.made(2);
        assert!(processes.leaves_others(2), "the first one is there");
        processes.made(3);
        assert!(processes.leaves_others(1), "the child is followed");
        assert!(!processes.leaves_others(3));
    }
}
