//! Rules for types: the built-in ones, the user's, and those of files that are named.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueHint;
use tracewire_debuginfo::TypeRules;
use tracewire_expr::CollectLimits;

/// Files of rules.
#[derive(clap::Args, Clone, Debug)]
pub struct TypeArguments {
    /// Rules that say how values of types are walked; may be given several times. They win over those of
    /// ~/.config/tracewire/types and the built-in ones
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub types: Vec<PathBuf>,
}

impl TypeArguments {
    /// The rules: those of the last file first, then the user's own, then the built-in ones.
    pub fn rules(&self) -> anyhow::Result<Arc<TypeRules>> {
        let own = own_file().filter(|path| path.exists());
        if own.is_none() && self.types.is_empty() {
            return Ok(TypeRules::builtin());
        }
        let mut rules = TypeRules::clone(&TypeRules::builtin());
        for path in own.iter().chain(&self.types) {
            let shown = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("{shown}: the type rules cannot be read"))?;
            rules.add_before(&text, &shown)?;
        }
        Ok(Arc::new(rules))
    }
}

/// How much is collected of what values lead to.
#[derive(clap::Args, Clone, Debug)]
pub struct LimitArguments {
    /// Collect so many bytes of a string at most [default: 200]
    #[arg(long, value_name = "BYTES", default_value_t = 200, hide_default_value = true, value_parser = clap::value_parser!(u64).range(0..=16_384))]
    pub max_string: u64,
    /// Collect so many elements of a container at most [default: 32]
    #[arg(long, value_name = "N", default_value_t = 32, hide_default_value = true, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub max_elements: u64,
    /// Follow so many pointers from a string or container to the next at most; 0 collects members alone [default: 4]
    #[arg(long, value_name = "N", default_value_t = 4, hide_default_value = true, value_parser = clap::value_parser!(u32).range(0..=16))]
    pub max_depth: u32,
}

impl LimitArguments {
    /// The limits.
    pub const fn limits(&self) -> CollectLimits {
        CollectLimits {
            string: self.max_string,
            elements: self.max_elements,
            depth: self.max_depth,
        }
    }
}

/// The path of a user's own rules.
fn own_file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = match set("XDG_CONFIG_HOME") {
        Some(config) => PathBuf::from(config),
        None => PathBuf::from(set("HOME")?).join(".config"),
    };
    Some(config.join("tracewire").join("types"))
}
