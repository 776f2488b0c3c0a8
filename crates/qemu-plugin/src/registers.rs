//! The registers of a cpu: what they held when they were last looked at.

use std::collections::HashMap;

use tracewire_arch::{Architecture, Machine};
use tracewire_model::{ByteOrder, RegisterNumber};

use crate::api::{Api, RegisterHandle};
use crate::options::Registers;
use crate::text::{self, Time};
use crate::written::Written;

/// The widest register, in bytes; a wider one is left out.
const WIDEST: usize = 64;

/// A register by its place in [`RegisterSet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u16);

#[derive(Debug)]
struct Register {
    name: String,
    handle: RegisterHandle,
}

/// The registers that are recorded; the same for all cpus.
#[derive(Debug)]
pub struct RegisterSet {
    registers: Vec<Register>,
    places: HashMap<String, Place>,
    order: ByteOrder,
    /// The register that has the mode, which need not be recorded.
    mode: Option<RegisterHandle>,
}

/// Which registers are compared.
#[derive(Clone, Debug)]
pub enum Compared {
    /// All that are recorded.
    All,
    /// These.
    Only(Box<[Place]>),
}

impl RegisterSet {
    /// Those of QEMU's registers that are recorded. A machine that QEMU does not describe has GDB's, by their numbers.
    pub fn new(
        architecture: Architecture,
        described: Vec<(RegisterHandle, String)>,
        which: Registers,
        unavailable: &[&str],
        mode: Option<&str>,
    ) -> Self {
        let machine = Machine::of(architecture);
        let described = if described.is_empty() {
            let registers = machine.layout().registers().iter();
            registers
                .map(|one| (RegisterHandle::of_number(one.number.0), one.name.clone()))
                .collect()
        } else {
            described
        };
        let handle = |name: &str| {
            let mut all = described.iter();
            all.find(|(_, of)| of == name).map(|(handle, _)| *handle)
        };
        let mode = mode.and_then(handle);
        // The address of each instruction is in its line.
        let counter = &machine.program_counter().name;
        let is_described = |of: &RegisterNumber| {
            let register = machine.layout().by_number(*of);
            let mut all = described.iter();
            register.is_some_and(|register| all.any(|(_, name)| *name == register.name))
        };
        let is_wanted = |name: &str| {
            if machine.layout().by_name(name).is_some() {
                return true;
            }
            match machine.locate(name.as_bytes()) {
                // Another name of a register, such as that of a bank: where the register itself is there, it would be taken for that.
                Some(parts) => !parts.iter().any(|part| is_described(&part.register)),
                None => which == Registers::All,
            }
        };
        let mut set = Self {
            registers: Vec::new(),
            places: HashMap::new(),
            order: architecture.byte_order(),
            mode,
        };
        for (handle, name) in &described {
            // The format's names are lower-case.
            let (handle, name) = (*handle, name.to_ascii_lowercase());
            if which == Registers::Off
                || name == *counter
                || unavailable.contains(&name.as_str())
                || !is_wanted(&name)
                || set.places.contains_key(&name)
                || name.contains(char::is_whitespace)
            {
                continue;
            }
            let place = Place(set.registers.len() as u16);
            set.places.insert(name.clone(), place);
            set.registers.push(Register { name, handle });
        }
        set
    }

    /// The places of registers that are recorded.
    pub fn compared(&self, written: &Written) -> Compared {
        match written {
            Written::All => Compared::All,
            Written::Only(names) => {
                let found = names
                    .iter()
                    .filter_map(|name| self.places.get(name).copied());
                let mut places: Vec<Place> = found.collect();
                places.sort_by_key(|place| place.0);
                places.dedup();
                Compared::Only(places.into())
            }
        }
    }

    /// The value of the register that has the mode.
    ///
    /// # Safety
    /// As [`Api::read_register`].
    pub unsafe fn mode(&self, api: &mut Api) -> Option<u64> {
        // SAFETY: the caller is in a callback that reads registers.
        let bytes = unsafe { api.read_register(self.mode?) };
        let bytes: Vec<u8> = match self.order {
            ByteOrder::Little => bytes.iter().rev().copied().collect(),
            ByteOrder::Big => bytes.to_vec(),
        };
        (!bytes.is_empty()).then(|| {
            bytes
                .iter()
                .fold(0, |value, byte| value << 8 | u64::from(*byte))
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Value {
    size: u8,
    bytes: [u8; WIDEST],
}

/// The last values of a cpu's registers.
#[derive(Default, Debug)]
pub struct RegisterFile {
    values: Vec<Value>,
}

impl RegisterFile {
    /// Whether they have been read.
    pub fn is_known(&self) -> bool {
        !self.values.is_empty()
    }

    /// Reads registers of the cpu that runs, and appends a line for each that has another value than before.
    ///
    /// # Safety
    /// As [`Api::read_register`].
    pub unsafe fn compare(
        &mut self,
        api: &mut Api,
        set: &RegisterSet,
        compared: &Compared,
        out: &mut Vec<u8>,
        time: Time,
    ) {
        let unknown = Value {
            size: 0,
            bytes: [0; WIDEST],
        };
        self.values.resize(set.registers.len(), unknown);
        let look = |number: usize| {
            let (Some(register), Some(value)) =
                (set.registers.get(number), self.values.get_mut(number))
            else {
                return;
            };
            // SAFETY: the caller is in a callback that reads registers.
            let bytes = unsafe { api.read_register(register.handle) };
            let size = bytes.len();
            if size == 0 || size > WIDEST {
                return;
            }
            if usize::from(value.size) == size && value.bytes[..size] == *bytes {
                return;
            }
            value.size = size as u8;
            value.bytes[..size].copy_from_slice(bytes);
            time.write(out);
            out.extend_from_slice(b"R ");
            out.extend_from_slice(register.name.as_bytes());
            out.push(b' ');
            match set.order {
                ByteOrder::Little => text::bytes(out, bytes.iter().rev()),
                ByteOrder::Big => text::bytes(out, bytes.iter()),
            }
            out.push(b'\n');
        };
        match compared {
            Compared::All => (0..set.registers.len()).for_each(look),
            Compared::Only(places) => (places.iter())
                .map(|place| usize::from(place.0))
                .for_each(look),
        }
    }
}
