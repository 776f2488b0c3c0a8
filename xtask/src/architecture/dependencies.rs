//! Dependencies that are declared and not used, and those that keep a crate from being packaged.
//!
//! A dependency is used if its name is an identifier in one of the files that it is declared for, or occurs in an example of their
//! documentation. One that is declared only for its features is listed in `package.metadata.architecture.features-only`.

use cargo_metadata::DependencyKind;
use cargo_metadata::semver::VersionReq;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use super::source::{Part, SourceFile};
use super::{Crate, Workspace};

pub fn findings(workspace: &Workspace) -> Vec<String> {
    workspace.crates.iter().flat_map(of_crate).collect()
}

fn of_crate(one: &Crate) -> Vec<String> {
    let mut findings = Vec::new();
    for dependency in &one.package.dependencies {
        let name = dependency
            .rename
            .as_ref()
            .unwrap_or(&dependency.name)
            .replace('-', "_");
        let used = one
            .files
            .iter()
            .filter(|file| serves(dependency.kind, file.part))
            .any(|file| names(file, &name));
        let table = match dependency.kind {
            DependencyKind::Development => "dev-dependencies",
            DependencyKind::Build => "build-dependencies",
            _ => "dependencies",
        };
        // `cargo package` leaves out those of tests that have none.
        if dependency.path.is_some()
            && dependency.kind != DependencyKind::Development
            && dependency.req == VersionReq::STAR
        {
            findings.push(format!(
                "{}: `{}` of [{table}] has no version, so that `cargo package` refuses the crate",
                one.package.manifest_path, dependency.name
            ));
        }
        if !used && !one.excuses("features-only", &dependency.name) {
            findings.push(format!(
                "{}: nothing uses `{}` of [{table}]",
                one.package.manifest_path, dependency.name
            ));
        }
    }
    findings
}

/// Whether a dependency of this kind is declared for files of this part.
fn serves(kind: DependencyKind, part: Part) -> bool {
    match kind {
        DependencyKind::Build => part == Part::Build,
        // Unit tests and examples of the documentation are in the source.
        DependencyKind::Development => part != Part::Build,
        _ => part == Part::Source,
    }
}

fn names(file: &SourceFile, name: &str) -> bool {
    // The text is quick to look at, and rules out nearly all.
    file.text.contains(name) && any_token(file.syntax.to_token_stream(), name)
}

fn any_token(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => any_token(group.stream(), name),
        // Lines of documentation are literals.
        TokenTree::Literal(literal) => literal.to_string().contains(&format!("{name}::")),
        TokenTree::Punct(_) => false,
    })
}
