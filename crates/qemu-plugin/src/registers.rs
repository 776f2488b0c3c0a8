//! The registers of a cpu: what they held when they were last looked at.

use std::collections::HashMap;

use tracewire_arch::{Architecture, Machine};
use tracewire_model::{ByteOrder, RegisterNumber};

use crate::api::{Api, RegisterHandle};
use crate::options::Registers;
use crate::text::{Lines, Piece, Time};
use crate::written::Written;

/// The widest register, in bytes; a wider one is left out.
const WIDEST: usize = 64;

/// A register by its place in [`RegisterSet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u16);

#[derive(Debug)]
struct Register {
    /// What its lines have before the value.
    before_value: Piece,
    handle: RegisterHandle,
}

/// The register that has the mode, which need not be recorded.
#[derive(Clone, Copy, Debug)]
struct ModeRegister {
    handle: RegisterHandle,
    place: Option<Place>,
}

/// The registers that are recorded; the same for all cpus.
#[derive(Debug)]
pub struct RegisterSet {
    registers: Vec<Register>,
    places: HashMap<String, Place>,
    order: ByteOrder,
    mode: Option<ModeRegister>,
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
            mode: None,
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
            set.registers.push(Register {
                before_value: Piece::new(format!("R {name} ").as_bytes()),
                handle,
            });
            set.places.insert(name, place);
        }
        set.mode = mode.and_then(|name| {
            Some(ModeRegister {
                handle: handle(name)?,
                place: set.places.get(name).copied(),
            })
        });
        set
    }

    /// Whether a register has the mode.
    pub fn has_mode(&self) -> bool {
        self.mode.is_some()
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

    /// The number that a register's bytes are; none for a size that a number does not have.
    #[inline]
    fn number(&self, bytes: &[u8]) -> Option<u64> {
        macro_rules! number {
            ($($number:ty),*) => {
                $(if let Ok(bytes) = bytes.try_into() {
                    return Some(u64::from(match self.order {
                        ByteOrder::Little => <$number>::from_le_bytes(bytes),
                        ByteOrder::Big => <$number>::from_be_bytes(bytes),
                    }));
                })*
            };
        }
        number!(u64, u32, u16, u8);
        None
    }
}

/// What a register held: so many of the bytes.
#[derive(Clone, Copy, Debug)]
struct Value {
    size: u8,
    bytes: [u8; WIDEST],
}

impl Value {
    const UNKNOWN: Self = Self {
        size: 0,
        bytes: [0; WIDEST],
    };

    /// Takes a value; returns whether it is another one than before.
    #[inline]
    fn replace(&mut self, bytes: &[u8]) -> bool {
        let before = std::mem::replace(&mut self.size, bytes.len() as u8);
        let is_as_large = usize::from(before) == bytes.len();
        // Bytes that were just written one way are read fast the same way, and slowly by `memcmp`.
        if let Ok(eight) = <&[u8; 8]>::try_from(bytes) {
            return !is_as_large | replace(&mut self.bytes, eight);
        }
        if let Ok(four) = <&[u8; 4]>::try_from(bytes) {
            return !is_as_large | replace(&mut self.bytes, four);
        }
        let held = &mut self.bytes[..bytes.len()];
        let is_other = !is_as_large || *held != *bytes;
        held.copy_from_slice(bytes);
        is_other
    }
}

/// Replaces the first bytes; returns whether they were others.
#[inline]
fn replace<const SIZE: usize>(held: &mut [u8; WIDEST], bytes: &[u8; SIZE]) -> bool {
    let Some(first) = held.first_chunk_mut::<SIZE>() else {
        return true;
    };
    std::mem::replace(first, *bytes) != *bytes
}

/// The last values of a cpu's registers.
#[derive(Default, Debug)]
pub struct RegisterFile {
    values: Vec<Value>,
}

impl RegisterFile {
    /// Forgets them: all are written again.
    pub fn forget(&mut self) {
        self.values.clear();
    }

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
        out: &mut Lines,
        time: &Time,
    ) {
        self.values.resize(set.registers.len(), Value::UNKNOWN);
        let mut look = |number: usize| {
            // SAFETY: the caller is in a callback that reads registers.
            let bytes = unsafe { api.read_register(set.registers[number].handle) };
            self.note(set, number, bytes, out, time);
        };
        match compared {
            Compared::All => (0..set.registers.len()).for_each(look),
            Compared::Only(places) => {
                for place in places {
                    look(usize::from(place.0));
                }
            }
        }
    }

    /// Reads the register that has the mode; returns its value. Where the registers are known it is compared as by
    /// [`compare`](Self::compare).
    ///
    /// # Safety
    /// As [`Api::read_register`].
    pub unsafe fn mode(
        &mut self,
        api: &mut Api,
        set: &RegisterSet,
        out: &mut Lines,
        time: &Time,
    ) -> Option<u64> {
        let register = set.mode?;
        // SAFETY: the caller is in a callback that reads registers.
        let bytes = unsafe { api.read_register(register.handle) };
        let value = set.number(bytes);
        if let Some(place) = register.place.filter(|_| self.is_known()) {
            self.note(set, usize::from(place.0), bytes, out, time);
        }
        value
    }

    /// Notes what a register holds, and appends a line if that is another value than before.
    #[inline]
    fn note(
        &mut self,
        set: &RegisterSet,
        number: usize,
        bytes: &[u8],
        out: &mut Lines,
        time: &Time,
    ) {
        if bytes.is_empty() || bytes.len() > WIDEST || !self.values[number].replace(bytes) {
            return;
        }
        time.write(out);
        out.piece(&set.registers[number].before_value);
        match (set.number(bytes), set.order) {
            (Some(number), _) => out.hex(number, 2 * bytes.len()),
            (None, ByteOrder::Little) => out.hex_bytes(bytes.iter().rev()),
            (None, ByteOrder::Big) => out.hex_bytes(bytes.iter()),
        }
        out.array(b"\n", 1);
    }
}
