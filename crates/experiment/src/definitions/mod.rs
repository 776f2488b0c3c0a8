//! An experiment as text, for another program that runs it.

mod counting;

use std::collections::HashMap;

use tracewire_arch::Architecture;
use tracewire_model::{Address, Tracepoint, TracepointNumber};
use tracewire_tracefile::{Description, DescriptionParts, LineError, Problem};

/// The longest part that a list of actions is cut into. No line of this text is too long for its reader.
const MAX_RECORD: usize = 1 << 30;

/// The data with which another program runs an experiment and writes its trace file.
///
/// The text ([`to_text`](Self::to_text)) has the lines of a trace file's description. Those of tracepoints have any length: GDB
/// reads no line of more than 999 bytes, and an expression that walks a container is longer. Three more lines have what is not in
/// a trace file: `machine NAME`; `withholds NUMBER ADDRESS` for a tracepoint whose frames have only the requested registers; and
/// `counting NUMBER ADDRESS WORDS` for a tracepoint's aggregates.
#[derive(Clone, PartialEq, Debug)]
pub struct Definitions {
    /// The machine that the expressions are for.
    pub architecture: Architecture,
    /// The registers, the tracepoints, the variables, the buffer size in the status, and the other contents of the file.
    pub parts: DescriptionParts,
}

/// Why a text is no experiment.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DefinitionsError {
    /// A line of a description that cannot be understood.
    #[error("{0}")]
    Line(Problem),
    /// A line of no known kind.
    #[error(
        "line {line}: expected a line of a trace file's description, or `machine`, `withholds` or `counting`"
    )]
    Unknown {
        /// Which line, from 1.
        line: usize,
    },
    /// The name of a machine is missing or unknown.
    #[error("expected `machine NAME`, with a machine that Tracewire knows")]
    Machine,
    /// A `withholds` or `counting` line that does not follow its grammar, or does not name a tracepoint of the text.
    #[error(
        "line {line}: expected `withholds NUMBER ADDRESS` or `counting NUMBER ADDRESS WORDS`, with a tracepoint of this text"
    )]
    Tracepoint {
        /// Which line, from 1.
        line: usize,
    },
}

impl Definitions {
    /// The text.
    ///
    /// # Errors
    /// When a part other than a tracepoint does not fit in a line that GDB reads: it will be in the trace file, too.
    pub fn to_text(&self) -> Result<Vec<u8>, LineError> {
        let description = Description::build(&DescriptionParts {
            tracepoints: Vec::new(),
            ..self.parts.clone()
        })?;
        let mut text = format!("machine {}\n", self.architecture.name()).into_bytes();
        text.extend_from_slice(description.as_bytes());
        for Tracepoint { definition, .. } in &self.parts.tracepoints {
            for record in definition.records(None, MAX_RECORD) {
                text.extend_from_slice(format!("tp {record}\n").as_bytes());
            }
            let (number, address) = (definition.number, definition.address.0);
            if definition.withholds_registers {
                text.extend_from_slice(format!("withholds {number} {address:x}\n").as_bytes());
            }
            if !definition.counting.is_empty() {
                let words = counting::words(&definition.counting);
                let line = format!("counting {number} {address:x} {words}\n");
                text.extend_from_slice(line.as_bytes());
            }
        }
        Ok(text)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// When a line is not understood: an experiment runs whole or not at all.
    pub fn parse(text: &[u8]) -> Result<Self, DefinitionsError> {
        let mut architecture = None;
        // The lines of tracepoints, which are known when all are read.
        let mut own = Vec::new();
        let mut description = Vec::with_capacity(text.len());
        for (place, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let words = std::str::from_utf8(line).unwrap_or_default().trim_end();
            match words.split_once(' ') {
                Some(("machine", name)) => {
                    architecture = Some(name.parse().map_err(|_| DefinitionsError::Machine)?);
                }
                Some((kind @ ("withholds" | "counting"), rest)) => {
                    own.push((place + 1, kind, rest))
                }
                _ => description.extend_from_slice(line),
            }
        }
        let description = Description::parse(description);
        if let Some(problem) = description.problems().first() {
            return Err(DefinitionsError::Line(problem.clone()));
        }
        if let Some(line) = description.unknown_lines().next() {
            return Err(DefinitionsError::Unknown { line: line.number });
        }
        let mut parts = description.parts();
        let places: HashMap<_, _> = (parts.tracepoints.iter().zip(0..))
            .map(|(tracepoint, place)| (tracepoint.definition.key(), place))
            .collect();
        for (line, kind, rest) in own {
            let mut add = || {
                let mut words = rest.splitn(3, ' ');
                let key = key_of(words.next()?, words.next()?)?;
                let tracepoint = parts.tracepoints.get_mut(*places.get(&key)?)?;
                let definition = &mut tracepoint.definition;
                match (kind, words.next()) {
                    ("withholds", None) => definition.withholds_registers = true,
                    ("counting", Some(words)) => {
                        let aggregates: Vec<_> = definition.source.aggregates().collect();
                        definition.counting = counting::parse(words, &aggregates)?;
                    }
                    _ => return None,
                }
                Some(())
            };
            add().ok_or(DefinitionsError::Tracepoint { line })?;
        }
        Ok(Self {
            architecture: architecture.ok_or(DefinitionsError::Machine)?,
            parts,
        })
    }
}

/// The tracepoint of a number and an address.
fn key_of(number: &str, address: &str) -> Option<(TracepointNumber, Address)> {
    let address = u64::from_str_radix(address, 16).ok()?;
    Some((TracepointNumber(number.parse().ok()?), Address(address)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use tracewire_model::{
        Action, Aggregate, AggregateFunction, CallPart, Counted, Counting, KeyKind, Operand,
        SourceStrings, Status, StatusFields, StopReason, TracepointDefinition, TracepointKind,
        VariableDefinition, VariableNumber,
    };

    use super::*;

    fn aggregate() -> Aggregate {
        Aggregate {
            index: 2,
            text: "sum(n) by name".to_owned(),
            function: AggregateFunction::Sum,
            is_unsigned: false,
            is_time: true,
            keys: vec![KeyKind::Text],
        }
    }

    fn definitions() -> Definitions {
        let definition = TracepointDefinition {
            number: TracepointNumber(3),
            address: Address(0x4020_0010),
            enabled: true,
            kind: TracepointKind::Trap,
            step_count: 2,
            pass_count: 7,
            condition: Some(vec![0x22, 1, 0x27]),
            // Longer than any line of a trace file.
            actions: vec![Action::Expression(vec![0x22; 3000])],
            step_actions: vec![Action::Memory {
                base: None,
                offset: 0x1000,
                length: 8,
            }],
            counting: Counting {
                call: CallPart::Begin { is_loop: true },
                condition: Some(vec![0x22, 0, 0x27]),
                captures: vec![
                    Operand::Number(vec![0x22, 9, 0x27]),
                    Operand::Text {
                        address: vec![0x22, 8, 0x27],
                        length: Some(vec![0x22, 7, 0x27]),
                    },
                ],
                aggregates: vec![Counted {
                    keys: vec![Operand::Captured {
                        at: 1,
                        is_text: true,
                    }],
                    value: Some(Operand::Text {
                        address: vec![0x22, 6, 0x27],
                        length: None,
                    }),
                    aggregate: aggregate(),
                }],
                picks: true,
            },
            withholds_registers: true,
            free_stack: None,
            source: SourceStrings {
                at: Some("work".to_owned()),
                commands: vec!["collect *item".to_owned()],
                counts: vec![aggregate().to_string()],
                ..SourceStrings::default()
            },
        };
        let status = StatusFields {
            stop_reason: Some(StopReason::NotRun),
            buffer_size: Some(4096),
            circular: Some(true),
            notes: Some("a note".to_owned()),
            ..StatusFields::default()
        };
        Definitions {
            architecture: Architecture::Aarch64,
            parts: DescriptionParts {
                register_block_size: 268,
                target_xml: Some("<target/>\n".to_owned()),
                status: Some(Status::from(status)),
                variables: vec![VariableDefinition {
                    number: VariableNumber(4),
                    initial: 5,
                    builtin: false,
                    name: "hits".to_owned(),
                }],
                tracepoints: vec![Tracepoint::new(definition)],
                ..DescriptionParts::default()
            },
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let before = definitions();
        let text = before.to_text().expect("lines that GDB reads");
        let after = Definitions::parse(&text).expect("an experiment");
        assert_eq!(after.architecture, before.architecture);
        assert_eq!(after.parts.tracepoints, before.parts.tracepoints);
        assert_eq!(after.parts.variables, before.parts.variables);
        assert_eq!(after.parts.target_xml, before.parts.target_xml);
        let fields = |parts: &DescriptionParts| parts.status.clone().map(|status| status.fields);
        assert_eq!(fields(&after.parts), fields(&before.parts));
    }

    proptest! {
        /// A changed text is refused, or read and written such that it is read as the same.
        #[test]
        fn any_text_is_read_or_refused(changes in vec((any::<Index>(), any::<u8>(), 0..3u8), 0..4)) {
            let mut text = definitions().to_text().expect("lines that GDB reads");
            for (place, byte, kind) in changes {
                let place = place.index(text.len());
                match kind {
                    0 => text[place] = byte,
                    1 => text.insert(place, byte),
                    _ => _ = text.remove(place),
                }
            }
            if let Ok(read) = Definitions::parse(&text)
                && let Ok(written) = read.to_text()
            {
                let meaning = |of: &Definitions| {
                    let tracepoints = of.parts.tracepoints.iter();
                    tracepoints.map(|one| one.definition.clone()).collect::<Vec<_>>()
                };
                let again = Definitions::parse(&written).map(|again| meaning(&again));
                prop_assert_eq!(again, Ok(meaning(&read)));
            }
        }
    }

    #[test]
    fn what_is_no_experiment_is_refused() {
        let text = definitions().to_text().expect("lines that GDB reads");
        let text = String::from_utf8(text).expect("UTF-8");
        let read = |text: String| Definitions::parse(text.as_bytes());
        let without = text.replacen("machine aarch64\n", "", 1);
        assert_eq!(read(without), Err(DefinitionsError::Machine));
        let other = text.replacen("aarch64", "pdp11", 1);
        assert_eq!(read(other), Err(DefinitionsError::Machine));
        let nothing = text.replacen("withholds 3", "withholds 4", 1);
        for wrong in [
            nothing,
            text.replacen("count=2:", "count=3:", 1),
            text.replacen("keep=n", "keep=x", 1),
            text.replacen("call=loop", "call=often", 1),
            text.replacen("withholds 3 ", "withholds 3 z", 1),
        ] {
            assert_ne!(wrong, text);
            let refused = read(wrong);
            assert!(
                matches!(refused, Err(DefinitionsError::Tracepoint { .. })),
                "{refused:?}"
            );
        }
        let unknown = format!("{text}what is this\n");
        assert!(matches!(
            read(unknown),
            Err(DefinitionsError::Unknown { .. })
        ));
        let wrong = format!("{text}tp T3:zz\n");
        assert!(matches!(read(wrong), Err(DefinitionsError::Line(_))));
    }
}
