//! The plugin's arguments: `-plugin FILE,out=TRACE,limit=1000`.

use std::path::PathBuf;

use crate::api::AccessKinds;

/// The contents of the recording, and its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The file; compressed where its name ends in `.zst`.
    pub out: PathBuf,
    /// Which registers.
    pub registers: Registers,
    /// Which accesses; none where it is none.
    pub memory: Option<AccessKinds>,
    /// Whether instructions are disassembled.
    pub disassembly: bool,
    /// The addresses of instructions that are recorded, first and last; all where it is empty.
    pub ranges: Vec<(u64, u64)>,
    /// The cpus that are recorded; all where it is empty.
    pub cpus: Vec<u32>,
    /// The address of the first instruction.
    pub start: Option<u64>,
    /// How many instructions execute before the first one that is recorded.
    pub skip: u64,
    /// The address of the instruction that ends the recording, which is recorded.
    pub stop: Option<u64>,
    /// How many instructions are recorded at most.
    pub limit: Option<u64>,
    /// How many bytes of text a file has at most; what follows is in the next one.
    pub split: Option<u64>,
    /// Whether the guest runs on when the recording has ended.
    pub keep_running: bool,
    /// The definitions of tracepoints, whose frames are then recorded.
    pub experiment: Option<PathBuf>,
    /// The socket at which a debugger's side hands experiments over; nothing is recorded to a file then.
    pub control: Option<PathBuf>,
    /// Whether all registers are compared after each instruction, and not only those that its code can write.
    pub compare_all: bool,
}

/// Which registers are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registers {
    /// Those of GDB's largest own set for the machine: general, floating point, vector.
    Standard,
    /// All that QEMU has, those of the system too.
    All,
    /// None.
    Off,
}

/// The error of an argument.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
pub enum OptionError {
    /// No such option.
    #[error(
        "unknown option {0:?}: there are out registers memory disassembly range cpu start skip stop limit split keep-running experiment control compare"
    )]
    Unknown(String),
    /// A value that the option does not have.
    #[error("{name}={value}: expected {expected}")]
    Value {
        /// The option.
        name: String,
        /// Its value.
        value: String,
        /// The valid values.
        expected: &'static str,
    },
    /// An option that tracepoints do not have.
    #[error("{0} is for recordings of all instructions, and not with experiment=FILE")]
    NotWithExperiment(String),
    /// An option that experiments of a debugger do not have.
    #[error("{0} is for recordings, and not with control=SOCKET")]
    NotWithControl(String),
    /// There is no name of a file.
    #[error("out=FILE is missing: the file that the trace is written to")]
    NoFile,
}

impl Options {
    /// Reads the arguments.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Self, OptionError> {
        let mut options = Self {
            out: PathBuf::new(),
            registers: Registers::Standard,
            memory: Some(AccessKinds::All),
            disassembly: true,
            ranges: Vec::new(),
            cpus: Vec::new(),
            start: None,
            skip: 0,
            stop: None,
            limit: None,
            split: None,
            keep_running: false,
            experiment: None,
            control: None,
            compare_all: false,
        };
        let mut other = None;
        let mut other_than_control = None;
        for argument in arguments {
            let (name, value) = argument.split_once('=').unwrap_or((argument, "on"));
            let wrong = |expected| OptionError::Value {
                name: name.to_owned(),
                value: value.to_owned(),
                expected,
            };
            let address = |text| number(text).ok_or(wrong("an address, such as 0x8000"));
            let count = || number(value).ok_or(wrong("a number"));
            if !["out", "keep-running", "experiment", "control"].contains(&name) {
                other.get_or_insert_with(|| name.to_owned());
            }
            if name != "control" {
                other_than_control.get_or_insert_with(|| name.to_owned());
            }
            match name {
                "out" => options.out = PathBuf::from(value),
                "registers" => {
                    options.registers = match value {
                        "standard" | "on" => Registers::Standard,
                        "all" => Registers::All,
                        "off" => Registers::Off,
                        _ => return Err(wrong("standard, all or off")),
                    }
                }
                "memory" => {
                    options.memory = match value {
                        "on" => Some(AccessKinds::All),
                        "reads" => Some(AccessKinds::Reads),
                        "writes" => Some(AccessKinds::Writes),
                        "off" => None,
                        _ => return Err(wrong("on, reads, writes or off")),
                    }
                }
                "disassembly" => {
                    options.disassembly = switch(value).ok_or(wrong("on or off"))?;
                }
                "range" => {
                    let (first, last) = value
                        .split_once("..")
                        .ok_or(wrong("FIRST..LAST, two addresses"))?;
                    let range = (address(first)?, address(last)?);
                    if range.0 > range.1 {
                        return Err(wrong("FIRST..LAST, the first not above the last"));
                    }
                    options.ranges.push(range);
                }
                "cpu" => {
                    let cpu = number(value).and_then(|cpu| u32::try_from(cpu).ok());
                    options.cpus.push(cpu.ok_or(wrong("the number of a cpu"))?);
                }
                "start" => options.start = Some(address(value)?),
                "stop" => options.stop = Some(address(value)?),
                "skip" => options.skip = count()?,
                "limit" => options.limit = Some(count()?),
                "split" => options.split = Some(count()?),
                "keep-running" => {
                    options.keep_running = switch(value).ok_or(wrong("on or off"))?;
                }
                "experiment" => options.experiment = Some(PathBuf::from(value)),
                "control" => options.control = Some(PathBuf::from(value)),
                "compare" => {
                    options.compare_all = match value {
                        "written" => false,
                        "all" => true,
                        _ => return Err(wrong("written or all")),
                    }
                }
                _ => return Err(OptionError::Unknown(name.to_owned())),
            }
        }
        if options.control.is_some() {
            return match other_than_control {
                Some(name) => Err(OptionError::NotWithControl(name)),
                None => Ok(options),
            };
        }
        if options.out.as_os_str().is_empty() {
            return Err(OptionError::NoFile);
        }
        match other {
            Some(name) if options.experiment.is_some() => Err(OptionError::NotWithExperiment(name)),
            _ => Ok(options),
        }
    }

    /// Whether instructions at an address are recorded.
    pub fn includes(&self, address: u64) -> bool {
        self.ranges.is_empty()
            || (self.ranges.iter()).any(|(first, last)| (*first..=*last).contains(&address))
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" | "yes" | "true" => Some(true),
        "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_faults_named() {
        let options = Options::parse([
            "out=/tmp/a.trace.zst",
            "registers=off",
            "memory=writes",
            "range=0x10..0x1f",
            "range=32..48",
            "limit=7",
            "split=0x1000",
            "keep-running=on",
        ])
        .expect("all are options");
        assert_eq!(options.ranges, [(16, 31), (32, 48)]);
        assert!(options.includes(0x1f) && !options.includes(49));
        assert_eq!(options.memory, Some(AccessKinds::Writes));
        assert_eq!((options.limit, options.split), (Some(7), Some(0x1000)));
        assert!(options.keep_running);
        for wrong in [
            "nothing=1",
            "range=1",
            "range=2..1",
            "start=x",
            "memory=some",
        ] {
            assert!(Options::parse(["out=a", wrong]).is_err(), "{wrong}");
        }
        assert_eq!(Options::parse(["limit=3"]), Err(OptionError::NoFile));
        let control = Options::parse(["control=/tmp/socket"]).expect("all that is needed");
        assert_eq!(control.control, Some(PathBuf::from("/tmp/socket")));
        assert_eq!(
            Options::parse(["out=a", "control=b"]),
            Err(OptionError::NotWithControl("out".to_owned()))
        );
        let both = Options::parse(["out=a", "limit=3", "experiment=b"]);
        assert_eq!(
            both,
            Err(OptionError::NotWithExperiment("limit".to_owned()))
        );
    }
}
