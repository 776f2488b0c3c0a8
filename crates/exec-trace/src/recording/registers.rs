//! Registers before an instruction.

use super::{ReadError, Recording, RegisterId};
use crate::compact::RegisterValue;
use crate::compact::block::{Column, GroupPlace};
use crate::compact::bytes::Damaged;
use crate::compact::effect::{Effect, EffectKind};
use crate::compact::template::Class;
use crate::index::{BlockAt, Store};
use crate::record::{CpuNumber, InstructionNumber};

impl Recording {
    /// What a register of a cpu holds before an instruction executes; the number after the last one is the end.
    /// Unknown where the trace has not given it yet.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn register_at(
        &self,
        cpu: CpuNumber,
        register: RegisterId,
        before: InstructionNumber,
    ) -> Result<RegisterValue, ReadError> {
        self.ask(|store| register_at(store, cpu.0, register.0, before.0))
    }

    /// What all registers of a cpu hold before an instruction executes, in the order of
    /// [`Recording::register_names`].
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn registers_at(
        &self,
        cpu: CpuNumber,
        before: InstructionNumber,
    ) -> Result<Vec<RegisterValue>, ReadError> {
        self.ask(|store| {
            let mut values = vec![RegisterValue::UNKNOWN; self.names.len()];
            registers_at(store, before.0, |of, register, write| {
                if of == cpu.0
                    && let Some(value) = values.get_mut(register as usize)
                {
                    write.apply(value);
                }
            })?;
            Ok(values)
        })
    }
}

/// A register of a cpu among the registers of all.
pub(super) fn value_of(
    cpus: &[(u32, Vec<RegisterValue>)],
    cpu: CpuNumber,
    register: RegisterId,
) -> &RegisterValue {
    static UNKNOWN: RegisterValue = RegisterValue::UNKNOWN;
    cpus.iter()
        .find(|(of, _)| *of == cpu.0)
        .and_then(|(_, values)| values.get(register.0 as usize))
        .unwrap_or(&UNKNOWN)
}

/// A register's value, or what is written to it.
pub(super) enum Write<'a> {
    /// At the start.
    Is(&'a RegisterValue),
    Effect(&'a BlockAt, &'a Column, GroupPlace, &'a Effect),
}

impl Write<'_> {
    pub(super) fn apply(&self, value: &mut RegisterValue) {
        match self {
            Self::Is(start) => (*start).clone_into(value),
            Self::Effect(at, column, place, effect) => {
                let written = at.block.value(column, *place, &effect.value);
                match effect.kind {
                    EffectKind::Register { part: None, .. } => value.write(&written),
                    EffectKind::Register {
                        part: Some(part), ..
                    } => value.write_part(part, &written),
                    EffectKind::Access { .. } => {}
                }
            }
        }
    }
}

fn register_at(
    store: &Store,
    cpu: u32,
    register: u32,
    before: u64,
) -> Result<RegisterValue, Damaged> {
    let before = before.min(store.facts.instructions);
    let Some(number) = store.block_of(before)? else {
        return Ok(RegisterValue::UNKNOWN);
    };
    let at = store.block(number)?;
    let mut value = store
        .registers_at(&at)?
        .iter()
        .find(|(of, is, _)| (*of, *is) == (cpu, register))
        .map_or(RegisterValue::UNKNOWN, |(_, _, value)| value.clone());
    let is_selected = |effect: &Effect| {
        effect.cpu == cpu
            && matches!(effect.kind, EffectKind::Register { register: is, .. } if is == register)
    };
    let meant: Vec<bool> = at
        .block
        .templates()
        .map(|(_, template)| template.shape.effects.iter().any(is_selected))
        .collect();
    if !meant.contains(&true) {
        return Ok(value);
    }
    let slot = (before - at.row.first) as u32;
    store.with_column(&at, Class::Register, &meant, |column| {
        at.effects_up_to(slot, &meant, |place, effect| {
            if is_selected(effect) {
                Write::Effect(&at, column, place, effect).apply(&mut value);
            }
        });
    })?;
    Ok(value)
}

/// Everything that makes the state before an instruction: cpu, register, value or write.
pub(super) fn registers_at(
    store: &Store,
    before: u64,
    mut each: impl FnMut(u32, u32, Write<'_>),
) -> Result<(), Damaged> {
    let before = before.min(store.facts.instructions);
    let Some(number) = store.block_of(before)? else {
        return Ok(());
    };
    let at = store.block(number)?;
    for (cpu, register, value) in store.registers_at(&at)? {
        each(*cpu, *register, Write::Is(value));
    }
    let column = store.column(&at, Class::Register)?;
    let slot = (before - at.row.first) as u32;
    let all = vec![true; at.block.templates().count()];
    at.effects_up_to(slot, &all, |place, effect| {
        if let EffectKind::Register { register, .. } = effect.kind {
            let write = Write::Effect(&at, column, place, effect);
            each(effect.cpu, register, write);
        }
    });
    Ok(())
}
