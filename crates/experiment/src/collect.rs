//! The actions of one hit, run together: every expression runs until it needs memory, then the memory for all of them is read in
//! one call, and they go on.

use tracewire_agent_expr::{Evaluation, EvaluationErrorKind, Request};
use tracewire_model::{Address, RegisterNumber};
use tracewire_tracefile::{EncodeError, FrameEncoder};

use crate::error::HitError;
use crate::missing::Missing;
use crate::pieces::{Content, Pieces};
use crate::plan::{Actions, Expression, Step};
use crate::target::StoppedThread;
use crate::variables::Variables;

/// The thread and the state that a hit's programs work on.
pub(crate) struct Moment<'m> {
    pub(crate) thread: &'m mut dyn StoppedThread,
    pub(crate) variables: &'m mut Variables,
}

/// The state for running actions, kept from hit to hit so that nothing is allocated for one.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) pieces: Pieces,
    slots: Vec<Slot>,
}

/// A running expression.
#[derive(Debug)]
struct Slot {
    evaluation: Evaluation,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Not begun.
    Waiting,
    /// It needs a number from memory.
    Needs { address: u64, size: u8 },
    /// It has ended, perhaps badly.
    Ended(Result<(), HitError>),
}

/// How it went.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) missing: Missing,
    /// The error of the first action with one.
    pub(crate) error: Option<HitError>,
}

/// Keeps the error of the earliest step.
#[derive(Default)]
struct FirstError(Option<(usize, HitError)>);

impl FirstError {
    fn note(&mut self, step: usize, error: HitError) {
        if self.0.as_ref().is_none_or(|(first, _)| step < *first) {
            self.0 = Some((step, error));
        }
    }
}

impl Collector {
    pub(crate) const fn new(pieces: Pieces) -> Self {
        Self {
            pieces,
            slots: Vec::new(),
        }
    }

    /// Runs the actions and puts the collected data into the frame.
    pub(crate) fn collect(
        &mut self,
        actions: &Actions,
        moment: &mut Moment<'_>,
        frame: &mut FrameEncoder<'_>,
    ) -> Result<Collected, EncodeError> {
        let mut collected = Collected::default();
        if actions.steps.is_empty() {
            return Ok(collected);
        }
        let mut first = FirstError::default();
        self.pieces.begin();
        self.start(&actions.steps, moment, &mut first);
        self.run(&actions.expressions, moment);

        for (slot, expression) in self.slots.iter_mut().zip(&actions.expressions) {
            if let State::Ended(Err(error)) = std::mem::replace(&mut slot.state, State::Waiting) {
                first.note(expression.step, error);
            }
        }
        self.pieces.write(frame, &mut collected.missing)?;
        collected.error = first.0.map(|(_, error)| error);
        Ok(collected)
    }

    /// Collects the data that needs no evaluation.
    fn start(&mut self, steps: &[Step], moment: &mut Moment<'_>, first: &mut FirstError) {
        for (place, step) in steps.iter().enumerate() {
            let content = match *step {
                Step::Expression => continue,
                Step::Memory {
                    base,
                    offset,
                    length,
                } => match base_address(base, offset, moment.thread) {
                    Ok(address) => Content::Memory { address, length },
                    Err(HitError::BadRegister(base)) if moment.thread.is_unknown(base) => {
                        Content::UnknownRegister
                    }
                    Err(error) => {
                        first.note(place, error);
                        continue;
                    }
                },
                Step::StaticData => match moment.thread.static_data() {
                    Some(data) => Content::StaticData(data),
                    None => continue,
                },
            };
            if let Err(error) = self.pieces.add(place, content) {
                first.note(place, error);
            }
        }
    }

    /// Runs all expressions to their ends and reads all memory.
    fn run(&mut self, expressions: &[Expression], moment: &mut Moment<'_>) {
        while self.slots.len() < expressions.len() {
            self.slots.push(Slot {
                evaluation: Evaluation::new(),
                state: State::Waiting,
            });
        }
        for slot in self.slots.iter_mut().take(expressions.len()) {
            slot.state = State::Waiting;
        }
        loop {
            // How many expressions from the first on have ended.
            let mut ended = 0;
            for (index, (slot, expression)) in self.slots.iter_mut().zip(expressions).enumerate() {
                slot.advance(expression, ended, moment, &mut self.pieces);
                if ended == index && matches!(slot.state, State::Ended(_)) {
                    ended += 1;
                }
            }
            let mut asked = self.pieces.ask();
            for slot in self.slots.iter().take(expressions.len()) {
                if let State::Needs { address, size } = slot.state {
                    asked |= self.pieces.fetched.ask(address, u64::from(size));
                }
            }
            if !asked {
                return;
            }
            self.pieces.fetched.read(moment.thread);
        }
    }
}

fn base_address(
    base: Option<RegisterNumber>,
    offset: u64,
    thread: &mut dyn StoppedThread,
) -> Result<u64, HitError> {
    let Some(base) = base else {
        return Ok(offset);
    };
    let value = thread.register(base).ok_or(HitError::BadRegister(base))?;
    Ok(value.wrapping_add(offset))
}

impl Slot {
    /// Runs the expression as far as possible. `ended` expressions before it have ended.
    fn advance(
        &mut self,
        expression: &Expression,
        ended: usize,
        moment: &mut Moment<'_>,
        pieces: &mut Pieces,
    ) {
        let program = expression.program.code();
        let mut request = match self.state {
            State::Waiting if ended >= expression.after => self.evaluation.start(program),
            State::Needs { address, size } => match pieces.fetched.number(address, size) {
                Ok(value) => self.evaluation.resume(program, value),
                Err(_) => return,
            },
            State::Waiting | State::Ended(_) => return,
        };
        let result = loop {
            let answer = match request {
                Err(error) => {
                    break match error.kind {
                        // It does not have to end the run.
                        EvaluationErrorKind::BadMemory { address, .. } => {
                            let address = Address(address);
                            pieces.add(expression.step, Content::Unreadable(address))
                        }
                        EvaluationErrorKind::BadRegister(register)
                            if moment.thread.is_unknown(RegisterNumber(register)) =>
                        {
                            pieces.add(expression.step, Content::UnknownRegister)
                        }
                        _ => Err(HitError::Action(error)),
                    };
                }
                Ok(Request::Done(_)) => break Ok(()),
                Ok(Request::Register(register)) => moment.thread.register(RegisterNumber(register)),
                Ok(Request::Memory { address, size }) => {
                    match pieces.fetched.number(address, size) {
                        Ok(value) => value,
                        Err(_) => {
                            self.state = State::Needs { address, size };
                            return;
                        }
                    }
                }
                Ok(Request::Variable(number)) => {
                    Some(moment.variables.get(number, moment.thread).cast_unsigned())
                }
                Ok(Request::SetVariable { number, value }) => {
                    moment.variables.set(number, value);
                    None
                }
                Ok(Request::CollectVariable(number)) => {
                    let value = moment.variables.get(number, moment.thread);
                    let number = i32::from(number);
                    match pieces.add(expression.step, Content::Variable { number, value }) {
                        Ok(()) => None,
                        Err(error) => break Err(error),
                    }
                }
                Ok(Request::CollectMemory { address, length }) => {
                    match pieces.add(expression.step, Content::Memory { address, length }) {
                        Ok(()) => None,
                        Err(error) => break Err(error),
                    }
                }
                Ok(Request::CollectString { address, limit }) => {
                    match pieces.add(expression.step, Content::text(address, limit)) {
                        Ok(()) => None,
                        Err(error) => break Err(error),
                    }
                }
                // No program that prints is accepted in a definition.
                Ok(Request::Print { .. }) => None,
            };
            request = self.evaluation.resume(program, answer);
        };
        self.state = State::Ended(result);
    }
}
