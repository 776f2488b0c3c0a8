//! The types that a target description gives its registers (the manual's Target Description Format, Types).

use std::collections::HashMap;
use std::sync::Arc;

use roxmltree::Node;

/// How deep types may hold each other; GDB's deepest are unions of vectors.
const MAX_DEPTH: u32 = 16;

/// Of how many types a type may be made, each counted as often as it is in it: what goes over a type goes over all
/// of them.
const MAX_PARTS: u32 = 4096;

/// A member of a type, by its name.
pub(crate) type Member = (String, Arc<RegisterType>);

/// The type of a register's bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegisterType {
    /// A number without a sign, as `uint32`, of so many bits.
    Unsigned(u32),
    /// A number with a sign, as `int32`, of so many bits.
    Signed(u32),
    /// An address of data or code.
    Pointer,
    /// A floating-point number.
    Float(FloatFormat),
    /// Elements of one type, as they are in memory.
    Vector {
        /// Their type.
        element: Arc<RegisterType>,
        /// How many there are.
        count: u32,
        /// How many bytes all of them take.
        size: Option<u32>,
    },
    /// The same bytes seen in several ways.
    Union {
        /// Each way, by its name.
        members: Vec<Member>,
        /// How many bytes the largest takes.
        size: Option<u32>,
    },
    /// Members one after the other.
    Structure {
        /// Each member, by its name.
        members: Vec<Member>,
        /// How many bytes all of them take.
        size: Option<u32>,
    },
    /// Bits of one number, in a structure of so many bytes.
    Bits(u32, Vec<BitField>),
    /// Bits of one number of this many bytes, most of them booleans.
    Flags(u32, Vec<BitField>),
    /// A number of so many bytes with names for some of its values.
    Enumeration(u32, Vec<(String, u64)>),
}

/// The formats of floating-point numbers that GDB names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloatFormat {
    /// `ieee_half`, 16 bits.
    Half,
    /// `bfloat16`.
    BrainFloat,
    /// `ieee_single`, 32 bits.
    Single,
    /// `ieee_double`, 64 bits.
    Double,
    /// `i387_ext`, 80 bits.
    Extended,
    /// 128 bits of IEEE 754.
    Quadruple,
}

impl FloatFormat {
    /// How many bytes it takes.
    #[must_use]
    pub const fn size(self) -> u32 {
        match self {
            Self::Half | Self::BrainFloat => 2,
            Self::Single => 4,
            Self::Double => 8,
            Self::Extended => 10,
            Self::Quadruple => 16,
        }
    }
}

/// Some bits of a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitField {
    /// Its name; empty for bits without one.
    pub name: String,
    /// The lowest of its bits; 0 is the least significant one of the number.
    pub start: u32,
    /// The highest of its bits.
    pub end: u32,
    /// The values of the bits; `None` for a boolean, and for a plain number.
    pub values: Option<Arc<RegisterType>>,
    /// Whether it is a yes or no.
    pub is_flag: bool,
}

impl RegisterType {
    /// Its size in bytes; `None` if it is the register's own width (an address).
    #[must_use]
    pub const fn size(&self) -> Option<u32> {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) => Some(bits.div_ceil(8)),
            Self::Pointer => None,
            Self::Float(format) => Some(format.size()),
            Self::Vector { size, .. } | Self::Union { size, .. } | Self::Structure { size, .. } => {
                *size
            }
            Self::Bits(size, _) | Self::Flags(size, _) | Self::Enumeration(size, _) => Some(*size),
        }
    }

    fn vector(element: Arc<Self>, count: u32) -> Self {
        let size = element.size().and_then(|size| size.checked_mul(count));
        Self::Vector {
            element,
            count,
            size,
        }
    }

    fn union(members: Vec<Member>) -> Self {
        let sizes: Option<Vec<_>> = members.iter().map(|(_, one)| one.size()).collect();
        let size = sizes.and_then(|sizes| sizes.into_iter().max());
        Self::Union { members, size }
    }

    fn structure(members: Vec<Member>) -> Self {
        let mut sizes = members.iter().map(|(_, one)| one.size());
        let size = sizes.try_fold(0u32, |sum, size| sum.checked_add(size?));
        Self::Structure { members, size }
    }

    /// The types that need no definition. A register of type `int` or `float` has its own width.
    pub(crate) fn known(name: &str, bits: u32) -> Option<Self> {
        let float = |format| Some(Self::Float(format));
        match name {
            "int" | "long" => return Some(Self::Signed(bits)),
            "bool" => return Some(Self::Unsigned(1)),
            "data_ptr" | "code_ptr" => return Some(Self::Pointer),
            "ieee_half" => return float(FloatFormat::Half),
            "bfloat16" => return float(FloatFormat::BrainFloat),
            "ieee_single" => return float(FloatFormat::Single),
            "ieee_double" => return float(FloatFormat::Double),
            "i387_ext" => return float(FloatFormat::Extended),
            "float" => {
                return float(match bits {
                    32 => FloatFormat::Single,
                    64 => FloatFormat::Double,
                    80 | 96 => FloatFormat::Extended,
                    128 => FloatFormat::Quadruple,
                    _ => return None,
                });
            }
            _ => {}
        }
        let (make, digits): (fn(u32) -> Self, _) = match name.strip_prefix("uint") {
            Some(digits) => (Self::Unsigned, digits),
            None => (Self::Signed, name.strip_prefix("int")?),
        };
        matches!(digits, "8" | "16" | "32" | "64" | "128")
            .then(|| digits.parse().ok().map(make))
            .flatten()
    }
}

/// How much a type holds.
#[derive(Clone, Copy)]
struct Extent {
    /// How deep types hold each other in it.
    depth: u32,
    /// Of how many types it is made, itself among them.
    parts: u32,
}

impl Extent {
    /// Of a type that holds no other.
    const ONE: Self = Self { depth: 0, parts: 1 };

    /// With one more of these held.
    fn holding(self, held: Self) -> Self {
        Self {
            depth: self.depth.max(held.depth + 1),
            parts: self.parts.saturating_add(held.parts),
        }
    }
}

/// The types that one feature defines, each before it is used.
#[derive(Default)]
pub(super) struct FeatureTypes(HashMap<String, (Arc<RegisterType>, Extent)>);

impl FeatureTypes {
    /// Adds a definition. One that is not understood is left out: registers of its type are then just bytes.
    pub(super) fn define(&mut self, node: Node<'_, '_>) {
        let Some(id) = node.attribute("id") else {
            return;
        };
        let Some((defined, extent)) = self.read(node) else {
            return;
        };
        if extent.depth < MAX_DEPTH && extent.parts <= MAX_PARTS {
            self.0.insert(id.to_owned(), (Arc::new(defined), extent));
        }
    }

    /// The type of this name, for a register of so many bits.
    pub(super) fn find(&self, name: &str, bits: u32) -> Option<Arc<RegisterType>> {
        self.get(name, bits).map(|(found, _)| found)
    }

    fn get(&self, name: &str, bits: u32) -> Option<(Arc<RegisterType>, Extent)> {
        match self.0.get(name) {
            Some(own) => Some(own.clone()),
            None => RegisterType::known(name, bits).map(|known| (Arc::new(known), Extent::ONE)),
        }
    }

    fn read(&self, node: Node<'_, '_>) -> Option<(RegisterType, Extent)> {
        let number = |name| node.attribute(name)?.trim().parse::<u32>().ok();
        let alone = |found| Some((found, Extent::ONE));
        match node.tag_name().name() {
            "vector" => {
                let (element, extent) = self.get(node.attribute("type")?, 32)?;
                let count = number("count").filter(|count| (1..=65536).contains(count))?;
                let vector = RegisterType::vector(element, count);
                Some((vector, Extent::ONE.holding(extent)))
            }
            "union" => {
                let (members, extent) = self.members(node)?;
                Some((RegisterType::union(members), extent))
            }
            "struct" => match number("size") {
                Some(size) => alone(RegisterType::Bits(size, self.bits(node, size)?)),
                None => {
                    let (members, extent) = self.members(node)?;
                    Some((RegisterType::structure(members), extent))
                }
            },
            "flags" => {
                let size = number("size")?;
                alone(RegisterType::Flags(size, self.bits(node, size)?))
            }
            "enum" => {
                let value = |node: Node<'_, '_>| {
                    let value = node.attribute("value")?.trim();
                    let value = match value.strip_prefix("0x") {
                        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
                        None => value.parse().ok()?,
                    };
                    Some((node.attribute("name")?.to_owned(), value))
                };
                let values = elements(node, "evalue").map(value).collect::<Option<_>>()?;
                alone(RegisterType::Enumeration(number("size")?, values))
            }
            _ => None,
        }
    }

    fn members(&self, node: Node<'_, '_>) -> Option<(Vec<Member>, Extent)> {
        let mut extent = Extent::ONE;
        let mut members = Vec::new();
        for field in elements(node, "field") {
            let (found, held) = self.get(field.attribute("type")?, 32)?;
            extent = extent.holding(held);
            members.push((field.attribute("name")?.to_owned(), found));
        }
        Some((members, extent))
    }

    fn bits(&self, node: Node<'_, '_>, size: u32) -> Option<Vec<BitField>> {
        let flags = node.tag_name().name() == "flags";
        let field = |field: Node<'_, '_>| {
            let number = |name| field.attribute(name)?.trim().parse::<u32>().ok();
            let start = number("start")?;
            // One bit without an end is a yes or no.
            let end = number("end").unwrap_or(start);
            let values = match field.attribute("type") {
                Some(name) => self.find(name, 32),
                None => None,
            };
            let one = start == end;
            let is_bool = values.as_deref() == Some(&RegisterType::Unsigned(1));
            let is_flag = one && (is_bool || flags && field.attribute("type").is_none());
            (start <= end && end < size.min(8) * 8).then(|| BitField {
                name: field.attribute("name").unwrap_or_default().to_owned(),
                start,
                end,
                is_flag,
                values: values.filter(|values| matches!(**values, RegisterType::Enumeration(..))),
            })
        };
        elements(node, "field").map(field).collect()
    }
}

fn elements<'a, 'b>(node: Node<'a, 'b>, name: &'static str) -> impl Iterator<Item = Node<'a, 'b>> {
    node.children()
        .filter(move |child| child.is_element() && child.tag_name().name() == name)
}

#[cfg(test)]
mod tests {
    use crate::{RegisterLayout, RegisterType};

    fn layout(types: &str, register: &str) -> RegisterLayout {
        let xml = format!(
            "<target><architecture>i386</architecture><feature name=\"f\">{types}{register}</feature></target>"
        );
        RegisterLayout::parse(&xml).unwrap()
    }

    #[test]
    fn types_are_found_by_name() {
        let layout = layout(
            "<vector id=\"v4\" type=\"ieee_single\" count=\"4\"/><union id=\"u\"><field name=\"a\" type=\"v4\"/>\
             <field name=\"b\" type=\"uint128\"/></union>",
            "<reg name=\"x\" bitsize=\"128\" type=\"u\"/><reg name=\"y\" bitsize=\"32\" type=\"nothing\"/>",
        );
        let [x, y] = layout.registers() else { panic!() };
        assert_eq!(x.value_type.as_ref().unwrap().size(), Some(16));
        assert_eq!(y.value_type, None);
    }

    #[test]
    fn what_is_too_deep_or_unknown_is_bytes() {
        let mut types = "<union id=\"t0\"><field name=\"a\" type=\"int8\"/></union>".to_owned();
        for depth in 0..40 {
            types += &format!(
                "<union id=\"t{}\"><field name=\"a\" type=\"t{depth}\"/></union>",
                depth + 1
            );
        }
        let layout = layout(
            &types,
            "<reg name=\"x\" bitsize=\"8\" type=\"t40\"/><reg name=\"y\" bitsize=\"8\" type=\"t3\"/>",
        );
        let [x, y] = layout.registers() else { panic!() };
        assert_eq!(x.value_type, None);
        assert!(matches!(
            y.value_type.as_deref(),
            Some(RegisterType::Union { .. })
        ));
    }

    /// Eight members a level are eight times as many parts a level: the deepest of these has 2 to the power of 42.
    #[test]
    fn what_has_too_many_parts_is_bytes() {
        for kind in ["union", "struct"] {
            let mut types = format!("<{kind} id=\"t0\"/>");
            for depth in 0..14 {
                let field = format!("<field name=\"a\" type=\"t{depth}\"/>").repeat(8);
                types += &format!("<{kind} id=\"t{}\">{field}</{kind}>", depth + 1);
            }
            let layout = layout(
                &types,
                "<reg name=\"x\" bitsize=\"8\" type=\"t14\"/><reg name=\"y\" bitsize=\"8\" type=\"t5\"/>",
            );
            let values = layout.registers().iter().map(|one| &one.value_type);
            assert!(values.into_iter().all(Option::is_none), "{kind}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_members() {
        let layout = layout(
            "<struct id=\"s\"><field name=\"a\" type=\"int32\"/><field name=\"b\" type=\"int64\"/></struct>\
             <vector id=\"v\" type=\"s\" count=\"3\"/><vector id=\"p\" type=\"data_ptr\" count=\"2\"/>\
             <union id=\"u\"><field name=\"s\" type=\"s\"/><field name=\"v\" type=\"v\"/></union>",
            "<reg name=\"s\" bitsize=\"96\" type=\"s\"/><reg name=\"v\" bitsize=\"288\" type=\"v\"/>\
             <reg name=\"p\" bitsize=\"128\" type=\"p\"/><reg name=\"u\" bitsize=\"288\" type=\"u\"/>",
        );
        let sizes = layout
            .registers()
            .iter()
            .map(|one| one.value_type.as_ref()?.size());
        assert_eq!(
            sizes.collect::<Vec<_>>(),
            [Some(12), Some(36), None, Some(36)]
        );
    }
}
