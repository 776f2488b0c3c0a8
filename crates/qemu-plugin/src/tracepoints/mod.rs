//! Tracepoints in the guest: conditions, actions and `while-stepping` at QEMU's callbacks, without a stop.
//!
//! The experiment is that of the crate `tracewire-experiment`, with the cpu that executes as the thread that is stopped. The definitions
//! come in a file, and the frames go to a trace file.

mod buffer;
pub mod control;
mod frames;
mod guest;
mod instrumentation;
mod moving;
mod tracing;

use std::ffi::{c_uint, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use tracewire_arch::Architecture;
use tracewire_experiment::Definitions;

use crate::api::{self, Api, Id};
use crate::cpu_threads::SHARED;
use crate::options::Options;
use instrumentation::Place;
use tracing::{Finished, Tracing};

/// The run of this process. Callbacks of several cpus come on several threads; each takes it for itself.
static TRACING: OnceLock<Mutex<Tracing>> = OnceLock::new();

/// Whether the run has ended, so that callbacks of translated code return at once.
static ENDED: AtomicBool = AtomicBool::new(false);

/// How often the end of QEMU tries to take the run from a cpu, and how long it waits each time.
const ASKED: u32 = 2000;
const WAIT: Duration = Duration::from_millis(1);

/// The most bytes of definitions.
const MOST: u64 = 256 << 20;

fn tracing() -> Option<MutexGuard<'static, Tracing>> {
    let tracing = TRACING.get()?;
    Some(tracing.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Begins the run whose definitions are in a file.
pub fn install(
    id: Id,
    architecture: Architecture,
    api: Api,
    options: &Options,
    definitions: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let shown = definitions.display();
    let length = definitions
        .metadata()
        .map_err(|error| format!("{shown}: {error}"))?
        .len();
    if length > MOST {
        return Err(format!("{shown}: {length} bytes are too many for definitions").into());
    }
    let text = std::fs::read(definitions).map_err(|error| format!("{shown}: {error}"))?;
    let definitions = Definitions::parse(&text).map_err(|error| format!("{shown}: {error}"))?;
    if definitions.architecture != architecture {
        return Err(format!(
            "the program of the tracepoints is for {}, and this QEMU is for {architecture}",
            definitions.architecture
        )
        .into());
    }
    let tracing = Tracing::begin(api, definitions, &options.out, options.keep_running)?;
    TRACING
        .set(Mutex::new(tracing))
        .map_err(|_| "the plugin is loaded twice; it can be loaded once")?;
    if let Some(tracing) = self::tracing() {
        tracing.api().register(id, on_cpu, on_translation, on_exit);
    }
    Ok(())
}

extern "C" fn on_cpu(_: Id, _: c_uint) {
    if let Some(mut tracing) = tracing() {
        // SAFETY: this is the callback of the cpu.
        let described = unsafe { tracing.api().registers() };
        if tracing.cpu(described) {
            eprintln!("{SHARED}");
        }
    }
}

extern "C" fn on_translation(_: Id, block: *const c_void) {
    if ENDED.load(Ordering::Relaxed) {
        return;
    }
    if let Some(mut tracing) = tracing() {
        // SAFETY: the block is that of this callback, and is not used after it.
        let block = unsafe { api::Block::of_callback(block) };
        tracing.translate(block, on_execution);
    }
}

extern "C" fn on_execution(cpu: c_uint, place: *mut c_void) {
    if ENDED.load(Ordering::Relaxed) {
        return;
    }
    let Some(mut tracing) = tracing() else {
        return;
    };
    // SAFETY: this is the callback of the cpu, registered to read registers.
    let goes_on = unsafe { tracing.reach(cpu, Place(place.addr())) };
    if goes_on {
        return;
    }
    ENDED.store(true, Ordering::Relaxed);
    if let Some(finished) = tracing.finish(None) {
        report(&finished);
        if !tracing.keeps_running() {
            // SAFETY: QEMU ends as after a user's request.
            unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        }
    }
}

extern "C" fn on_exit(_: Id, _: *mut c_void) {
    ENDED.store(true, Ordering::Relaxed);
    let Some(tracing) = TRACING.get() else {
        return;
    };
    // A device that ends QEMU at once has a lock of QEMU's. A cpu that has the run may wait for that lock, to read the memory of a
    // device: the file is then left as it grows, which is good up to its last frame.
    for _ in 0..ASKED {
        match tracing.try_lock() {
            Ok(mut tracing) => return end(&mut tracing),
            Err(TryLockError::Poisoned(poisoned)) => return end(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(WAIT),
        }
    }
}

fn end(tracing: &mut Tracing) {
    if let Some(finished) = tracing.finish(Some("QEMU ended")) {
        report(&finished);
    }
}

fn report(finished: &Finished) {
    let name = finished.out.file_name().unwrap_or(finished.out.as_os_str());
    let name = name.display();
    for (number, missing) in &finished.missing {
        let first = missing
            .first
            .map_or_else(String::new, |address| format!(", the first at {address}"));
        eprintln!(
            "tracewire: tracepoint {number}: {} values could not be read{first}",
            missing.count
        );
    }
    match &finished.fault {
        None => eprintln!("tracewire: {} frames in {name}", finished.frames),
        Some(fault) => eprintln!("tracewire: {name}: {fault}"),
    }
}
