//! A crate that is fuzzed reads hostile bytes: its release build checks integer overflow.

use anyhow::{Context, Result};
use toml::Table;

use super::Workspace;

pub fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let path = workspace.root.join("fuzz/Cargo.toml");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let fuzz = read(&path)?;
    let own = read(&workspace.root.join("Cargo.toml"))?;
    let checked = |package: &str| {
        own.get("profile")
            .and_then(|profiles| profiles.get("release")?.get("package")?.get(package))
            .and_then(|profile| profile.get("overflow-checks")?.as_bool())
            == Some(true)
    };
    let fuzzed = fuzz.get("dependencies").and_then(|all| all.as_table());
    Ok(fuzzed
        .into_iter()
        .flatten()
        .filter(|(package, from)| from.get("path").is_some() && !checked(package))
        .map(|(package, _)| {
            format!(
                "Cargo.toml: `{package}` is fuzzed, and its release build lacks overflow-checks"
            )
        })
        .collect())
}

fn read(path: &std::path::Path) -> Result<Table> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.parse().with_context(|| path.display().to_string())
}
