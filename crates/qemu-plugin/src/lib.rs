//! A plugin of QEMU that records the guest's execution in the text of QEMU4V. Each instruction has its code, its disassembly, its
//! memory accesses with their values, and the registers that it changed.
//!
//! ```text
//! qemu-system-riscv64 -plugin libtracewire_qemu_plugin.so,out=run.trace,limit=1000000 -kernel firmware.elf
//! ```
//!
//! With `experiment=FILE` it runs the tracepoints of that file instead, and writes a trace file. With `control=SOCKET` it runs the tracepoints
//! that a debugger's proxy sends.
//!
//! `tracewire qemu` starts QEMU with it, and all of Tracewire reads the file. The arguments are those of [`options::Options`].
//!
//! The licence is that of QEMU, because the plugin becomes a part of its process.

pub mod api;
mod cpu_threads;
mod machine;
pub mod options;
mod output;
mod recorder;
mod registers;
mod text;
mod tracepoints;
mod written;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use api::{Api, Id, Info};
use cpu_threads::SHARED;
use options::Options;
use output::{Output, Queue};
use recorder::{Phase, Recorder, Translated};

/// The version of QEMU's plugin interface, which QEMU looks for by this name.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = api::VERSION;

/// The recording of this process. Callbacks of several cpus come on several threads; each takes it for itself.
static RECORDER: OnceLock<(Mutex<Recorder>, Arc<Queue>)> = OnceLock::new();

/// Whether the recording has ended, so that callbacks of translated code return at once.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Whether it has started; until then, most callbacks return at once.
static STARTED: AtomicBool = AtomicBool::new(false);

fn recorder() -> Option<MutexGuard<'static, Recorder>> {
    let (recorder, _) = RECORDER.get()?;
    Some(recorder.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Called by QEMU when it loads the plugin.
///
/// # Safety
/// QEMU's arguments: the description of the machine, and an array of strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: they are QEMU's, which keeps them during the call.
    let (target, arguments) = unsafe {
        let arguments: Vec<_> = (0..usize::try_from(count).unwrap_or(0))
            .map(|number| CStr::from_ptr(*arguments.add(number)))
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        ((*info).target_name(), arguments)
    };
    match install(id, &target, &arguments) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("tracewire plugin: {error}");
            1
        }
    }
}

fn install(id: Id, target: &str, arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse(arguments.iter().map(String::as_str))?;
    let architecture = machine::architecture(target)
        .ok_or_else(|| format!("the registers of {target} are not known to Tracewire"))?;
    let api = Api::find()?;
    if let Some(socket) = &options.control {
        return tracepoints::control::install(id, architecture, api, socket);
    }
    if let Some(definitions) = &options.experiment {
        return tracepoints::install(id, architecture, api, &options, definitions);
    }
    let file = Output::create(&options.out)
        .map_err(|error| format!("{}: {error}", options.out.display()))?;
    let queue = Arc::new(Queue::default());
    let recording = Recorder::new(api, architecture, options, Arc::clone(&queue));
    let writer = Arc::clone(&queue);
    std::thread::Builder::new()
        .name("tracewire".to_owned())
        .spawn(move || writer.write(file, flush))?;
    RECORDER
        .set((Mutex::new(recording), queue))
        .map_err(|_| "the plugin is loaded twice; it can be loaded once")?;
    if let Some(recorder) = recorder() {
        recorder.api().register(id, on_cpu, on_translation, on_exit);
    }
    Ok(())
}

/// Writes the buffered data to the file, except while a cpu has the recorder, which then fills blocks itself.
fn flush() {
    if let Some((recorder, _)) = RECORDER.get()
        && let Ok(mut recorder) = recorder.try_lock()
    {
        recorder.flush();
    }
}

extern "C" fn on_cpu(_: Id, _: c_uint) {
    if let Some(mut recorder) = recorder() {
        // SAFETY: this is the callback of the cpu.
        let described = unsafe { recorder.api().registers() };
        if recorder.cpu(described) {
            eprintln!("{SHARED}");
        }
    }
}

extern "C" fn on_translation(_: Id, block: *const c_void) {
    let Some(mut recorder) = recorder() else {
        return;
    };
    // SAFETY: the block is that of this callback, and is not used after it.
    let block = unsafe { api::Block::of_callback(block) };
    let wanted = recorder.block(block);
    let reads_registers = recorder.reads_registers();
    let kinds = recorder.options().memory;
    for (instruction, wanted) in wanted {
        let api = recorder.api();
        if wanted.executions {
            let Translated(number) = wanted.translated;
            let number = number << 1 | usize::from(wanted.may_start);
            api.on_execution(instruction, on_execution, reads_registers, number);
        }
        if let Some(kinds) = kinds.filter(|_| wanted.accesses) {
            api.on_access(instruction, on_access, kinds);
        }
    }
}

extern "C" fn on_execution(cpu: c_uint, number: *mut c_void) {
    let number = number.addr();
    let may_start = number & 1 == 1;
    if ENDED.load(Ordering::Relaxed) || (!may_start && !STARTED.load(Ordering::Relaxed)) {
        return;
    }
    let Some(mut recorder) = recorder() else {
        return;
    };
    // SAFETY: this is the callback of the cpu, registered to read registers where they are read.
    let has_ended = unsafe { recorder.executes(cpu, Translated(number >> 1)) };
    if recorder.phase() != Phase::Waiting {
        STARTED.store(true, Ordering::Relaxed);
    }
    if has_ended {
        recorder.flush();
        ENDED.store(true, Ordering::Relaxed);
        if !recorder.options().keep_running {
            // SAFETY: QEMU ends as after a user's request.
            unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        }
    }
}

extern "C" fn on_access(cpu: c_uint, info: api::AccessInfo, address: u64, _: *mut c_void) {
    if ENDED.load(Ordering::Relaxed) || !STARTED.load(Ordering::Relaxed) {
        return;
    }
    if let Some(mut recorder) = recorder() {
        recorder.accesses(cpu, info, address);
    }
}

extern "C" fn on_exit(_: Id, _: *mut c_void) {
    let Some((_, queue)) = RECORDER.get() else {
        return;
    };
    let (recorded, more, out) = match recorder() {
        Some(mut recorder) => {
            recorder.end();
            let out = recorder.options().out.clone();
            (recorder.recorded(), recorder.more_files(), out)
        }
        None => return,
    };
    ENDED.store(true, Ordering::Relaxed);
    match queue.end() {
        None => {
            let name = out.file_name().unwrap_or(out.as_os_str());
            let more = match more {
                0 => String::new(),
                1 => " and one more file".to_owned(),
                more => format!(" and {more} more files"),
            };
            eprintln!(
                "tracewire: {recorded} instructions in {}{more}",
                name.display()
            );
        }
        Some(error) => eprintln!("tracewire: {}: {error}", out.display()),
    }
}
