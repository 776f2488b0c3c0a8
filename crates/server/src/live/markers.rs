//! USDT probes for static tracepoints, of the program and its libraries, as `sys/sdt.h` defines them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tracewire_agent_expr::verify;
use tracewire_debuginfo::Symbols;
use tracewire_experiment::MarkerValue;
use tracewire_expr::{MarkerArgument, marker_arguments};
use tracewire_model::Address;
use tracewire_packets::tracepoint::{Definition, Marker, MarkerList};
use tracewire_packets::{Failure, HexBytes, Reply};
use tracewire_target_linux::{ModuleKind, Process};

use crate::session::PACKET_SIZE;

/// The markers of the program that is traced, and those that tracepoints are on.
#[derive(Debug, Default)]
pub(super) struct Markers {
    /// The files that they are from, each with how far it was moved.
    modules: Vec<(PathBuf, u64)>,
    list: Vec<Known>,
    /// How many have been reported to the client.
    reported: usize,
    /// The values that are read at the tracepoints.
    pub(super) values: BTreeMap<Address, Vec<MarkerValue>>,
}

#[derive(Debug)]
struct Known {
    address: Address,
    /// `provider:name`.
    id: String,
    /// The arguments as the marker has them.
    arguments: String,
    values: Vec<MarkerValue>,
    semaphore: Option<Address>,
}

impl Markers {
    /// Reads them again if something was loaded or unloaded.
    fn refresh(&mut self, process: &Process) {
        let modules = process.modules().unwrap_or_default();
        let files: Vec<(PathBuf, u64)> = modules
            .iter()
            .filter(|module| module.kind != ModuleKind::Vdso)
            .map(|module| (module.file.clone(), module.load_bias))
            .collect();
        if files == self.modules {
            return;
        }
        self.list.clear();
        for (file, bias) in &files {
            let mut symbols = Symbols::new();
            // A file that cannot be read has no probes to report.
            if symbols.add_module(file, *bias).is_err() {
                continue;
            }
            for marker in symbols.markers() {
                let values = marker_arguments(&symbols, &marker);
                self.list.push(Known {
                    address: marker.address,
                    id: format!("{}:{}", marker.provider, marker.name),
                    values: values.iter().map(value).collect(),
                    arguments: marker.arguments,
                    semaphore: marker.semaphore,
                });
            }
        }
        self.modules = files;
    }

    /// The first markers.
    pub(super) fn first(&mut self, process: Option<&Process>) -> Reply {
        self.reported = 0;
        if let Some(process) = process {
            self.refresh(process);
        }
        self.more()
    }

    /// As many of those not reported yet as fit.
    pub(super) fn more(&mut self) -> Reply {
        let mut room = PACKET_SIZE;
        let mut markers = Vec::new();
        for known in self.list.iter().skip(self.reported) {
            let marker = known.marker();
            let length = 20 + 2 * (marker.id.0.len() + marker.extra.0.len());
            match room.checked_sub(length) {
                Some(rest) => room = rest,
                None if markers.is_empty() => {}
                None => break,
            }
            markers.push(marker);
        }
        self.reported += markers.len();
        reply_with(markers)
    }

    /// Those at an address.
    pub(super) fn at(&mut self, process: Option<&Process>, address: Address) -> Reply {
        if let Some(process) = process {
            self.refresh(process);
        }
        let here = self.list.iter().filter(|known| known.address == address);
        reply_with(here.map(Known::marker).collect())
    }

    /// Prepares a static tracepoint that is about to be defined, or returns why it cannot be.
    pub(super) fn prepare(
        &mut self,
        process: Option<&mut Process>,
        definition: &Definition,
    ) -> Option<Reply> {
        let address = definition.address;
        let Some(process) = process else {
            return Some(Reply::Error(Failure::text("there is no program")));
        };
        self.refresh(process);
        let Some(known) = self.list.iter().find(|known| known.address == address) else {
            let text = format!("there is no static tracepoint marker at {address}");
            return Some(Reply::Error(Failure::text(&text)));
        };
        self.values.insert(address, known.values.clone());
        if let Some(semaphore) = known.semaphore {
            process.set_semaphore(address, semaphore);
        }
        None
    }
}

impl Known {
    fn marker(&self) -> Marker {
        Marker {
            address: self.address,
            id: HexBytes(self.id.clone().into_bytes()),
            extra: HexBytes(self.arguments.clone().into_bytes()),
        }
    }
}

fn reply_with(markers: Vec<Marker>) -> Reply {
    if markers.is_empty() {
        Reply::End
    } else {
        Reply::Markers(MarkerList(markers))
    }
}

fn value(argument: &MarkerArgument) -> MarkerValue {
    MarkerValue {
        program: argument
            .program
            .as_deref()
            .and_then(|program| verify(program).ok()),
        signed: argument.signed,
    }
}
