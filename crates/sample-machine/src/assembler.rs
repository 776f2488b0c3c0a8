//! Consecutive instructions, with labels that may be used before they are placed.

use crate::instruction::Instruction;
use crate::program::{Function, Program};

/// A place in the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

enum Fixup {
    Branch(Label),
    Jump(Label),
    /// The upper and the lower half of an address, for `lui` and `ori`.
    Upper(Label),
    Lower(Label),
}

pub(crate) struct Assembler {
    base: u32,
    instructions: Vec<Instruction>,
    labels: Vec<Option<u32>>,
    fixups: Vec<(usize, Fixup)>,
    functions: Vec<(&'static str, u32)>,
}

impl Assembler {
    pub(crate) const fn new(base: u32) -> Self {
        Self {
            base,
            instructions: Vec::new(),
            labels: Vec::new(),
            fixups: Vec::new(),
            functions: Vec::new(),
        }
    }

    fn here(&self) -> u32 {
        self.base + 4 * self.instructions.len() as u32
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(crate) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.here());
    }

    /// Starts a function.
    pub(crate) fn function(&mut self, name: &'static str, label: Label) {
        self.place(label);
        self.functions.push((name, self.here()));
    }

    pub(crate) fn put(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }

    fn put_with(&mut self, instruction: Instruction, fixup: Fixup) {
        self.fixups.push((self.instructions.len(), fixup));
        self.put(instruction);
    }

    /// `beq` (true) or `bne`.
    pub(crate) fn branch(&mut self, equal: bool, rs: u8, rt: u8, to: Label) {
        self.put_with(Instruction::Branch(equal, rs, rt, 0), Fixup::Branch(to));
    }

    pub(crate) fn jump(&mut self, links: bool, to: Label) {
        self.put_with(Instruction::Jump(links, 0), Fixup::Jump(to));
    }

    /// Loads an address, in two instructions.
    pub(crate) fn load_address(&mut self, register: u8, label: Label) {
        self.put_with(Instruction::LoadUpper(register, 0), Fixup::Upper(label));
        let low = Instruction::Immediate(crate::instruction::Operation::Or, register, register, 0);
        self.put_with(low, Fixup::Lower(label));
    }

    pub(crate) fn finish(mut self) -> Program {
        let end = self.here();
        for (at, fixup) in &self.fixups {
            let address = self.base + 4 * *at as u32;
            let place = |label: &Label| self.labels[label.0].expect("every label is placed");
            let instruction = &mut self.instructions[*at];
            *instruction = match (*instruction, fixup) {
                (Instruction::Branch(equal, rs, rt, _), Fixup::Branch(label)) => {
                    let words = place(label).wrapping_sub(address + 4) as i32 / 4;
                    Instruction::Branch(equal, rs, rt, words as i16)
                }
                (Instruction::Jump(links, _), Fixup::Jump(label)) => {
                    Instruction::Jump(links, place(label) >> 2 & 0x3ff_ffff)
                }
                (Instruction::LoadUpper(rt, _), Fixup::Upper(label)) => {
                    Instruction::LoadUpper(rt, (place(label) >> 16) as u16)
                }
                (Instruction::Immediate(operation, rt, rs, _), Fixup::Lower(label)) => {
                    Instruction::Immediate(operation, rt, rs, place(label) as u16)
                }
                (instruction, _) => unreachable!("a fixup of another instruction: {instruction:?}"),
            };
        }
        let ends = self.functions.iter().skip(1).map(|(_, start)| *start);
        let functions = self
            .functions
            .iter()
            .zip(ends.chain([end]))
            .map(|((name, start), end)| Function {
                name,
                start: *start,
                end,
            })
            .collect();
        Program::new(self.base, self.instructions, functions)
    }
}
