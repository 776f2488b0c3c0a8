//! Packets of a data stream.

use std::io::Write;

use tracewire_model::ByteOrder;

use super::StreamClass;
use crate::error::ConvertError;

/// The number every packet starts with.
const MAGIC: u32 = 0xc1fc_1fc1;

/// From how many bytes of events on a packet is closed.
const PACKET: usize = 1 << 16;

/// Writes the events of one stream, which come in the order of time, in packets. The headers are those that
/// `metadata` declares.
pub(super) struct PacketWriter<W> {
    out: W,
    order: ByteOrder,
    cpu: Option<u32>,
    sequence: u64,
    discarded: u64,
    begin: Option<u64>,
    end: u64,
    events: Vec<u8>,
}

impl<W: Write> PacketWriter<W> {
    /// A stream whose first event comes at `start`, after `discarded` events that were lost. The count in a packet's
    /// context is that of all events lost so far, so an empty packet with a count of 0 comes before.
    pub(super) fn new(
        out: W,
        order: ByteOrder,
        cpu: Option<u32>,
        start: u64,
        discarded: u64,
    ) -> Self {
        Self {
            out,
            order,
            cpu,
            sequence: 0,
            discarded,
            begin: None,
            end: start,
            events: Vec::new(),
        }
    }

    /// Adds an event, its time in nanoseconds.
    pub(super) fn event(&mut self, id: u16, time: u64, payload: &[u8]) -> Result<(), ConvertError> {
        if self.sequence == 0 && self.discarded > 0 {
            let discarded = std::mem::take(&mut self.discarded);
            self.flush()?;
            self.discarded = discarded;
        }
        self.begin.get_or_insert(time);
        self.end = time;
        self.events.extend(self.order.u16_bytes(id));
        self.events.extend(self.order.u64_bytes(time));
        self.events.extend_from_slice(payload);
        if self.events.len() >= PACKET {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ConvertError> {
        let order = self.order;
        let class = match self.cpu {
            Some(_) => StreamClass::WithCpu,
            None => StreamClass::WithoutCpu,
        };
        let mut head = Vec::new();
        head.extend(order.u32_bytes(MAGIC));
        head.extend(order.u32_bytes(class.id()));
        head.extend(order.u64_bytes(self.begin.unwrap_or(self.end)));
        head.extend(order.u64_bytes(self.end));
        // content_size, packet_size, events_discarded, packet_seq_num, then the cpu.
        let cpu = self.cpu.map(|cpu| order.u32_bytes(cpu));
        let size = head.len() + 4 * 8 + cpu.map_or(0, |cpu| cpu.len()) + self.events.len();
        let bits = order.u64_bytes(size as u64 * 8);
        head.extend(bits);
        head.extend(bits);
        head.extend(order.u64_bytes(self.discarded));
        head.extend(order.u64_bytes(self.sequence));
        head.extend(cpu.into_iter().flatten());
        self.out
            .write_all(&head)
            .and_then(|()| self.out.write_all(&self.events))?;
        self.sequence += 1;
        self.begin = None;
        self.events.clear();
        Ok(())
    }

    /// Writes the last packet.
    pub(super) fn finish(mut self) -> Result<(), ConvertError> {
        if !self.events.is_empty() || self.sequence == 0 {
            self.flush()?;
        }
        Ok(self.out.flush()?)
    }
}
