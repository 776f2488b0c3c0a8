//! The contents of a trace frame, as the XML object `traceframe-info`.

use std::fmt::Write;

use tracewire_model::{Address, VariableNumber};

/// The contents of a trace frame, in the order of its blocks. Registers are not listed; GDB reads them with `g`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameInfo(pub Vec<FramePart>);

/// A part of a trace frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FramePart {
    /// Memory.
    Memory {
        /// The first byte's address.
        start: Address,
        /// How many bytes.
        length: u64,
    },
    /// A trace state variable.
    Variable(VariableNumber),
}

/// Why a text is not the description of a frame.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameInfoError {
    /// It is no XML.
    #[error("traceframe-info is not XML: {0}")]
    Xml(String),
    /// An element is not where it may be, or none that is known.
    #[error("traceframe-info: expected <{expected}> in place of <{found}>")]
    Element {
        /// The expected element.
        expected: &'static str,
        /// The text that was found.
        found: String,
    },
    /// An attribute is missing or no number.
    #[error("traceframe-info: expected a number in the attribute `{attribute}` of <{element}>")]
    Attribute {
        /// The element.
        element: &'static str,
        /// Which.
        attribute: &'static str,
    },
}

/// The most elements that are read: a frame of GDB's format cannot hold more.
const MAX_NODES: u32 = 4_000_000;

impl FrameInfo {
    /// Reads the XML text, as GDB does: attributes are decimal, or hexadecimal after `0x`.
    ///
    /// # Errors
    /// When the text is no such XML.
    pub fn parse(text: &str) -> Result<Self, FrameInfoError> {
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            nodes_limit: MAX_NODES,
            ..Default::default()
        };
        let document = roxmltree::Document::parse_with_options(text, options)
            .map_err(|error| FrameInfoError::Xml(error.to_string()))?;
        let root = document.root_element();
        if !root.has_tag_name("traceframe-info") {
            let found = root.tag_name().name().to_owned();
            return Err(FrameInfoError::Element {
                expected: "traceframe-info",
                found,
            });
        }
        root.children()
            .filter(roxmltree::Node::is_element)
            .map(|element| match element.tag_name().name() {
                "memory" => Ok(FramePart::Memory {
                    start: Address(attribute(element, "memory", "start")?),
                    length: attribute(element, "memory", "length")?,
                }),
                "tvar" => {
                    let id = attribute(element, "tvar", "id")?;
                    let wrong = FrameInfoError::Attribute {
                        element: "tvar",
                        attribute: "id",
                    };
                    i32::try_from(id)
                        .map(VariableNumber)
                        .map(FramePart::Variable)
                        .map_err(|_| wrong)
                }
                other => Err(FrameInfoError::Element {
                    expected: "memory> or <tvar",
                    found: other.to_owned(),
                }),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The XML text, as gdbserver writes it.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let mut text = String::from("<traceframe-info>\n");
        for part in &self.0 {
            // Writing to a string does not fail.
            let _ = match part {
                FramePart::Memory { start, length } => {
                    writeln!(text, "<memory start=\"{start}\" length=\"{length:#x}\"/>")
                }
                FramePart::Variable(number) => writeln!(text, "<tvar id=\"{number}\"/>"),
            };
        }
        text.push_str("</traceframe-info>\n");
        text
    }
}

fn attribute(
    node: roxmltree::Node<'_, '_>,
    element: &'static str,
    attribute: &'static str,
) -> Result<u64, FrameInfoError> {
    node.attribute(attribute)
        .and_then(|text| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        })
        .ok_or(FrameInfoError::Attribute { element, attribute })
}
