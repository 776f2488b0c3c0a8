//! Processes: start, attach, detach, kill, and queries about them.

use tracewire_model::Address;

use crate::field::{Field, HexBytes};
use crate::packets::packets;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// Requests about processes.
    pub enum ProcessRequest {
        /// `?`: why the program stopped; in non-stop mode the first of the stops, and `vStopped` requests the others.
        WhyStopped = ["?"] => "ask why the program stopped"

        /// `vStopped`: the next stop, after a `%Stop` notification; `OK` when there is none.
        NextStop = ["vStopped"] => "ask for the next stop"

        /// `!`: the connection outlives the program (`target extended-remote`).
        ExtendedMode = ["!"] => "turn on extended mode"

        /// `D`: detach.
        Detach {
            /// From which process; none without the `multiprocess` feature.
            process: Option<u32>,
        } = ["D" (";" process)] => { format!("detach from {}", of(*process)) }

        /// `k`: kill the program, or all with the `multiprocess` feature. There need be no reply.
        Kill = ["k"] => "kill the program"

        /// `R`: start the program again (extended mode). There is no reply.
        Restart {
            /// No meaning.
            unused: u8,
        } = ["R" unused] => "restart the program"

        /// `vRun`: start a program (extended mode).
        Run {
            /// File name, or nothing for the last one; then arguments.
            arguments: Arguments,
        } = ["vRun;" arguments] => { arguments.explain() }

        /// `vAttach`: attach (extended mode).
        Attach {
            /// The process.
            process: u32,
        } = ["vAttach;" process] => "attach to process {process}"

        /// `vKill`: kill one process.
        KillOne {
            /// Which.
            process: u32,
        } = ["vKill;" process] => "kill process {process}"

        /// `vMustReplyEmpty`: must not be supported. Old stubs answered `OK` to every unknown `v` packet, so GDB checks it.
        MustReplyEmpty = ["vMustReplyEmpty"] => "check that unknown packets are answered with nothing"

        /// `qAttached`: whether the stub attached to the process, so that GDB detaches from it when it quits.
        Attached {
            /// Which process.
            process: Option<u32>,
        } = ["qAttached" (":" process)] => { format!("ask whether {} was attached to", of(*process)) }

        /// `qOffsets`: where the program was loaded.
        Offsets = ["qOffsets"] => "ask where the program was loaded"

        /// `qSymbol`: GDB is ready to look up symbols, when both are empty; otherwise the answer to a question of the
        /// stub's, whose next question is the reply.
        Symbol {
            /// The symbol's address; none when it was not found.
            address: MaybeAddress,
            /// The symbol's name.
            name: HexBytes,
        } = ["qSymbol:" address ":" name] => { match (address.0, name.0.is_empty()) {
            (None, true) => "offer to look up symbols".to_owned(),
            (None, false) => format!("the symbol {name} is not known"),
            (Some(address), _) => format!("the symbol {name} is at {address}"),
        } }

        /// `qRcmd`: a command for the stub (`monitor`).
        Monitor {
            /// The command.
            command: HexBytes,
        } = ["qRcmd," command] => "monitor command {command}"
    }
}

fn of(process: Option<u32>) -> String {
    match process {
        Some(process) => format!("process {process}"),
        None => "the program".to_owned(),
    }
}

/// An optional address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MaybeAddress(pub Option<Address>);

impl Field for MaybeAddress {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        if scanner.peek() == Some(b':') {
            Ok(Self(None))
        } else {
            Field::scan(scanner).map(|address| Self(Some(address)))
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        if let Some(address) = self.0 {
            address.print(out);
        }
    }
}

/// The program's file name, then its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arguments(pub Vec<HexBytes>);

impl Arguments {
    fn explain(&self) -> String {
        let words: Vec<String> = self.0.iter().map(HexBytes::to_string).collect();
        format!("run {}", words.join(" "))
    }
}

impl Field for Arguments {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut words = Vec::new();
        loop {
            words.push(Field::scan(scanner)?);
            if !scanner.take(";") {
                return Ok(Self(words));
            }
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        for (place, word) in self.0.iter().enumerate() {
            if place > 0 {
                out.push(b';');
            }
            word.print(out);
        }
    }
}

/// Where a program was loaded, the reply to `qOffsets`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offsets {
    /// The offset of sections.
    Sections {
        /// Of `.text`.
        text: u64,
        /// Of `.data`.
        data: u64,
        /// Of `.bss`; GDB takes it to be that of `.data`.
        bss: u64,
    },
    /// Where the segments start.
    Segments {
        /// The first one.
        text: u64,
        /// The second one.
        data: Option<u64>,
    },
}

impl Field for Offsets {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        if scanner.take("TextSeg=") {
            let text = scanner.hex()?;
            let data = if scanner.take(";DataSeg=") {
                Some(scanner.hex()?)
            } else {
                None
            };
            return Ok(Self::Segments { text, data });
        }
        scanner.literal("Text=")?;
        let text = scanner.hex()?;
        scanner.literal(";Data=")?;
        let data = scanner.hex()?;
        // GDB 13 insists on it, newer ones do not.
        let bss = if scanner.take(";Bss=") {
            scanner.hex()?
        } else {
            data
        };
        Ok(Self::Sections { text, data, bss })
    }

    fn print(&self, out: &mut Vec<u8>) {
        let text = match self {
            Self::Sections { text, data, bss } => {
                format!("Text={text:X};Data={data:X};Bss={bss:X}")
            }
            Self::Segments {
                text,
                data: Some(data),
            } => format!("TextSeg={text:x};DataSeg={data:x}"),
            Self::Segments { text, data: None } => format!("TextSeg={text:x}"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod samples {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::strategy::BoxedStrategy;

    use super::{Arguments, MaybeAddress, Offsets};
    use crate::field::{HexBytes, Sample};

    impl Sample for MaybeAddress {
        fn strategy() -> BoxedStrategy<Self> {
            Option::<tracewire_model::Address>::strategy()
                .prop_map(Self)
                .boxed()
        }
    }

    impl Sample for Arguments {
        fn strategy() -> BoxedStrategy<Self> {
            vec(HexBytes::strategy(), 1..5).prop_map(Self).boxed()
        }
    }

    impl Sample for Offsets {
        fn strategy() -> BoxedStrategy<Self> {
            prop_oneof![
                any::<(u64, u64, u64)>().prop_map(|(text, data, bss)| Self::Sections {
                    text,
                    data,
                    bss
                }),
                any::<(u64, Option<u64>)>().prop_map(|(text, data)| Self::Segments { text, data }),
            ]
            .boxed()
        }
    }
}
