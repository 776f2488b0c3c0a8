//! Letting the program run: `vCont` and its older relatives.

use tracewire_model::Address;

use crate::field::{Field, Signal};
use crate::packets::packets;
use crate::thread_id::ThreadSelector;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// Requests to resume the program. In all-stop mode the reply comes when it stops; in non-stop mode `OK` comes at once and a
    /// `%Stop` notification later.
    pub enum ResumeRequest {
        /// `vCont?`: which actions are supported.
        Supported = ["vCont?"] => "ask which ways to resume are supported"

        /// `vCont`: what each thread is to do.
        Continue {
            /// For each thread the first action that fits counts; a thread that none fits keeps its state.
            actions: ResumeActions,
        } = ["vCont" actions] => { actions.explain() }

        /// `vCtrlC`: stop the program, in non-stop mode; like byte 3 otherwise.
        Interrupt = ["vCtrlC"] => "interrupt the program"

        /// `c`: resume the thread selected with `Hc`.
        ContinueFrom {
            /// Where from; none for where it is.
            address: Option<Address>,
        } = ["c" (address)] => "continue"

        /// `C`: like `c`, with a signal.
        ContinueWithSignal {
            /// The signal to deliver.
            signal: Signal,
            /// Where from.
            address: Option<Address>,
        } = ["C" signal (";" address)] => "continue with {signal}"

        /// `s`: one instruction.
        StepFrom {
            /// Where from.
            address: Option<Address>,
        } = ["s" (address)] => "step one instruction"

        /// `S`: like `s`, with a signal.
        StepWithSignal {
            /// The signal to deliver.
            signal: Signal,
            /// Where from.
            address: Option<Address>,
        } = ["S" signal (";" address)] => "step one instruction with {signal}"

        /// `bc`: run backwards.
        ReverseContinue = ["bc"] => "continue backwards"

        /// `bs`: one instruction backwards.
        ReverseStep = ["bs"] => "step one instruction backwards"
    }
}

/// How a thread is resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResumeKind {
    /// `c`: run.
    Continue,
    /// `C`: run, with a signal.
    ContinueWithSignal(Signal),
    /// `s`: one instruction.
    Step,
    /// `S`: one instruction, with a signal.
    StepWithSignal(Signal),
    /// `r`: step until the pc leaves the range.
    StepRange {
        /// The first address of the range.
        start: Address,
        /// The first one after it. Equal to the start it is one step.
        end: Address,
    },
    /// `t`: stop (non-stop mode).
    Stop,
}

/// One action of `vCont`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResumeAction {
    /// The kind of the action.
    pub kind: ResumeKind,
    /// Which threads; none for those no other action fits.
    pub threads: Option<ThreadSelector>,
}

/// The actions of a `vCont`, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResumeActions(pub Vec<ResumeAction>);

impl ResumeActions {
    /// The action for a thread: the first one that fits it.
    #[must_use]
    pub fn of(&self, process: u32, thread: u32) -> Option<ResumeKind> {
        self.0
            .iter()
            .find(|action| {
                action
                    .threads
                    .is_none_or(|threads| threads.matches(process, thread))
            })
            .map(|action| action.kind)
    }

    fn explain(&self) -> String {
        let explained: Vec<String> = self.0.iter().map(ResumeAction::explain).collect();
        explained.join("; ")
    }
}

impl ResumeAction {
    fn explain(&self) -> String {
        let what = match self.kind {
            ResumeKind::Continue => "continue".to_owned(),
            ResumeKind::ContinueWithSignal(signal) => format!("continue with {signal}"),
            ResumeKind::Step => "step one instruction".to_owned(),
            ResumeKind::StepWithSignal(signal) => format!("step one instruction with {signal}"),
            ResumeKind::StepRange { start, end } => format!("step while in {start}..{end}"),
            ResumeKind::Stop => "stop".to_owned(),
        };
        match self.threads {
            Some(threads) => format!("{what}: {threads}"),
            None => format!("{what}: all other threads"),
        }
    }
}

impl Field for ResumeActions {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut actions = Vec::new();
        loop {
            scanner.literal(";")?;
            let start = *scanner;
            let kind = match scanner.byte() {
                Some(b'c') => ResumeKind::Continue,
                Some(b'C') => ResumeKind::ContinueWithSignal(Field::scan(scanner)?),
                Some(b's') => ResumeKind::Step,
                Some(b'S') => ResumeKind::StepWithSignal(Field::scan(scanner)?),
                Some(b't') => ResumeKind::Stop,
                Some(b'r') => {
                    let start = Field::scan(scanner)?;
                    scanner.literal(",")?;
                    ResumeKind::StepRange {
                        start,
                        end: Field::scan(scanner)?,
                    }
                }
                _ => return Err(start.expected("an action: c, C, s, S, t or r")),
            };
            let threads = if scanner.take(":") {
                Some(Field::scan(scanner)?)
            } else {
                None
            };
            actions.push(ResumeAction { kind, threads });
            if scanner.is_at_end() {
                return Ok(Self(actions));
            }
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        for action in &self.0 {
            out.push(b';');
            match action.kind {
                ResumeKind::Continue => out.push(b'c'),
                ResumeKind::ContinueWithSignal(signal) => {
                    out.push(b'C');
                    signal.print(out);
                }
                ResumeKind::Step => out.push(b's'),
                ResumeKind::StepWithSignal(signal) => {
                    out.push(b'S');
                    signal.print(out);
                }
                ResumeKind::Stop => out.push(b't'),
                ResumeKind::StepRange { start, end } => {
                    out.push(b'r');
                    start.print(out);
                    out.push(b',');
                    end.print(out);
                }
            }
            if let Some(threads) = action.threads {
                out.push(b':');
                threads.print(out);
            }
        }
    }
}

#[cfg(test)]
impl crate::field::Sample for ResumeActions {
    fn strategy() -> proptest::strategy::BoxedStrategy<Self> {
        use proptest::prelude::*;
        let kind = prop_oneof![
            Just(ResumeKind::Continue),
            Just(ResumeKind::Step),
            Just(ResumeKind::Stop),
            any::<u8>().prop_map(|signal| ResumeKind::ContinueWithSignal(Signal(signal))),
            any::<u8>().prop_map(|signal| ResumeKind::StepWithSignal(Signal(signal))),
            any::<(u64, u64)>().prop_map(|(start, end)| ResumeKind::StepRange {
                start: Address(start),
                end: Address(end)
            }),
        ];
        let action = (kind, Option::<ThreadSelector>::strategy())
            .prop_map(|(kind, threads)| ResumeAction { kind, threads });
        proptest::collection::vec(action, 1..5)
            .prop_map(Self)
            .boxed()
    }
}
