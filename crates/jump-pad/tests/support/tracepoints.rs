//! Tracepoints for tests.
#![allow(dead_code)]

use tracewire_agent_expr::assemble;
use tracewire_model::{
    Action, RegisterMask, RegisterNumber, TracepointDefinition, TracepointKind, TracepointNumber,
};

pub fn tracepoint(number: i32, actions: Vec<Action>) -> TracepointDefinition {
    TracepointDefinition {
        number: TracepointNumber(number),
        address: super::machine::SITE,
        enabled: true,
        kind: TracepointKind::Trap,
        step_count: 0,
        pass_count: 0,
        condition: None,
        actions,
        step_actions: vec![],
        counting: tracewire_model::Counting::default(),
        withholds_registers: false,
        free_stack: None,
        source: Default::default(),
    }
}

pub fn memory(address: u64, length: u64) -> Action {
    Action::Memory {
        base: None,
        offset: address,
        length,
    }
}

/// Memory at the address in a register.
pub fn pointed_to(register: u16, length: u64) -> Action {
    Action::Memory {
        base: Some(RegisterNumber(register)),
        offset: 0,
        length,
    }
}

pub fn registers() -> Action {
    Action::Registers(RegisterMask::default())
}

pub fn expression(listing: &str) -> Action {
    Action::Expression(code(listing))
}

pub fn code(listing: &str) -> Vec<u8> {
    assemble(listing).unwrap()
}
