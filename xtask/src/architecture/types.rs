//! The types with the most fields and methods, and the files that their methods are in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::source::Part;
use super::{Crate, Workspace};

#[derive(Default)]
struct Type {
    fields: usize,
    methods: usize,
    files: BTreeSet<PathBuf>,
}

pub fn print(workspace: &Workspace, top: usize) {
    let mut types: Vec<(String, Type)> = workspace
        .crates
        .iter()
        .flat_map(|one| {
            of_crate(one)
                .into_iter()
                .map(|(name, found)| (format!("{}::{name}", one.name), found))
        })
        .collect();
    types.sort_by_key(|(_, found)| std::cmp::Reverse(found.fields + found.methods));
    println!("types with the most fields and methods:");
    for (name, found) in types.iter().take(top) {
        println!(
            "  {name}: {} fields, {} methods in {} files",
            found.fields,
            found.methods,
            found.files.len()
        );
    }
    types.sort_by_key(|(_, found)| std::cmp::Reverse(found.files.len()));
    println!("types whose methods are in the most files:");
    for (name, found) in types.iter().take(top) {
        println!("  {name}: {}", found.files.len());
    }
}

/// The types of a crate by name. Types of one name in several modules count as one.
fn of_crate(one: &Crate) -> BTreeMap<String, Type> {
    let mut types: BTreeMap<String, Type> = BTreeMap::new();
    for file in one.files.iter().filter(|file| file.part == Part::Source) {
        for item in &file.syntax.items {
            match item {
                syn::Item::Struct(item) => {
                    types.entry(item.ident.to_string()).or_default().fields += item.fields.len();
                }
                syn::Item::Impl(item) if item.trait_.is_none() => {
                    let syn::Type::Path(of) = &*item.self_ty else {
                        continue;
                    };
                    let Some(segment) = of.path.segments.last() else {
                        continue;
                    };
                    let found = types.entry(segment.ident.to_string()).or_default();
                    found.methods += item
                        .items
                        .iter()
                        .filter(|item| matches!(item, syn::ImplItem::Fn(_)))
                        .count();
                    found.files.insert(file.path.clone());
                }
                _ => {}
            }
        }
    }
    types
}
