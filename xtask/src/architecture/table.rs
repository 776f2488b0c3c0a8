//! The table of crates in ARCHITECTURE.md, against `cargo metadata`.
//!
//! A row is `` | `name` | what it is | `dependency` `dependency` | ``. The order is the architecture: a crate depends on crates of later
//! rows only. A crate whose tests use one above it lists that in `package.metadata.architecture.tests-above`.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cargo_metadata::DependencyKind;

use super::{Crate, Workspace, short_name};

struct Row {
    name: String,
    dependencies: BTreeSet<String>,
}

pub fn findings(workspace: &Workspace) -> Result<Vec<String>> {
    let path = workspace.root.join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rows = rows(&text);
    let mut findings = Vec::new();
    for one in workspace.crates.iter().filter(|one| one.is_published()) {
        let Some(row) = rows.iter().find(|row| row.name == one.name) else {
            findings.push(format!(
                "ARCHITECTURE.md: the table of crates lacks `{}`",
                one.name
            ));
            continue;
        };
        let actual = dependencies(workspace, one, DependencyKind::Normal);
        for extra in row.dependencies.difference(&actual) {
            findings.push(format!(
                "ARCHITECTURE.md: `{}` does not depend on `{extra}`, as the table says",
                one.name
            ));
        }
        for missing in actual.difference(&row.dependencies) {
            findings.push(format!(
                "ARCHITECTURE.md: `{}` depends on `{missing}`, which the table does not say",
                one.name
            ));
        }
        let mut all = actual;
        for kind in [DependencyKind::Development, DependencyKind::Build] {
            all.extend(dependencies(workspace, one, kind));
        }
        let excused = |name: &String| one.excuses("tests-above", name);
        for up in all
            .iter()
            .filter(|name| !is_below(&rows, name, &one.name) && !excused(name))
        {
            findings.push(format!(
                "crates/{}/Cargo.toml: `{}` depends on `{up}`, which is not below it in ARCHITECTURE.md",
                one.name, one.name
            ));
        }
    }
    for row in &rows {
        if !workspace
            .find(&row.name)
            .is_some_and(|one| one.is_published())
        {
            findings.push(format!(
                "ARCHITECTURE.md: the table has `{}`, which is no published crate of the workspace",
                row.name
            ));
        }
    }
    Ok(findings)
}

/// The published crates of the workspace that a crate depends on. Unpublished ones are support for tests.
fn dependencies(workspace: &Workspace, one: &Crate, kind: DependencyKind) -> BTreeSet<String> {
    one.package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == kind)
        // Others may have such a name, too.
        .filter(|dependency| dependency.path.is_some())
        .map(|dependency| short_name(&dependency.name).to_owned())
        .filter(|name| {
            workspace
                .find(name)
                .is_some_and(|found| found.is_published())
        })
        .collect()
}

fn is_below(rows: &[Row], lower: &str, upper: &str) -> bool {
    let position = |name: &str| rows.iter().position(|row| row.name == name);
    // A crate without a row has a separate finding.
    position(lower)
        .zip(position(upper))
        .is_none_or(|(lower, upper)| lower > upper)
}

fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for line in text.lines() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if let ["crate", _, "depends on"] = cells[..] {
            in_table = true;
        } else if !line.starts_with('|') {
            in_table = false;
        } else if let ([name, _, dependencies], true) = (&cells[..], in_table)
            && let [name] = &names(name)[..]
        {
            rows.push(Row {
                name: name.clone(),
                dependencies: names(dependencies).into_iter().collect(),
            });
        }
    }
    rows
}

/// The words between backquotes.
fn names(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}
