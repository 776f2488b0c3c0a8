//! Runs a pad in this process: its own memory, chosen values of all registers, and a handler that treats faults as the tracer
//! does.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iced_x86::code_asm::*;
use tracewire_arch::X86Registers;
use tracewire_experiment::KeptSet;
use tracewire_jump_pad::{
    CountTable, Features, Orphaned, Pad, PadOptions, PadRate, PadTracepoint, PadVariable,
    RingReader, Shared, SharedLayout, SharedSizes, WhenFull, compile,
};
use tracewire_model::{Address, RegisterMask, TracepointDefinition, VariableNumber};

pub const PAGE: usize = 4096;

/// Everything that a full ring may do.
pub const WHEN_FULL: [WhenFull; 4] = [
    WhenFull::Stop,
    WhenFull::Wait,
    WhenFull::Overwrite,
    WhenFull::WaitThenOverwrite,
];

/// Space for some frames and four tracepoints.
pub const fn small(cpus: u32, when_full: WhenFull) -> SharedSizes {
    SharedSizes {
        cpus,
        ring_bytes: 1 << 20,
        frame_limit: 512,
        tracepoints: 4,
        variables: 4,
        hold_bytes: 0,
        count_bytes: 0,
        when_full,
    }
}

/// A hundred hits of a pad that reads through register 3, with checks that registers and flags do not change.
pub fn hit_a_hundred_times(machine: &mut Machine, data: &Memory) {
    for hit in 0..100 {
        for (number, register) in (0_u64..).zip(&mut machine.state().general) {
            *register = 0x0101_0101_0101_0101 * (number + 1);
        }
        machine.state().general[3] = data.start;
        machine.state().general[7] = machine.stack.end() - 1024;
        // Carry, overflow and direction, among others.
        machine.state().flags = if hit % 2 == 0 { 0x202 } else { 0xed7 };
        let before = (machine.state().general, machine.state().flags);
        machine.run();
        let after = (machine.state().general, machine.state().flags);
        assert_eq!(before, after, "hit {hit}");
    }
}

/// The program's registers, before or after a pad. The code that enters and leaves depends on its layout.
#[repr(C)]
pub struct State {
    /// In GDB's order.
    pub general: [u64; 16],
    pub flags: u64,
    host_stack: u64,
    unused: [u64; 14],
    /// In the layout of `xsave`: before the pad, and after it.
    pub extended: [u8; 4096],
    pub extended_behind: [u8; 4096],
    /// The state that [`Machine::run_with_extended`] loads.
    pub wanted: [u8; 4096],
}

fn map(length: usize, protection: i32, flags: i32) -> NonNull<u8> {
    // SAFETY: new memory anywhere.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            protection,
            flags | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    NonNull::new(at.cast()).unwrap()
}

/// The shared memory, leaked.
pub fn shared(sizes: SharedSizes) -> (Shared, u64) {
    let layout = SharedLayout::new(sizes, 0x1234_5678_9abc_def1).unwrap();
    let at = map(
        layout.size() as usize,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED,
    );
    // SAFETY: the mapping is as large as the layout and stays for ever.
    let shared = unsafe { Shared::create(at, layout) };
    let machine = (shared, at.as_ptr() as u64);
    set_owner(machine.1, &layout, 1);
    machine
}

/// Sets the owner of the futex.
pub fn set_owner(base: u64, layout: &SharedLayout, word: u32) {
    // SAFETY: it is in the mapping.
    let owner = unsafe { AtomicU32::from_ptr((base + layout.owner()) as *mut u32) };
    owner.store(word, Ordering::Release);
}

/// How many unreadable bytes are on both sides of a program's memory. A wrong address would otherwise reach other memory of this
/// process, such as `[vvar]`, which a pad can read and a system call cannot.
const AROUND: usize = 16 << 20;

/// Memory of a program for tests: readable, with unreadable memory before and after it.
pub struct Memory {
    pub start: u64,
    pub length: usize,
}

impl Memory {
    pub fn new(pages: usize) -> Self {
        let reserved = map(
            pages * PAGE + 2 * AROUND,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_NORESERVE,
        );
        // SAFETY: the pages are within what was reserved.
        let at = unsafe {
            let at = reserved.as_ptr().add(AROUND);
            let readable = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(at.cast(), pages * PAGE, readable), 0);
            at
        };
        Self {
            start: at as u64,
            length: pages * PAGE,
        }
    }

    pub fn end(&self) -> u64 {
        self.start + self.length as u64
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: it belongs to the test and is never unmapped.
        unsafe { std::slice::from_raw_parts_mut(self.start as *mut u8, self.length) }
    }
}

/// Reads memory of this process that may not be readable: how many bytes could be read.
pub fn read_carefully(address: u64, into: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut _,
        iov_len: into.len(),
    };
    // SAFETY: the kernel checks the remote side.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}

/// The pads that may fault, by their addresses.
static ALONE: Mutex<()> = Mutex::new(());
static PADS: Mutex<BTreeMap<u64, Pad>> = Mutex::new(BTreeMap::new());
/// How often the handler has helped.
pub static FAULTS: AtomicU64 = AtomicU64::new(0);

/// Where the next fault continues instead, as if a handler of the program left by `longjmp`; 0 for nowhere.
pub static LEAVE_FOR: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a context to a handler with `SA_SIGINFO`.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let rip = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    match LEAVE_FOR.swap(0, Ordering::AcqRel) {
        0 => {}
        place => {
            *rip = place as i64;
            return;
        }
    }
    // No code that holds the lock faults.
    let pads = PADS.lock().unwrap();
    let resume = pads
        .range(..=*rip as u64)
        .next_back()
        .and_then(|(at, pad)| {
            let offset = u32::try_from(*rip as u64 - at).ok()?;
            Some(at + u64::from(pad.resume(offset)?))
        });
    match resume {
        Some(resume) => {
            FAULTS.fetch_add(1, Ordering::Relaxed);
            *rip = resume as i64;
        }
        None => {
            let words = b"a fault that no pad's table knows\n";
            // SAFETY: plain system calls.
            unsafe {
                libc::write(2, words.as_ptr().cast(), words.len());
                libc::abort();
            }
        }
    }
}

/// Has faults of this thread handled.
pub fn handle_faults() {
    let stack = map(
        64 * PAGE,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE,
    );
    let alternate = libc::stack_t {
        ss_sp: stack.as_ptr().cast(),
        ss_flags: 0,
        ss_size: 64 * PAGE,
    };
    // SAFETY: the stack stays for ever, and the handler has the right signature.
    unsafe {
        assert_eq!(libc::sigaltstack(&alternate, std::ptr::null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
    }
}

/// Code of this process that is made at run time.
pub struct Code {
    start: u64,
    length: usize,
}

impl Code {
    pub fn new(length: usize) -> Self {
        // Low, so that it can be addressed by 32 bits.
        let at = map(
            length,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_32BIT,
        );
        Self {
            start: at.as_ptr() as u64,
            length,
        }
    }

    pub fn put(&self, offset: usize, bytes: &[u8]) -> u64 {
        assert!(offset + bytes.len() <= self.length);
        let at = self.start + offset as u64;
        // SAFETY: it belongs to the test, and no thread runs it now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        at
    }
}

/// Enters pads with any registers.
pub struct Machine {
    code: Code,
    pub stack: Memory,
    pub pad: Option<Pad>,
    /// Fault handlers are per process: one machine at a time.
    _alone: MutexGuard<'static, ()>,
}

const ENTRY: usize = 4 * PAGE;
const ENTRY_WITH_EXTENDED: usize = ENTRY + 1024;
const EXIT: usize = ENTRY + 2048;
const PAD: usize = 5 * PAGE;

impl Machine {
    pub fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        PADS.lock().unwrap_or_else(PoisonError::into_inner).clear();
        handle_faults();
        let machine = Self {
            _alone: alone,
            code: Code::new(1 << 20),
            stack: Memory::new(4),
            pad: None,
        };
        machine.make_entry().unwrap();
        machine
    }

    pub fn state(&mut self) -> &mut State {
        // SAFETY: the state has the first pages of the code's memory.
        unsafe { &mut *(self.code.start as *mut State) }
    }

    pub fn pad_address(&self) -> u64 {
        self.code.start + PAD as u64
    }

    /// The address to jump to in order to leave a pad.
    pub fn exit(&self) -> u64 {
        self.code.start + EXIT as u64
    }

    fn make_entry(&self) -> Result<(), IcedError> {
        let state = self.code.start;
        let at = |offset: u64| qword_ptr(state + offset);
        let extended = 256_u64;
        let registers = [
            rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15,
        ];
        let kept = [rbx, rbp, r12, r13, r14, r15];
        for (offset, loads) in [(ENTRY, false), (ENTRY_WITH_EXTENDED, true)] {
            let mut enter = CodeAssembler::new(64)?;
            for register in kept {
                enter.push(register)?;
            }
            enter.pushfq()?;
            enter.mov(at(136), rsp)?;
            enter.mov(eax, -1)?;
            enter.mov(edx, -1)?;
            if loads {
                enter.xrstor64(ptr(state + extended + 8192))?;
            }
            enter.xsave64(ptr(state + extended))?;
            enter.push(at(128))?;
            enter.popfq()?;
            for (index, register) in registers.into_iter().enumerate() {
                enter.mov(register, at(8 * index as u64))?;
            }
            enter.jmp(self.pad_address())?;
            self.code
                .put(offset, &enter.assemble(state + offset as u64)?);
        }

        let mut leave = CodeAssembler::new(64)?;
        for (index, register) in registers.into_iter().enumerate() {
            leave.mov(at(8 * index as u64), register)?;
        }
        leave.mov(rsp, at(136))?;
        leave.pushfq()?;
        leave.pop(at(128))?;
        leave.mov(eax, -1)?;
        leave.mov(edx, -1)?;
        leave.xsave64(ptr(state + extended + 4096))?;
        leave.popfq()?;
        for register in kept.into_iter().rev() {
            leave.pop(register)?;
        }
        leave.ret()?;
        self.code.put(EXIT, &leave.assemble(state + EXIT as u64)?);
        Ok(())
    }

    /// Puts the pad in place.
    pub fn load(&mut self, pad: Pad) {
        let at = self.code.put(PAD, &pad.code);
        let end = at + pad.code.len() as u64;
        let exit = self.exit();
        let mut jump = CodeAssembler::new(64).unwrap();
        jump.jmp(exit).unwrap();
        self.code
            .put(PAD + pad.code.len(), &jump.assemble(end).unwrap());
        PADS.lock().unwrap().insert(at, pad.clone());
        self.pad = Some(pad);
    }

    /// Runs the pad with the registers of the state, which then holds the registers after it.
    pub fn run(&mut self) {
        self.enter(ENTRY);
    }

    /// As `run`, with the vector and x87 state of the test.
    pub fn run_with_extended(&mut self) {
        self.enter(ENTRY_WITH_EXTENDED);
    }

    fn enter(&mut self, at: usize) {
        let entry = self.code.start + at as u64;
        // SAFETY: the code there preserves the registers that a function must preserve.
        let enter: extern "C" fn() = unsafe { std::mem::transmute(entry as usize) };
        enter();
    }
}

/// A pad that can be called as a function.
pub fn callable(code: &Code, offset: usize, pad: &Pad) -> extern "C" fn() {
    let mut bytes = pad.code.clone();
    bytes.push(0xc3);
    let at = code.put(offset, &bytes);
    PADS.lock().unwrap().insert(at, pad.clone());
    // SAFETY: the pad keeps all registers, and returns.
    unsafe { std::mem::transmute(at as usize) }
}

impl Code {
    pub fn address(&self, offset: usize) -> u64 {
        self.start + offset as u64
    }
}

/// The common parts of the tests' pads.
pub struct Setting {
    pub shared: Shared,
    pub base: u64,
    pub variables: BTreeMap<VariableNumber, PadVariable>,
    pub registers: X86Registers,
    pub always_registers: bool,
    pub stamp: bool,
    pub goes_on: bool,
    /// The registers that the frames of each tracepoint keep; `None` if they have whole blocks.
    pub kept: Vec<Option<(u32, RegisterMask)>>,
    /// The tables of the tracepoints' aggregates.
    pub tables: Vec<CountTable>,
    /// How often each tracepoint may make frames.
    pub rate: Option<PadRate>,
    /// Whether hits are charged to a budget.
    pub has_budget: bool,
}

impl Setting {
    /// `$trace_timestamp`, `$trace_thread` and `$trace_cpu` are 1 to 3, and further ones follow.
    pub fn new(sizes: SharedSizes) -> Self {
        let (shared, base) = shared(sizes);
        shared.set_orphaned(Orphaned::GoOn);
        let builtin = [
            PadVariable::Timestamp,
            PadVariable::Thread,
            PadVariable::Cpu,
        ];
        let others = (0..sizes.variables).map(PadVariable::Slot);
        let variables = (1..)
            .map(VariableNumber)
            .zip(builtin.into_iter().chain(others))
            .collect();
        Self {
            shared,
            base,
            variables,
            registers: X86Registers::Core,
            always_registers: false,
            stamp: false,
            goes_on: true,
            kept: Vec::new(),
            tables: Vec::new(),
            rate: None,
            has_budget: false,
        }
    }

    /// How many frames the rings have. No pad may be running.
    pub fn frames(&self) -> u64 {
        let mut frames = 0;
        let mut reader = RingReader::new(&self.shared);
        let drained = reader.finish(&self.shared, &mut |_| frames += 1);
        assert_eq!((drained.torn, drained.waiting), (0, false));
        frames
    }

    /// Frees the shared memory.
    pub fn free(self) {
        let length = self.shared.layout().size() as usize;
        // SAFETY: no pad that uses it will run again.
        unsafe { libc::munmap(self.base as *mut _, length) };
    }

    pub fn compile(
        &self,
        definitions: &[TracepointDefinition],
    ) -> Result<Pad, tracewire_jump_pad::CannotCompile> {
        let tracepoints: Vec<_> = definitions
            .iter()
            .zip(0..)
            .map(|(definition, index)| PadTracepoint {
                tables: &self.tables,
                rate: self.rate,
                index,
                definition,
                kept: self.kept.get(index as usize).and_then(|kept| {
                    let (number, registers) = kept.as_ref()?;
                    Some(KeptSet {
                        number: *number,
                        registers,
                    })
                }),
            })
            .collect();
        for tracepoint in &tracepoints {
            self.shared
                .set_enabled(tracepoint.index, tracepoint.definition.enabled);
        }
        let options = PadOptions {
            layout: self.shared.layout(),
            shared: Address(self.base),
            registers: self.registers,
            always_registers: self.always_registers,
            stamp: self.stamp.then_some([1, 2, 3].map(VariableNumber)),
            variables: &self.variables,
            stack_limit: 4096,
            goes_on: self.goes_on,
            features: Features::of_this_machine(),
            has_budget: self.has_budget,
        };
        compile(SITE, &tracepoints, &options)
    }
}

/// The address of the tracepoints.
pub const SITE: Address = Address(0x5555_1234_5678);
