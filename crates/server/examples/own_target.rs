//! A custom machine behind the GDB server: a RISC-V with four instructions.
//! `cargo run -p tracewire-server --example own_target -- :1234`, then in gdb-multiarch `target remote :1234`.

use tracewire_arch::{Architecture, Machine};
use tracewire_experiment::HitHandler;
use tracewire_model::{Address, ThreadId};
use tracewire_server::{Listener, NoTracepoints, SessionLog, Stepped, Stub, StubTarget, run};

/// `addi a0,a0,3; sb a0,0x100(zero); bne a0,a1,-8; ecall`
const PROGRAM: [u32; 4] = [0x0035_0513, 0x10a0_0023, 0xfeb5_1ce3, 0x0000_0073];

struct Small {
    /// `x0` to `x31`, and the program counter.
    registers: [u32; 33],
    memory: Vec<u8>,
}

impl StubTarget for Small {
    type Traced = NoTracepoints;

    fn description(&self) -> &str {
        Machine::of(Architecture::Riscv32).target_xml()
    }

    fn program_counter(&self, _: ThreadId) -> Address {
        Address(self.registers[32].into())
    }

    fn registers(&self, _: ThreadId) -> Vec<u8> {
        self.registers.map(u32::to_le_bytes).concat()
    }

    fn read_memory(&self, address: Address, length: usize) -> Vec<u8> {
        let bytes = self.memory.iter().skip(address.0 as usize);
        bytes.take(length).copied().collect()
    }

    fn step(&mut self, _: &mut dyn HitHandler) -> Stepped {
        let pc = self.registers[32];
        let bytes = self.read_memory(Address(pc.into()), 4);
        let word = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
        let field = |at: u32| (word >> at & 31) as usize;
        let (first, second) = (self.registers[field(15)], self.registers[field(20)]);
        let high = (word as i32 >> 25) as u32;
        self.registers[32] = pc.wrapping_add(4);
        match word & 0x7f {
            0x13 => self.registers[field(7)] = first.wrapping_add((word as i32 >> 20) as u32),
            0x23 => {
                let at = first.wrapping_add(high << 5 | field(7) as u32) as usize;
                self.memory[at % 0x1000] = second as u8;
            }
            0x63 if first != second => {
                let sign = high & !63 | (field(7) as u32 & 1) << 6;
                let offset = sign << 5 | (high & 63) << 5 | field(7) as u32 & 30;
                self.registers[32] = pc.wrapping_add(offset);
            }
            0x63 => {}
            _ => return Stepped::Exited(self.registers[10]),
        }
        Stepped::Next(ThreadId(1))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or(":1234".to_owned());
    let mut memory = PROGRAM.map(u32::to_le_bytes).concat();
    memory.resize(0x1000, 0);
    let mut registers = [0; 33];
    registers[11] = 30;
    let mut stub = Stub::new(Small { registers, memory }, None)?;
    let listener = Listener::bind(&address.parse()?)?;
    eprintln!("Listening on {listener}");
    run(&mut listener.accept()?, &mut stub, &SessionLog::none())?;
    Ok(())
}
