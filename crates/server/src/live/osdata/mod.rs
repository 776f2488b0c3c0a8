//! Tables of the operating system (`info os`), those that gdbserver has, from `/proc`.

mod names;
mod processes;
mod system;

use std::fmt::Write;

use crate::answers::escaped;

/// The table that was last requested, as it was when its first part was read.
#[derive(Debug, Default)]
pub(super) struct OsTables {
    name: String,
    table: Vec<u8>,
}

impl OsTables {
    pub(super) fn read(&mut self, name: &str, offset: u64) -> Vec<u8> {
        if offset == 0 || self.name != name {
            self.name = name.to_owned();
            self.table = table(name).into_bytes();
        }
        self.table.clone()
    }
}

/// A table: its name for `info os`, its title, its rows, and the function that makes it.
struct Kind {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// How the table calls itself.
    own_name: &'static str,
    make: fn(&mut Table),
}

const KINDS: [Kind; 10] = [
    Kind {
        name: "cpus",
        title: "CPUs",
        description: "Listing of all cpus/cores on the system",
        own_name: "cpus",
        make: system::cpus,
    },
    Kind {
        name: "files",
        title: "File descriptors",
        description: "Listing of all file descriptors",
        own_name: "files",
        make: processes::files,
    },
    Kind {
        name: "modules",
        title: "Kernel modules",
        description: "Listing of all loaded kernel modules",
        own_name: "modules",
        make: system::modules,
    },
    Kind {
        name: "msg",
        title: "Message queues",
        description: "Listing of all message queues",
        own_name: "message queues",
        make: system::message_queues,
    },
    Kind {
        name: "processes",
        title: "Processes",
        description: "Listing of all processes",
        own_name: "processes",
        make: processes::processes,
    },
    Kind {
        name: "procgroups",
        title: "Process groups",
        description: "Listing of all process groups",
        own_name: "process groups",
        make: processes::groups,
    },
    Kind {
        name: "semaphores",
        title: "Semaphores",
        description: "Listing of all semaphores",
        own_name: "semaphores",
        make: system::semaphores,
    },
    Kind {
        name: "shm",
        title: "Shared-memory regions",
        description: "Listing of all shared-memory regions",
        own_name: "shared memory",
        make: system::shared_memory,
    },
    Kind {
        name: "sockets",
        title: "Sockets",
        description: "Listing of all internet-domain sockets",
        own_name: "I sockets",
        make: system::sockets,
    },
    Kind {
        name: "threads",
        title: "Threads",
        description: "Listing of all threads",
        own_name: "threads",
        make: processes::threads,
    },
];

/// The longest table that is made, in bytes: a machine may have any number of processes.
const LONGEST: usize = 64 << 20;

/// A table under construction.
#[derive(Debug)]
struct Table(String);

impl Table {
    fn begin(name: &str) -> Self {
        Self(format!("<osdata type=\"{name}\">\n"))
    }

    fn row(&mut self, columns: &[(&str, &str)]) {
        if self.0.len() > LONGEST {
            return;
        }
        self.0.push_str("<item>");
        for (name, value) in columns {
            // Writing to a string does not fail.
            let _ = write!(
                self.0,
                "<column name=\"{}\">{}</column>",
                escaped(name),
                escaped(value)
            );
        }
        self.0.push_str("</item>");
    }

    fn end(mut self) -> String {
        self.0.push_str("</osdata>\n");
        self.0
    }
}

/// The table of a name, or the list of tables without a name; empty for a name that is not known, as for gdbserver.
fn table(name: &str) -> String {
    if name.is_empty() || name == "types" {
        let mut table = Table::begin("types");
        for kind in &KINDS {
            table.row(&[
                ("Type", kind.name),
                ("Description", kind.description),
                ("Title", kind.title),
            ]);
        }
        return table.end();
    }
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => {
            let mut table = Table::begin(kind.own_name);
            (kind.make)(&mut table);
            table.end()
        }
        None => String::new(),
    }
}
