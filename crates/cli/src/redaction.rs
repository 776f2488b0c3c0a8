//! Redaction of data by the names in programs.

use anyhow::Context;
use tracewire_model::Redactions;

/// Patterns of names whose values are not recorded.
#[derive(clap::Args, Clone, Debug)]
pub struct RedactionArguments {
    /// Do not record what has such a name: variables, parameters, members, types; may be given several times. * stands for any
    /// characters, ? for one; case and _ do not count
    #[arg(long = "redact", value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Record passwords, tokens, keys and cookies too, which are left out otherwise
    #[arg(long)]
    pub no_default_redactions: bool,
}

impl RedactionArguments {
    /// The patterns.
    pub fn redactions(&self) -> anyhow::Result<Redactions> {
        let mut redactions = match self.no_default_redactions {
            true => Redactions::none(),
            false => Redactions::defaults(),
        };
        for pattern in &self.patterns {
            redactions
                .add(pattern)
                .with_context(|| format!("--redact {pattern:?}"))?;
        }
        Ok(redactions)
    }
}
