//! The source files of a crate, parsed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The target that a file is compiled into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `src`: the crate itself.
    Source,
    /// `build.rs`.
    Build,
    /// Tests, examples and benchmarks.
    Development,
}

pub struct SourceFile {
    /// Its path from the crate's directory.
    pub path: PathBuf,
    pub part: Part,
    pub syntax: syn::File,
    pub text: String,
}

impl SourceFile {
    /// The module that the file is, from the crate's root; empty for the root itself.
    pub fn module(&self) -> Vec<String> {
        let mut module: Vec<String> = self
            .path
            .with_extension("")
            .iter()
            .skip(1)
            .map(|one| one.to_string_lossy().into_owned())
            .collect();
        if module.last().is_some_and(|last| {
            last == "mod" || (module.len() == 1 && (last == "lib" || last == "main"))
        }) {
            module.pop();
        }
        module
    }
}

/// All Rust files of a crate, and files outside of it that it includes as modules.
pub fn read(directory: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for (name, part) in [
        ("src", Part::Source),
        ("tests", Part::Development),
        ("examples", Part::Development),
        ("benches", Part::Development),
        ("fuzz_targets", Part::Source),
    ] {
        read_directory(directory, &directory.join(name), part, &mut files)?;
    }
    let build = directory.join("build.rs");
    if build.exists() {
        files.push(read_file(directory, &build, Part::Build)?);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read_directory(
    base: &Path,
    directory: &Path,
    part: Part,
    files: &mut Vec<SourceFile>,
) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in directory
        .read_dir()
        .with_context(|| directory.display().to_string())?
    {
        let path = entry?.path();
        if path.is_dir() {
            read_directory(base, &path, part, files)?;
        } else if path.extension() == Some(OsStr::new("rs")) {
            read_included(base, &path, part, files)?;
        }
    }
    Ok(())
}

/// The files outside of the crate that a file includes by `#[path]`.
fn read_included(base: &Path, path: &Path, part: Part, files: &mut Vec<SourceFile>) -> Result<()> {
    let file = read_file(base, path, part)?;
    let outside = |path: &Path| Ok::<_, anyhow::Error>(!path.starts_with(base.canonicalize()?));
    let directory = path.parent().unwrap_or(base);
    let mut modules = Vec::new();
    collect_modules(&file.syntax.items, &mut modules);
    for module in modules {
        let included = match module.attrs.iter().find_map(path_attribute) {
            Some(included) => directory.join(included).canonicalize()?,
            // Those of a file of the crate's own are found by the directory that they are in.
            None if !outside(path)? => continue,
            None => {
                let own = if path.ends_with("mod.rs") {
                    directory.to_owned()
                } else {
                    path.with_extension("")
                };
                let name = module.ident.to_string();
                [
                    own.join(&name).with_extension("rs"),
                    own.join(&name).join("mod.rs"),
                ]
                .into_iter()
                .find(|path| path.exists())
                .with_context(|| format!("{}: no file for `mod {name}`", path.display()))?
            }
        };
        if outside(&included)? {
            read_included(base, &included, part, files)?;
        }
    }
    files.push(file);
    Ok(())
}

/// The modules of a file that are in separate files.
fn collect_modules<'i>(items: &'i [syn::Item], modules: &mut Vec<&'i syn::ItemMod>) {
    for item in items {
        if let syn::Item::Mod(module) = item {
            match &module.content {
                None => modules.push(module),
                Some((_, items)) => collect_modules(items, modules),
            }
        }
    }
}

fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(meta) = &attribute.meta else {
        return None;
    };
    match &meta.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(value),
            ..
        }) if meta.path.is_ident("path") => Some(value.value()),
        _ => None,
    }
}

fn read_file(base: &Path, path: &Path, part: Part) -> Result<SourceFile> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(SourceFile {
        path: path.strip_prefix(base).unwrap_or(path).to_owned(),
        part,
        syntax: syn::parse_file(&text).with_context(|| path.display().to_string())?,
        text,
    })
}
