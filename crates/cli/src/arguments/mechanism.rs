//! `--mechanism`.

/// What serves tracepoints.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// Jumps into code that collects within the program; where one cannot be, it is an error
    Jump,
    /// Traps: one stop of the thread a hit, for fast tracepoints too
    #[value(alias = "stop")]
    Trap,
}

impl From<Mechanism> for tracewire_experiment::Mechanism {
    fn from(asked: Mechanism) -> Self {
        match asked {
            Mechanism::Jump => Self::Jump,
            Mechanism::Trap => Self::Trap,
        }
    }
}
