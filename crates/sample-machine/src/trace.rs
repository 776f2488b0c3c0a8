//! The machine's execution, as QEMU4V text.

use std::io::{self, Write};

use crate::{Machine, Options, Program, Step};

/// A trace in the making.
#[derive(Clone, Debug)]
pub struct Trace {
    machines: Vec<Machine>,
    instructions: u64,
    /// For each instruction of the program: its address, code, mode and text, as in a line.
    tails: Vec<Vec<u8>>,
}

const REGISTERS: [&str; 34] = [
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27",
    "r28", "r29", "r30", "r31", "lo", "hi",
];

impl Trace {
    /// A trace of nothing yet.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let mut machines = vec![Machine::new(options)];
        let others = (1..options.cpus).map(|cpu| Machine::of_cpu(options, cpu).without_memory());
        machines.extend(others);
        let program = Program::of(options);
        let addresses = (program.base()..).step_by(4);
        let tails = program
            .words()
            .zip(addresses)
            .map(|(word, address)| {
                let text = program.text(address).unwrap_or_default();
                format!(") {address:08x} {word:08x} A svc : {text}\n").into_bytes()
            })
            .collect();
        Self {
            machines,
            instructions: 0,
            tails,
        }
    }

    /// How many instructions were written.
    #[must_use]
    pub const fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The machines, by cpu number, in the state after the last written instruction. Memory is that of the first one.
    #[must_use]
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Runs until at least so many bytes were written, always whole instructions. Gives how many bytes it was.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&mut self, out: &mut impl Write, bytes: u64) -> io::Result<u64> {
        let mut buffer = Vec::with_capacity(1 << 17);
        let mut written = 0;
        while written + (buffer.len() as u64) < bytes {
            self.step_into(&mut buffer);
            if buffer.len() >= 1 << 16 {
                out.write_all(&buffer)?;
                written += buffer.len() as u64;
                buffer.clear();
            }
        }
        out.write_all(&buffer)?;
        Ok(written + buffer.len() as u64)
    }

    /// Executes one instruction and appends its lines.
    pub fn step_into(&mut self, out: &mut Vec<u8>) -> Step {
        let cpu = (self.instructions % self.machines.len() as u64) as usize;
        let step = match self.machines.split_at_mut(1) {
            ([first], others) => match cpu.checked_sub(1) {
                Some(other) => others[other].step_on_memory_of(first),
                None => first.step(),
            },
            _ => unreachable!("a trace has at least one processor"),
        };
        let index = (step.address - self.machines[0].program().base()) as usize / 4;
        self.instructions += 1;
        let mut time = Vec::with_capacity(24);
        decimal(&mut time, self.instructions);
        out.extend_from_slice(&time);
        out.extend_from_slice(b" clk ");
        decimal(out, cpu as u64);
        out.extend_from_slice(b" IT (");
        out.extend_from_slice(&time);
        out.extend_from_slice(&self.tails[index]);
        time.extend_from_slice(b" clk ");
        if let Some(access) = step.access {
            out.extend_from_slice(&time);
            out.extend_from_slice(if access.is_write { b"MW" } else { b"MR" });
            decimal(out, u64::from(access.size));
            out.push(b' ');
            hex(out, access.address, 8);
            out.push(b' ');
            hex(out, access.data, access.size * 2);
            out.push(b'\n');
        }
        for (register, value) in step.writes.iter().flatten() {
            out.extend_from_slice(&time);
            out.extend_from_slice(b"R ");
            out.extend_from_slice(REGISTERS[usize::from(*register)].as_bytes());
            out.push(b' ');
            hex(out, *value, 8);
            out.push(b'\n');
        }
        step
    }
}

fn decimal(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0; 20];
    let mut rest = value;
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn hex(out: &mut Vec<u8>, value: u32, digits: u32) {
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (place * 4)) as usize & 15]);
    }
}
