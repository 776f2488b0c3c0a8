//! Loads against what memory is known to hold.

use std::collections::HashMap;

use tracewire_exec_trace::record::{Access, AccessKind, Address, ByteOrder, DataOrder, ValueByte};

use super::{Fault, Findings, Here};

const PAGE: usize = 4096;

/// Bytes, and which of them are known.
struct Page {
    bytes: [u8; PAGE],
    known: [u64; PAGE / 64],
}

/// The known contents of memory, for all cpus together.
pub(super) struct Memory {
    order: ByteOrder,
    data_order: Option<DataOrder>,
    pages: HashMap<u64, usize>,
    store: Vec<Page>,
    /// The page that was used last.
    latest: Option<(u64, usize)>,
    bytes: Vec<ValueByte>,
}

impl Memory {
    pub(super) fn new(order: ByteOrder, data_order: Option<DataOrder>) -> Self {
        Self {
            order,
            data_order,
            pages: HashMap::new(),
            store: Vec::new(),
            latest: None,
            bytes: Vec::new(),
        }
    }

    fn page(&mut self, number: u64) -> &mut Page {
        let index = match self.latest {
            Some((latest, index)) if latest == number => index,
            _ => {
                let store = &mut self.store;
                *self.pages.entry(number).or_insert_with(|| {
                    store.push(Page {
                        bytes: [0; PAGE],
                        known: [0; PAGE / 64],
                    });
                    store.len() - 1
                })
            }
        };
        self.latest = Some((number, index));
        &mut self.store[index]
    }

    pub(super) fn access(&mut self, here: Here, access: &Access<'_>, findings: &mut Findings) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let access = &Access {
            order: access.order.settled(self.data_order),
            ..*access
        };
        match access.data.known() {
            // Nearly all accesses.
            Some(value) if access.size <= 8 && access.order == DataOrder::Number => {
                let size = access.size as usize;
                let whole = match self.order {
                    ByteOrder::Little => value.to_le_bytes(),
                    ByteOrder::Big => (value << (64 - 8 * size as u32)).to_be_bytes(),
                };
                bytes.clear();
                bytes.extend(whole.iter().take(size).map(|bits| ValueByte {
                    bits: *bits,
                    known: 0xff,
                }));
            }
            _ => access.memory_bytes(self.order, &mut bytes),
        }
        let mut differs = None;
        for (offset, byte) in bytes.iter().enumerate() {
            let address = access.address.0.wrapping_add(offset as u64);
            let page = self.page(address / PAGE as u64);
            let at = address as usize % PAGE;
            let (word, bit) = (at / 64, 1u64 << (at % 64));
            let is_known = byte.known == 0xff;
            if is_known {
                if access.kind == AccessKind::Read
                    && page.known[word] & bit != 0
                    && page.bytes[at] != byte.bits
                {
                    differs.get_or_insert((Address(address), page.bytes[at], byte.bits));
                }
                page.bytes[at] = byte.bits;
                page.known[word] |= bit;
            } else if access.kind == AccessKind::Write {
                page.known[word] &= !bit;
            }
        }
        self.bytes = bytes;
        if let Some((address, known, read)) = differs {
            findings.add(
                here,
                Fault::Contradiction {
                    address,
                    known,
                    read,
                    size: access.size,
                    access: access.address,
                },
            );
        }
    }
}
