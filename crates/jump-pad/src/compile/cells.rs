//! The stack of an expression at compile time: most of its cells are in registers or are constants.

use iced_x86::code_asm::*;

use super::code::{Code, Gpr, Made, POOL, Slot};

/// The place of a cell's value. Values do not change; an instruction makes a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cell {
    Number(u64),
    /// The program's own register.
    Program(Gpr),
    /// A register of the pool, by its place there.
    Pool(usize),
    Slot(Slot),
}

/// The cells, the top last, and the registers of operands that are already popped.
#[derive(Debug, Default)]
pub(super) struct Cells {
    pub(super) list: Vec<Cell>,
    pinned: Vec<usize>,
}

impl Cells {
    /// The cells where paths join.
    pub(super) fn joined(depth: usize) -> Self {
        Self {
            list: (0..depth)
                .map(|cell| Cell::Slot(Slot::Join(cell as u16)))
                .collect(),
            pinned: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, cell: Cell) {
        self.list.push(cell);
    }

    /// The top, which exists in a verified program.
    pub(super) fn pop(&mut self) -> Cell {
        self.list.pop().unwrap_or(Cell::Number(0))
    }

    fn is_used(&self, place: usize) -> bool {
        self.pinned.contains(&place) || self.list.contains(&Cell::Pool(place))
    }

    /// Keeps the register of a popped cell.
    pub(super) fn pin(&mut self, cell: Cell) {
        if let Cell::Pool(place) = cell {
            self.pinned.push(place);
        }
    }

    pub(super) fn unpin(&mut self) {
        self.pinned.clear();
    }
}

pub(super) fn pool(place: usize) -> Gpr {
    POOL.get(place).copied().unwrap_or(Gpr(8))
}

impl Code<'_> {
    /// A register of the pool for a new value.
    pub(super) fn take(&mut self, cells: &mut Cells) -> Made<usize> {
        let place = match (0..POOL.len()).find(|place| !cells.is_used(*place)) {
            Some(place) => place,
            None => self.spill(cells)?,
        };
        self.uses(&[pool(place).wide()]);
        cells.pin(Cell::Pool(place));
        Ok(place)
    }

    /// Frees the register that has lain on the stack for longest.
    fn spill(&mut self, cells: &mut Cells) -> Made<usize> {
        let lowest = cells.list.iter().find_map(|cell| match cell {
            Cell::Pool(place) if !cells.pinned.contains(place) => Some(*place),
            _ => None,
        });
        // At most two operands are pinned, and there are three registers.
        let place = lowest.unwrap_or(0);
        let slot = self.free_slot(cells);
        let operand = self.slot(slot);
        self.asm.mov(operand, pool(place).wide())?;
        for cell in &mut cells.list {
            if *cell == Cell::Pool(place) {
                *cell = Cell::Slot(slot);
            }
        }
        Ok(place)
    }

    fn free_slot(&self, cells: &Cells) -> Slot {
        (0..)
            .map(Slot::Spill)
            .find(|slot| !cells.list.contains(&Cell::Slot(*slot)))
            .unwrap_or(Slot::Spill(u16::MAX))
    }

    /// Puts a cell's value into a register.
    pub(super) fn load(&mut self, cell: Cell, into: Gpr) -> Made {
        match cell {
            Cell::Number(number) => self.number(into, number),
            Cell::Program(register) => self.program_register(register, into.wide()),
            Cell::Pool(place) if pool(place) == into => Ok(()),
            Cell::Pool(place) => Ok(self.asm.mov(into.wide(), pool(place).wide())?),
            Cell::Slot(slot) => {
                let operand = self.slot(slot);
                Ok(self.asm.mov(into.wide(), operand)?)
            }
        }
    }

    /// Returns a register that holds the cell's value: the cell's own, or `else_into`.
    pub(super) fn in_register(&mut self, cell: Cell, else_into: Gpr) -> Made<AsmRegister64> {
        match cell {
            Cell::Pool(place) => Ok(pool(place).wide()),
            Cell::Program(register) if !register.is_clobbered() && register != Gpr::RSP => {
                Ok(register.wide())
            }
            cell => {
                self.load(cell, else_into)?;
                Ok(else_into.wide())
            }
        }
    }

    /// Returns a register of the pool with the cell's value that may be changed: the cell's own where no other cell needs it.
    pub(super) fn changeable(&mut self, cells: &mut Cells, cell: Cell) -> Made<usize> {
        if let Cell::Pool(place) = cell
            && !cells.list.contains(&cell)
            && cells
                .pinned
                .iter()
                .filter(|pinned| **pinned == place)
                .count()
                <= 1
        {
            cells.pin(cell);
            return Ok(place);
        }
        cells.pin(cell);
        let place = self.take(cells)?;
        self.load(cell, pool(place))?;
        Ok(place)
    }

    /// Moves every cell to where all paths expect it.
    pub(super) fn join(&mut self, cells: &mut Cells) -> Made {
        // A cell in another's place is moved away first.
        for index in 0..cells.list.len() {
            let Some(cell @ Cell::Slot(Slot::Join(place))) = cells.list.get(index).copied() else {
                continue;
            };
            if usize::from(place) == index {
                continue;
            }
            let slot = self.free_slot(cells);
            self.load(cell, Gpr(0))?;
            let operand = self.slot(slot);
            self.asm.mov(operand, rax)?;
            // Only this one: the cell to which the place belongs stays.
            if let Some(cell) = cells.list.get_mut(index) {
                *cell = Cell::Slot(slot);
            }
        }
        for index in 0..cells.list.len() {
            let Some(cell) = cells.list.get_mut(index) else {
                continue;
            };
            let target = Slot::Join(index as u16);
            let from = std::mem::replace(cell, Cell::Slot(target));
            if from == Cell::Slot(target) {
                continue;
            }
            let register = self.in_register(from, Gpr(0))?;
            let operand = self.slot(target);
            self.asm.mov(operand, register)?;
        }
        Ok(())
    }
}
