//! The way from text to a file: chunks are read one after the other, encoded side by side, and written in order.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use tracewire_arch::{Architecture, Machine};
use tracewire_model::ByteOrder;

use super::code::CodeLists;
use super::cut::{Chunk, Cutter};
use super::key::Key;
use super::merge::{merge, put_contradictions};
use super::run::{self, Runs, Scratch};
use super::write::{BlockRow, COLUMNS, Extent, Facts, StoreWriter, Table, Target};
use crate::compact::encode::{EncodedSegment, SegmentEncoder};
use crate::compact::frame::Packer;
use crate::compact::grouping::Grouping;
use crate::compact::map::Map;
use crate::compact::value::RegisterValue;
use crate::guess::settle;
use crate::record::{DataOrder, Instruction, Line};
use crate::text::{Format, Piece, Refusal, Sink, read, refusal};

/// How much text at the start is looked at.
const LOOK: usize = 1 << 20;

/// How a file is made.
pub(crate) struct Plan<'a> {
    pub(crate) architecture: Option<Architecture>,
    /// How the digits of data are written, where the user says.
    pub(crate) data_order: Option<DataOrder>,
    pub(crate) key: Key,
    /// How much text a segment has.
    pub(crate) chunk: usize,
    /// How hard the compressor tries.
    pub(crate) level: i32,
    /// Says, once the text is read, why it ends before its end.
    pub(crate) cut: &'a (dyn Fn() -> Option<String> + Sync),
    /// Receives how many bytes of text are done.
    pub(crate) progress: &'a (dyn Fn(u64) + Sync),
}

/// Why no file was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("no line is of a known format")]
    Unknown(Option<Refusal>),
}

/// Makes a file of a trace's text.
pub(crate) fn build(
    input: impl io::Read + Send,
    target: Target,
    scratch: Scratch,
    plan: &Plan<'_>,
) -> Result<Target, BuildError> {
    let mut cutter = Cutter::new(input, plan.chunk);
    let head = cutter.head()?;
    let format = Format::detect(head).ok_or_else(|| BuildError::Unknown(refusal(head)))?;
    let first_cpu = first_cpu(format, head);
    let settled = settle(format, head.get(..LOOK).unwrap_or(head), plan.architecture);
    let guessed = settled.guessed;
    let order_of =
        |machine: Option<Architecture>| machine.map_or(ByteOrder::Little, Architecture::byte_order);
    let order = order_of(plan.architecture.or(guessed));
    // A machine that is given and that is also found makes no difference. The text of `execlog` is another one then.
    let (key, architecture) = if order == order_of(guessed) && format != Format::Execlog {
        (plan.key.with_byte_order(None), guessed)
    } else {
        (plan.key, plan.architecture)
    };
    let key = if plan.data_order == settled.data_order {
        key.with_data_order(None)
    } else {
        key
    };
    let data_order = plan.data_order.or(settled.data_order);
    let machine = plan.architecture.or(guessed).map(Machine::of);
    let encoder = || SegmentEncoder::new(order, machine, plan.level);
    let encode = |chunk: &Chunk, encoder: &mut SegmentEncoder| {
        encode(chunk, format, first_cpu, data_order, encoder)
    };
    let facts = Facts {
        key,
        format: format.name().to_owned(),
        is_big: order == ByteOrder::Big,
        architecture: architecture.map_or_else(String::new, |of| of.name().to_owned()),
        data_order,
        data_evidence: settled.evidence,
        ..Facts::default()
    };
    let mut writer = Collector::new(StoreWriter::new(target)?, Runs::new(scratch), facts);
    if cutter.is_last() {
        // Threads would take longer to come than the text to be read.
        if let Some(chunk) = cutter.next(format, Vec::new())? {
            let mut encoder = encoder();
            let read = encode(&chunk, &mut encoder);
            writer.segment(&read.finish(&mut encoder))?;
            (plan.progress)(writer.facts.text);
        }
        writer.facts.cut = (plan.cut)().unwrap_or_default();
        return Ok(writer.finish()?);
    }

    let workers = std::thread::available_parallelism().map_or(2, |count| count.get().min(12));
    std::thread::scope(|scope| {
        // One is ready when it is asked for. More would be memory for nothing.
        let (send_chunk, chunks) = sync_channel::<(u64, Chunk)>(0);
        let (send_segment, segments) = channel::<io::Result<(u64, Encoded)>>();
        // The room of chunks that are done, for those to come.
        let (send_room, rooms) = channel::<Vec<u8>>();
        let chunks = Mutex::new(chunks);
        let failed = send_segment.clone();
        scope.spawn(move || {
            let mut number = 0;
            loop {
                match cutter.next(format, rooms.try_recv().unwrap_or_default()) {
                    Ok(Some(chunk)) => {
                        if send_chunk.send((number, chunk)).is_err() {
                            return;
                        }
                        number += 1;
                    }
                    Ok(None) => return,
                    Err(error) => {
                        // Nobody listens where the writer failed before.
                        drop(failed.send(Err(error)));
                        return;
                    }
                }
            }
        });
        let chunks = std::sync::Arc::new(chunks);
        for _ in 0..workers {
            let chunks = std::sync::Arc::clone(&chunks);
            let (send_segment, send_room) = (send_segment.clone(), send_room.clone());
            let encode = &encode;
            let mut encoder = encoder();
            scope.spawn(move || {
                loop {
                    let next = chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, chunk)) = next else {
                        return;
                    };
                    let read = encode(&chunk, &mut encoder);
                    // The tables of text that does not repeat are as large as the text, which is not needed any more. All may have
                    // been read meanwhile.
                    drop(send_room.send(chunk.text));
                    if send_segment
                        .send(Ok((number, read.finish(&mut encoder))))
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop((send_segment, send_room, chunks));
        writer.collect(&segments, plan.progress)?;
        writer.facts.cut = (plan.cut)().unwrap_or_default();
        Ok(writer.finish()?)
    })
}

/// The cpu of the first instruction.
fn first_cpu(format: Format, head: &[u8]) -> u32 {
    struct First(Option<u32>);
    impl Sink for First {
        fn instruction(&mut self, _: Line, instruction: &Instruction<'_>) {
            self.0.get_or_insert(instruction.cpu.map_or(0, |cpu| cpu.0));
        }
    }
    let mut first = First(None);
    let head = head.get(..LOOK).unwrap_or(head);
    read(format, head, &Piece::whole(head), &mut first);
    first.0.unwrap_or(0)
}

/// A segment, and its accesses as a run.
struct Encoded {
    segment: EncodedSegment,
    run: Vec<u8>,
    text: u64,
}

/// A chunk that was read into an encoder.
struct ChunkRead {
    text: u64,
}

/// Reads a chunk into an encoder.
fn encode(
    chunk: &Chunk,
    format: Format,
    first_cpu: u32,
    data_order: Option<DataOrder>,
    encoder: &mut SegmentEncoder,
) -> ChunkRead {
    let first_line = chunk.first_line();
    let piece = format.piece_at(&chunk.text, first_line, chunk.end);
    let mut grouping = Grouping::new(&chunk.text, chunk.start, format, first_cpu, encoder);
    grouping.settle_data_order(data_order);
    grouping.rest_of_line(first_line);
    read(format, &chunk.text, &piece, &mut grouping);
    grouping.finish(chunk.end);
    ChunkRead {
        text: (chunk.end - chunk.start) as u64,
    }
}

impl ChunkRead {
    /// Ends the encoder's segment.
    fn finish(self, encoder: &mut SegmentEncoder) -> Encoded {
        let mut segment = encoder.finish();
        let run = run::encode(&mut segment.parts);
        segment.parts = Vec::new();
        Encoded {
            segment,
            run,
            text: self.text,
        }
    }
}

/// Writes segments in order.
struct Collector {
    writer: StoreWriter,
    runs: Runs,
    facts: Facts,
    blocks: Vec<u64>,
    segments: Vec<u64>,
    code: CodeLists,
    registers: BTreeMap<(u32, u32), RegisterValue>,
    numbers: Map<Box<[u8]>, u32>,
    packer: Packer,
}

impl Collector {
    fn new(writer: StoreWriter, runs: Runs, facts: Facts) -> Self {
        Self {
            writer,
            runs,
            facts,
            blocks: Vec::new(),
            segments: Vec::new(),
            code: CodeLists::default(),
            registers: BTreeMap::new(),
            numbers: Map::default(),
            packer: Packer::new(1),
        }
    }

    fn collect(
        &mut self,
        segments: &Receiver<io::Result<(u64, Encoded)>>,
        progress: &dyn Fn(u64),
    ) -> io::Result<()> {
        let mut early = BTreeMap::new();
        let mut next = 0;
        for segment in segments {
            let (number, segment) = segment?;
            early.insert(number, segment);
            while let Some(segment) = early.remove(&next) {
                self.segment(&segment)?;
                next += 1;
                progress(self.facts.text);
            }
        }
        Ok(())
    }

    fn segment(&mut self, encoded: &Encoded) -> io::Result<()> {
        let segment = &encoded.segment;
        let facts = &mut self.facts;
        let first = facts.instructions;
        let numbers: Vec<u32> = segment
            .registers
            .iter()
            .map(|name| {
                *self.numbers.entry(name.clone()).or_insert_with(|| {
                    facts.registers.push(name.clone());
                    facts.registers.len() as u32 - 1
                })
            })
            .collect();
        let number = (self.segments.len() / COLUMNS[Table::Segments as usize]) as u32;
        let first_block = (self.blocks.len() / BlockRow::COLUMNS) as u64;
        for block in &segment.blocks {
            let mut raw = Vec::new();
            for ((cpu, register), value) in &self.registers {
                crate::compact::bytes::put(&mut raw, u64::from(*cpu));
                crate::compact::bytes::put(&mut raw, u64::from(*register));
                value.encode(&mut raw);
            }
            let registers = self.packer.pack(&raw);
            let (min_time, max_time) = block.times.unwrap_or((u64::MAX, 0));
            let [a, b, c, d] = block.frames.each_ref().map(|frame| frame.len() as u32);
            let row = BlockRow {
                first: facts.instructions,
                lines: facts.lines,
                min_time,
                max_time,
                offset: self.writer.length(),
                lengths: [a, b, c, d, registers.len() as u32],
                instructions: block.instructions,
                groups: block.groups,
                unparsed: block.unparsed,
                segment: number,
                is_unordered: block.is_unordered,
            };
            for frame in &block.frames {
                self.writer.append(frame)?;
            }
            self.writer.append(&registers)?;
            facts.search += registers.len() as u64;
            self.blocks.extend(row.to_row());
            facts.instructions += u64::from(block.instructions);
            facts.lines += block.lines;
            facts.unparsed += u64::from(block.unparsed);
            for update in &block.updates {
                let register = numbers[update.register as usize];
                let value = self.registers.entry((update.cpu, register)).or_default();
                match update.part {
                    None => value.write(&update.value),
                    Some(part) => value.write_part(part, &update.value),
                }
            }
        }
        let templates = self.writer.append(&segment.templates)?;
        let skeletons = self.writer.append(&segment.skeletons)?;
        self.segments.extend([
            templates.start,
            templates.length,
            skeletons.length,
            first_block,
        ]);
        self.code.put(number, &segment.code);
        self.runs.push(&encoded.run, first)?;
        facts.accesses += segment.accesses;
        facts.writes += segment.writes;
        facts.stores += segment.stores.stores;
        facts.perhaps_stores += segment.stores.perhaps;
        facts.register_writes += segment.register_writes;
        facts.events += segment.events;
        facts.text += encoded.text;
        for cpu in &segment.cpus {
            if !facts.cpus.contains(cpu) {
                facts.cpus.push(*cpu);
            }
        }
        if facts.first_time.is_none() {
            facts.first_time = segment.first_time;
        }
        facts.last_time = segment.last_time.or(facts.last_time);
        Ok(())
    }

    fn finish(mut self) -> io::Result<Target> {
        self.facts.cpus.sort_unstable();
        let start = self.writer.length();
        let writer = &mut self.writer;
        let merged = merge(&self.runs, &mut |pages| writer.append(pages).map(drop))?;
        let pages = Extent {
            start,
            length: self.writer.length() - start,
        };
        let mut raw = Vec::new();
        put_contradictions(&mut raw, &merged);
        let contradictions = self.packer.pack(&raw);
        let contradictions = self.writer.append(&contradictions)?;
        let code_start = self.writer.length();
        let mut code = Vec::new();
        for (first, piece) in self.code.finish() {
            let extent = self.writer.append(&self.packer.pack(&piece))?;
            code.push([first, extent.start, extent.length]);
        }
        self.facts.search += self.writer.length() - code_start;
        let tables = [
            &self.blocks,
            &self.segments,
            merged.directory.as_flattened(),
            merged.spanning.as_flattened(),
            code.as_flattened(),
        ];
        let in_tables: usize = tables.iter().map(|table| table.len() * 8).sum();
        self.facts.search += pages.length + contradictions.length + in_tables as u64;
        self.writer
            .finish(tables, pages, contradictions, &self.facts)
    }
}
