//! Split DWARF: units whose entries are in separate files (`.dwo`), or those of a whole program in one file (`.dwp`). The module
//! has only a skeleton of such a unit, with the addresses and the line table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::{Dwarf, DwarfPackage, DwoId, SectionId, UnitHeader, UnitType};

use super::Unit;
use crate::module::{Image, Reader};

/// The entries of a split unit.
#[derive(Debug)]
pub(super) struct SplitUnit {
    pub(super) dwarf: Arc<Dwarf<Reader>>,
    pub(super) header: UnitHeader<Reader>,
    pub(super) unit: Box<Unit>,
    pub(super) skeleton: Box<Unit>,
}

/// A type unit of a split unit's file.
pub(super) type SplitTypes = (UnitHeader<Reader>, Arc<Dwarf<Reader>>);

/// A unit with its sections and its header.
type Found = (Arc<Dwarf<Reader>>, UnitHeader<Reader>, Box<Unit>);

/// Reads the split units of a module.
pub(super) struct SplitReader<'a> {
    parent: &'a Dwarf<Reader>,
    package: Option<(Image, DwarfPackage<Reader>)>,
    /// The type units of the files that have been read.
    pub(super) types: Vec<SplitTypes>,
    /// The files that cannot be read, as the units name them.
    pub(super) unread: Vec<String>,
}

impl<'a> SplitReader<'a> {
    /// `files` are the files of the module, beside which a package may be.
    pub(super) fn new(parent: &'a Dwarf<Reader>, files: &[PathBuf]) -> Self {
        let package = files.iter().find_map(|file| {
            let mut name = file.clone().into_os_string();
            name.push(".dwp");
            let image = Image::read_debug(Path::new(&name)).ok()?;
            let section = |id: SectionId| -> Result<Reader, gimli::Error> {
                Ok(section(&image, id.dwo_name()))
            };
            let package = DwarfPackage::load(section, image.empty_reader()).ok()?;
            Some((image, package))
        });
        let mut reader = Self {
            parent,
            package,
            types: Vec::new(),
            unread: Vec::new(),
        };
        reader.read_package_types();
        reader
    }

    /// The type units of a package, which are not those of any one unit.
    fn read_package_types(&mut self) {
        let Some((_, package)) = &self.package else {
            return;
        };
        for index in 1..=package.tu_index.unit_count() {
            if let Ok(dwarf) = package.tu_sections(index, self.parent) {
                let dwarf = Arc::new(dwarf);
                self.types.extend(type_units(&dwarf));
            }
        }
    }

    /// The split unit of a skeleton; none for a unit that is whole, and for one whose file cannot be read.
    pub(super) fn split(&mut self, header: &UnitHeader<Reader>) -> Option<SplitUnit> {
        let may_be = match header.type_() {
            UnitType::Skeleton(_) => true,
            // Before DWARF 5 an attribute marks it; its addresses are in a separate section.
            UnitType::Compilation => {
                header.version() < 5 && !gimli::Section::reader(&self.parent.debug_addr).is_empty()
            }
            _ => false,
        };
        if !may_be {
            return None;
        }
        let skeleton = self.parent.unit(header.clone()).ok()?;
        let id = skeleton.dwo_id?;
        let text = |value| {
            let text: Reader = self.parent.attr_string(&skeleton, value).ok()?;
            Some(gimli::Reader::to_string_lossy(&text).ok()?.into_owned())
        };
        let name = text(skeleton.dwo_name().ok()??)?;
        let directory = skeleton.comp_dir.as_ref().and_then(|directory| {
            Some(gimli::Reader::to_string_lossy(directory).ok()?.into_owned())
        });
        let path = Path::new(directory.as_deref().unwrap_or("")).join(&name);
        let found = self
            .in_package(id, &skeleton)
            .or_else(|| self.in_file(&path, id, &skeleton));
        let Some((dwarf, header, unit)) = found else {
            self.unread.push(path.display().to_string());
            return None;
        };
        Some(SplitUnit {
            dwarf,
            header,
            unit,
            skeleton: Box::new(skeleton),
        })
    }

    fn in_package(&self, id: DwoId, skeleton: &Unit) -> Option<Found> {
        let (_, package) = self.package.as_ref()?;
        let dwarf = package.find_cu(id, self.parent).ok()??;
        self.unit_of(dwarf, id, skeleton)
    }

    fn in_file(&mut self, path: &Path, id: DwoId, skeleton: &Unit) -> Option<Found> {
        let image = Image::read_debug(path).ok()?;
        let mut dwarf = Dwarf::load(|id| -> Result<Reader, gimli::Error> {
            let name = id.dwo_name();
            Ok(section(&image, name))
        })
        .ok()?;
        dwarf.make_dwo(self.parent);
        let found = self.unit_of(dwarf, id, skeleton)?;
        self.types.extend(type_units(&found.0));
        Some(found)
    }

    /// The unit of an id, with what its skeleton has.
    fn unit_of(&self, mut dwarf: Dwarf<Reader>, id: DwoId, skeleton: &Unit) -> Option<Found> {
        // The line table is the module's, with its strings.
        dwarf.debug_line_str = self.parent.debug_line_str.clone();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(mut unit) = dwarf.unit(header.clone()) else {
                continue;
            };
            if unit.dwo_id != Some(id) {
                continue;
            }
            unit.copy_relocated_attributes(skeleton);
            unit.line_program.clone_from(&skeleton.line_program);
            if unit.comp_dir.is_none() {
                unit.comp_dir.clone_from(&skeleton.comp_dir);
            }
            return Some((Arc::new(dwarf), header, Box::new(unit)));
        }
        None
    }
}

fn type_units(dwarf: &Arc<Dwarf<Reader>>) -> Vec<SplitTypes> {
    let mut found = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        if matches!(
            header.type_(),
            UnitType::SplitType { .. } | UnitType::Type { .. }
        ) {
            found.push((header, Arc::clone(dwarf)));
        }
    }
    let mut headers = dwarf.type_units();
    while let Ok(Some(header)) = headers.next() {
        found.push((header, Arc::clone(dwarf)));
    }
    found
}

fn section(image: &Image, name: Option<&str>) -> Reader {
    name.and_then(|name| image.sections_reader(name))
        .unwrap_or_else(|| image.empty_reader())
}
