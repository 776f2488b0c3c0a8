//! The layout of a register block, read from a target description.

use std::collections::HashMap;
use std::sync::Arc;

use super::bfd;
use super::standard::StandardRegisters;
use super::types::{FeatureTypes, RegisterType};
use crate::architecture::Architecture;
use tracewire_model::{ByteOrder, RegisterNumber};

/// The longest target description that is read, in bytes. GDB's longest has some 30 KiB; the XML library compares each
/// attribute of an element with all others.
const MAX_XML: usize = 256 << 10;

/// How many XML nodes are read at most.
const MAX_NODES: u32 = 50_000;

/// How deep elements may be nested.
const MAX_DEPTH: u32 = 64;

/// The widest register, in bits; Arm's widest vectors have 2048, its matrices 65536 bytes.
const MAX_BITS: u32 = 65536 * 8;

/// The most registers; GDB's largest description has some hundreds.
const MAX_REGISTERS: usize = 10_000;

/// One register of a [`RegisterLayout`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    /// GDB's name for it.
    pub name: String,
    /// GDB's number for it in the remote protocol, which a register mask uses too.
    pub number: RegisterNumber,
    /// Where it starts in the register block, in bytes.
    pub offset: u32,
    /// How wide it is, in bits.
    pub bits: u32,
    /// The name of its type, such as `int64`, `code_ptr`, `i387_ext` or one the description defines.
    pub type_name: String,
    /// The type of its bytes; `None` for a type that is unknown, or has another size.
    pub value_type: Option<Arc<RegisterType>>,
    /// Its display group, if the description has one.
    pub group: Option<String>,
}

impl Register {
    /// Whether it is a vector register of 128 bits, which floating-point numbers are passed in. To an agent expression it is
    /// the number in its lowest 64 bits, where such a number is.
    #[must_use]
    pub fn is_vector(&self) -> bool {
        let kind = self.value_type.as_deref();
        self.bits == 128
            && matches!(
                kind,
                Some(RegisterType::Union { .. } | RegisterType::Vector { .. })
            )
    }

    /// The number for an agent expression: of a 128-bit vector register the lowest 64 bits. `None` for others of more than 64 bits.
    #[must_use]
    pub fn number(&self, bytes: &[u8], order: ByteOrder) -> Option<u64> {
        let lowest = match order {
            _ if !self.is_vector() => bytes,
            ByteOrder::Little => bytes.get(..8)?,
            ByteOrder::Big => bytes.get(bytes.len().checked_sub(8)?..)?,
        };
        order.unsigned(lowest)
    }

    /// How many bytes it takes in the register block.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.bits.div_ceil(8)
    }
}

/// The registers of a register block: names, numbers, places. They are in the order of their numbers without gaps, as in a `g`
/// packet, even if numbers are skipped.
#[derive(Clone, Debug)]
pub struct RegisterLayout {
    architecture: Option<String>,
    registers: Vec<Register>,
    by_name: HashMap<String, usize>,
    program_counter: Option<usize>,
    size: u32,
}

/// The start of a document whose elements may be those of XInclude.
const XI_TARGET: &str = r#"<target xmlns:xi="http://www.w3.org/2001/XInclude""#;

/// A target description that gives no layout.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No good XML, or too much of it.
    #[error("the target description is no good XML: {0}")]
    Xml(String),
    /// More text than any target needs.
    #[error("the target description has {0} bytes; at most {MAX_XML} are read")]
    TooLong(usize),
    /// Elements nested too deep.
    #[error("elements of the target description are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// The root is something else, which GDB reads nothing from.
    #[error("expected a `target` element at the root of the target description, not `{0}`")]
    Root(String),
    /// A part of it is in another file, which a trace file cannot hold.
    #[error("the target description includes `{0}`, which is not in the file")]
    Include(String),
    /// A register without a good attribute.
    #[error("line {line} of the target description: expected a register with {expected}")]
    Register {
        /// Which line of the XML, from 1.
        line: u32,
        /// The expected element.
        expected: &'static str,
    },
    /// Two registers with one number.
    #[error(
        "registers `{first}` and `{second}` of the target description have the same number {number}"
    )]
    Twice {
        /// The one name.
        first: String,
        /// The other.
        second: String,
        /// Their number.
        number: RegisterNumber,
    },
    /// It gives neither registers nor a machine.
    #[error("the target description has no registers")]
    Empty,
}

/// The contents of a target description.
pub enum TargetDescription {
    /// Which register is where.
    Registers(RegisterLayout),
    /// BFD's name of a machine, and no registers: they are its standard ones. So does gdbserver for a GDB that did not say
    /// that it reads registers in XML.
    Architecture(String),
}

impl TargetDescription {
    /// Parses a target description (the manual's Target Description Format). A register's width is its own attribute, for any type.
    ///
    /// A feature at the root, which some stubs send, only names a machine: GDB reads no registers from it, and uses the machine's
    /// standard ones.
    ///
    /// # Errors
    /// When it is invalid XML, has parts in other files, has registers that cannot be laid out, or has neither registers nor the
    /// name of a machine.
    pub fn parse(xml: &str) -> Result<Self, LayoutError> {
        let xml = xml.trim();
        if xml.len() > MAX_XML {
            return Err(LayoutError::TooLong(xml.len()));
        }
        check_depth(xml)?;
        let parse = |xml| {
            let options = roxmltree::ParsingOptions {
                allow_dtd: true,
                nodes_limit: MAX_NODES,
                ..roxmltree::ParsingOptions::default()
            };
            roxmltree::Document::parse_with_options(xml, options)
        };
        let declared;
        let document = match parse(xml) {
            // GDB's document type declares the prefix, and documents leave that to it.
            Err(roxmltree::Error::UnknownNamespace(prefix, _)) if prefix == "xi" => {
                declared = xml.replacen("<target", XI_TARGET, 1);
                parse(&declared)
            }
            parsed => parsed,
        };
        let document = document.map_err(|error| LayoutError::Xml(error.to_string()))?;
        let root = document.root_element();
        if root.tag_name().name() != "target" {
            return match machine_of_feature(root) {
                Some(machine) => Ok(Self::Architecture(bfd::bfd_name(machine).to_owned())),
                None => Err(LayoutError::Root(root.tag_name().name().to_owned())),
            };
        }
        let mut architecture = None;
        let mut registers = Vec::new();
        let mut next_number = Some(0u16);
        let mut types = FeatureTypes::default();
        for node in root.descendants().filter(roxmltree::Node::is_element) {
            match node.tag_name().name() {
                "feature" => types = FeatureTypes::default(),
                "vector" | "union" | "struct" | "flags" | "enum" => types.define(node),
                "architecture" => architecture = node.text().map(|text| text.trim().to_owned()),
                "include" => {
                    let what = node.attribute("href").unwrap_or("?");
                    return Err(LayoutError::Include(what.to_owned()));
                }
                "reg" => {
                    let error = |expected| LayoutError::Register {
                        line: document.text_pos_at(node.range().start).row,
                        expected,
                    };
                    let name = node.attribute("name").ok_or_else(|| error("a name"))?;
                    let bits = node
                        .attribute("bitsize")
                        .and_then(|bits| bits.trim().parse::<u32>().ok())
                        .filter(|bits| (1..=MAX_BITS).contains(bits))
                        .ok_or_else(|| error("a bitsize from 1 to 524288"))?;
                    let number = match node.attribute("regnum") {
                        Some(number) => number.trim().parse().ok(),
                        None => next_number,
                    };
                    let number = number.ok_or_else(|| error("a number from 0 to 65535"))?;
                    next_number = number.checked_add(1);
                    if registers.len() >= MAX_REGISTERS {
                        return Err(error("less than 10000 others"));
                    }
                    let type_name = node.attribute("type").unwrap_or("int");
                    let value_type = types
                        .find(type_name, bits)
                        .filter(|found| found.size().is_none_or(|size| size == bits.div_ceil(8)));
                    registers.push(Register {
                        name: name.to_owned(),
                        number: RegisterNumber(number),
                        offset: 0,
                        bits,
                        type_name: type_name.to_owned(),
                        value_type,
                        group: node.attribute("group").map(str::to_owned),
                    });
                }
                _ => {}
            }
        }
        match architecture
            .clone()
            .filter(|name| registers.is_empty() && !name.is_empty())
        {
            Some(name) => Ok(Self::Architecture(name)),
            None => RegisterLayout::new(architecture, registers).map(Self::Registers),
        }
    }
}

impl RegisterLayout {
    /// Reads a target description that gives the registers.
    ///
    /// # Errors
    /// When it is no good XML, has parts in other files, or no registers that can be laid out.
    pub fn parse(xml: &str) -> Result<Self, LayoutError> {
        match TargetDescription::parse(xml)? {
            TargetDescription::Registers(layout) => Ok(layout),
            TargetDescription::Architecture(_) => Err(LayoutError::Empty),
        }
    }

    /// Lays registers out in the order of their numbers; their offsets are set here.
    pub(crate) fn new(
        architecture: Option<String>,
        mut registers: Vec<Register>,
    ) -> Result<Self, LayoutError> {
        registers.sort_by_key(|register| register.number);
        for pair in registers.windows(2) {
            if let [first, second] = pair
                && first.number == second.number
            {
                return Err(LayoutError::Twice {
                    first: first.name.clone(),
                    second: second.name.clone(),
                    number: first.number,
                });
            }
        }
        let mut size = 0u32;
        for register in &mut registers {
            register.offset = size;
            size = size.saturating_add(register.size());
        }
        if registers.is_empty() {
            return Err(LayoutError::Empty);
        }
        let by_name = registers
            .iter()
            .enumerate()
            .rev()
            .map(|(index, register)| (register.name.clone(), index))
            .collect::<HashMap<_, _>>();
        let program_counter = ["rip", "eip", "pc"]
            .iter()
            .find_map(|name| by_name.get(*name).copied())
            .or_else(|| {
                registers
                    .iter()
                    .position(|register| register.type_name == "code_ptr")
            })
            .filter(|index| registers[*index].bits <= 64);
        Ok(Self {
            architecture,
            registers,
            by_name,
            program_counter,
            size,
        })
    }

    /// The first registers, as many as a block of this size has whole.
    #[must_use]
    pub fn truncated(&self, size: u32) -> Self {
        let has = |register: &&Register| register.offset + register.size() <= size;
        let registers = self.registers.iter().take_while(has).cloned().collect();
        // A block without any register is none.
        Self::new(self.architecture.clone(), registers).unwrap_or_else(|_| self.clone())
    }

    /// The size of the whole block, in bytes.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The registers, in the order in which they are in the block.
    #[must_use]
    pub fn registers(&self) -> &[Register] {
        &self.registers
    }

    /// The register of this name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Register> {
        self.registers.get(*self.by_name.get(name)?)
    }

    /// The register of this number.
    #[must_use]
    pub fn by_number(&self, number: RegisterNumber) -> Option<&Register> {
        let index = self
            .registers
            .binary_search_by_key(&number, |register| register.number)
            .ok()?;
        self.registers.get(index)
    }

    /// The program counter: `rip`, `eip` or `pc`, else the first register that points to code.
    #[must_use]
    pub fn program_counter(&self) -> Option<&Register> {
        self.registers.get(self.program_counter?)
    }

    /// The `architecture` element, which is BFD's name for the machine, such as `i386:x86-64`.
    #[must_use]
    pub fn architecture(&self) -> Option<&str> {
        self.architecture.as_deref()
    }

    /// The byte order, where the machine has only one.
    #[must_use]
    pub fn byte_order(&self) -> Option<ByteOrder> {
        bfd::bfd_byte_order(self.architecture()?)
    }
}

/// The machine whose standard registers begin with a feature of this name, and of this width.
fn machine_of_feature(feature: roxmltree::Node<'_, '_>) -> Option<Architecture> {
    let name = feature.attribute("name")?;
    let register = feature.children().find(|node| node.has_tag_name("reg"))?;
    let bits = register.attribute("bitsize")?.trim().parse().ok()?;
    StandardRegisters::machine_of_feature(name, bits)
}

/// Refuses nesting deeper than [`MAX_DEPTH`] before the XML library parses it, without recursion. The count of tags is rough, and
/// includes comments and quoted brackets: no target sends a description that is refused for them.
fn check_depth(xml: &str) -> Result<(), LayoutError> {
    let bytes = xml.as_bytes();
    let mut depth = 0u32;
    for open in memchr::memchr_iter(b'<', bytes) {
        match bytes.get(open + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) => {
                let rest = &bytes[open..];
                let close = memchr::memchr(b'>', rest).unwrap_or(rest.len());
                if close == 0 || rest.get(close - 1) != Some(&b'/') {
                    depth += 1;
                    if depth > MAX_DEPTH {
                        return Err(LayoutError::TooDeep);
                    }
                }
            }
        }
    }
    Ok(())
}
