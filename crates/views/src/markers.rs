//! A single program or library: its machine, and its USDT probes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Serialize;
use tracewire_debuginfo::{SymbolError, Symbols};

/// The data of `info` for an ELF file.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ElfInfo {
    /// `elf`.
    pub kind: &'static str,
    /// The machine.
    pub architecture: &'static str,
    /// Its USDT probes (`sys/sdt.h`), in the order of the file.
    pub markers: Vec<MarkerInfo>,
}

/// One marker.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MarkerInfo {
    /// `provider:name`, as `strace -m` takes it.
    pub name: String,
    /// Where it is, as the file was linked.
    pub address: String,
    /// Its arguments, in the assembler's notation.
    pub arguments: String,
    /// The counter that must not be zero for the program to reach the probe, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub semaphore: Option<String>,
    /// The function that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

impl ElfInfo {
    /// Whether a file is an ELF file, by its first bytes.
    #[must_use]
    pub fn is_elf(path: &Path) -> bool {
        let mut magic = [0; 4];
        File::open(path)
            .and_then(|mut file| file.read_exact(&mut magic))
            .is_ok_and(|()| magic == *b"\x7fELF")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is no ELF file of a known machine.
    pub fn read(path: &Path) -> Result<Self, SymbolError> {
        let mut symbols = Symbols::new();
        symbols.add_module(path, 0)?;
        let markers = symbols
            .markers()
            .into_iter()
            .map(|marker| {
                let place = symbols.place(marker.address);
                let (function, file, line) = place.map_or((None, None, 0), |place| {
                    (place.function, place.file, place.line)
                });
                MarkerInfo {
                    name: format!("{}:{}", marker.provider, marker.name),
                    address: marker.address.to_string(),
                    arguments: marker.arguments,
                    semaphore: marker.semaphore.map(|address| address.to_string()),
                    function,
                    file,
                    line: (line > 0).then_some(line),
                }
            })
            .collect();
        Ok(Self {
            kind: "elf",
            architecture: symbols
                .architecture()
                .map_or("unknown", |machine| machine.name()),
            markers,
        })
    }

    /// One line of JSON, without a newline.
    #[must_use]
    pub fn json(&self) -> String {
        // Strings, numbers and lists of them always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}
