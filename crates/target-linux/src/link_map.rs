//! The dynamic linker's list of loaded objects (`link_map`), with the address of each entry.

use tracewire_model::Address;

use crate::dynamic_linker::{DynamicLinker, MAX_LISTS, MAX_NAME, MAX_OBJECTS, debug_words};
use crate::memory::Memory;
use crate::page_reader::PageReader;

/// One entry of the list, a `struct link_map`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkMapEntry {
    /// Where the entry is.
    pub entry: Address,
    /// The load bias of the object's file (`l_addr`).
    pub load_bias: u64,
    /// Where the object's dynamic section is (`l_ld`).
    pub dynamic: Address,
    /// The name it was found by; empty for the program and the vdso.
    pub name: Vec<u8>,
    /// Which list it is in, by the address of that list's `struct r_debug`.
    pub list: Address,
}

/// The entries of all lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkMap {
    /// The program's own entry, which is not among the others.
    pub main: Option<Address>,
    /// The others, in the order of the lists.
    pub objects: Vec<LinkMapEntry>,
}

impl DynamicLinker {
    /// The objects that the dynamic linker has loaded. The list is empty before the dynamic linker has filled it in.
    /// `None` for a program without a dynamic linker.
    pub(crate) fn linked_objects(&self, memory: &Memory) -> Option<LinkMap> {
        let memory = PageReader::new(memory);
        let mut linked = LinkMap::default();
        let mut list = self.debug_entry(&memory)?;
        for number in 0..MAX_LISTS {
            if list == 0 {
                break;
            }
            let Some([version, first]) = self.abi().read(&memory, list) else {
                break;
            };
            let (mut entry, mut previous) = (first, 0);
            if number == 0 && first != 0 {
                linked.main = Some(Address(first));
                let next = self.abi().read_at(&memory, first, 3);
                (entry, previous) = (next.unwrap_or(0), first);
            }
            linked.objects.extend(self.follow(
                &memory,
                Address(entry),
                Address(previous),
                Address(list),
            ));
            let next = (version as u32 >= 2)
                .then(|| self.abi().read_at(&memory, list, debug_words::NEXT_LIST));
            list = next.flatten().unwrap_or(0);
        }
        Some(linked)
    }

    /// The entries from this one on, which should follow the previous one; up to one that does not follow the one before.
    pub(crate) fn linked_from(
        &self,
        memory: &Memory,
        start: Address,
        previous: Address,
        list: Address,
    ) -> Vec<LinkMapEntry> {
        self.follow(&PageReader::new(memory), start, previous, list)
    }

    fn follow(
        &self,
        memory: &PageReader<'_>,
        Address(start): Address,
        Address(previous): Address,
        list: Address,
    ) -> Vec<LinkMapEntry> {
        let mut objects = Vec::new();
        let (mut entry, mut before) = (start, previous);
        while entry != 0 && objects.len() < MAX_OBJECTS {
            // struct link_map: l_addr, l_name, l_ld, l_next, l_prev
            let Some([load_bias, name, dynamic, next, prev]) = self.abi().read(memory, entry)
            else {
                break;
            };
            if prev != before {
                break;
            }
            objects.push(LinkMapEntry {
                entry: Address(entry),
                load_bias,
                dynamic: Address(dynamic),
                name: memory.read_string(name, MAX_NAME),
                list,
            });
            (before, entry) = (entry, next);
        }
        objects
    }
}
