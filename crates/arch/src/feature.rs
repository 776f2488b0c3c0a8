//! Features of target descriptions: the registers of one part of a machine, and the XML that gives them.

use std::fmt::Write;

use super::layout::RegisterLayout;

/// One feature, as a target description has it.
pub(super) struct Feature {
    /// Its name, such as `org.gnu.gdb.mips.cpu`.
    pub(super) name: String,
    /// The XML of the types it defines, a line each.
    pub(super) types: String,
    pub(super) registers: Vec<Row>,
}

/// A register as a description gives it.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) number: u16,
    pub(super) bits: u32,
    pub(super) type_name: &'static str,
    pub(super) group: Option<&'static str>,
}

/// A register without a number so far.
pub(super) fn row(name: impl Into<String>, bits: u32, type_name: &'static str) -> Row {
    Row {
        name: name.into(),
        number: 0,
        bits,
        type_name,
        group: None,
    }
}

/// Registers of one kind whose names are counted up: the prefix, a number of the range, the suffix.
pub(super) fn counted(
    prefix: &str,
    suffix: &str,
    range: std::ops::Range<u32>,
    bits: u32,
    type_name: &'static str,
) -> Vec<Row> {
    range
        .map(|n| row(format!("{prefix}{n}{suffix}"), bits, type_name))
        .collect()
}

/// Gives the registers the numbers from `first` on.
pub(super) fn numbered(first: u16, mut registers: Vec<Row>) -> Vec<Row> {
    for (register, number) in registers.iter_mut().zip(first..) {
        register.number = number;
    }
    registers
}

/// The layout of these features together.
pub(super) fn layout(architecture: &str, features: &[Feature]) -> RegisterLayout {
    RegisterLayout::parse(&target_xml(architecture, None, features))
        .expect("the tables of this crate make good target descriptions")
}

/// The target description of these features.
pub(super) fn target_xml(architecture: &str, osabi: Option<&str>, features: &[Feature]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n",
    );
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(xml, "{text}").expect("a String can be written to");
    };
    line(format_args!("<architecture>{architecture}</architecture>"));
    if let Some(osabi) = osabi {
        line(format_args!("<osabi>{osabi}</osabi>"));
    }
    for Feature {
        name,
        types,
        registers,
    } in features
    {
        line(format_args!("<feature name=\"{name}\">"));
        types.lines().for_each(|text| line(format_args!("{text}")));
        for Row {
            name,
            number,
            bits,
            type_name,
            group,
        } in registers
        {
            let group = group
                .map(|group| format!(" group=\"{group}\""))
                .unwrap_or_default();
            line(format_args!(
                "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{type_name}\" regnum=\"{number}\"{group}/>"
            ));
        }
        line(format_args!("</feature>"));
    }
    line(format_args!("</target>"));
    xml
}

/// The XML of a type that is a row of flags: their names and bits.
pub(super) fn flags(id: &str, bits: &[(&str, u32)]) -> String {
    let mut xml = format!("<flags id=\"{id}\" size=\"4\">\n");
    for (name, bit) in bits {
        writeln!(
            xml,
            "<field name=\"{name}\" start=\"{bit}\" end=\"{bit}\"/>"
        )
        .expect("a String can be written to");
    }
    xml + "</flags>\n"
}

/// The XML of a type that is a vector of 128 bits, seen in several ways: the name, the type and the number of
/// the elements of each.
pub(super) fn vector_union(id: &str, parts: &[(&str, &str, &str, u32)]) -> String {
    let mut xml = String::new();
    for (_, vector, element, count) in parts {
        writeln!(
            xml,
            "<vector id=\"{vector}\" type=\"{element}\" count=\"{count}\"/>"
        )
        .expect("a String can be written to");
    }
    writeln!(xml, "<union id=\"{id}\">").expect("a String can be written to");
    for (name, vector, ..) in parts {
        writeln!(xml, "<field name=\"{name}\" type=\"{vector}\"/>")
            .expect("a String can be written to");
    }
    xml + "<field name=\"uint128\" type=\"uint128\"/>\n</union>\n"
}
