//! Which number each file's tracepoints and variables have in the merged file.

use std::collections::{BTreeSet, HashMap};

use tracewire_agent_expr::{OperandKind, instructions};
use tracewire_model::{
    Action, Tracepoint, TracepointDefinition, TracepointNumber, TracepointUsage,
    VariableDefinition, VariableNumber,
};
use tracewire_tracefile::{MAX_TRACEPOINT_NUMBER, TraceFile};

use crate::error::ConvertError;

/// The largest variable number that expressions can name.
const MAX_VARIABLE: i32 = u16::MAX as i32;

#[derive(Default)]
pub(super) struct Numbering {
    tracepoints: Vec<Tracepoint>,
    variables: Vec<VariableDefinition>,
    /// The indices of each tracepoint's locations among the tracepoints.
    places: HashMap<TracepointNumber, Vec<usize>>,
    variable_names: HashMap<String, VariableNumber>,
    /// By file and the number it had there.
    new_tracepoints: HashMap<(usize, TracepointNumber), TracepointNumber>,
    new_variables: HashMap<(usize, VariableNumber), VariableNumber>,
    used_tracepoints: BTreeSet<TracepointNumber>,
    used_variables: BTreeSet<VariableNumber>,
}

impl Numbering {
    /// Numbers every definition of every file. The first file of each run has the usage of its tracepoints.
    pub(super) fn new(files: &[TraceFile], runs: &[Vec<usize>]) -> Result<Self, ConvertError> {
        let mut numbering = Self::default();
        for (index, file) in files.iter().enumerate() {
            for variable in file.description().variables() {
                numbering.add_variable(index, variable)?;
            }
        }
        // Numbers that other files define are reserved, so that these can keep theirs.
        let defined: BTreeSet<_> = files
            .iter()
            .flat_map(|file| file.description().tracepoints())
            .map(|tracepoint| tracepoint.definition.number)
            .collect();
        let firsts: BTreeSet<usize> = runs.iter().filter_map(|run| run.first().copied()).collect();
        for (index, file) in files.iter().enumerate() {
            let tracepoints = file.description().tracepoints();
            numbering.add_tracepoints(index, tracepoints, &defined, firsts.contains(&index))?;
        }
        Ok(numbering)
    }

    pub(super) fn tracepoints(&self) -> &[Tracepoint] {
        &self.tracepoints
    }

    pub(super) fn variables(&self) -> &[VariableDefinition] {
        &self.variables
    }

    /// The number of a tracepoint that a file defines.
    pub(super) fn defined_tracepoint(
        &self,
        file: usize,
        number: TracepointNumber,
    ) -> Option<TracepointNumber> {
        self.new_tracepoints.get(&(file, number)).copied()
    }

    /// The number of a file's tracepoint, defined or not.
    pub(super) fn tracepoint(
        &mut self,
        file: usize,
        number: TracepointNumber,
    ) -> Result<TracepointNumber, ConvertError> {
        if let Some(new) = self.new_tracepoints.get(&(file, number)) {
            return Ok(*new);
        }
        let new = self.free_tracepoint(number, &BTreeSet::new())?;
        self.used_tracepoints.insert(new);
        self.new_tracepoints.insert((file, number), new);
        Ok(new)
    }

    /// The number of a file's variable, defined or not.
    pub(super) fn variable(
        &mut self,
        file: usize,
        number: VariableNumber,
    ) -> Result<VariableNumber, ConvertError> {
        if tracewire_tracefile::describes_frame(number) {
            return Ok(number);
        }
        if let Some(new) = self.new_variables.get(&(file, number)) {
            return Ok(*new);
        }
        let new = self.free_variable(number)?;
        self.used_variables.insert(new);
        self.new_variables.insert((file, number), new);
        Ok(new)
    }

    /// The number itself if it is free, else the next that is neither used nor reserved.
    fn free_tracepoint(
        &self,
        wanted: TracepointNumber,
        reserved: &BTreeSet<TracepointNumber>,
    ) -> Result<TracepointNumber, ConvertError> {
        if !self.used_tracepoints.contains(&wanted) {
            return Ok(wanted);
        }
        let taken = |number: &TracepointNumber| {
            self.used_tracepoints.contains(number) || reserved.contains(number)
        };
        let highest = self
            .used_tracepoints
            .iter()
            .chain(reserved)
            .max()
            .map_or(0, |number| number.0);
        let behind = Some(highest)
            .filter(|highest| (0..MAX_TRACEPOINT_NUMBER).contains(highest))
            .map(|highest| TracepointNumber(highest + 1));
        behind
            .or_else(|| {
                (1..=MAX_TRACEPOINT_NUMBER)
                    .map(TracepointNumber)
                    .find(|number| !taken(number))
            })
            .ok_or(ConvertError::NoTracepointNumber(wanted))
    }

    fn free_variable(&self, wanted: VariableNumber) -> Result<VariableNumber, ConvertError> {
        if !self.used_variables.contains(&wanted) {
            return Ok(wanted);
        }
        let highest = self.used_variables.last().map_or(0, |number| number.0);
        let behind = Some(highest)
            .filter(|highest| (0..MAX_VARIABLE).contains(highest))
            .map(|highest| VariableNumber(highest + 1));
        behind
            .or_else(|| {
                let mut all = (1..=MAX_VARIABLE).map(VariableNumber);
                all.find(|number| !self.used_variables.contains(number))
            })
            .ok_or(ConvertError::NoVariableNumber(wanted))
    }

    fn add_variable(
        &mut self,
        file: usize,
        variable: &VariableDefinition,
    ) -> Result<(), ConvertError> {
        let number = match self.variable_names.get(&variable.name) {
            Some(number) => *number,
            None => {
                let number = self.free_variable(variable.number)?;
                self.used_variables.insert(number);
                self.variable_names.insert(variable.name.clone(), number);
                self.variables.push(VariableDefinition {
                    number,
                    ..variable.clone()
                });
                number
            }
        };
        self.new_variables.insert((file, variable.number), number);
        Ok(())
    }

    /// Adds the tracepoints of one file. All places of one number are one tracepoint. Without `counts` their usage is
    /// known already.
    fn add_tracepoints(
        &mut self,
        file: usize,
        tracepoints: &[Tracepoint],
        defined: &BTreeSet<TracepointNumber>,
        counts: bool,
    ) -> Result<(), ConvertError> {
        let mut order = Vec::new();
        let mut places: HashMap<TracepointNumber, Vec<Tracepoint>> = HashMap::new();
        for Tracepoint {
            definition,
            usage,
            served,
            skipped,
            pauses,
        } in tracepoints
        {
            let definition = self.with_new_variables(file, definition)?;
            let same = places.entry(definition.number).or_default();
            if same.is_empty() {
                order.push(definition.number);
            }
            same.push(Tracepoint {
                definition,
                usage: usage.filter(|_| counts),
                served: served.clone(),
                skipped: if counts { *skipped } else { 0 },
                pauses: if counts { pauses.clone() } else { Vec::new() },
            });
        }
        for old in order {
            let new = self.add_places(old, places.remove(&old).unwrap_or_default(), defined)?;
            self.new_tracepoints.insert((file, old), new);
        }
        Ok(())
    }

    fn add_places(
        &mut self,
        number: TracepointNumber,
        mut places: Vec<Tracepoint>,
        defined: &BTreeSet<TracepointNumber>,
    ) -> Result<TracepointNumber, ConvertError> {
        let known = self
            .places
            .get(&number)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let alike = known.len() == places.len()
            && known.iter().zip(&places).all(|(at, place)| {
                self.tracepoints
                    .get(*at)
                    .is_some_and(|known| known.definition == place.definition)
            });
        if alike && !known.is_empty() {
            for (at, place) in known.iter().zip(places) {
                let Some(known) = self.tracepoints.get_mut(*at) else {
                    continue;
                };
                known.skipped = known.skipped.saturating_add(place.skipped);
                known.pauses.extend(place.pauses);
                known.pauses.sort();
                known.usage = match (known.usage, place.usage) {
                    (Some(one), Some(other)) => Some(TracepointUsage {
                        hits: one.hits.saturating_add(other.hits),
                        bytes: one.bytes.saturating_add(other.bytes),
                    }),
                    (one, other) => one.or(other),
                };
            }
            return Ok(number);
        }
        let new = self.free_tracepoint(number, defined)?;
        self.used_tracepoints.insert(new);
        places
            .iter_mut()
            .for_each(|place| place.definition.number = new);
        let start = self.tracepoints.len();
        self.tracepoints.append(&mut places);
        self.places
            .insert(new, (start..self.tracepoints.len()).collect());
        Ok(new)
    }

    /// The definition, its expressions naming the merged file's variables.
    fn with_new_variables(
        &mut self,
        file: usize,
        definition: &TracepointDefinition,
    ) -> Result<TracepointDefinition, ConvertError> {
        let mut definition = definition.clone();
        let actions = definition
            .actions
            .iter_mut()
            .chain(&mut definition.step_actions);
        let in_actions = actions.filter_map(|action| match action {
            Action::Expression(bytecode) => Some(bytecode),
            _ => None,
        });
        for bytecode in in_actions.chain(&mut definition.condition) {
            self.renumber_expression(file, bytecode)?;
        }
        Ok(definition)
    }

    /// Numbers always have the same width, so jumps stay valid. Code that does not decode is unchanged.
    fn renumber_expression(
        &mut self,
        file: usize,
        bytecode: &mut [u8],
    ) -> Result<(), ConvertError> {
        let named: Vec<(usize, u16)> = instructions(bytecode)
            .map_while(Result::ok)
            .filter(|instruction| instruction.opcode.operand() == OperandKind::Variable)
            .map(|instruction| (instruction.offset + 1, instruction.operand.number() as u16))
            .collect();
        for (at, number) in named {
            let old = VariableNumber(i32::from(number));
            let new = self.variable(file, old)?;
            let bytes = u16::try_from(new.0).map_err(|_| ConvertError::NoVariableNumber(old))?;
            if let Some(operand) = bytecode.get_mut(at..at + 2) {
                operand.copy_from_slice(&bytes.to_be_bytes());
            }
        }
        Ok(())
    }
}
