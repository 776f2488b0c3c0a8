//! RISC-V E-Trace (Efficient Trace for RISC-V, version 2): packets of a trace encoder, and the program, to a transcript.
//!
//! A packet says which branches were taken and where other jumps went. Which instructions that comes to is in the program alone.
//! Nothing in the packets says that they are E-Trace, how they are framed, or how wide their fields are: the user does ([`Options`]).
//! So their format cannot be detected from their content. They are turned into text once, and all commands read that text.
//!
//! The transcript has the lines of a transcript of QEMU's log ([`crate::text::qemu_log`]), with its own first line. A
//! hart is a cpu, and times count instructions of all harts. The mode is the privilege. A line that begins with `#!` is a trap, or
//! packets that were lost.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroU8;

use riscv_etrace::binary::{self, Multi, Offset, basic::Segment, error::SegmentError};
use riscv_etrace::config::Parameters;
use riscv_etrace::instruction::base::Set;
use riscv_etrace::packet::{self, decoder::Decoder, error::Error as PacketError, unit};
use riscv_etrace::tracer::{self, Tracer, item};
use tracewire_model::Address;

use crate::recording::Image;
use crate::text::control_flow;

/// How many harts there may be.
const MOST_HARTS: usize = 1 << 10;

/// How many instructions one packet may stand for, at most.
const MOST_OF_PACKET: u64 = 1 << 24;

/// How many it may stand for, for each byte of the program. A packet has some 31 branches, and between two branches no instruction is
/// executed again: what comes after it follows from the program alone. So what goes on for longer is a loop without a branch, which has no end.
const MOST_OF_BYTE: u64 = 64;

/// How many packets may be damaged, one after the other, before the rest is given up.
const MOST_DAMAGED: u32 = 64;

/// How packets are framed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Unformatted Trace & Diagnostic Data Packet Encapsulation for RISC-V.
    Encapsulation,
    /// Siemens Messaging Infrastructure, which the reference encoder and the PULP tracer write.
    Smi,
}

/// What the packets do not say of themselves. Parameters have the names of the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How they are framed.
    pub framing: Framing,
    /// How many bits a hart's number has in the frame.
    pub hart_width: u8,
    /// How many bytes a time has in the frame of an encapsulation.
    pub timestamp_width: u8,
    /// `iaddress_width_p`: how many bits an address has; as the program's machine where it is not given.
    pub address_width: Option<NonZeroU8>,
    /// `iaddress_lsb_p`: how many low bits of addresses are left out.
    pub address_lsb: u8,
    /// `context_width_p`; 0 where there is no context.
    pub context_width: u8,
    /// `time_width_p`; 0 where there is no time.
    pub time_width: u8,
    /// `ecause_width_p`.
    pub cause_width: NonZeroU8,
    /// `privilege_width_p`.
    pub privilege_width: NonZeroU8,
    /// `sijump_p`: whether jumps that follow from two instructions are left out.
    pub infers_jumps: bool,
}

/// Why options cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionsError {
    /// The framing is not known.
    #[error("expected smi or encap first, not `{0}`")]
    Framing(String),
    /// A parameter is not known.
    #[error(
        "`{0}` is no parameter: expected hart_width, timestamp_width, iaddress_width_p, iaddress_lsb_p, context_width_p, time_width_p, \
         ecause_width_p, privilege_width_p or sijump_p, `=` and a number"
    )]
    Parameter(String),
    /// The number of a parameter is too large, or none.
    #[error("`{0}`: expected a number from {1} to {2}")]
    Number(String, u8, u8),
}

impl std::str::FromStr for Options {
    type Err = OptionsError;

    /// The framing, then parameters, between commas: `smi,iaddress_width_p=64`.
    fn from_str(text: &str) -> Result<Self, OptionsError> {
        let mut parts = text.split(',');
        let framing = match parts.next().unwrap_or_default() {
            "smi" => Framing::Smi,
            "encap" => Framing::Encapsulation,
            other => return Err(OptionsError::Framing(other.to_owned())),
        };
        let parameters = Parameters::default();
        let mut options = Self {
            framing,
            hart_width: 0,
            timestamp_width: 0,
            address_width: None,
            address_lsb: parameters.iaddress_lsb_p,
            context_width: 0,
            time_width: 0,
            cause_width: parameters.ecause_width_p,
            privilege_width: parameters.privilege_width_p,
            infers_jumps: false,
        };
        for part in parts {
            let (name, number) = part
                .split_once('=')
                .ok_or_else(|| OptionsError::Parameter(part.to_owned()))?;
            let number = |least: u8, most: u8| {
                let number = number.parse().ok();
                number
                    .filter(|number| (least..=most).contains(number))
                    .ok_or_else(|| OptionsError::Number(part.to_owned(), least, most))
            };
            let positive = |most: u8| -> Result<NonZeroU8, OptionsError> {
                NonZeroU8::new(number(1, most)?)
                    .ok_or_else(|| OptionsError::Number(part.to_owned(), 1, most))
            };
            match name {
                "hart_width" => options.hart_width = number(0, 16)?,
                "timestamp_width" => options.timestamp_width = number(0, 8)?,
                "iaddress_width_p" => options.address_width = Some(positive(64)?),
                "iaddress_lsb_p" => options.address_lsb = number(0, 2)?,
                "context_width_p" => options.context_width = number(0, 64)?,
                "time_width_p" => options.time_width = number(0, 64)?,
                "ecause_width_p" => options.cause_width = positive(16)?,
                "privilege_width_p" => options.privilege_width = positive(4)?,
                "sijump_p" => options.infers_jumps = number(0, 1)? == 1,
                _ => return Err(OptionsError::Parameter(part.to_owned())),
            }
        }
        Ok(options)
    }
}

impl Options {
    fn parameters(&self, is_64: bool) -> Parameters {
        let default = Parameters::default();
        let width = |width: u8| NonZeroU8::new(width).unwrap_or(NonZeroU8::MIN);
        Parameters {
            iaddress_width_p: self
                .address_width
                .unwrap_or(width(if is_64 { 64 } else { 32 })),
            iaddress_lsb_p: self.address_lsb,
            context_width_p: width(self.context_width),
            nocontext_p: self.context_width == 0,
            time_width_p: width(self.time_width),
            notime_p: self.time_width == 0,
            ecause_width_p: self.cause_width,
            privilege_width_p: self.privilege_width,
            sijump_p: self.infers_jumps,
            ..default
        }
    }
}

/// What a transcript came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Transcribed {
    /// Packets that were read.
    pub packets: u64,
    /// Instructions that they stand for.
    pub instructions: u64,
    /// Packets that could not be understood, or did not fit the program.
    pub damaged: u64,
    /// Bytes at the end that are no whole packet, or were given up.
    pub rest: usize,
}

/// Why there is no transcript.
#[derive(Debug, thiserror::Error)]
pub enum EtraceError {
    /// The program has no code.
    #[error("the program has nothing that is loaded")]
    NoCode,
    /// The first packets say nothing.
    #[error("no packet is one of E-Trace in this framing and with these parameters: {0}")]
    NoPacket(String),
    /// The tracer cannot be made.
    #[error("the parameters cannot be used: {0}")]
    Parameters(String),
    /// The transcript cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

type Code = Multi<Vec<Offset<Segment<Vec<u8>, Set>>>, Offset<Segment<Vec<u8>, Set>>>;
type HartTracer = Tracer<Code>;
type Payload = packet::payload::Payload<unit::ReferenceIOptions, unit::ReferenceDOptions>;

/// A packet's hart and what is in it; none for one that only fills.
type Taken = Option<(u64, Result<Payload, PacketError>)>;

/// Takes the next packet.
fn take(
    decoder: &mut Decoder<'_, unit::Reference>,
    framing: Framing,
) -> Result<Taken, PacketError> {
    Ok(match framing {
        Framing::Smi => {
            let packet = decoder.decode_smi_packet()?;
            Some((packet.hart(), packet.decode_payload()))
        }
        Framing::Encapsulation => (decoder.decode_encap_packet()?.into_normal())
            .map(|packet| (u64::from(packet.src_id()), packet.decode_payload())),
    })
}

/// Writes the transcript of packets that a program's execution made. `is_64` is whether the machine is one of 64 bits.
///
/// # Errors
/// When the program has no code, no packet can be understood, or the transcript cannot be written.
pub fn transcribe(
    packets: &[u8],
    program: &Image,
    is_64: bool,
    options: &Options,
    out: &mut impl Write,
) -> Result<Transcribed, EtraceError> {
    if program.is_empty() {
        return Err(EtraceError::NoCode);
    }
    let parameters = options.parameters(is_64);
    let size: u64 = program.pieces().map(|(_, bytes)| bytes.len() as u64).sum();
    let mut decoder = packet::builder()
        .with_params(&parameters)
        .with_hart_index_width(options.hart_width)
        .with_timestamp_width(options.timestamp_width)
        .decoder(packets);
    let mut writer = Writer {
        out,
        program,
        most_of_packet: size.saturating_mul(MOST_OF_BYTE).min(MOST_OF_PACKET),
        done: Transcribed::default(),
    };
    let mut harts: BTreeMap<u32, (HartTracer, &'static str)> = BTreeMap::new();
    let mut first_error = None;
    let mut in_a_row = 0;
    writer.line(control_flow::HEADER)?;
    while decoder.bytes_left() > 0 && in_a_row < MOST_DAMAGED {
        writer.done.rest = decoder.bytes_left();
        let failed = match take(&mut decoder, options.framing) {
            Err(error) => {
                first_error.get_or_insert(error.to_string());
                break;
            }
            Ok(None) => None,
            Ok(Some((_, Err(error)))) => Some(error.to_string()),
            Ok(Some((hart, Ok(payload)))) => {
                let hart = u32::try_from(hart).unwrap_or(u32::MAX);
                if !harts.contains_key(&hart) && harts.len() < MOST_HARTS {
                    let tracer = tracer::builder()
                        .with_binary(code(program, is_64))
                        .with_params(&parameters)
                        .build()
                        .map_err(|error| EtraceError::Parameters(error.to_string()))?;
                    harts.insert(hart, (tracer, "-"));
                }
                match harts.get_mut(&hart) {
                    Some((tracer, mode)) => writer.packet(hart, tracer, mode, &payload)?,
                    None => Some(format!("more than {MOST_HARTS} harts")),
                }
            }
        };
        writer.done.packets += 1;
        match failed {
            None => in_a_row = 0,
            Some(error) => {
                in_a_row += 1;
                writer.done.damaged += 1;
                writer.lost(&error)?;
                first_error.get_or_insert(error);
            }
        }
        writer.done.rest = decoder.bytes_left();
    }
    match first_error {
        Some(error) if writer.done.instructions == 0 => Err(EtraceError::NoPacket(error)),
        _ => Ok(writer.done),
    }
}

/// The code of a program, as the tracer looks it up.
fn code(program: &Image, is_64: bool) -> Code {
    let set = match is_64 {
        true => Set::Rv64I,
        false => Set::Rv32I,
    };
    let pieces = program.pieces().map(|(Address(start), bytes)| {
        let segment: Segment<Vec<u8>, Set> = binary::from_segment(bytes.to_vec(), set);
        binary::Adaptable::with_offset(segment, start)
    });
    Multi::new(pieces.collect())
}

struct Writer<'a, W> {
    out: &'a mut W,
    program: &'a Image,
    /// How many instructions a packet may stand for.
    most_of_packet: u64,
    done: Transcribed,
}

impl<W: Write> Writer<'_, W> {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.out.write_all(line)?;
        self.out.write_all(b"\n")
    }

    fn lost(&mut self, why: &str) -> io::Result<()> {
        let number = self.done.packets;
        writeln!(self.out, "#! packet {number} is lost: {why}")
    }

    /// Writes what a packet stands for, and gives what is wrong with it.
    fn packet(
        &mut self,
        hart: u32,
        tracer: &mut HartTracer,
        mode: &mut &'static str,
        payload: &Payload,
    ) -> io::Result<Option<String>> {
        if let Err(error) = tracer.process_payload(payload) {
            return Ok(Some(error.to_string()));
        }
        let before = self.done.instructions;
        loop {
            let item = match tracer.next() {
                None => return Ok(None),
                Some(Err(error)) => return Ok(Some(describe(&error))),
                Some(Ok(item)) => item,
            };
            match item.kind() {
                item::Kind::Regular(instruction) => {
                    self.instruction(hart, item.pc(), instruction.size as u8, mode)?;
                }
                item::Kind::Trap(trap) => {
                    writeln!(self.out, "#! hart {hart}: {trap} at {:#x}", item.pc())?;
                }
                item::Kind::Context(context) => {
                    use riscv_etrace::types::Privilege;
                    *mode = match context.privilege {
                        Privilege::User => "U",
                        Privilege::Supervisor => "S",
                        Privilege::Machine => "M",
                        Privilege::Debug => "D",
                        Privilege::VirtUser => "VU",
                        Privilege::VirtSupervisor => "VS",
                    };
                }
            }
            if self.done.instructions - before > self.most_of_packet {
                return Ok(Some(format!(
                    "it stands for more than {} instructions",
                    self.most_of_packet
                )));
            }
        }
    }

    fn instruction(&mut self, hart: u32, pc: u64, size: u8, mode: &str) -> io::Result<()> {
        self.done.instructions += 1;
        let number = self.done.instructions;
        write!(self.out, "{number} clk {hart} IT ({number}) {pc:016x} ")?;
        let byte = |at: u8| self.program.byte(Address(pc.wrapping_add(u64::from(at))));
        // Parcels are little-endian numbers, the first one last.
        let code: Option<Vec<u8>> = (0..size).rev().map(byte).collect();
        match code {
            Some(code) => code
                .iter()
                .try_for_each(|byte| write!(self.out, "{byte:02x}"))?,
            None => write!(self.out, "-")?,
        }
        writeln!(self.out, " - {mode} :")
    }
}

fn describe(error: &tracer::error::Error<SegmentError>) -> String {
    error.to_string()
}
