//! Names, stacks and modules that packets refer to by numbers.

use std::collections::HashMap;
use std::hash::Hash;

use tracewire_model::Address;
use tracewire_tracefile::{Module, TraceFile};
use tracewire_views::{Stack, StackEntry};

use super::messages::{Callstack, Frame, InternedData, InternedName, InternedString, Mapping};

/// How many numbers are given out before all are forgotten, so that a long run of different stacks does not fill the memory.
const MOST: usize = 1 << 18;

/// Numbers that were given out, from 1. 0 is none.
#[derive(Debug)]
struct Numbers<K>(HashMap<K, u64>);

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Numbers<K> {
    /// The number of a key, and whether it is a new one.
    fn number(&mut self, key: K) -> (u64, bool) {
        let next = self.0.len() as u64 + 1;
        let number = *self.0.entry(key).or_insert(next);
        (number, number == next)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A frame of a stack: function, mapping, address in its file, source file, line.
type FrameKey = (u64, u64, u64, u64, u32);

/// The numbers of interned items, and the new ones for the next packet.
#[derive(Debug, Default)]
pub(super) struct Interner {
    categories: Numbers<String>,
    names: Numbers<String>,
    annotations: Numbers<String>,
    functions: Numbers<String>,
    files: Numbers<String>,
    build_ids: Numbers<Vec<u8>>,
    paths: Numbers<Vec<u8>>,
    /// By the part of the run and the index of the module in it; `None` for addresses without a module.
    mappings: Numbers<Option<(usize, usize)>>,
    frames: Numbers<FrameKey>,
    stacks: Numbers<Vec<u64>>,
    new: InternedData,
}

fn name(iid: u64, name: &str) -> InternedName {
    InternedName {
        iid: Some(iid),
        name: Some(name.to_owned()),
    }
}

fn string(iid: u64, bytes: &[u8]) -> InternedString {
    InternedString {
        iid: Some(iid),
        str: Some(bytes.to_vec()),
    }
}

impl Interner {
    /// Whether there are so many that they should be forgotten.
    pub(super) fn is_full(&self) -> bool {
        let names = self.annotations.len() + self.functions.len() + self.names.len();
        names + self.frames.len() + self.stacks.len() > MOST
    }

    /// Takes the items that were not written yet.
    pub(super) fn take_new(&mut self) -> Option<InternedData> {
        (self.new != InternedData::default()).then(|| std::mem::take(&mut self.new))
    }

    pub(super) fn category(&mut self, text: &str) -> u64 {
        let (iid, is_new) = self.categories.number(text.to_owned());
        self.new
            .event_categories
            .extend(is_new.then(|| name(iid, text)));
        iid
    }

    pub(super) fn name(&mut self, text: &str) -> u64 {
        let (iid, is_new) = self.names.number(text.to_owned());
        self.new.event_names.extend(is_new.then(|| name(iid, text)));
        iid
    }

    pub(super) fn annotation(&mut self, text: &str) -> u64 {
        let (iid, is_new) = self.annotations.number(text.to_owned());
        let new = is_new.then(|| name(iid, text));
        self.new.debug_annotation_names.extend(new);
        iid
    }

    /// A stack of a part's file, at a time in microseconds.
    pub(super) fn stack(&mut self, part: usize, file: &TraceFile, time: u64, stack: &Stack) -> u64 {
        // The outermost first.
        let entries = stack.entries.iter().rev();
        let frames: Vec<u64> = entries
            .map(|entry| self.frame(part, file, time, entry))
            .collect();
        let (iid, is_new) = self.stacks.number(frames.clone());
        if is_new {
            self.new.callstacks.push(Callstack {
                iid: Some(iid),
                frame_ids: frames,
            });
        }
        iid
    }

    fn frame(&mut self, part: usize, file: &TraceFile, time: u64, entry: &StackEntry) -> u64 {
        let digits = entry.pc.trim_start_matches("0x");
        let pc = u64::from_str_radix(digits, 16);
        debug_assert!(pc.is_ok(), "an address is hexadecimal");
        let pc = pc.unwrap_or(0);
        let modules = file.description().modules().iter().enumerate();
        let module = modules
            .rev()
            .find(|(_, module)| module.contains(Address(pc), time));
        let mapping = self.mapping(part, module);
        let bias = module.map_or(0, |(_, module)| module.bias);
        let function = entry.function.as_deref().unwrap_or(&entry.pc);
        let (function_iid, is_new) = self.functions.number(function.to_owned());
        let new = is_new.then(|| string(function_iid, function.as_bytes()));
        self.new.function_names.extend(new);
        let source = entry.file.as_deref().map_or(0, |path| {
            let (iid, is_new) = self.files.number(path.to_owned());
            let new = is_new.then(|| string(iid, path.as_bytes()));
            self.new.source_paths.extend(new);
            iid
        });
        let line = entry.line.and_then(|line| u32::try_from(line).ok());
        let relative = pc.wrapping_sub(bias);
        let key = (function_iid, mapping, relative, source, line.unwrap_or(0));
        let (iid, is_new) = self.frames.number(key);
        self.new.frames.extend(is_new.then_some(Frame {
            iid: Some(iid),
            function_name_id: Some(function_iid),
            mapping_id: Some(mapping),
            rel_pc: Some(relative),
            source_path_iid: (source != 0).then_some(source),
            line_number: line,
        }));
        iid
    }

    fn mapping(&mut self, part: usize, module: Option<(usize, &Module)>) -> u64 {
        let key = module.map(|(index, _)| (part, index));
        let (iid, is_new) = self.mappings.number(key);
        if !is_new {
            return iid;
        }
        let mut mapping = Mapping {
            iid: Some(iid),
            start: Some(0),
            end: Some(u64::MAX),
            load_bias: Some(0),
            ..Mapping::default()
        };
        let mut path = b"[unknown]".to_vec();
        if let Some((_, module)) = module {
            // A reader puts a slash before each part of a path.
            path = module
                .path
                .strip_prefix(b"/")
                .unwrap_or(&module.path)
                .to_vec();
            mapping.start = Some(module.start.0);
            mapping.end = Some(module.end.0);
            mapping.load_bias = Some(module.bias);
            if !module.build_id.is_empty() {
                let (build_id, is_new) = self.build_ids.number(module.build_id.clone());
                let new = is_new.then(|| string(build_id, &module.build_id));
                self.new.build_ids.extend(new);
                mapping.build_id = Some(build_id);
            }
        }
        let (path_iid, is_new) = self.paths.number(path.clone());
        let new = is_new.then(|| string(path_iid, &path));
        self.new.mapping_paths.extend(new);
        mapping.path_string_ids = vec![path_iid];
        self.new.mappings.push(mapping);
        iid
    }
}
