//! The list of shared libraries (`qXfer:libraries-svr4`), which GDB would otherwise read from the program's memory, entry by
//! entry.

use std::fmt::Write;

use tracewire_model::Address;
use tracewire_target_linux::{LinkMapEntry, Process};

use crate::answers::escaped;

/// The part of the list that the annex requests, from an entry on.
#[derive(Clone, Copy, Default)]
struct Part {
    list: u64,
    start: u64,
    previous: u64,
}

impl Part {
    /// `lmid=…;start=…;prev=…`, hexadecimal. Unknown words are ignored.
    fn read(annex: &str) -> Self {
        let mut part = Self::default();
        for (name, value) in annex.split(';').filter_map(|word| word.split_once('=')) {
            let value = u64::from_str_radix(value, 16).unwrap_or(0);
            match name {
                "lmid" => part.list = value,
                "start" => part.start = value,
                "prev" => part.previous = value,
                _ => {}
            }
        }
        part
    }
}

/// The list; none for a program without a dynamic linker.
pub(super) fn libraries(process: &Process, annex: &str) -> Option<String> {
    let part = Part::read(annex);
    let mut text = String::from("<library-list-svr4 version=\"1.0\"");
    let objects = if part.start == 0 {
        let linked = process.linked_objects()?;
        if let Some(Address(main)) = linked.main {
            // Writing to a string does not fail.
            let _ = write!(text, " main-lm=\"{main:#x}\"");
        }
        linked.objects
    } else {
        process.linked_from(
            Address(part.start),
            Address(part.previous),
            Address(part.list),
        )
    };
    text.push('>');
    for object in objects.iter().filter(|object| !object.name.is_empty()) {
        let LinkMapEntry {
            entry,
            load_bias,
            dynamic,
            name,
            list,
        } = object;
        let _ = write!(
            text,
            "<library name=\"{}\" lm=\"{:#x}\" l_addr=\"{load_bias:#x}\" l_ld=\"{:#x}\" \
             lmid=\"{:#x}\"/>",
            escaped(&String::from_utf8_lossy(name)),
            entry.0,
            dynamic.0,
            list.0,
        );
    }
    text.push_str("</library-list-svr4>");
    Some(text)
}
