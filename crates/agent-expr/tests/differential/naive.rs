//! An evaluator written only from the specification's table, one instruction at a time, with all data available.

use std::collections::BTreeMap;

use proptest::prelude::*;

/// All that a program can see, and all that it did.
#[derive(Clone, PartialEq, Debug)]
pub struct World {
    registers: Vec<u64>,
    /// Memory from address 0 on.
    memory: Vec<u8>,
    variables: BTreeMap<u16, i64>,
    pub events: Vec<Event>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    Memory(u64, u64),
    Text(u64, u64),
    Variable(u16, i64),
    Set(u16, i64),
    Print(Vec<u8>, u64, u64, Vec<u64>),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Failure {
    Division,
    Memory(u64, u8),
    Register(u16),
    Underflow,
    Overflow,
    Outside,
    Instruction,
    Steps,
}

pub fn world() -> impl Strategy<Value = World> {
    let registers = proptest::collection::vec(prop_oneof![0..80_u64, any::<u64>()], 0..4);
    let memory = proptest::collection::vec(any::<u8>(), 0..64);
    let variables = proptest::collection::btree_map(0..4_u16, any::<i64>(), 0..3);
    (registers, memory, variables).prop_map(|(registers, memory, variables)| World {
        registers,
        memory,
        variables,
        events: vec![],
    })
}

impl World {
    pub fn register(&self, register: u16) -> Option<u64> {
        self.registers.get(usize::from(register)).copied()
    }

    pub fn memory(&self, address: u64, size: u8) -> Option<u64> {
        let mut value = 0;
        for place in (0..u64::from(size)).rev() {
            let at = usize::try_from(address.checked_add(place)?).ok()?;
            value = value * 256 + u64::from(*self.memory.get(at)?);
        }
        Some(value)
    }

    pub fn variable(&self, number: u16) -> i64 {
        self.variables.get(&number).copied().unwrap_or(0)
    }

    pub fn set(&mut self, number: u16, value: i64) {
        self.variables.insert(number, value);
        self.events.push(Event::Set(number, value));
    }
}

/// The stack, whose top is its last.
struct Stack(Vec<u64>);

impl Stack {
    fn pop(&mut self) -> Result<u64, Failure> {
        self.0.pop().ok_or(Failure::Underflow)
    }

    fn push(&mut self, value: u64) -> Result<(), Failure> {
        if self.0.len() == 100 {
            return Err(Failure::Overflow);
        }
        self.0.push(value);
        Ok(())
    }
}

pub fn evaluate(code: &[u8], world: &mut World) -> Result<Option<u64>, (usize, Failure)> {
    let mut at = 0;
    let mut stack = Stack(vec![]);
    for _ in 0..100_000 {
        match step(code, at, &mut stack, world) {
            Ok(Some(next)) => at = next,
            Ok(None) => return Ok(stack.0.last().copied()),
            Err(failure) => return Err((at, failure)),
        }
    }
    // The place where it is given up comes before the instruction there is looked at, unless that is none.
    match code.get(at) {
        None => Err((at, Failure::Outside)),
        Some(0 | 0x35..) => Err((at, Failure::Instruction)),
        Some(_) => Err((at, Failure::Steps)),
    }
}

/// One instruction; the offset of the next, or none at the end.
fn step(
    code: &[u8],
    at: usize,
    stack: &mut Stack,
    world: &mut World,
) -> Result<Option<usize>, Failure> {
    let op = *code.get(at).ok_or(Failure::Outside)?;
    // Missing stack cells are reported before a missing operand.
    let (takes, leaves) = match op {
        0x02..=0x0b | 0x0f..=0x11 | 0x13..=0x15 => (2, 1),
        0x0c | 0x2f | 0x34 => (2, 0),
        0x0d | 0x0e | 0x12 | 0x16..=0x1f | 0x2a | 0x2d | 0x30 => (1, 1),
        0x20 | 0x29 => (1, 0),
        0x22..=0x26 | 0x2c | 0x32 => (0, 1),
        0x28 => (1, 2),
        0x2b => (2, 2),
        0x33 => (3, 3),
        _ => (0, 0),
    };
    if stack.0.len() < takes {
        return Err(Failure::Underflow);
    }
    if stack.0.len() - takes + leaves > 100 {
        return Err(Failure::Overflow);
    }
    let width = match op {
        0x0d | 0x16 | 0x22 | 0x2a | 0x32 => 1,
        0x20 | 0x21 | 0x23 | 0x26 | 0x2c | 0x2d | 0x2e | 0x30 => 2,
        0x24 => 4,
        0x25 => 8,
        _ => 0,
    };
    let mut operand = 0_u64;
    for place in 0..width {
        let byte = code.get(at + 1 + place).ok_or(Failure::Instruction)?;
        operand = operand * 256 + u64::from(*byte);
    }
    let mut next = at + 1 + width;
    let number = operand as u16;

    match op {
        0x02..=0x0b | 0x0f..=0x11 | 0x13..=0x15 => {
            let b = stack.pop()?;
            let a = stack.pop()?;
            stack.push(binary(op, a, b)?)?;
        }
        0x0c => {
            let size = stack.pop()?;
            let address = stack.pop()?;
            world.events.push(Event::Memory(address, size));
        }
        0x0d | 0x30 => {
            let address = stack.pop()?;
            world.events.push(Event::Memory(address, operand));
            stack.push(address)?;
        }
        0x0e => {
            let a = stack.pop()?;
            stack.push(if a == 0 { 1 } else { 0 })?;
        }
        0x12 => {
            let a = stack.pop()?;
            stack.push(u64::MAX - a)?;
        }
        0x16 | 0x2a => {
            let a = stack.pop()?;
            stack.push(extend(a, operand, op == 0x16))?;
        }
        0x17..=0x1a => {
            let address = stack.pop()?;
            let size = 1 << (op - 0x17);
            let value = world
                .memory(address, size)
                .ok_or(Failure::Memory(address, size))?;
            stack.push(value)?;
        }
        0x20 => {
            if stack.pop()? != 0 {
                next = usize::from(number);
            }
        }
        0x21 => next = usize::from(number),
        0x22..=0x25 => stack.push(operand)?,
        0x26 => stack.push(world.register(number).ok_or(Failure::Register(number))?)?,
        0x27 => return Ok(None),
        0x28 => {
            let a = stack.pop()?;
            stack.push(a)?;
            stack.push(a)?;
        }
        0x29 => _ = stack.pop()?,
        0x2b => {
            let b = stack.pop()?;
            let a = stack.pop()?;
            stack.push(b)?;
            stack.push(a)?;
        }
        0x2c => stack.push(world.variable(number) as u64)?,
        0x2d => {
            let a = stack.pop()?;
            world.set(number, a as i64);
            stack.push(a)?;
        }
        0x2e => {
            let value = world.variable(number);
            world.events.push(Event::Variable(number, value));
        }
        0x2f => {
            let limit = stack.pop()?;
            let address = stack.pop()?;
            world.events.push(Event::Text(address, limit));
        }
        0x32 => {
            let place = (stack.0.len() as u64)
                .checked_sub(operand + 1)
                .ok_or(Failure::Underflow)?;
            stack.push(stack.0[place as usize])?;
        }
        0x33 => {
            let c = stack.pop()?;
            let b = stack.pop()?;
            let a = stack.pop()?;
            stack.push(c)?;
            stack.push(a)?;
            stack.push(b)?;
        }
        0x34 => next = print(code, at, stack, world)?,
        _ => return Err(Failure::Instruction),
    }
    Ok(Some(next))
}

fn binary(op: u8, a: u64, b: u64) -> Result<u64, Failure> {
    // In 128 bits nothing overflows.
    let (sa, sb) = (i128::from(a as i64), i128::from(b as i64));
    let (ua, ub) = (u128::from(a), u128::from(b));
    if (0x05..=0x08).contains(&op) && b == 0 {
        return Err(Failure::Division);
    }
    Ok(match op {
        0x02 => (ua + ub) as u64,
        0x03 => (sa - sb) as u64,
        0x04 => (ua * ub) as u64,
        0x05 => (sa / sb) as u64,
        0x06 => (ua / ub) as u64,
        0x07 => (sa % sb) as u64,
        0x08 => (ua % ub) as u64,
        0x09 => (0..b.min(64)).fold(a, |value, _| value.wrapping_mul(2)),
        0x0a => (0..b.min(64)).fold(sa, |value, _| value.div_euclid(2)) as u64,
        0x0b => (0..b.min(64)).fold(ua, |value, _| value / 2) as u64,
        0x0f => a & b,
        0x10 => a | b,
        0x11 => (a | b) - (a & b),
        0x13 => u64::from(a == b),
        0x14 => u64::from(sa < sb),
        _ => u64::from(ua < ub),
    })
}

fn extend(a: u64, bits: u64, signed: bool) -> u64 {
    if bits >= 64 {
        return a;
    }
    let modulus = 1_i128 << bits;
    let value = i128::from(a) % modulus;
    if signed && bits > 0 && value >= modulus / 2 {
        (value - modulus) as u64
    } else {
        value as u64
    }
}

fn print(code: &[u8], at: usize, stack: &mut Stack, world: &mut World) -> Result<usize, Failure> {
    let head = code.get(at + 1..at + 4).ok_or(Failure::Instruction)?;
    let length = usize::from(head[1]) * 256 + usize::from(head[2]);
    let format = code
        .get(at + 4..at + 4 + length)
        .ok_or(Failure::Instruction)?;
    let Some((0, format)) = format.split_last() else {
        return Err(Failure::Instruction);
    };
    if stack.0.len() - 2 < usize::from(head[0]) {
        return Err(Failure::Underflow);
    }
    let function = stack.pop()?;
    let channel = stack.pop()?;
    let mut arguments = vec![];
    for _ in 0..head[0] {
        arguments.push(stack.pop()?);
    }
    world
        .events
        .push(Event::Print(format.to_vec(), function, channel, arguments));
    Ok(at + 4 + length)
}
