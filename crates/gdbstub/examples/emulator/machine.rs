//! An emulator of a small RISC-V processor: RV32I, and some memory.

use object::{Object, ObjectSegment};

/// Where memory is, and how much of it.
const BASE: u32 = 0x8000_0000;
const SIZE: usize = 1 << 16;

pub struct Machine {
    pub pc: u32,
    pub x: [u32; 32],
    memory: Vec<u8>,
}

/// An error of the machine: an instruction that it cannot execute, or an access outside of memory.
#[derive(Debug)]
pub struct Trap;

impl Machine {
    /// A machine with an ELF program in its memory.
    pub fn new(program: &[u8]) -> Result<Self, Box<dyn std::error::Error>> {
        let file = object::File::parse(program)?;
        let mut machine = Self {
            pc: u32::try_from(file.entry())?,
            x: [0; 32],
            memory: vec![0; SIZE],
        };
        // The headers of the file may be in a segment that is no memory of this machine's.
        for segment in file
            .segments()
            .filter(|segment| segment.address() >= BASE.into())
        {
            let address = u32::try_from(segment.address())?;
            let data = segment.data()?;
            let place = machine.at(address, data.len());
            place.ok_or("outside of memory")?.copy_from_slice(data);
        }
        Ok(machine)
    }

    /// Some bytes of memory.
    pub fn at(&mut self, address: u32, length: usize) -> Option<&mut [u8]> {
        let start = address.checked_sub(BASE)? as usize;
        self.memory.get_mut(start..start.checked_add(length)?)
    }

    fn load<const N: usize>(&mut self, address: u32) -> Result<[u8; N], Trap> {
        let bytes = self.at(address, N).ok_or(Trap)?;
        bytes.try_into().map_err(|_| Trap)
    }

    fn store(&mut self, address: u32, bytes: &[u8]) -> Result<(), Trap> {
        let place = self.at(address, bytes.len()).ok_or(Trap)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// Executes one instruction.
    pub fn step(&mut self) -> Result<(), Trap> {
        let code = u32::from_le_bytes(self.load(self.pc)?);
        let (rd, width) = ((code >> 7 & 31) as usize, code >> 12 & 7);
        let (one, two) = (
            self.x[(code >> 15 & 31) as usize],
            self.x[(code >> 20 & 31) as usize],
        );
        let signed = code as i32;
        let immediate = (signed >> 20) as u32;
        let upper = code & 0xffff_f000;
        let to_store = (signed >> 25 << 5) as u32 | code >> 7 & 31;
        let to_branch = (signed >> 31 << 12) as u32
            | (code >> 7 & 1) << 11
            | (code >> 25 & 63) << 5
            | (code >> 8 & 15) << 1;
        let to_jump = (signed >> 31 << 20) as u32
            | code & 0xff000
            | (code >> 20 & 1) << 11
            | (code >> 21 & 0x3ff) << 1;
        let mut next = self.pc.wrapping_add(4);
        let result = match code & 0x7f {
            0x37 => Some(upper),
            0x17 => Some(self.pc.wrapping_add(upper)),
            0x6f => Some(std::mem::replace(&mut next, self.pc.wrapping_add(to_jump))),
            0x67 => Some(std::mem::replace(
                &mut next,
                one.wrapping_add(immediate) & !1,
            )),
            0x63 => {
                let taken = match width {
                    0 | 1 => one == two,
                    4 | 5 => (one as i32) < two as i32,
                    6 | 7 => one < two,
                    _ => return Err(Trap),
                };
                if taken != (width & 1 == 1) {
                    next = self.pc.wrapping_add(to_branch);
                }
                None
            }
            0x03 => {
                let address = one.wrapping_add(immediate);
                Some(match width {
                    0 => i8::from_le_bytes(self.load(address)?) as u32,
                    1 => i16::from_le_bytes(self.load(address)?) as u32,
                    2 => u32::from_le_bytes(self.load(address)?),
                    4 => u8::from_le_bytes(self.load(address)?).into(),
                    5 => u16::from_le_bytes(self.load(address)?).into(),
                    _ => return Err(Trap),
                })
            }
            0x23 => {
                let length = [1, 2, 4].get(width as usize).ok_or(Trap)?;
                self.store(one.wrapping_add(to_store), &two.to_le_bytes()[..*length])?;
                None
            }
            kind @ (0x13 | 0x33) => {
                let is_register = kind == 0x33;
                let two = if is_register { two } else { immediate };
                let other = code >> 30 & 1 == 1;
                Some(match width {
                    0 if is_register && other => one.wrapping_sub(two),
                    0 => one.wrapping_add(two),
                    1 => one << (two & 31),
                    2 => u32::from((one as i32) < two as i32),
                    3 => u32::from(one < two),
                    4 => one ^ two,
                    5 if other => (one as i32 >> (two & 31)) as u32,
                    5 => one >> (two & 31),
                    6 => one | two,
                    _ => one & two,
                })
            }
            _ => return Err(Trap),
        };
        if let Some(result) = result.filter(|_| rd > 0) {
            self.x[rd] = result;
        }
        self.pc = next;
        Ok(())
    }
}
