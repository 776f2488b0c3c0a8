//! Groups: an instruction's lines together, the changing numbers taken out of their text.

use super::bytes::put;
use super::effect::{Effect, OtherTime};
use super::grouping::Current;
use super::template::{Class, Shape, TemplateInstruction, Variable};
use crate::record::Time;
use tracewire_arch::{InstructionSet, Opcode};

/// Where groups go.
pub(crate) trait Groups {
    /// A group is complete: everything in it, to be looked at and not kept.
    fn group(&mut self, group: &Group);
    /// The number of a register's name in the segment's list.
    fn register(&mut self, name: &[u8]) -> u32;
}

/// A group, as it grows.
#[derive(Default, Debug)]
pub(crate) struct Group {
    pub(crate) instruction: Option<TemplateInstruction>,
    /// The instruction's code, its set, and how many digits its address has.
    pub(crate) code: Option<(Opcode, Option<InstructionSet>, u8)>,
    pub(crate) time: Option<Time>,
    pub(crate) id: Option<u64>,
    pub(crate) skeleton: Vec<u8>,
    pub(crate) lines: u32,
    pub(crate) apart: u32,
    pub(crate) unparsed: u32,
    /// The texts of the lines kept apart, each after its length.
    pub(crate) apart_text: Vec<u8>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) values: Vec<u64>,
    pub(crate) rows: [u16; 3],
    pub(crate) effects: Vec<Effect>,
    /// The effects whose cpu is the next instruction's.
    pub(super) of_next: Vec<u16>,
    /// The latest time of a record that has another time than the group.
    pub(crate) latest_other: Option<Time>,
    /// How many of its records are events, which stay text.
    pub(crate) events: u32,
    /// How many records it has.
    pub(super) records: u32,
}

impl Group {
    /// What makes two groups the same shape.
    pub(crate) fn shape_key(&self, key: &mut Vec<u8>) {
        key.clear();
        let time = self.time.unwrap_or(Time::ZERO);
        key.extend([time.scale as u8, time.decimals, u8::from(self.id.is_some())]);
        for number in [self.lines, self.apart, self.unparsed] {
            put(key, u64::from(number));
        }
        put(key, self.variables.len() as u64);
        for variable in &self.variables {
            key.push((variable.class as u8) << 5 | variable.digits);
        }
        for effect in &self.effects {
            effect.put(key);
        }
    }

    /// Whether it is of a shape: then its key is that of the shape's groups.
    pub(crate) fn is_of_shape(&self, shape: &Shape) -> bool {
        let time = self.time.unwrap_or(Time::ZERO);
        shape.has_id == self.id.is_some()
            && shape.scale == time.scale
            && shape.decimals == time.decimals
            && shape.lines == self.lines
            && shape.apart == self.apart
            && shape.unparsed == self.unparsed
            && *shape.variables == *self.variables
            && *shape.effects == *self.effects
    }

    /// The shape of all groups with this key.
    pub(crate) fn shape(&self) -> Shape {
        let time = self.time.unwrap_or(Time::ZERO);
        Shape {
            has_id: self.id.is_some(),
            scale: time.scale,
            decimals: time.decimals,
            lines: self.lines,
            apart: self.apart,
            unparsed: self.unparsed,
            variables: self.variables.as_slice().into(),
            rows: self.rows,
            effects: self.effects.as_slice().into(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.instruction = None;
        self.code = None;
        self.time = None;
        self.id = None;
        self.skeleton.clear();
        self.lines = 0;
        self.apart = 0;
        self.unparsed = 0;
        self.apart_text.clear();
        self.variables.clear();
        self.values.clear();
        self.rows = [0; 3];
        self.effects.clear();
        self.of_next.clear();
        self.latest_other = None;
        self.events = 0;
        self.records = 0;
    }

    /// The variable of a time that is not the group's: its place, and its template. Records of one line share it.
    pub(super) fn other_time(
        &mut self,
        line: &mut Current,
        time: Time,
        group_time: Time,
    ) -> (u16, OtherTime) {
        if let Some((of, place, template)) = line.other_time
            && of == time
        {
            return (place, template);
        }
        let difference = time.ticks.wrapping_sub(group_time.ticks);
        let (place, row) = self.variable(Class::Text, 16, difference);
        let template = OtherTime {
            row,
            scale: time.scale,
            decimals: time.decimals,
        };
        line.other_time = Some((time, place, template));
        if self
            .latest_other
            .is_none_or(|latest| latest.compare(time).is_lt())
        {
            self.latest_other = Some(time);
        }
        (place, template)
    }

    /// A new variable: its place among the variables, and its row in its class.
    pub(super) fn variable(&mut self, class: Class, digits: u8, value: u64) -> (u16, u16) {
        let place = self.variables.len() as u16;
        let row = self.rows[class as usize];
        self.rows[class as usize] += 1;
        self.variables.push(Variable { class, digits, row });
        self.values.push(value);
        (place, row)
    }
}
