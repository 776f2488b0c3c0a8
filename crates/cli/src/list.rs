//! `list`: the places in a program or a process that can be traced.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use serde_json::{Map, Value, json};
use tracewire_debuginfo::{
    Function, LocationError, Marker, ModuleFile, ModuleId, ResolvedLocation, Symbols,
    VariableLocation, names_functions,
};
use tracewire_expr::{marker_arguments, type_name};
use tracewire_model::{Address, ThreadId};
use tracewire_tracefile::IndexCache;
use tracewire_views::words;

use crate::answer::Answer;
use crate::debuginfod::DebuginfodArguments;

pub const HELP: &str = "\
PATTERN is a location as `record -t` takes it: a function, Cart::*, /^ngx_http_/, FILE:LINE, FILE:*, MODULE:FUNCTION; or the name of a \
source file, or PROVIDER:NAME of a probe. For up to 20 functions, the lines that have code of their own are listed with the arguments and \
local variables that are seen there; --lines lists them for any number. A name is printed as -t takes it.

Of a PROGRAM, the file itself is listed; of a process, its libraries, too. A file in the current folder comes before a program of the PATH.

Exit status 1 when nothing fits.

Examples:
  tracewire list ./shop
  tracewire list ./shop 'Cart::*'
  tracewire list ./shop cart.cpp:20
  tracewire list 1234 'libc:/^str/'
  tracewire list /usr/bin/python3 'python:*'
  tracewire list ./shop total --json | jq .variables";

/// For how many functions lines are listed unasked.
const FEW_FUNCTIONS: usize = 20;

#[derive(Args, Debug)]
pub struct ListArguments {
    /// A program or a library, by its file or a name of the PATH; or the id of a process
    #[arg(value_name = "PROGRAM|PID", value_hint = ValueHint::ExecutablePath)]
    pub program: OsString,
    /// Only what this names
    #[arg(value_name = "PATTERN", allow_hyphen_values = true)]
    pub pattern: Option<String>,
    /// List the lines of every function of PATTERN, however many there are
    #[arg(long, requires = "pattern")]
    pub lines: bool,
    #[command(flatten)]
    pub debuginfod: DebuginfodArguments,
    /// One JSON object a line instead of text
    #[arg(long)]
    pub json: bool,
}

/// `list`.
pub fn list(arguments: &ListArguments) -> anyhow::Result<Answer> {
    let symbols = symbols_of(&arguments.program, arguments.debuginfod)?;
    for module in symbols.modules() {
        if let Some(unread) = symbols.unread_debug_information(module.id) {
            message!("tracewire: warning: {}", words::printable(&unread));
        }
    }
    let listing = match arguments.pattern.as_deref() {
        None => Listing::of_all(&symbols),
        Some(pattern) => match Listing::of(&symbols, pattern, arguments.lines) {
            Ok(listing) => listing,
            Err(error @ LocationError::Syntax { .. }) => bail!(error),
            Err(error) => {
                message!("tracewire: {}", words::printable(&error.to_string()));
                return Ok(Answer::No);
            }
        },
    };
    let mut output = io::BufWriter::new(io::stdout().lock());
    if arguments.json {
        listing.write_json(&symbols, &mut output)?;
    } else {
        listing.write(&symbols, &mut output)?;
    }
    output.flush()?;
    Ok(if listing.is_empty() {
        Answer::No
    } else {
        Answer::Yes
    })
}

/// The symbols of a program's file, or of all files of a process.
pub fn symbols_of(program: &OsStr, debuginfod: DebuginfodArguments) -> anyhow::Result<Symbols> {
    let mut symbols = Symbols::new();
    if let Some(source) = debuginfod.source()? {
        symbols.take_debug_files_from(source);
    }
    if let Some(cache) = IndexCache::of_user() {
        symbols.keep_names_in(cache.folder());
    }
    let path = Path::new(program);
    let id = program.to_str().and_then(|text| text.parse::<u32>().ok());
    if let Some(id) = id.filter(|_| !path.is_file()) {
        let files = tracewire_target_linux::mapped_files(ThreadId(id))
            .with_context(|| format!("cannot read which files process {id} consists of"))?;
        for mapped in files {
            // Fonts, archives of locales and the like are mapped, too.
            let Ok(file) = ModuleFile::read(&mapped.file) else {
                continue;
            };
            let file = file.called(mapped.path);
            let bias = if file.is_relocatable() {
                mapped.start.0.wrapping_sub(file.first_address() & !0xfff)
            } else {
                0
            };
            symbols.add_file(&file, bias)?;
        }
        return Ok(symbols);
    }
    let path = found_in_path(path).unwrap_or_else(|| path.to_owned());
    symbols.add_module(&path, 0)?;
    Ok(symbols)
}

/// The file of a program that is named without a folder.
fn found_in_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() != 1 || name.is_file() {
        return None;
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The result of a listing.
#[derive(Default)]
struct Listing {
    functions: Vec<ListedFunction>,
    /// Lines that are not of a function above.
    lines: Vec<ListedLine>,
    probes: Vec<Marker>,
}

struct ListedFunction {
    name: String,
    linkage_name: Option<String>,
    module: ModuleId,
    /// Where it begins and its size; none for one that has been inlined only.
    code: Option<(Address, u64)>,
    file: Option<String>,
    line: u64,
    /// How many inlined copies a tracepoint would be at; only where a pattern was given.
    copies: usize,
    lines: Vec<ListedLine>,
}

struct ListedLine {
    function: Option<String>,
    file: Option<String>,
    line: u64,
    addresses: Vec<Address>,
    variables: Vec<ListedVariable>,
}

struct ListedVariable {
    name: String,
    type_name: String,
    is_argument: bool,
    is_available: bool,
}

impl ListedFunction {
    fn new(function: &Function) -> Self {
        let code = function
            .ranges
            .iter()
            .map(|(start, end)| end.0.saturating_sub(start.0))
            .fold(0, u64::saturating_add);
        Self {
            name: function.readable_name(),
            linkage_name: function.linkage_name.clone(),
            module: function.module,
            code: Some((function.entry, code)),
            file: function.file.clone(),
            line: function.line,
            copies: 0,
            lines: Vec::new(),
        }
    }
}

impl Listing {
    /// Every function and every probe.
    fn of_all(symbols: &Symbols) -> Self {
        let mut functions: Vec<ListedFunction> = symbols
            .functions()
            .iter()
            .filter(|function| !function.is_label)
            .map(ListedFunction::new)
            .collect();
        functions.sort_by(|a, b| (a.module, &a.name, a.code).cmp(&(b.module, &b.name, b.code)));
        Self {
            functions,
            lines: Vec::new(),
            probes: symbols.markers(),
        }
    }

    fn of(symbols: &Symbols, pattern: &str, all_lines: bool) -> Result<Self, LocationError> {
        let probes = symbols.markers_named(pattern);
        let found = match symbols.resolve(pattern, None) {
            // The name of a source file selects all of its functions.
            Err(error @ LocationError::NoFunction { .. }) => {
                let whole = format!("\"{pattern}\":*");
                symbols.resolve(&whole, None).map_err(|_| error)
            }
            other => other,
        };
        let places = match found {
            Ok(places) => places,
            Err(_) if !probes.is_empty() => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut listing = Self {
            probes,
            ..Self::default()
        };
        if places.iter().any(|place| place.marker.is_some()) {
            listing.probes = places
                .into_iter()
                .filter_map(|place| place.marker)
                .map(|marker| *marker)
                .collect();
        } else if names_functions(pattern) {
            listing.add_functions(symbols, &places, all_lines);
        } else {
            listing.lines = lines_of(symbols, &places);
        }
        Ok(listing)
    }

    fn add_functions(&mut self, symbols: &Symbols, places: &[ResolvedLocation], all_lines: bool) {
        let mut functions: BTreeMap<(ModuleId, Address), Function> = BTreeMap::new();
        let mut copies: BTreeMap<(ModuleId, String), Vec<&ResolvedLocation>> = BTreeMap::new();
        for place in places {
            let around = symbols.function_at(place.address);
            let named = place.function.clone().unwrap_or_default();
            match around {
                Some(function) if function.name == named || place.selected_for.is_some() => {
                    functions.insert((function.module, function.entry), function);
                }
                _ => copies.entry((place.module, named)).or_default().push(place),
            }
        }
        for function in functions.values() {
            let mut listed = ListedFunction::new(function);
            let only = functions
                .values()
                .filter(|other| other.name == function.name);
            if only.count() == 1 {
                let own = copies.remove(&(function.module, function.name.clone()));
                listed.copies = own.map_or(0, |own| own.len());
            }
            self.functions.push(listed);
        }
        for ((module, name), places) in copies {
            let place = symbols.place(places[0].scope());
            self.functions.push(ListedFunction {
                name,
                linkage_name: None,
                module,
                code: None,
                file: place.as_ref().and_then(|place| place.file.clone()),
                line: place.map_or(0, |place| place.line),
                copies: places.len(),
                lines: Vec::new(),
            });
        }
        if all_lines || self.functions.len() <= FEW_FUNCTIONS {
            for (listed, function) in self.functions.iter_mut().zip(functions.values()) {
                listed.lines = lines_in(symbols, function);
            }
        }
        (self.functions)
            .sort_by(|a, b| (a.module, &a.name, a.code).cmp(&(b.module, &b.name, b.code)));
    }

    fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.lines.is_empty() && self.probes.is_empty()
    }

    fn write(&self, symbols: &Symbols, output: &mut dyn Write) -> io::Result<()> {
        let modules: BTreeSet<ModuleId> = (self.functions.iter().map(|one| one.module))
            .chain(self.probes.iter().map(|one| one.module))
            .collect();
        let several = modules.len() > 1;
        for module in &modules {
            let indent = if several { "  " } else { "" };
            if several {
                writeln!(output, "{}", words::printable(&path_of(symbols, *module)))?;
            }
            for function in self.functions.iter().filter(|one| one.module == *module) {
                write_function(function, indent, output)?;
            }
            for probe in self.probes.iter().filter(|one| one.module == *module) {
                let arguments: Vec<String> = probe_types(symbols, probe)
                    .into_iter()
                    .enumerate()
                    .map(|(index, (type_name, _))| format!("{type_name} $_probe_arg{index}"))
                    .collect();
                let name = format!(
                    "-m {}:{}({})",
                    probe.provider,
                    probe.name,
                    arguments.join(", ")
                );
                writeln!(output, "{indent}{}", words::printable(&name))?;
            }
        }
        for line in &self.lines {
            let function = line.function.as_deref().unwrap_or("code without a name");
            writeln!(output, "{}", words::printable(function))?;
            write_line(line, "  ", output)?;
        }
        Ok(())
    }

    fn write_json(&self, symbols: &Symbols, output: &mut dyn Write) -> io::Result<()> {
        for function in &self.functions {
            let mut object = Map::new();
            object.insert("kind".to_owned(), json!("function"));
            object.insert("name".to_owned(), json!(function.name));
            insert(
                &mut object,
                "linkage_name",
                function.linkage_name.as_deref(),
            );
            object.insert(
                "module".to_owned(),
                json!(path_of(symbols, function.module)),
            );
            if let Some((address, size)) = function.code {
                object.insert("address".to_owned(), json!(address.to_string()));
                object.insert("size".to_owned(), json!(size));
            }
            insert(&mut object, "file", function.file.as_deref());
            insert(
                &mut object,
                "line",
                Some(function.line).filter(|line| *line > 0),
            );
            insert(
                &mut object,
                "inlined_copies",
                Some(function.copies).filter(|copies| *copies > 0),
            );
            writeln!(output, "{}", Value::Object(object))?;
            for line in &function.lines {
                writeln!(output, "{}", line_object(line, Some(&function.name)))?;
            }
        }
        for line in &self.lines {
            writeln!(output, "{}", line_object(line, line.function.as_deref()))?;
        }
        for probe in &self.probes {
            let arguments: Vec<Value> = probe_types(symbols, probe)
                .into_iter()
                .enumerate()
                .map(|(index, (type_name, is_available))| {
                    json!({
                        "name": format!("$_probe_arg{index}"),
                        "type": type_name,
                        "available": is_available,
                    })
                })
                .collect();
            let object = json!({
                "kind": "probe",
                "provider": probe.provider,
                "name": probe.name,
                "module": path_of(symbols, probe.module),
                "address": probe.address.to_string(),
                "arguments": arguments,
            });
            writeln!(output, "{object}")?;
        }
        Ok(())
    }
}

fn insert(object: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(name.to_owned(), value.into());
    }
}

fn path_of(symbols: &Symbols, module: ModuleId) -> String {
    symbols
        .module(module)
        .map_or_else(String::new, |info| info.path.display().to_string())
}

fn write_function(
    function: &ListedFunction,
    indent: &str,
    output: &mut dyn Write,
) -> io::Result<()> {
    let mut text = function.name.clone();
    if let Some(file) = &function.file {
        text += &format!("  {}", file.rsplit('/').next().unwrap_or(file));
        if function.line > 0 {
            text += &format!(":{}", function.line);
        }
    }
    if function.copies > 0 {
        let copies = match function.copies {
            1 => "1 inlined copy".to_owned(),
            count => format!("{count} inlined copies"),
        };
        let only = if function.code.is_none() { "only " } else { "" };
        text += &format!("  ({only}{copies})");
    }
    writeln!(output, "{indent}{}", words::printable(&text))?;
    for line in &function.lines {
        write_line(line, &format!("{indent}  "), output)?;
    }
    Ok(())
}

fn write_line(line: &ListedLine, indent: &str, output: &mut dyn Write) -> io::Result<()> {
    let variables: Vec<String> = line
        .variables
        .iter()
        .map(|variable| {
            let gone = if variable.is_available {
                ""
            } else {
                " <optimized out>"
            };
            format!("{} {}{gone}", variable.type_name, variable.name)
        })
        .collect();
    let place = match &line.file {
        Some(file) => format!("{}:{}", file.rsplit('/').next().unwrap_or(file), line.line),
        None => line
            .addresses
            .first()
            .map_or_else(String::new, |address| format!("*{address}")),
    };
    let text = if variables.is_empty() {
        place
    } else {
        format!("{place}  {}", variables.join(", "))
    };
    writeln!(output, "{indent}{}", words::printable(&text))
}

fn line_object(line: &ListedLine, function: Option<&str>) -> Value {
    let mut object = Map::new();
    object.insert("kind".to_owned(), json!("line"));
    insert(&mut object, "function", function);
    insert(&mut object, "file", line.file.as_deref());
    insert(
        &mut object,
        "line",
        Some(line.line).filter(|line| *line > 0),
    );
    let addresses: Vec<String> = line.addresses.iter().map(Address::to_string).collect();
    object.insert("addresses".to_owned(), json!(addresses));
    let variables: Vec<Value> = line
        .variables
        .iter()
        .map(|variable| {
            json!({
                "name": variable.name,
                "type": variable.type_name,
                "kind": if variable.is_argument { "argument" } else { "local" },
                "available": variable.is_available,
            })
        })
        .collect();
    object.insert("variables".to_owned(), json!(variables));
    Value::Object(object)
}

/// The lines of a function, each with the variables in scope at a tracepoint there.
fn lines_in(symbols: &Symbols, function: &Function) -> Vec<ListedLine> {
    let Some(file) = &function.file else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for line in symbols.lines_of(function) {
        let Ok(mut places) = symbols.resolve(&format!("\"{file}\":{line}"), None) else {
            continue;
        };
        places.retain(|place| {
            let own = |(start, end): &(Address, Address)| (start..end).contains(&&place.address);
            function.ranges.iter().any(own)
        });
        found.extend(lines_of(symbols, &places));
    }
    found.dedup_by(|a, b| (&a.file, a.line) == (&b.file, b.line));
    found
}

/// Places as lines; those of one line and function are joined.
fn lines_of(symbols: &Symbols, places: &[ResolvedLocation]) -> Vec<ListedLine> {
    let mut lines: Vec<ListedLine> = Vec::new();
    for place in places {
        let same = |line: &&mut ListedLine| {
            line.file.is_some()
                && (&line.file, line.line, &line.function)
                    == (&place.file, place.line, &place.function)
        };
        let line = match lines.iter_mut().find(same) {
            Some(line) => line,
            None => {
                lines.push(ListedLine {
                    function: place.function.clone(),
                    file: place.file.clone(),
                    line: place.line,
                    addresses: Vec::new(),
                    variables: Vec::new(),
                });
                let Some(last) = lines.last_mut() else {
                    continue;
                };
                last
            }
        };
        line.addresses.push(place.address);
        let seen = symbols.variables_at(place.scope());
        let arguments = seen.arguments.iter().map(|variable| (variable, true));
        let locals = seen.locals.iter().map(|variable| (variable, false));
        for (variable, is_argument) in arguments.chain(locals) {
            // Variables that the compiler makes are left out, except `this`.
            if variable.shadowed || (variable.artificial && variable.name != "this") {
                continue;
            }
            let is_available = !matches!(
                variable.location,
                VariableLocation::OptimizedOut | VariableLocation::Unknown(_)
            );
            let known = line
                .variables
                .iter_mut()
                .find(|known| known.name == variable.name);
            match known {
                Some(known) => known.is_available |= is_available,
                None => line.variables.push(ListedVariable {
                    name: variable.name.clone(),
                    type_name: type_name(symbols, variable.type_id),
                    is_argument,
                    is_available,
                }),
            }
        }
    }
    lines
}

/// The types of a probe's arguments, and whether each can be collected.
fn probe_types(symbols: &Symbols, probe: &Marker) -> Vec<(String, bool)> {
    let arguments = marker_arguments(symbols, probe);
    if arguments.is_empty() {
        // Of another machine the operands are not known, but their sizes are.
        let texts = probe.arguments.split_whitespace();
        return texts.map(|text| (size_type(text), false)).collect();
    }
    arguments
        .iter()
        .map(|argument| {
            let sign = if argument.signed { "" } else { "u" };
            (
                format!("{sign}int{}_t", argument.bits),
                argument.program.is_some(),
            )
        })
        .collect()
}

/// The type of an operand as the note gives it: `-4@…` is a signed number of 4 bytes.
fn size_type(text: &str) -> String {
    let size = text.split_once('@').map_or("8", |(size, _)| size);
    let (sign, size) = match size.strip_prefix('-') {
        Some(size) => ("", size),
        None => ("u", size),
    };
    match size.parse::<u8>() {
        Ok(bytes @ (1 | 2 | 4 | 8)) => format!("{sign}int{}_t", u32::from(bytes) * 8),
        _ => "unknown".to_owned(),
    }
}
