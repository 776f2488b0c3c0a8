//! A tracepoint's work at a hit, prepared when it is defined.

use tracewire_agent_expr::{CollectOnce, Verified, verify};
use tracewire_model::{
    Action, DURATION_VARIABLE, RegisterMask, RegisterNumber, TracepointDefinition,
};

use crate::counting_plan::CountingPlan;
use crate::error::{DefineError, Part};
use crate::limits::FRAME_LIMIT;
use crate::withheld::Withheld;

/// A tracepoint's condition and actions, checked and prepared.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) condition: Option<Verified>,
    pub(crate) actions: Actions,
    pub(crate) step_actions: Actions,
    pub(crate) counting: Option<CountingPlan>,
}

/// A list of actions.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    /// The registers that actions collect; `None` if no action does.
    pub(crate) registers: Option<RegisterMask>,
    /// The number of the set of registers that their frames keep; `None` if they keep whole blocks, or none.
    pub(crate) set: Option<u32>,
    /// The registers that their frames leave out of whole register blocks.
    pub(crate) withheld: Option<Withheld>,
    /// All others, in order.
    pub(crate) steps: Vec<Step>,
    /// The expressions among them, in order.
    pub(crate) expressions: Vec<Expression>,
    /// The actions for a pad, without collections that others of them contain.
    pub(crate) list: Vec<Action>,
}

#[derive(Debug)]
pub(crate) enum Step {
    Memory {
        base: Option<RegisterNumber>,
        offset: u64,
        length: u64,
    },
    /// An expression, by its index here.
    Expression,
    StaticData,
}

#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) program: Verified,
    /// How many of the expressions before it must have ended before it begins, because they share a variable that one of them
    /// sets.
    pub(crate) after: usize,
    /// Its place among the steps.
    pub(crate) step: usize,
}

impl Plan {
    /// The variables that it mentions.
    pub(crate) fn variables(&self) -> impl Iterator<Item = u16> + '_ {
        let actions = [&self.actions, &self.step_actions];
        let programs = actions
            .into_iter()
            .flat_map(|actions| &actions.expressions)
            .map(|expression| &expression.program);
        let counted = self.counting.iter().flat_map(CountingPlan::programs);
        let programs = programs.chain(&self.condition).chain(counted);
        programs.flat_map(|program| {
            let lists = [
                program.variables_read(),
                program.variables_set(),
                program.variables_collected(),
            ];
            let numbers = lists.into_iter().flatten().copied();
            // It is no variable of the experiment's.
            numbers.filter(|number| i32::from(*number) != DURATION_VARIABLE.0)
        })
    }

    pub(crate) fn new(definition: &TracepointDefinition) -> Result<Self, DefineError> {
        let condition = definition
            .condition
            .as_deref()
            .map(|code| check(code, Part::Condition))
            .transpose()?;
        if condition
            .as_ref()
            .is_some_and(|condition| !condition.has_result())
        {
            return Err(DefineError::NoResult);
        }
        Ok(Self {
            condition,
            actions: Actions::new(&definition.actions, Part::Action)?,
            step_actions: Actions::new(&definition.step_actions, Part::StepAction)?,
            counting: CountingPlan::new(&definition.counting, definition.source.span_point())?,
        })
    }
}

fn check(code: &[u8], part: Part) -> Result<Verified, DefineError> {
    let program = verify(code).map_err(|error| DefineError::Program { part, error })?;
    if program.prints() {
        return Err(DefineError::Prints { part });
    }
    Ok(program)
}

impl Actions {
    /// `part` makes the name of an action of its place in the list, from 1.
    fn new(list: &[Action], part: impl Fn(usize) -> Part) -> Result<Self, DefineError> {
        let mut actions = Self::default();
        let mut once = CollectOnce::default();
        for (place, action) in (1..).zip(list) {
            match action {
                &Action::Memory {
                    base,
                    offset,
                    length,
                } if length <= FRAME_LIMIT
                    && once.memory(base.map(|base| base.0), offset, length) =>
                {
                    continue;
                }
                Action::Registers(mask) => {
                    let registers = actions.registers.get_or_insert_default();
                    mask.iter().for_each(|register| registers.insert(register));
                }
                &Action::Memory { length, .. } if length > FRAME_LIMIT => {
                    let part = part(place);
                    return Err(DefineError::TooLong { part, length });
                }
                &Action::Memory {
                    base,
                    offset,
                    length,
                } => actions.steps.push(Step::Memory {
                    base,
                    offset,
                    length,
                }),
                Action::Expression(code) => {
                    let program = check(code, part(place))?;
                    let program = match once.program(code) {
                        Some(shorter) => check(&shorter, part(place))?,
                        None => program,
                    };
                    actions
                        .list
                        .push(Action::Expression(program.code().to_vec()));
                    let after = actions
                        .expressions
                        .iter()
                        .rposition(|earlier| must_follow(&program, &earlier.program))
                        .map_or(0, |index| index + 1);
                    actions.expressions.push(Expression {
                        program,
                        after,
                        step: actions.steps.len(),
                    });
                    actions.steps.push(Step::Expression);
                    continue;
                }
                Action::StaticData => actions.steps.push(Step::StaticData),
            }
            actions.list.push(action.clone());
        }
        Ok(actions)
    }
}

/// Whether one program's setting of a variable could be seen by the other.
fn must_follow(later: &Verified, earlier: &Verified) -> bool {
    let sees = |set: &Verified, other: &Verified| {
        set.variables_set().iter().any(|variable| {
            other.variables_read().contains(variable)
                || other.variables_collected().contains(variable)
                || other.variables_set().contains(variable)
        })
    };
    sees(later, earlier) || sees(earlier, later)
}
