//! Experiments that a debugger's side hands over at a socket, while QEMU runs.
//!
//! A thread of its own answers ([`Request`]). The guest is stopped when a run begins, and the callbacks of the run are in the code that is
//! translated from then on; the other side has code with tracepoints translated again.

use std::collections::HashMap;
use std::ffi::{c_uint, c_void};
use std::fs::Permissions;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tracewire_arch::{Architecture, RegisterLayout};
use tracewire_experiment::handover::{Answer, Greeting, Request};
use tracewire_experiment::{
    AddressForm, Definitions, Experiment, Mechanism, Options, Registers, Target as _, Unreadable,
};
use tracewire_model::{Address, Tracepoint};
use tracewire_tracefile::FrameFormat;

use super::frames::Frames;
use super::instrumentation::{Instrumentation, Place};
use super::moving::Moving;
use super::tracing::{BeginError, check_conditions};
use crate::api::{self, Api, Id};
use crate::cpu_threads::SHARED;

/// How many bytes a buffer has where the definitions do not say it.
const SIZE: u64 = 5 << 20;

/// The experiment of this process, and the socket.
static CONTROL: OnceLock<(Mutex<Controlled>, PathBuf)> = OnceLock::new();

/// Whether a run is on; callbacks of translated code return at once otherwise.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Signalled when a run is forgotten.
static FORGOTTEN: Condvar = Condvar::new();

/// How long the end of QEMU waits for the other side to take the last frames.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// The guest, and the run that is carried out in it.
struct Controlled {
    architecture: Architecture,
    instrumentation: Instrumentation,
    /// The run, also when it has ended, until the other side has said that it knows.
    run: Option<Moving<Frames>>,
    /// The cpus whose next instruction is no hit, if it is at this address.
    passed: HashMap<u32, Address>,
    /// Whether code has been translated since QEMU threw it all away last.
    has_code: bool,
}

fn controlled() -> Option<MutexGuard<'static, Controlled>> {
    let (controlled, _) = CONTROL.get()?;
    Some(controlled.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Listens at the socket from now on.
pub fn install(
    id: Id,
    architecture: Architecture,
    api: Api,
    socket: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let said = |error: io::Error| format!("{}: {error}", socket.display());
    let listener = UnixListener::bind(socket).map_err(said)?;
    // Who may connect may read the memory of the guest.
    std::fs::set_permissions(socket, Permissions::from_mode(0o600)).map_err(said)?;
    let controlled = Controlled {
        architecture,
        instrumentation: Instrumentation::new(api, architecture),
        run: None,
        passed: HashMap::new(),
        has_code: false,
    };
    CONTROL
        .set((Mutex::new(controlled), socket.to_owned()))
        .map_err(|_| "the plugin is loaded twice; it can be loaded once")?;
    if let Some(controlled) = self::controlled() {
        let api = controlled.instrumentation.api();
        api.register(id, on_cpu, on_translation, on_exit);
        api.register_flush(id, on_flush);
    }
    std::thread::Builder::new()
        .name("tracewire".to_owned())
        .spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // The other side has gone, or sends what is no request. Its run ends with it.
                if let Err(error) = serve(architecture, &stream) {
                    eprintln!("tracewire plugin: {error}");
                }
                if let Some(mut controlled) = self::controlled() {
                    controlled.end();
                }
            }
        })?;
    Ok(())
}

/// Answers requests until the other side has gone.
fn serve(
    machine: Architecture,
    stream: &UnixStream,
) -> Result<(), tracewire_experiment::handover::MessageError> {
    let mut input = BufReader::new(stream);
    let mut output = BufWriter::new(stream);
    Greeting { machine }.write(&mut output)?;
    output.flush()?;
    while let Some(request) = Request::read(&mut input)? {
        let answer = match controlled() {
            Some(mut controlled) => controlled.answer(request),
            None => Answer::Refused("there is no guest".to_owned()),
        };
        answer.write(&mut output)?;
        output.flush()?;
    }
    Ok(())
}

impl Controlled {
    fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Begin(definitions) => {
                self.end();
                match self.begin(&definitions) {
                    Ok(()) => Answer::Begun {
                        sees_all: !self.has_code,
                    },
                    Err(error) => Answer::Refused(error.to_string()),
                }
            }
            Request::Pass { cpu, address } => {
                self.passed.insert(cpu, address);
                Answer::Done
            }
            Request::Progress { since } => match &mut self.run {
                Some(Moving(experiment)) => {
                    let progress = Box::new(experiment.progress());
                    let created = progress.status.frames_created.unwrap_or(0);
                    let frames = experiment.store().since(since, created);
                    Answer::Progress { progress, frames }
                }
                None => Answer::Refused("no run was begun".to_owned()),
            },
            Request::End => {
                self.end();
                Answer::Done
            }
        }
    }

    fn begin(&mut self, text: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
        let Definitions {
            architecture,
            parts,
        } = Definitions::parse(text)?;
        if architecture != self.architecture {
            return Err(format!(
                "the tracepoints are for {architecture}, and this QEMU is for {}",
                self.architecture
            )
            .into());
        }
        let xml = parts.target_xml.as_deref().unwrap_or_default();
        let layout =
            RegisterLayout::parse(xml).map_err(|error| BeginError::Layout(error.to_string()))?;
        let block = layout.truncated(parts.register_block_size);
        check_conditions(architecture, &layout, &parts.tracepoints)?;
        let order = architecture.byte_order();
        let settings = parts.status.map(|status| status.fields).unwrap_or_default();
        let size = settings.buffer_size.unwrap_or(SIZE);
        let frames = Frames::new(size, settings.circular == Some(true), order)?;
        // As the other side makes frames.
        let options = Options {
            format: FrameFormat {
                byte_order: order,
                register_block_size: block.size(),
            },
            stamp: false,
            registers: Registers::Asked,
            unreadable: Unreadable::Missing,
        };
        let mut experiment = Experiment::new(options, frames);
        experiment.set_mechanism(Mechanism::Trap);
        experiment.keep_asked_registers(block.clone());
        let bits = layout.program_counter().map_or(64, |counter| counter.bits);
        experiment.set_address_form(AddressForm::of_machine(Some(architecture), bits));
        for variable in parts.variables {
            experiment.define_variable(variable);
        }
        let steps = |one: &Tracepoint| one.definition.step_count > 0;
        let has_steps = parts.tracepoints.iter().any(steps);
        for Tracepoint { definition, .. } in parts.tracepoints {
            let number = definition.number;
            let defined = experiment.define(definition);
            defined.map_err(|source| BeginError::Define { number, source })?;
        }
        self.instrumentation.begin(&layout, block.size(), has_steps);
        let sites = self.instrumentation.sites();
        let now = sites.now();
        experiment.start_awaiting(sites, now)?;
        self.instrumentation.look_at_sites();
        self.run = Some(Moving(experiment));
        RUNNING.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the run, if there is one.
    fn end(&mut self) {
        RUNNING.store(false, Ordering::Relaxed);
        self.run = None;
        self.passed.clear();
        self.instrumentation.clear();
        FORGOTTEN.notify_all();
    }

    /// A cpu is about to execute an instruction.
    ///
    /// # Safety
    /// The caller is in the callback of the cpu, which reads registers.
    unsafe fn reach(&mut self, cpu: u32, place: Place) {
        let Some(Moving(experiment)) = &mut self.run else {
            return;
        };
        if let Some(passed) = self.passed.remove(&cpu) {
            let passed = self.instrumentation.sites().in_guest(passed.0);
            if self.instrumentation.address(place) == Some(passed) {
                return;
            }
        }
        // SAFETY: the caller is in the callback.
        if !unsafe { self.instrumentation.reach(experiment, cpu, place) } {
            RUNNING.store(false, Ordering::Relaxed);
            self.instrumentation.step_no_more();
        }
    }
}

extern "C" fn on_cpu(_: Id, _: c_uint) {
    if let Some(mut controlled) = controlled() {
        // SAFETY: this is the callback of the cpu.
        let described = unsafe { controlled.instrumentation.api().registers() };
        if controlled.instrumentation.cpu(described) {
            eprintln!("{SHARED}");
        }
    }
}

extern "C" fn on_translation(_: Id, block: *const c_void) {
    if let Some(mut controlled) = controlled() {
        controlled.has_code = true;
        // SAFETY: the block is that of this callback, and is not used after it.
        let block = unsafe { api::Block::of_callback(block) };
        controlled.instrumentation.translate(block, on_execution);
    }
}

extern "C" fn on_flush(_: Id) {
    if let Some(mut controlled) = controlled() {
        controlled.has_code = false;
    }
}

extern "C" fn on_execution(cpu: c_uint, place: *mut c_void) {
    if !RUNNING.load(Ordering::Relaxed) {
        return;
    }
    if let Some(mut controlled) = controlled() {
        // SAFETY: this is the callback of the cpu, registered to read registers.
        unsafe { controlled.reach(cpu, Place(place.addr())) };
    }
}

extern "C" fn on_exit(_: Id, _: *mut c_void) {
    RUNNING.store(false, Ordering::Relaxed);
    if let Some((_, socket)) = CONTROL.get() {
        let _ = std::fs::remove_file(socket);
    }
    // The stub has reported to the other side that the guest is gone. What it has not taken by now would be lost.
    if let Some(controlled) = controlled() {
        drop(FORGOTTEN.wait_timeout_while(controlled, LAST_LOOK, |one| one.run.is_some()));
    }
}
