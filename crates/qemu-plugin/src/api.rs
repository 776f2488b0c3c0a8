//! QEMU's plugin interface: all of it that this plugin uses, and nothing unsafe for its callers but what QEMU demands of
//! a callback.
//!
//! The functions are looked up in the QEMU process when the plugin is loaded, and not by the dynamic linker: a QEMU that lacks one
//! is reported by the function's name, and the tests of this crate link without QEMU.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

/// The version of the interface that the plugin is written for: the first one with values of memory accesses.
pub const VERSION: c_int = 4;

/// Reads of registers are allowed in a callback.
const CB_R_REGS: c_int = 1;
/// They are not.
const CB_NO_REGS: c_int = 0;

/// QEMU's description of itself when it loads a plugin.
#[repr(C)]
#[derive(Debug)]
pub struct Info {
    target_name: *const c_char,
    min: c_int,
    cur: c_int,
    system_emulation: bool,
    smp_vcpus: c_int,
    max_vcpus: c_int,
}

impl Info {
    /// The name of the machine, such as `riscv64`.
    ///
    /// # Safety
    /// It comes from QEMU's call of `qemu_plugin_install`, which has not returned.
    pub unsafe fn target_name(&self) -> String {
        // SAFETY: QEMU's name is a string that ends with a zero, while the call lasts.
        let name = unsafe { CStr::from_ptr(self.target_name) };
        name.to_string_lossy().into_owned()
    }
}

#[repr(C)]
struct RegisterDescriptor {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

/// GLib's `GArray` and `GByteArray` begin so.
#[repr(C)]
struct Array {
    data: *mut u8,
    len: c_uint,
}

#[repr(C)]
struct MemoryValue {
    kind: c_int,
    /// Aligned as the union's `uint64_t`; a smaller value is in the first bytes.
    low: u64,
    high: u64,
}

/// QEMU's `qemu_plugin_u64`: a number for each cpu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Counter {
    scoreboard: *mut c_void,
    offset: usize,
}

/// `QEMU_PLUGIN_COND_NE`.
const NOT_EQUAL: c_int = 3;

/// Memory may end at the end of one of these, in bytes.
const PAGE: u64 = 0x1000;

/// A switch for each cpu, which translated code looks at without a call.
pub struct Switch(Counter);

// SAFETY: QEMU's functions find the number of a cpu from any thread.
unsafe impl Send for Switch {}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Switch")
    }
}

/// A number, the id that QEMU gave the plugin.
pub type Id = u64;
/// An access, as QEMU describes it to a callback.
pub type AccessInfo = u32;
/// Called when a cpu is made.
pub type CpuCallback = extern "C" fn(Id, c_uint);
/// Called when a block is translated.
pub type TranslateCallback = extern "C" fn(Id, *const c_void);
/// Called when an instruction executes, before it does.
pub type InstructionCallback = extern "C" fn(c_uint, *mut c_void);
/// Called when an instruction has accessed memory.
pub type MemoryCallback = extern "C" fn(c_uint, AccessInfo, u64, *mut c_void);
/// Called when QEMU has thrown all translated code away.
pub type FlushCallback = extern "C" fn(Id);
/// Called when QEMU ends.
pub type ExitCallback = extern "C" fn(Id, *mut c_void);

/// QEMU's handle of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterHandle(usize);

impl RegisterHandle {
    /// The register of a number of GDB's. QEMU's handles are these numbers and one; QEMU describes no register of a machine that
    /// has no target description, such as MIPS, but reads them.
    pub fn of_number(number: u16) -> Self {
        Self(usize::from(number) + 1)
    }
}

/// An access with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The virtual address.
    pub address: u64,
    /// The bytes, a power of two up to 16.
    pub size: u8,
    /// Whether it is a write.
    pub is_store: bool,
    /// Whether the most significant byte is at the lowest address.
    pub is_big: bool,
    /// The number that was read or written.
    pub value: u128,
}

macro_rules! functions {
    ($($field:ident: $symbol:literal, fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// QEMU's and GLib's functions.
        #[derive(Clone, Copy)]
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find() -> Result<Self, Missing> {
                Ok(Self {
                    $($field: {
                        let name: &CStr = $symbol;
                        // SAFETY: the name ends with a zero; the symbol is looked up in the whole process.
                        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
                        if found.is_null() {
                            return Err(Missing(name.to_str().unwrap_or_default()));
                        }
                        // SAFETY: QEMU's header and GLib's declare the function of this name with this type.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    register_vcpu_init: c"qemu_plugin_register_vcpu_init_cb", fn(Id, CpuCallback);
    register_translate: c"qemu_plugin_register_vcpu_tb_trans_cb", fn(Id, TranslateCallback);
    register_flush: c"qemu_plugin_register_flush_cb", fn(Id, FlushCallback);
    register_exit: c"qemu_plugin_register_atexit_cb", fn(Id, ExitCallback, *mut c_void);
    register_instruction: c"qemu_plugin_register_vcpu_insn_exec_cb", fn(*mut c_void, InstructionCallback, c_int, *mut c_void);
    register_memory: c"qemu_plugin_register_vcpu_mem_cb", fn(*mut c_void, MemoryCallback, c_int, c_int, *mut c_void);
    block_count: c"qemu_plugin_tb_n_insns", fn(*const c_void) -> usize;
    block_instruction: c"qemu_plugin_tb_get_insn", fn(*const c_void, usize) -> *mut c_void;
    instruction_data: c"qemu_plugin_insn_data", fn(*const c_void, *mut c_void, usize) -> usize;
    instruction_size: c"qemu_plugin_insn_size", fn(*const c_void) -> usize;
    instruction_address: c"qemu_plugin_insn_vaddr", fn(*const c_void) -> u64;
    instruction_text: c"qemu_plugin_insn_disas", fn(*const c_void) -> *mut c_char;
    access_size: c"qemu_plugin_mem_size_shift", fn(AccessInfo) -> c_uint;
    access_is_big: c"qemu_plugin_mem_is_big_endian", fn(AccessInfo) -> bool;
    access_is_store: c"qemu_plugin_mem_is_store", fn(AccessInfo) -> bool;
    access_value: c"qemu_plugin_mem_get_value", fn(AccessInfo) -> MemoryValue;
    register_instruction_if: c"qemu_plugin_register_vcpu_insn_exec_cond_cb", fn(*mut c_void, InstructionCallback, c_int, c_int, Counter, u64, *mut c_void);
    new_scoreboard: c"qemu_plugin_scoreboard_new", fn(usize) -> *mut c_void;
    set_counter: c"qemu_plugin_u64_set", fn(Counter, c_uint, u64);
    read_memory: c"qemu_plugin_read_memory_vaddr", fn(u64, *mut Array, usize) -> bool;
    registers: c"qemu_plugin_get_registers", fn() -> *mut Array;
    read_register: c"qemu_plugin_read_register", fn(*mut c_void, *mut Array) -> c_int;
    array_new: c"g_byte_array_new", fn() -> *mut Array;
    array_free: c"g_array_free", fn(*mut Array, c_int) -> *mut c_char;
    free: c"g_free", fn(*mut c_void);
}

/// A function that QEMU does not have.
#[derive(thiserror::Error, Clone, Copy, PartialEq, Eq, Debug)]
#[error("this QEMU has no {0}; QEMU 10.0 or later is needed, built with plugins")]
pub struct Missing(&'static str);

/// QEMU's functions, and the array that it puts registers into.
pub struct Api {
    functions: Functions,
    scratch: *mut Array,
}

// SAFETY: the array belongs to this value, and each use of it needs the value for itself alone.
unsafe impl Send for Api {}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Api")
    }
}

/// An instruction of a block that is being translated.
#[derive(Clone, Copy, Debug)]
pub struct BlockInstruction(*mut c_void);

/// A block that is being translated, which is so during a [`TranslateCallback`].
#[derive(Clone, Copy, Debug)]
pub struct Block(*const c_void);

impl Block {
    /// The block of a callback.
    ///
    /// # Safety
    /// The pointer is the argument of a callback that has not returned, and the value is not used after it has.
    pub unsafe fn of_callback(block: *const c_void) -> Self {
        Self(block)
    }
}

impl Api {
    /// Finds the functions in the process.
    pub fn find() -> Result<Self, Missing> {
        let functions = Functions::find()?;
        // SAFETY: it has no condition.
        let scratch = unsafe { (functions.array_new)() };
        Ok(Self { functions, scratch })
    }

    /// Has the callbacks called from now on.
    pub fn register(
        &self,
        id: Id,
        cpu: CpuCallback,
        translate: TranslateCallback,
        exit: ExitCallback,
    ) {
        // SAFETY: the id is QEMU's, and the functions have the types that QEMU calls.
        unsafe {
            (self.functions.register_vcpu_init)(id, cpu);
            (self.functions.register_translate)(id, translate);
            (self.functions.register_exit)(id, exit, ptr::null_mut());
        }
    }

    /// Has the callback called each time when QEMU has thrown all translated code away.
    pub fn register_flush(&self, id: Id, flush: FlushCallback) {
        // SAFETY: the id is QEMU's, and the function has the type that QEMU calls.
        unsafe { (self.functions.register_flush)(id, flush) };
    }

    /// The instructions of a block.
    pub fn instructions(&self, block: Block) -> Vec<BlockInstruction> {
        let Block(block) = block;
        // SAFETY: a block exists only during its callback, which has not returned yet; the numbers are below the count.
        unsafe {
            let count = (self.functions.block_count)(block);
            (0..count)
                .map(|number| BlockInstruction((self.functions.block_instruction)(block, number)))
                .collect()
        }
    }

    /// Its virtual address.
    pub fn address(&self, instruction: BlockInstruction) -> u64 {
        // SAFETY: the instruction is of a block that is being translated.
        unsafe { (self.functions.instruction_address)(instruction.0) }
    }

    /// Its bytes, in the order of memory.
    pub fn code(&self, instruction: BlockInstruction) -> Vec<u8> {
        // SAFETY: as above; QEMU copies at most as many bytes as the vector has.
        unsafe {
            let mut bytes = vec![0; (self.functions.instruction_size)(instruction.0)];
            let size = bytes.len();
            let copied =
                (self.functions.instruction_data)(instruction.0, bytes.as_mut_ptr().cast(), size);
            bytes.truncate(copied);
            bytes
        }
    }

    /// Its disassembly, without control characters.
    pub fn disassembly(&self, instruction: BlockInstruction) -> String {
        // SAFETY: as above; QEMU gives a string that ends with a zero, which the caller frees.
        let text = unsafe {
            let text = (self.functions.instruction_text)(instruction.0);
            if text.is_null() {
                return String::new();
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.functions.free)(text.cast());
            copy
        };
        let text = text.trim_end();
        text.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    }

    /// Has a callback called before each execution of an instruction, with a number.
    pub fn on_execution(
        &self,
        instruction: BlockInstruction,
        callback: InstructionCallback,
        reads_registers: bool,
        number: usize,
    ) {
        let flags = if reads_registers {
            CB_R_REGS
        } else {
            CB_NO_REGS
        };
        // SAFETY: the instruction is of a block that is being translated; the number is no pointer for QEMU either.
        unsafe {
            (self.functions.register_instruction)(
                instruction.0,
                callback,
                flags,
                ptr::without_provenance_mut(number),
            );
        }
    }

    /// A switch that is off for all cpus. It lasts as long as QEMU.
    pub fn new_switch(&self) -> Switch {
        // SAFETY: it has no condition; the element is a number of 64 bits.
        let scoreboard = unsafe { (self.functions.new_scoreboard)(size_of::<u64>()) };
        Switch(Counter {
            scoreboard,
            offset: 0,
        })
    }

    /// Turns a switch on or off for a cpu.
    pub fn set_switch(&self, switch: &Switch, cpu: u32, on: bool) {
        // SAFETY: the scoreboard is QEMU's, which has a number for each of its cpus.
        unsafe { (self.functions.set_counter)(switch.0, cpu, u64::from(on)) };
    }

    /// Has a callback called before each execution of an instruction by a cpu whose switch is on, with a number. It may read registers.
    pub fn on_execution_if(
        &self,
        instruction: BlockInstruction,
        callback: InstructionCallback,
        switch: &Switch,
        number: usize,
    ) {
        // SAFETY: the instruction is of a block that is being translated; the scoreboard is QEMU's; the number is no pointer for QEMU either.
        unsafe {
            (self.functions.register_instruction_if)(
                instruction.0,
                callback,
                CB_R_REGS,
                NOT_EQUAL,
                switch.0,
                0,
                ptr::without_provenance_mut(number),
            );
        }
    }

    /// Has a callback called after each access of an instruction.
    pub fn on_access(
        &self,
        instruction: BlockInstruction,
        callback: MemoryCallback,
        kinds: AccessKinds,
    ) {
        // SAFETY: as above.
        unsafe {
            (self.functions.register_memory)(
                instruction.0,
                callback,
                CB_NO_REGS,
                kinds as c_int,
                ptr::null_mut(),
            );
        }
    }

    /// The access that a [`MemoryCallback`] is called for.
    ///
    /// # Safety
    /// The caller is in that callback.
    pub unsafe fn access(&self, info: AccessInfo, address: u64) -> Access {
        // SAFETY: the caller is in the callback, on the thread of the cpu, which QEMU takes the value from.
        let (shift, is_store, is_big, value) = unsafe {
            (
                (self.functions.access_size)(info),
                (self.functions.access_is_store)(info),
                (self.functions.access_is_big)(info),
                (self.functions.access_value)(info),
            )
        };
        let number = u128::from(value.low) | u128::from(value.high) << 64;
        let size = 1u8 << shift.min(4);
        Access {
            address,
            size,
            is_store,
            is_big,
            // QEMU leaves the bytes as they were that a smaller value does not have.
            value: number & (u128::MAX >> (128 - 8 * u32::from(size))),
        }
    }

    /// The registers of the cpu that runs on this thread: their names and features. None on a machine that has no target
    /// description.
    ///
    /// # Safety
    /// The caller is in a [`CpuCallback`].
    pub unsafe fn registers(&self) -> Vec<(RegisterHandle, String)> {
        // SAFETY: the caller is in a callback of a cpu; the array has so many descriptors, whose strings QEMU never frees.
        unsafe {
            let array = (self.functions.registers)();
            if array.is_null() {
                return Vec::new();
            }
            let found = if (*array).data.is_null() {
                Vec::new()
            } else {
                std::slice::from_raw_parts(
                    (*array).data.cast::<RegisterDescriptor>(),
                    (*array).len as usize,
                )
                .iter()
                .filter(|one| !one.name.is_null())
                .map(|one| {
                    let name = CStr::from_ptr(one.name).to_string_lossy().into_owned();
                    (RegisterHandle(one.handle.addr()), name)
                })
                .collect()
            };
            (self.functions.array_free)(array, 1);
            found
        }
    }

    /// A register of the cpu that runs on this thread, in the byte order of the machine; empty where QEMU has none of this handle.
    ///
    /// # Safety
    /// The caller is in an [`InstructionCallback`] that reads registers.
    pub unsafe fn read_register(&mut self, register: RegisterHandle) -> &[u8] {
        // SAFETY: the caller is in a callback, on the thread of the cpu. QEMU appends to the array, which is this value's; GLib has its
        // length there, and nowhere else.
        unsafe {
            (*self.scratch).len = 0;
            let size = (self.functions.read_register)(
                ptr::without_provenance_mut(register.0),
                self.scratch,
            );
            if size <= 0 || (*self.scratch).data.is_null() {
                return &[];
            }
            std::slice::from_raw_parts((*self.scratch).data, (*self.scratch).len as usize)
        }
    }

    /// Reads memory of the cpu that runs on this thread, as its stub would, up to the first byte that cannot be read. Returns how many bytes
    /// were read.
    ///
    /// # Safety
    /// The caller is in a callback of a cpu.
    pub unsafe fn read_memory(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        // SAFETY: the caller is in the callback.
        if unsafe { self.read_whole(address, bytes) } {
            return bytes.len();
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = address.wrapping_add(done as u64);
            let total = bytes.len();
            let length = (total - done).min((PAGE - at % PAGE) as usize);
            let Some(part) = bytes.get_mut(done..done + length) else {
                break;
            };
            // SAFETY: as above.
            if length == total || !unsafe { self.read_whole(at, part) } {
                break;
            }
            done += length;
        }
        done
    }

    /// Reads memory all of which can be read; false if some of it cannot.
    ///
    /// # Safety
    /// As [`Api::read_memory`].
    unsafe fn read_whole(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        // SAFETY: the caller is in a callback, on the thread of the cpu. QEMU sets the size of the array, which is this value's.
        let read = unsafe {
            if !(self.functions.read_memory)(address, self.scratch, bytes.len())
                || (*self.scratch).data.is_null()
            {
                return false;
            }
            std::slice::from_raw_parts((*self.scratch).data, (*self.scratch).len as usize)
        };
        let is_whole = read.len() == bytes.len();
        if is_whole {
            bytes.copy_from_slice(read);
        }
        is_whole
    }
}

/// Which accesses a callback is called for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum AccessKinds {
    /// Reads.
    Reads = 1,
    /// Writes.
    Writes = 2,
    /// Both.
    All = 3,
}
