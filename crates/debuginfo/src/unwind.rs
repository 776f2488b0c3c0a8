//! The call frame information of a module: `.eh_frame` and `.debug_frame`.

use std::collections::HashMap;

use gimli::{BaseAddresses, CieOrFde, DebugFrame, EhFrame, UnwindContext, UnwindSection};

use crate::frame::{CfaRule, RegisterRule, UnwindRow};
use crate::location_expression::LocationExpression;
use crate::module::{Image, ModuleId, Reader};

/// The frame descriptions of a module, by address.
#[derive(Debug)]
pub(crate) struct FrameTables {
    tables: Vec<Table>,
}

#[derive(Debug)]
struct Table {
    section: AnySection,
    bases: BaseAddresses,
    /// (start, end, offset in the section), by start.
    descriptions: Vec<(u64, u64, usize)>,
}

#[derive(Debug)]
enum AnySection {
    Eh(EhFrame<Reader>),
    Debug(DebugFrame<Reader>),
}

impl FrameTables {
    pub(crate) fn new(image: &Image, debug_image: Option<&Image>) -> Self {
        let mut tables = Vec::new();
        if let Some(reader) = image.section_reader(".eh_frame") {
            let address = |name: &str| image.section(name).map_or(0, |section| section.address);
            let bases = BaseAddresses::default()
                .set_eh_frame(address(".eh_frame"))
                .set_eh_frame_hdr(address(".eh_frame_hdr"))
                .set_text(address(".text"))
                .set_got(address(".got"));
            let mut section = EhFrame::from(reader);
            section.set_address_size(image.address_size());
            tables.push(Table::new(AnySection::Eh(section), bases));
        }
        let debug_frame = [Some(image), debug_image]
            .into_iter()
            .flatten()
            .find_map(|image| image.section_reader(".debug_frame"));
        if let Some(reader) = debug_frame {
            let mut section = DebugFrame::from(reader);
            section.set_address_size(image.address_size());
            tables.push(Table::new(
                AnySection::Debug(section),
                BaseAddresses::default(),
            ));
        }
        Self { tables }
    }

    /// The rules at a link-time address.
    pub(crate) fn row(&self, module: ModuleId, bias: u64, address: u64) -> Option<UnwindRow> {
        self.tables
            .iter()
            .find_map(|table| table.row(module, bias, address))
    }
}

impl Table {
    fn new(section: AnySection, bases: BaseAddresses) -> Self {
        let mut descriptions = match &section {
            AnySection::Eh(section) => descriptions(section, &bases),
            AnySection::Debug(section) => descriptions(section, &bases),
        };
        descriptions.sort_unstable();
        Self {
            section,
            bases,
            descriptions,
        }
    }

    fn row(&self, module: ModuleId, bias: u64, address: u64) -> Option<UnwindRow> {
        let after = self
            .descriptions
            .partition_point(|&(start, _, _)| start <= address);
        let &(_, end, offset) = self.descriptions.get(after.checked_sub(1)?)?;
        if address >= end {
            return None;
        }
        let context = Context {
            module,
            bias,
            address,
            bases: &self.bases,
        };
        match &self.section {
            AnySection::Eh(section) => context.row(section, offset),
            AnySection::Debug(section) => context.row(section, offset),
        }
    }
}

/// Every frame description of a section up to the first damaged one.
fn descriptions<S: UnwindSection<Reader>>(
    section: &S,
    bases: &BaseAddresses,
) -> Vec<(u64, u64, usize)> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    // Most descriptions share a few common parts: each is parsed once.
    let mut common = HashMap::new();
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let description = partial.parse(|section, bases, offset| {
            let key: usize = gimli::UnwindOffset::into(offset);
            if let Some(cie) = common.get(&key) {
                return Ok(gimli::CommonInformationEntry::clone(cie));
            }
            let cie = section.cie_from_offset(bases, offset)?;
            common.insert(key, cie.clone());
            Ok(cie)
        });
        if let Ok(description) = description {
            let (start, end) = (description.initial_address(), description.end_address());
            if start < end && start != 0 {
                found.push((start, end, description.offset()));
            }
        }
    }
    found
}

struct Context<'a> {
    module: ModuleId,
    bias: u64,
    address: u64,
    bases: &'a BaseAddresses,
}

impl Context<'_> {
    fn row<S: UnwindSection<Reader>>(&self, section: &S, offset: usize) -> Option<UnwindRow> {
        let description = section
            .fde_from_offset(self.bases, S::Offset::from(offset), S::cie_from_offset)
            .ok()?;
        let mut context = UnwindContext::new();
        let row = description
            .unwind_info_for_address(section, self.bases, &mut context, self.address)
            .ok()?;
        let encoding = description.cie().encoding();
        let expression = |expression: &gimli::UnwindExpression<usize>| {
            Some(LocationExpression {
                bytes: expression.get(section).ok()?.0,
                encoding,
                module: self.module,
                unit: None,
                bias: self.bias,
                addresses: None,
            })
        };
        let cfa = match row.cfa() {
            gimli::CfaRule::RegisterAndOffset { register, offset } => CfaRule::RegisterOffset {
                register: register.0,
                offset: *offset,
            },
            gimli::CfaRule::Expression(found) => CfaRule::Expression(expression(found)?),
        };
        let registers = row
            .registers()
            .filter_map(|(register, rule)| {
                let rule = match rule {
                    gimli::RegisterRule::Undefined => RegisterRule::Undefined,
                    gimli::RegisterRule::SameValue => RegisterRule::SameValue,
                    gimli::RegisterRule::Offset(offset) => RegisterRule::Offset(*offset),
                    gimli::RegisterRule::ValOffset(offset) => RegisterRule::ValueOffset(*offset),
                    gimli::RegisterRule::Register(other) => RegisterRule::Register(other.0),
                    gimli::RegisterRule::Expression(found) => {
                        RegisterRule::Expression(expression(found)?)
                    }
                    gimli::RegisterRule::ValExpression(found) => {
                        RegisterRule::ValueExpression(expression(found)?)
                    }
                    gimli::RegisterRule::Constant(value) => RegisterRule::Constant(*value),
                    _ => return None,
                };
                Some((register.0, rule))
            })
            .collect();
        Some(UnwindRow {
            cfa,
            registers,
            return_address: description.cie().return_address_register().0,
            signal_frame: description.is_signal_trampoline(),
        })
    }
}
