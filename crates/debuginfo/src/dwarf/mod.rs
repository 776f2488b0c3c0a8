//! The DWARF of a module: its units, read when they are needed, and the entries in them.

mod address;
pub(crate) mod block;
mod descriptors;
mod die;
mod entry;
pub(crate) mod index;
pub(crate) mod line;
mod linkage;
pub(crate) mod location;
pub(crate) mod name;
pub(crate) mod parameters;
mod ranges;
mod split;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use gimli::{AttributeValue, Dwarf, SectionId, constants};

use crate::module::kept::Key;
use crate::module::{Image, Reader, Sections};
use crate::types::Language;
use block::BlockTree;
use descriptors::Descriptors;
pub(crate) use die::{Die, Entry, Unit, Value, flag};
use index::{Index, Name};
use line::{FileNames, LineTable};
use linkage::LinkageNames;
use split::{SplitReader, SplitUnit};

/// The units of a module.
#[derive(Debug)]
pub(crate) struct DebugInformation {
    dwarf: Dwarf<Reader>,
    /// The files that it is from, beside which a package of split units may be.
    files: Vec<PathBuf>,
    units: OnceLock<Units>,
    by_address: OnceLock<Vec<address::UnitRange>>,
    index: OnceLock<Index>,
    linkage_names: OnceLock<LinkageNames>,
    /// Where the index is kept.
    index_key: Option<Key>,
    descriptors: OnceLock<Descriptors>,
    /// How many names were searched in the strings.
    searches: AtomicU32,
}

#[derive(Debug)]
struct Units {
    slots: Vec<UnitSlot>,
    /// The files of split units that cannot be read.
    unread: Vec<String>,
}

/// The file that a unit's header is in.
#[derive(Debug)]
enum Source {
    Module,
    Supplementary,
    /// A type unit in the file of a split unit.
    Split(Arc<Dwarf<Reader>>),
}

#[derive(Debug)]
struct UnitSlot {
    header: gimli::UnitHeader<Reader>,
    source: Source,
    /// For a skeleton: the unit in another file that it refers to.
    split: Option<SplitUnit>,
    unit: OnceLock<Option<Box<Unit>>>,
    facts: OnceLock<Arc<UnitFacts>>,
    blocks: OnceLock<Arc<BlockTree>>,
    files: OnceLock<Arc<FileNames>>,
    lines: OnceLock<Arc<LineTable>>,
}

/// Facts from a unit's root entry.
#[derive(Debug)]
pub(crate) struct UnitFacts {
    pub(crate) language: Language,
    /// Whether it is assembler, whose lines are instructions and have no prologue.
    pub(crate) assembler: bool,
    pub(crate) producer: String,
    /// The primary source file, as the compiler was given it.
    pub(crate) name: Option<String>,
    pub(crate) directory: Option<String>,
    pub(crate) low_pc: u64,
}

impl DebugInformation {
    pub(crate) fn new(
        image: &Image,
        sections: Option<&Sections>,
        supplementary: Option<&Image>,
        files: Vec<PathBuf>,
        index_key: Option<Key>,
    ) -> Self {
        let load = |image: &Image, sections: Option<&Sections>| -> Dwarf<Reader> {
            Dwarf::load(
                |id: SectionId| -> Result<Reader, std::convert::Infallible> {
                    let unused = matches!(
                        id,
                        SectionId::DebugAranges | SectionId::DebugMacinfo | SectionId::DebugMacro
                    );
                    Ok(Some(id.name())
                        .filter(|_| !unused)
                        .and_then(|name| {
                            let decompressed = sections.and_then(|it| it.reader(image, name));
                            decompressed.or_else(|| image.section_reader(name))
                        })
                        .unwrap_or_else(|| image.empty_reader()))
                },
            )
            .unwrap_or_else(|never| match never {})
        };
        let mut dwarf = load(image, sections);
        if let Some(supplementary) = supplementary {
            dwarf.set_sup(load(supplementary, None));
        }
        Self {
            dwarf,
            files,
            units: OnceLock::new(),
            by_address: OnceLock::new(),
            index: OnceLock::new(),
            linkage_names: OnceLock::new(),
            index_key,
            descriptors: OnceLock::new(),
            searches: AtomicU32::new(0),
        }
    }

    /// The unit headers, in the order of `.debug_info`, then `.debug_types`, then the type units of split units, then the
    /// supplementary file. A damaged header ends its section.
    fn slots(&self) -> &[UnitSlot] {
        &self.all_units().slots
    }

    fn all_units(&self) -> &Units {
        self.units.get_or_init(|| {
            let slot = |header, source, split| UnitSlot {
                header,
                source,
                split,
                unit: OnceLock::new(),
                facts: OnceLock::new(),
                blocks: OnceLock::new(),
                files: OnceLock::new(),
                lines: OnceLock::new(),
            };
            let mut slots = Vec::new();
            let mut split = SplitReader::new(&self.dwarf, &self.files);
            let mut units = self.dwarf.units();
            while let Ok(Some(header)) = units.next() {
                let apart = split.split(&header);
                slots.push(slot(header, Source::Module, apart));
            }
            let mut units = self.dwarf.type_units();
            while let Ok(Some(header)) = units.next() {
                slots.push(slot(header, Source::Module, None));
            }
            for (header, dwarf) in split.types {
                slots.push(slot(header, Source::Split(dwarf), None));
            }
            if let Some(supplementary) = self.dwarf.sup() {
                let mut units = supplementary.units();
                while let Ok(Some(header)) = units.next() {
                    slots.push(slot(header, Source::Supplementary, None));
                }
            }
            Units {
                slots,
                unread: split.unread,
            }
        })
    }

    pub(crate) fn unit_count(&self) -> usize {
        self.slots().len()
    }

    /// The files of split units that cannot be read, as the units name them.
    pub(crate) fn unread_files(&self) -> &[String] {
        &self.all_units().unread
    }

    /// Whether parts are in other files than the module's own: of split units, or one that several programs share.
    pub(crate) fn is_in_several_files(&self) -> bool {
        self.dwarf.sup().is_some() || self.is_split()
    }

    /// Whether entries are in the files of split units.
    pub(in crate::dwarf) fn is_split(&self) -> bool {
        self.slots().iter().any(|slot| slot.split.is_some())
    }

    /// The sections that a unit's offsets refer to.
    pub(crate) fn dwarf_of(&self, unit: usize) -> &Dwarf<Reader> {
        let Some(slot) = self.slots().get(unit) else {
            return &self.dwarf;
        };
        match (&slot.source, &slot.split) {
            (_, Some(split)) => &split.dwarf,
            (Source::Split(dwarf), _) => dwarf,
            (Source::Supplementary, _) => self.dwarf.sup().unwrap_or(&self.dwarf),
            (Source::Module, _) => &self.dwarf,
        }
    }

    /// The unit that has the ranges of a unit's code, and its sections: of a split one the skeleton.
    fn with_ranges(&self, unit: usize) -> Option<(&Dwarf<Reader>, &Unit)> {
        match self.slots().get(unit)?.split.as_ref() {
            Some(split) => Some((&self.dwarf, &split.skeleton)),
            None => Some((self.dwarf_of(unit), self.unit(unit)?)),
        }
    }

    /// The header of a unit that can be read.
    fn header(&self, unit: usize) -> Option<&gimli::UnitHeader<Reader>> {
        let slot = self.slots().get(unit)?;
        let header = slot
            .split
            .as_ref()
            .map_or(&slot.header, |split| &split.header);
        matches!(header.address_size(), 4 | 8).then_some(header)
    }

    pub(crate) fn unit(&self, unit: usize) -> Option<&Unit> {
        let slot = self.slots().get(unit)?;
        if let Some(split) = &slot.split {
            return Some(&split.unit);
        }
        slot.unit
            .get_or_init(|| {
                self.dwarf_of(unit)
                    .unit(slot.header.clone())
                    .ok()
                    .filter(|unit| matches!(unit.header.address_size(), 4 | 8))
                    .map(Box::new)
            })
            .as_deref()
    }

    pub(crate) fn facts(&self, unit: usize) -> Arc<UnitFacts> {
        let read = || {
            let root = self
                .unit(unit)
                .and_then(|found| found.entry(found.header.root_offset()).ok());
            let text = |name| {
                root.as_ref()
                    .and_then(|root| self.string(unit, root.attr_value(name)?))
            };
            let language = match root
                .as_ref()
                .and_then(|r| r.attr_value(constants::DW_AT_language))
            {
                Some(AttributeValue::Language(language)) => Some(language),
                _ => None,
            };
            Arc::new(UnitFacts {
                language: language.map_or(Language::C, language_of),
                assembler: matches!(language, Some(constants::DW_LANG_Mips_Assembler)),
                producer: text(constants::DW_AT_producer).unwrap_or_default(),
                name: text(constants::DW_AT_name),
                directory: text(constants::DW_AT_comp_dir).or_else(|| {
                    let directory = self.unit(unit)?.comp_dir.as_ref()?;
                    Some(gimli::Reader::to_string_lossy(directory).ok()?.into_owned())
                }),
                low_pc: self.unit(unit).map_or(0, |unit| unit.low_pc),
            })
        };
        match self.slots().get(unit) {
            Some(slot) => Arc::clone(slot.facts.get_or_init(read)),
            None => read(),
        }
    }

    /// The functions and blocks of a unit.
    pub(crate) fn blocks(&self, unit: usize) -> Arc<BlockTree> {
        match self.slots().get(unit) {
            Some(slot) => Arc::clone(
                slot.blocks
                    .get_or_init(|| Arc::new(BlockTree::read(self, unit))),
            ),
            None => Arc::default(),
        }
    }

    /// The line table of a unit.
    pub(crate) fn lines(&self, unit: usize) -> Arc<LineTable> {
        match self.slots().get(unit) {
            Some(slot) => Arc::clone(
                slot.lines
                    .get_or_init(|| Arc::new(LineTable::read(self, unit))),
            ),
            None => Arc::default(),
        }
    }

    /// The files of a unit's line table, without running its program.
    pub(crate) fn file_names(&self, unit: usize) -> Arc<FileNames> {
        match self.slots().get(unit) {
            Some(slot) => Arc::clone(
                slot.files
                    .get_or_init(|| Arc::new(FileNames::read(self, unit))),
            ),
            None => Arc::default(),
        }
    }

    /// The names whose last component without template arguments is `plain_name`, in the order of the file. The
    /// index is not read for a name that the module does not have, unless there are many such names.
    pub(crate) fn named(&self, plain_name: &str) -> Vec<Name> {
        /// So many searches of the strings take longer than to read the index.
        const MOST_SEARCHES: u32 = 256;
        if self.index.get().is_none()
            && self.searches.fetch_add(1, Ordering::Relaxed) < MOST_SEARCHES
            && !self.may_name(plain_name)
        {
            return Vec::new();
        }
        self.index().named(plain_name)
    }

    /// The descriptors of the types that values of interfaces have.
    pub(crate) fn descriptors(&self) -> &Descriptors {
        self.descriptors.get_or_init(|| Descriptors::read(self))
    }

    /// The names of the module.
    pub(crate) fn index(&self) -> &Index {
        self.index
            .get_or_init(|| Index::get(self, self.index_key.as_ref()))
    }
}

fn language_of(language: constants::DwLang) -> Language {
    match language {
        constants::DW_LANG_C_plus_plus
        | constants::DW_LANG_C_plus_plus_03
        | constants::DW_LANG_C_plus_plus_11
        | constants::DW_LANG_C_plus_plus_14
        | constants::DW_LANG_C_plus_plus_17
        | constants::DW_LANG_C_plus_plus_20
        | constants::DW_LANG_ObjC_plus_plus => Language::Cpp,
        constants::DW_LANG_Rust => Language::Rust,
        constants::DW_LANG_Go => Language::Go,
        _ => Language::C,
    }
}

/// How close two names are, from 0 to 1; none if not close.
pub(crate) fn nearness(wanted: &str, name: &str) -> Option<f64> {
    // Too different in length to be close: saves the comparison.
    let (short, long) = if wanted.len() < name.len() {
        (wanted.len(), name.len())
    } else {
        (name.len(), wanted.len())
    };
    if long > 128 || short * 2 < long {
        return None;
    }
    let nearness = strsim::normalized_damerau_levenshtein(wanted, name);
    (nearness > 0.6).then_some(nearness)
}
