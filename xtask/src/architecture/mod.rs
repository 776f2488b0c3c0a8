//! `cargo xtask architecture`: checks ARCHITECTURE.md against the crates.
//!
//! It fails if one of six rules is broken. The table of crates equals `cargo metadata`. No crate depends on one above it in the
//! table. No dependency is declared and unused. None that is not for tests lacks a version. A crate without `unsafe` forbids it.
//! The release build of a crate that is fuzzed checks integer overflow. It also prints, for a reviewer, the cycles of imports among
//! the files of each crate, and the types with the most fields, methods and files.

mod circles;
mod dependencies;
mod overflow;
mod source;
mod table;
mod types;
mod unsafe_code;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// The workspace to look at
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// How many circles and types to print
    #[arg(long, default_value_t = 5, value_name = "N")]
    top: usize,
}

/// A workspace as the rules see it.
struct Workspace {
    root: PathBuf,
    crates: Vec<Crate>,
}

/// A package of the workspace, with its source parsed.
struct Crate {
    /// Its name without the prefix of the project.
    name: String,
    package: Package,
    files: Vec<source::SourceFile>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let root = arguments
        .root
        .clone()
        .unwrap_or_else(|| workspace::root().to_owned());
    let workspace = Workspace::read(&root)?;
    let mut findings = table::findings(&workspace)?;
    findings.extend(dependencies::findings(&workspace));
    findings.extend(unsafe_code::findings(&workspace));
    findings.extend(overflow::findings(&workspace)?);
    circles::print(&workspace, arguments.top);
    types::print(&workspace, arguments.top);
    for finding in &findings {
        eprintln!("error: {finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("the architecture has {count} violations"),
    }
}

impl Workspace {
    fn read(root: &Path) -> Result<Self> {
        let metadata: Metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .other_options(["--offline".to_owned()])
            .exec()
            .context("cargo metadata")?;
        let crates = metadata
            .packages
            .into_iter()
            .map(|package| {
                let directory = package
                    .manifest_path
                    .parent()
                    .context("a manifest without a directory")?
                    .as_std_path()
                    .to_owned();
                Ok(Crate {
                    name: short_name(&package.name).to_owned(),
                    files: source::read(&directory)?,
                    package,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            root: root.to_owned(),
            crates,
        })
    }

    fn find(&self, name: &str) -> Option<&Crate> {
        self.crates.iter().find(|one| one.name == name)
    }
}

impl Crate {
    /// Whether it is published. Crates that are not are for tests and chores, and are not in the table.
    fn is_published(&self) -> bool {
        self.package
            .publish
            .as_ref()
            .is_none_or(|to| !to.is_empty())
    }

    /// Whether the crate's `package.metadata.architecture` has a package in a list of exceptions.
    fn excuses(&self, list: &str, package: &str) -> bool {
        self.package.metadata["architecture"][list]
            .as_array()
            .is_some_and(|names| names.iter().any(|name| name == package))
    }
}

fn short_name(package: &str) -> &str {
    package.strip_prefix("tracewire-").unwrap_or(package)
}
