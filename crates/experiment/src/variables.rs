//! Trace state variables.

use std::rc::Rc;

use tracewire_model::{VariableDefinition, VariableNumber};
use tracewire_tracefile::{FRACTION, fraction_of};

use crate::builtin::Builtin;
use crate::pads::SharedVariable;
use crate::target::StoppedThread;

/// The value of a builtin variable for a thread that has stopped, at a time by the clock of pads if there are any.
fn builtin_value(
    builtin: Builtin,
    thread: &mut dyn StoppedThread,
    pad_time: Option<(u64, u64)>,
) -> i64 {
    match builtin {
        Builtin::Timestamp => pad_time
            .map_or_else(|| thread.timestamp(), |(time, _)| time)
            .cast_signed(),
        Builtin::Thread => i64::from(thread.id().0),
        Builtin::Cpu => i64::from(thread.cpu()),
    }
}

#[derive(Clone, Debug)]
struct Variable {
    definition: VariableDefinition,
    builtin: Option<Builtin>,
    /// Whether it was defined, and not made by an expression that uses it.
    defined: bool,
    value: i64,
    /// The pads' place of its value.
    shared: Option<Rc<dyn SharedVariable>>,
}

impl Variable {
    fn stored(&self) -> i64 {
        self.shared
            .as_ref()
            .map_or(self.value, |shared| shared.get())
    }

    fn store(&mut self, value: i64) {
        self.value = value;
        if let Some(shared) = &self.shared {
            shared.set(value);
        }
    }
}

/// The variables of an experiment, by number.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    /// Sorted by number; there are few.
    list: Vec<Variable>,
    /// The time of the current stop by the clock of the pads, if there are any: all frames of a run have one clock. In
    /// microseconds, and the remaining fraction of one.
    pub(crate) pad_time: Option<(u64, u64)>,
}

impl Variables {
    /// Only the builtin ones, numbered 1, 2, 3.
    pub(crate) fn new() -> Self {
        let mut variables = Self {
            list: Vec::new(),
            pad_time: None,
        };
        for (number, builtin) in (1..).zip(Builtin::ALL) {
            variables.define(VariableDefinition {
                number: VariableNumber(number),
                initial: 0,
                builtin: true,
                name: builtin.name().to_owned(),
            });
        }
        variables
    }

    fn place(&self, number: VariableNumber) -> Result<usize, usize> {
        self.list
            .binary_search_by_key(&number, |variable| variable.definition.number)
    }

    /// Adds or replaces. A builtin one is known by its name: given a new number, it moves there.
    pub(crate) fn define(&mut self, definition: VariableDefinition) {
        let builtin = Builtin::ALL
            .into_iter()
            .find(|builtin| definition.builtin && builtin.name() == definition.name);
        if builtin.is_some() {
            self.list.retain(|variable| variable.builtin != builtin);
        }
        let variable = Variable {
            value: definition.initial,
            builtin,
            defined: true,
            definition,
            shared: None,
        };
        match self.place(variable.definition.number) {
            Ok(index) => {
                if let Some(old) = self.list.get_mut(index) {
                    let shared = old.shared.take();
                    *old = variable;
                    old.shared = shared;
                    old.store(old.value);
                }
            }
            Err(index) => self.list.insert(index, variable),
        }
    }

    /// Back to the initial values, and to those variables that were defined.
    pub(crate) fn reset(&mut self) {
        self.list.retain(|variable| variable.defined);
        for variable in &mut self.list {
            variable.store(variable.definition.initial);
        }
    }

    pub(crate) fn definitions(&self) -> impl Iterator<Item = &VariableDefinition> {
        self.list.iter().map(|variable| &variable.definition)
    }

    /// The stored value, without a thread; `None` for a builtin one or one that does not exist.
    pub(crate) fn stored(&self, number: VariableNumber) -> Option<i64> {
        let variable = self.list.get(self.place(number).ok()?)?;
        variable.builtin.is_none().then_some(variable.stored())
    }

    /// The builtin ones with their numbers and values, and the remaining fraction of a microsecond, if it is known.
    pub(crate) fn stamps(
        &self,
        thread: &mut dyn StoppedThread,
    ) -> impl Iterator<Item = (VariableNumber, i64)> {
        let fraction = match self.pad_time {
            Some((_, fraction)) => Some(fraction),
            None => thread.timestamp_ns().map(|time| fraction_of(time % 1000)),
        };
        let fraction = fraction.map(|fraction| (FRACTION, fraction.cast_signed()));
        let builtins = Builtin::ALL.into_iter().filter_map(move |builtin| {
            let variable = self
                .list
                .iter()
                .find(|variable| variable.builtin == Some(builtin))?;
            let value = builtin_value(builtin, thread, self.pad_time);
            Some((variable.definition.number, value))
        });
        builtins.chain(fraction)
    }

    /// The variable, created if needed.
    fn get_or_create(&mut self, number: VariableNumber) -> Option<&mut Variable> {
        let index = self.place(number).unwrap_or_else(|index| {
            self.list.insert(
                index,
                Variable {
                    definition: VariableDefinition {
                        number,
                        initial: 0,
                        builtin: false,
                        name: String::new(),
                    },
                    builtin: None,
                    defined: false,
                    value: 0,
                    shared: None,
                },
            );
            index
        });
        self.list.get_mut(index)
    }

    /// The value that a thread sees. A missing one is created with 0.
    pub(crate) fn get(&mut self, number: u16, thread: &mut dyn StoppedThread) -> i64 {
        let pad_time = self.pad_time;
        match self.get_or_create(VariableNumber(i32::from(number))) {
            Some(Variable {
                builtin: Some(builtin),
                ..
            }) => builtin_value(*builtin, thread, pad_time),
            Some(variable) => variable.stored(),
            None => 0,
        }
    }

    /// Sets a variable; a builtin one is not changed.
    pub(crate) fn set(&mut self, number: u16, value: i64) {
        if let Some(variable) = self.get_or_create(VariableNumber(i32::from(number))) {
            variable.store(value);
        }
    }

    /// The kind of a builtin variable.
    pub(crate) fn builtin(&self, number: VariableNumber) -> Option<Builtin> {
        self.list.get(self.place(number).ok()?)?.builtin
    }

    /// The builtin ones.
    pub(crate) fn builtins(&self) -> impl Iterator<Item = (VariableNumber, Builtin)> + '_ {
        self.list
            .iter()
            .filter_map(|variable| Some((variable.definition.number, variable.builtin?)))
    }

    /// The number of the time.
    pub(crate) fn time_number(&self) -> Option<VariableNumber> {
        let (number, _) = self
            .builtins()
            .find(|(_, builtin)| *builtin == Builtin::Timestamp)?;
        Some(number)
    }

    /// The numbers of time, thread and cpu, if there are all three.
    pub(crate) fn stamp_numbers(&self) -> Option<[VariableNumber; 3]> {
        let number = |builtin| {
            self.builtins()
                .find(|(_, other)| *other == builtin)
                .map(|(number, _)| number)
        };
        let [time, thread, cpu] = Builtin::ALL.map(number);
        Some([time?, thread?, cpu?])
    }

    /// Keeps a variable where pads see it from now on; it is created if needed.
    pub(crate) fn share(&mut self, number: VariableNumber, shared: Rc<dyn SharedVariable>) {
        if let Some(variable) = self.get_or_create(number) {
            variable.shared = Some(shared);
            variable.store(variable.value);
        }
    }

    /// Copies all values back from the pads.
    pub(crate) fn unshare(&mut self) {
        for variable in &mut self.list {
            variable.value = variable.stored();
            variable.shared = None;
        }
    }
}
