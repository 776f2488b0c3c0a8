//! Every function of optimised programs with code or inlined copies: a location that names it means its own arguments, at any
//! address. The expected arguments are read from the entries of the debug information.

mod support;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use gimli::{AttributeValue, EndianSlice, RunTimeEndian, constants};
use object::{Object as _, ObjectSection as _};
use support::Build;
use tracewire_debuginfo::{FunctionPlace, Symbols, VariableKind};

/// How many functions of a program are tested, unless `TRACEWIRE_EVERY_FUNCTION` is set.
const MOST: usize = 150;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

/// The functions of a program: by the linker's name, or the plain one in C, the names of their arguments.
type Functions = BTreeMap<String, BTreeSet<Vec<String>>>;

/// Reads entries, each by its offset in `.debug_info`.
struct Reader<'a> {
    dwarf: gimli::Dwarf<Slice<'a>>,
    entries: HashMap<usize, (Entry<'a>, usize)>,
    children: HashMap<usize, Vec<usize>>,
    parents: HashMap<usize, usize>,
    units: Vec<gimli::Unit<Slice<'a>>>,
}

impl<'a> Reader<'a> {
    fn new(dwarf: gimli::Dwarf<Slice<'a>>) -> Self {
        let mut reader = Self {
            dwarf,
            entries: HashMap::new(),
            children: HashMap::new(),
            parents: HashMap::new(),
            units: Vec::new(),
        };
        let mut headers = reader.dwarf.units();
        while let Some(header) = headers.next().expect("a unit") {
            let unit = reader.dwarf.unit(header).expect("a unit");
            let start = header.debug_info_offset().expect("in .debug_info").0;
            let mut around: Vec<usize> = Vec::new();
            let mut entries = unit.entries();
            while let Some(entry) = entries.next_dfs().expect("an entry") {
                let offset = start + entry.offset().0;
                let depth = usize::try_from(entry.depth()).expect("a depth");
                around.truncate(depth);
                if let Some(&parent) = around.last() {
                    reader.children.entry(parent).or_default().push(offset);
                    reader.parents.insert(offset, parent);
                }
                around.push(offset);
                reader
                    .entries
                    .insert(offset, (entry.clone(), reader.units.len()));
            }
            reader.units.push(unit);
        }
        reader
    }

    fn refers_to(&self, offset: usize, name: constants::DwAt) -> Option<usize> {
        let (entry, unit) = &self.entries[&offset];
        let header = &self.units[*unit].header;
        match entry.attr_value(name)? {
            AttributeValue::UnitRef(to) => Some(header.debug_info_offset()?.0 + to.0),
            AttributeValue::DebugInfoRef(to) => Some(to.0),
            _ => None,
        }
    }

    fn text(&self, offset: usize, name: constants::DwAt) -> Option<String> {
        let (entry, unit) = &self.entries[&offset];
        let value = entry.attr_value(name)?;
        let text = self.dwarf.attr_string(&self.units[*unit], value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// The entry and those that it completes.
    fn chain(&self, offset: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(offset), |&offset| {
            self.refers_to(offset, constants::DW_AT_abstract_origin)
                .or_else(|| self.refers_to(offset, constants::DW_AT_specification))
        })
    }

    fn inherited(&self, offset: usize, name: constants::DwAt) -> Option<String> {
        self.chain(offset)
            .find_map(|offset| self.text(offset, name))
    }

    fn has_code(&self, offset: usize) -> bool {
        let (entry, unit) = &self.entries[&offset];
        let mut ranges = self
            .dwarf
            .die_ranges(&self.units[*unit], entry)
            .expect("ranges");
        while let Some(range) = ranges.next().expect("a range") {
            if range.begin != 0 && range.begin < range.end {
                return true;
            }
        }
        false
    }

    /// The entry that has a function's parameters: where it is an instance of an abstract one, that.
    fn root(&self, offset: usize) -> usize {
        let origin = |offset: &usize| self.refers_to(*offset, constants::DW_AT_abstract_origin);
        std::iter::successors(Some(offset), origin)
            .last()
            .expect("itself")
    }

    fn arguments(&self, function: usize) -> Vec<String> {
        let none = Vec::new();
        let children = self
            .children
            .get(&function)
            .unwrap_or(&none)
            .iter()
            .filter(|child| self.entries[child].0.tag() == constants::DW_TAG_formal_parameter)
            .filter_map(|child| self.inherited(*child, constants::DW_AT_name));
        let mut names: Vec<String> = children.collect();
        // A copy lists them in another order.
        names.sort();
        names
    }

    fn functions(&self) -> Functions {
        let mut functions = Functions::new();
        for (&offset, (entry, _)) in &self.entries {
            let is_copy = entry.tag() == constants::DW_TAG_inlined_subroutine;
            let is_function = entry.tag() == constants::DW_TAG_subprogram || is_copy;
            // A copy without a call site is no frame (GDB's rule).
            let is_frame = !is_copy || entry.attr_value(constants::DW_AT_call_line).is_some();
            if !is_function || !is_frame || !self.has_code(offset) || !self.is_reached(offset) {
                continue;
            }
            let root = self.root(offset);
            let name = self
                .inherited(offset, constants::DW_AT_linkage_name)
                .or_else(|| self.inherited(offset, constants::DW_AT_name));
            // Names in a C++ scope without a linkage name need the scope, which is not tested here.
            let linked = self
                .inherited(offset, constants::DW_AT_linkage_name)
                .is_some();
            let plain = self
                .refers_to(root, constants::DW_AT_specification)
                .is_none();
            // All classes may have one.
            let is_lambda = |name: &str| name == "operator()";
            // Functions of the compiler's own library have linkage names that differ from the debug information.
            let is_builtin = |name: &str| name.contains("compiler_builtins");
            let is_whole =
                |name: &String| (linked || plain && !is_lambda(name)) && !is_builtin(name);
            if let Some(name) = name.filter(is_whole) {
                functions
                    .entry(name)
                    .or_default()
                    .insert(self.arguments(root));
            }
        }
        functions
    }

    /// Whether the entry is within code all the way out.
    fn is_reached(&self, offset: usize) -> bool {
        let mut at = offset;
        while self.entries[&at].0.tag() != constants::DW_TAG_subprogram {
            let Some(&around) = self.parents.get(&at) else {
                return true;
            };
            if matches!(
                self.entries[&around].0.tag(),
                constants::DW_TAG_lexical_block | constants::DW_TAG_inlined_subroutine
            ) && !self.has_code(around)
            {
                return false;
            }
            at = around;
        }
        // The linker may have removed the function: its addresses begin at 0 then.
        self.has_code(at)
    }
}

fn functions(program: &Path) -> Functions {
    let bytes = std::fs::read(program).expect("the program is read");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let sections = gimli::DwarfSections::load(|id| {
        let section = file.section_by_name(id.name());
        let data = section.and_then(|section| section.uncompressed_data().ok());
        Ok::<_, gimli::Error>(data.unwrap_or(Cow::Borrowed(&[])))
    })
    .expect("sections");
    let dwarf = sections.borrow(|section| EndianSlice::new(section, RunTimeEndian::Little));
    Reader::new(dwarf).functions()
}

fn check(build: Build, at_least: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = build.run(directory.path());
    let functions = functions(&program);
    assert!(functions.len() >= at_least, "{} functions", functions.len());
    let mut symbols = Symbols::new();
    symbols
        .add_module(&program, 0)
        .expect("the program is read");
    let mut wrong = Vec::new();
    // Rust programs have thousands, most of the standard library.
    let asked = std::env::var("TRACEWIRE_EVERY_FUNCTION").ok();
    let most = asked.map_or(MOST, |most| most.parse().expect("a number"));
    let step = functions.len().div_ceil(most);
    eprintln!(
        "{} {}: {} of {} functions",
        build.compiler,
        build.source,
        functions.len().div_ceil(step),
        functions.len()
    );
    for (name, arguments) in functions.iter().step_by(step) {
        for place in [FunctionPlace::AfterPrologue, FunctionPlace::Entry] {
            let locations = match symbols.resolve_at(name, None, place) {
                Ok(locations) => locations,
                Err(error) => {
                    wrong.push(format!("{name}: {error}"));
                    continue;
                }
            };
            for location in locations {
                let scope = location.scope();
                let seen = symbols.variables_at(scope).arguments;
                let mut names: Vec<String> = seen.iter().map(|one| one.name.clone()).collect();
                names.sort();
                if !arguments.contains(&names) {
                    wrong.push(format!(
                        "{name} ({place:?}): {location}: {names:?}, not {arguments:?}"
                    ));
                }
                for argument in &names {
                    let found = symbols.lookup_variable(Some(scope), argument);
                    // Braces at the address may have a variable of the name.
                    if !found.is_some_and(|found| {
                        matches!(found.kind, VariableKind::Argument | VariableKind::Local)
                    }) {
                        wrong.push(format!("{name}: {location}: no {argument}"));
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{build:?}: {} of {} functions:\n{}",
        wrong.len(),
        functions.len(),
        wrong.join("\n")
    );
}

macro_rules! builds {
    ($($name:ident: $at_least:literal $compiler:literal $source:literal $options:expr;)*) => {$(
        #[test]
        fn $name() {
            check(
                Build { compiler: $compiler, source: $source, options: $options },
                $at_least,
            );
        }
    )*};
}

builds! {
    c_gcc: 10 "gcc" "inlined.c" &["-g", "-O2"];
    c_clang: 10 "clang" "inlined.c" &["-g", "-O2"];
    c_entries: 30 "gcc" "../../../cli/tests/programs/entries.c" &["-g", "-O3"];
    c_entries_clang: 30 "clang" "../../../cli/tests/programs/entries.c" &["-g", "-O2"];
    cpp_gcc: 100 "g++" "../../../cli/tests/programs/entries.cpp" &["-g", "-O2"];
    cpp_gcc_dwarf_4: 50 "g++" "cold.cpp" &["-gdwarf-4", "-O3"];
    cpp_clang: 100 "clang++" "../../../cli/tests/programs/entries.cpp" &["-g", "-O2"];
    rust_release: 50 "rustc" "../../../cli/tests/programs/entries.rs" &["-g", "-O", "--edition=2021"];
    rust_inlined: 50 "rustc" "inlined.rs" &["-g", "-O", "--edition=2021"];
}
