//! The register sets of frames that are in no block, as lines of a description that a killed recorder leaves in the program.

use tracewire_arch::TargetDescription;
use tracewire_model::RegisterMask;

use crate::description::Description;
use crate::register_set::{RegisterSet, RegisterSets};

/// The word that the lines begin with.
const KEYWORD: &[u8] = b"kept ";

/// The lines that say which registers the sets have: `kept NUMBER:MASK`, the number hexadecimal, the mask two hexadecimal digits a
/// byte, the byte of the first registers first.
#[must_use]
pub fn kept_lines(sets: &RegisterSets) -> Vec<u8> {
    let mut lines = Vec::new();
    for (number, set) in sets.iter() {
        lines.extend_from_slice(KEYWORD);
        lines.extend_from_slice(format!("{number:x}:").as_bytes());
        for byte in set.mask().bytes() {
            lines.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
        lines.push(b'\n');
    }
    lines
}

/// The sets that the lines of a description say, and the description without them.
#[must_use]
pub fn kept_sets(description: &Description) -> (RegisterSets, Description) {
    let layout = match description.target_xml().map(TargetDescription::parse) {
        Some(Ok(TargetDescription::Registers(layout))) => Some(layout),
        _ => None,
    };
    let (mut masks, mut others) = (Vec::new(), Vec::new());
    for line in description.lines() {
        match line.text.strip_prefix(KEYWORD).and_then(kept) {
            Some(one) => masks.push(one),
            None => {
                others.extend_from_slice(line.text);
                others.push(b'\n');
            }
        }
    }
    let sets = RegisterSets::of_masks(masks, |mask| Some(RegisterSet::new(layout.as_ref()?, mask)));
    (sets.unwrap_or_default(), Description::parse(others))
}

fn kept(text: &[u8]) -> Option<(usize, RegisterMask)> {
    let text = std::str::from_utf8(text).ok()?;
    let (number, digits) = text.split_once(':')?;
    let number = usize::from_str_radix(number, 16).ok()?;
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let digits = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(digits, 16).ok()
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    Some((number, RegisterMask::from_bytes(bytes?)))
}
