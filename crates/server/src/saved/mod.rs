//! A trace file for GDB: everything that `target tfile` answers, and more.
//!
//! GDB's own reader searches a file from its start for every `tfind`, has one address for all frames of a tracepoint,
//! skips static tracepoint data, and fails on long lines. It shows no symbols of a program that was loaded at another
//! address than its link address. Here an index finds frames, also by their own program counters. A program and
//! libraries with known addresses ([`Module`](tracewire_tracefile::Module) lines, or [`SavedTrace::set_program`]) are
//! shown at these.

mod image;
mod process;
mod session;

use std::path::{Path, PathBuf};

use tracewire_arch::{Architecture, RegisterLayout, StandardRegisters};
use tracewire_model::{Address, DefinitionRecord, Status, StopReason, VariableDefinition};
use tracewire_packets::Reply;
use tracewire_packets::tracepoint::TraceRequest;
use tracewire_tracefile::{Ending, TraceFile};

pub use image::ImageError;
pub use session::SavedSession;

use image::Image;

/// A trace file for sessions. It is never changed, so any number of sessions can share it.
#[derive(Debug)]
pub struct SavedTrace {
    file: TraceFile,
    /// The program comes first.
    images: Vec<Image>,
    problems: Vec<ImageError>,
    registers: Option<Registers>,
    status: Status,
    pieces: Vec<DefinitionRecord>,
}

impl SavedTrace {
    /// Opens the modules that the file names; those that cannot be read are [`Self::problems`].
    #[must_use]
    pub fn new(file: TraceFile) -> Self {
        let (mut images, mut problems) = (Vec::new(), Vec::new());
        for module in file.description().modules() {
            match Image::of_module(module) {
                Ok(image) => images.push(image),
                Err(error) => problems.push(error),
            }
        }
        let pieces = file
            .description()
            .tracepoints()
            .iter()
            .flat_map(|tracepoint| {
                // An action a piece, as gdbserver does: GDB writes each as a line when it saves them, and cannot read
                // long lines back.
                tracepoint.definition.records(tracepoint.usage, 0)
            })
            .collect();
        let registers = described_registers(&file);
        Self {
            images,
            problems,
            registers,
            status: status(&file),
            pieces,
            file,
        }
    }

    /// Sets the machine of the trace, for a file that does not name it. If the register blocks have the size of none of
    /// the machine's register sets, all registers are unavailable except the program counter.
    pub fn set_architecture(&mut self, architecture: Architecture) {
        self.file.set_architecture(architecture);
        self.registers = described_registers(&self.file).or_else(|| {
            let size = self.file.register_block_size();
            size.and_then(|size| StandardRegisters::fitting(architecture, size))
                .or_else(|| smallest(architecture))
                .map(Registers::from)
        });
    }

    /// Whether the machine's registers are known. GDB does not connect without them: it needs a program counter.
    #[must_use]
    pub const fn knows_registers(&self) -> bool {
        self.registers.is_some()
    }

    /// Sets the program that was traced, for a file that does not name it. `bias` is the difference between its
    /// addresses in memory and in the ELF file; without one, it is found by tracepoints that were set at functions.
    ///
    /// # Errors
    /// When the file is not a program.
    pub fn set_program(&mut self, path: &Path, bias: Option<u64>) -> Result<(), ImageError> {
        let mut image = Image::read(path)?;
        if let (None, Some(architecture)) = (&self.registers, image.architecture) {
            self.set_architecture(architecture);
        }
        let tracepoints = self.file.description().tracepoints();
        let known = self
            .file
            .description()
            .modules()
            .first()
            .map(|module| module.bias);
        image.bias = match bias.or(known) {
            Some(bias) => bias,
            None if image.movable => image.bias_from(tracepoints).unwrap_or(0),
            None => 0,
        };
        // A program that the file names is replaced.
        let is_known = self
            .images
            .first()
            .is_some_and(|first| known == Some(first.bias) && first.extent == image.extent);
        if is_known {
            self.images.remove(0);
        }
        self.images.insert(0, image);
        Ok(())
    }

    /// Modules that the file names and that cannot be read.
    #[must_use]
    pub fn problems(&self) -> &[ImageError] {
        &self.problems
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &TraceFile {
        &self.file
    }

    fn program(&self) -> Option<&Image> {
        self.images.first()
    }

    /// The frames, one after the other, as the file has them.
    fn buffer(&self) -> &[u8] {
        let start = usize::try_from(self.file.frames_start()).unwrap_or(usize::MAX);
        let end = match self.file.ending() {
            Ending::Marker { offset, .. }
            | Ending::Missing { offset }
            | Ending::Cut { offset, .. } => usize::try_from(offset).unwrap_or(usize::MAX),
            Ending::CutInDescription => start,
        };
        self.file.as_bytes().get(start..end).unwrap_or_default()
    }

    /// Memory that no frame need hold, because the program cannot change it.
    fn read_only_memory(&self, address: Address, memory: &mut [Option<u8>]) {
        for image in &self.images {
            image.read_memory(address, memory);
        }
    }

    fn piece(&self, place: usize) -> Reply {
        self.pieces
            .get(place)
            .map_or(Reply::End, |piece| Reply::DefinitionRecord(piece.clone()))
    }

    fn variable(&self, place: usize) -> Reply {
        let variables: &[VariableDefinition] = self.file.description().variables();
        variables
            .get(place)
            .map_or(Reply::End, |variable| Reply::Variable(variable.clone()))
    }

    /// In a few lines, for `monitor info`.
    fn summary(&self) -> String {
        let name = self
            .file
            .path()
            .map(Path::to_path_buf)
            .unwrap_or_else(|| PathBuf::from("a trace"));
        let mut text = format!(
            "{}: {} trace frames\n",
            name.display(),
            self.file.frame_count()
        );
        match self.file.ending() {
            Ending::Marker { .. } => {}
            ending => text.push_str(&format!("The file does not end as it should: {ending:?}\n")),
        }
        for image in &self.images {
            text.push_str(&format!("{} at {:#x}\n", image.path.display(), image.bias));
        }
        for problem in &self.problems {
            text.push_str(&format!("{problem}\n"));
        }
        text
    }
}

/// The machine's registers.
#[derive(Debug)]
struct Registers {
    /// The target description that GDB is to read them by.
    xml: String,
    /// The offset of each in a block; `None` when the description is not understood.
    layout: Option<RegisterLayout>,
}

impl From<StandardRegisters> for Registers {
    fn from(set: StandardRegisters) -> Self {
        Self {
            xml: set.target_xml(),
            layout: Some(set.layout()),
        }
    }
}

/// The registers of the file's own target description, else those of the machine that it names, or the only register set with the
/// size of the file's blocks.
fn described_registers(file: &TraceFile) -> Option<Registers> {
    let (order, size) = (file.byte_order(), file.register_block_size());
    let described = || {
        Some(Registers {
            xml: file.description().target_xml()?.to_owned(),
            layout: file.layout().cloned(),
        })
    };
    match file.named_architecture() {
        // GDB must not take other registers for the machine's standard ones than those of the blocks.
        Some(name) => size
            .and_then(|size| StandardRegisters::named(name, order, size))
            .or_else(|| smallest(Architecture::of_bfd_name(name, false, order)?))
            .map_or_else(described, |set| Some(set.into())),
        None => described().or_else(|| Some(StandardRegisters::only_of_size(order, size?)?.into())),
    }
}

fn smallest(architecture: Architecture) -> Option<StandardRegisters> {
    StandardRegisters::all(architecture).into_iter().next()
}

/// The state of the run when the file was written. The run is over, whatever the file says. GDB closes the connection
/// at a value that it cannot read.
fn status(file: &TraceFile) -> Status {
    let found = file.description().status().cloned();
    let mut status = found.map(Status::understood).unwrap_or_default();
    let fields = &mut status.fields;
    fields.running = false;
    fields.stop_reason.get_or_insert(StopReason::Unknown);
    fields.frames = Some(file.frame_count());
    status
}

/// Why a request that would change something is refused: a sentence for some packets, a name for others.
fn refusal(request: &TraceRequest) -> String {
    format!(
        "This is a saved trace, which nothing can change. Refused: {}",
        request_words(request)
    )
}

fn request_words(request: &TraceRequest) -> String {
    tracewire_packets::Request::Trace(request.clone()).explain()
}
