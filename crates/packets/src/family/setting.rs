//! Settings: how the stub is to behave.

use crate::field::{Field, HexBytes, Numbers, Word};
use crate::packets::packets;
use tracewire_model::text::{Expected, Scanner};

packets! {
    /// Requests that set something.
    pub enum SettingRequest {
        /// `QStartNoAckMode`: no acknowledgements once the `OK` has been acknowledged.
        NoAcknowledgements = ["QStartNoAckMode"] => "stop acknowledging packets"

        /// `QNonStop`: whether threads stop one by one.
        NonStop {
            /// Whether they do.
            on: bool,
        } = ["QNonStop:" on] => { switched("non-stop mode", *on) }

        /// `QPassSignals`: signals to deliver without stopping. The list replaces the one before.
        PassSignals {
            /// GDB's signal numbers.
            signals: Numbers,
        } = ["QPassSignals:" signals] => { format!("deliver {} signals without stopping", signals.list.len()) }

        /// `QProgramSignals`: signals that the program may get.
        ProgramSignals {
            /// GDB's signal numbers.
            signals: Numbers,
        } = ["QProgramSignals:" signals] => { format!("let {} signals reach the program", signals.list.len()) }

        /// `QCatchSyscalls`: whether to stop at system calls.
        CatchSyscalls {
            /// At which.
            what: CaughtSyscalls,
        } = ["QCatchSyscalls:" what] => { what.explain() }

        /// `QThreadEvents`: whether to report that threads start and end.
        ThreadEvents {
            /// Whether to.
            on: bool,
        } = ["QThreadEvents:" on] => { switched("reports of starting and ending threads", *on) }

        /// `QStartupWithShell`: whether `vRun` goes through a shell.
        StartupWithShell {
            /// Whether it does.
            on: bool,
        } = ["QStartupWithShell:" on] => { switched("starting programs through a shell", *on) }

        /// `QEnvironmentHexEncoded`: a variable for programs started later.
        SetEnvironment {
            /// `NAME=VALUE`.
            variable: HexBytes,
        } = ["QEnvironmentHexEncoded:" variable] => "set the environment variable {variable}"

        /// `QEnvironmentUnset`: leave out a variable.
        UnsetEnvironment {
            /// Its name.
            name: HexBytes,
        } = ["QEnvironmentUnset:" name] => "unset the environment variable {name}"

        /// `QEnvironmentReset`: back to the stub's own environment.
        ResetEnvironment = ["QEnvironmentReset"] => "reset the environment"

        /// `QSetWorkingDir`: where programs are started; empty for the stub's own directory.
        WorkingDirectory {
            /// The directory.
            directory: HexBytes,
        } = ["QSetWorkingDir:" directory] => "start programs in the directory {directory}"

        /// `QDisableRandomization`: whether programs are started at the same addresses each time.
        DisableRandomization {
            /// Whether they are.
            on: bool,
        } = ["QDisableRandomization:" on] => { switched("address space randomisation", !*on) }

        /// `QAgent`: whether to use the in-process agent.
        Agent {
            /// Whether to.
            on: bool,
        } = ["QAgent:" on] => { switched("the in-process agent", *on) }

        /// `QAllow`: what GDB's user allows (`set may-write-memory` and the like).
        Allow {
            /// Operations, each with 1 or 0.
            permissions: Permissions,
        } = ["QAllow:" permissions] => { permissions.explain() }

        /// `Qbtrace`: branch tracing of the selected thread, `bts`, `pt` or `off`.
        BranchTrace {
            /// Which format, or `off`.
            format: Word,
        } = ["Qbtrace:" format] => "branch tracing: {format}"

        /// `Qbtrace-conf`: the size of the branch trace buffer.
        BranchTraceBuffer {
            /// The format, `bts` or `pt`.
            format: Word,
            /// In bytes.
            size: u64,
        } = ["Qbtrace-conf:" format ":size=" size] => "make the {format} buffer of branch tracing {size} bytes"
    }
}

fn switched(what: &str, on: bool) -> String {
    format!("turn {} {what}", if on { "on" } else { "off" })
}

/// Which system calls are caught.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CaughtSyscalls {
    /// `0`.
    None,
    /// `1`.
    All,
    /// `1;n;n…`.
    These(Vec<u32>),
}

impl CaughtSyscalls {
    fn explain(&self) -> String {
        match self {
            Self::None => "stop at no system call".to_owned(),
            Self::All => "stop at every system call".to_owned(),
            Self::These(numbers) => format!("stop at system calls {numbers:?}"),
        }
    }
}

impl Field for CaughtSyscalls {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        if !bool::scan(scanner)? {
            return Ok(Self::None);
        }
        let mut numbers = Vec::new();
        while scanner.take(";") {
            numbers.push(Field::scan(scanner)?);
        }
        Ok(if numbers.is_empty() {
            Self::All
        } else {
            Self::These(numbers)
        })
    }

    fn print(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => out.push(b'0'),
            Self::All => out.push(b'1'),
            Self::These(numbers) => {
                out.push(b'1');
                for number in numbers {
                    out.push(b';');
                    number.print(out);
                }
            }
        }
    }
}

/// Operations, each with whether it is allowed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Permissions(pub Vec<(String, bool)>);

impl Permissions {
    fn explain(&self) -> String {
        let forbidden: Vec<&str> = self
            .0
            .iter()
            .filter(|(_, on)| !on)
            .map(|(name, _)| name.as_str())
            .collect();
        match forbidden.as_slice() {
            [] => "allow everything".to_owned(),
            names => format!("forbid {}", names.join(", ")),
        }
    }
}

impl Field for Permissions {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut permissions = Vec::new();
        loop {
            let Word(name) = Field::scan(scanner)?;
            scanner.literal(":")?;
            permissions.push((name, Field::scan(scanner)?));
            if !scanner.take(";") || scanner.is_at_end() {
                return Ok(Self(permissions));
            }
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        for (place, (name, on)) in self.0.iter().enumerate() {
            if place > 0 {
                out.push(b';');
            }
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            on.print(out);
        }
    }
}

#[cfg(test)]
mod samples {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::strategy::BoxedStrategy;

    use super::{CaughtSyscalls, Permissions};
    use crate::field::Sample;

    impl Sample for CaughtSyscalls {
        fn strategy() -> BoxedStrategy<Self> {
            prop_oneof![
                Just(Self::None),
                Just(Self::All),
                vec(any::<u32>(), 1..5).prop_map(Self::These)
            ]
            .boxed()
        }
    }

    impl Sample for Permissions {
        fn strategy() -> BoxedStrategy<Self> {
            vec(("[A-Za-z]{1,10}", any::<bool>()), 1..6)
                .prop_map(Self)
                .boxed()
        }
    }
}
