//! Cycles of imports among the files of a crate.
//!
//! A file imports another one if it names something of it by a path: in `use`, in code, or in the arguments of a macro.
//! A re-export (`pub use`) is no import: a path that goes through it leads to the file that defines the name. Tests in
//! the source (`#[cfg(test)]`) do not count.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::source::{Part, SourceFile};
use super::{Crate, Workspace};

pub fn print(workspace: &Workspace, top: usize) {
    let mut circles: Vec<(&str, Vec<String>)> = workspace
        .crates
        .iter()
        .flat_map(|one| of_crate(one).into_iter().map(|circle| (&*one.name, circle)))
        .collect();
    circles.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
    println!("circles of imports: {}", circles.len());
    for (name, files) in circles.iter().take(top) {
        println!("  {name}: {} files: {}", files.len(), files.join(" "));
    }
}

type Module = Vec<String>;

/// The names that a file uses, and its re-exports.
struct File {
    name: String,
    paths: BTreeSet<Vec<String>>,
    /// The names that it imports: by `use`, public or not.
    names: HashMap<String, Vec<String>>,
}

/// The circles of a crate, as the names of their files.
fn of_crate(one: &Crate) -> Vec<Vec<String>> {
    let files: BTreeMap<Module, File> = one
        .files
        .iter()
        .filter(|file| file.part == Part::Source)
        .map(|file| (file.module(), File::read(file)))
        .collect();
    let mut graph = DiGraph::<&Module, ()>::new();
    let nodes: HashMap<&Module, _> = files
        .keys()
        .map(|module| (module, graph.add_node(module)))
        .collect();
    for (module, file) in &files {
        for path in &file.paths {
            if let Some(target) = resolve(&files, path, 0)
                && target != module
            {
                graph.update_edge(nodes[module], nodes[target], ());
            }
        }
    }
    tarjan_scc(&graph)
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .map(|circle| {
            let mut names: Vec<String> = circle
                .into_iter()
                .map(|node| files[graph[node]].name.clone())
                .collect();
            names.sort();
            names
        })
        .collect()
}

/// The file that a path from the crate's root leads to.
fn resolve<'f>(
    files: &'f BTreeMap<Module, File>,
    path: &[String],
    depth: usize,
) -> Option<&'f Module> {
    // A name that is re-exported in a cycle leads nowhere.
    if depth > 8 {
        return None;
    }
    let (length, (module, file)) = (0..=path.len())
        .rev()
        .find_map(|length| Some((length, files.get_key_value(&path[..length])?)))?;
    if let Some(elsewhere) = path.get(length).and_then(|name| file.names.get(name)) {
        let longer: Vec<String> = elsewhere
            .iter()
            .chain(&path[length + 1..])
            .cloned()
            .collect();
        return resolve(files, &longer, depth + 1);
    }
    Some(module)
}

impl File {
    fn read(file: &SourceFile) -> Self {
        let module = file.module();
        let mut reader = Reader {
            children: file
                .syntax
                .items
                .iter()
                .filter_map(|item| match item {
                    syn::Item::Mod(item) if item.content.is_none() => Some(item.ident.to_string()),
                    _ => None,
                })
                .collect(),
            module,
            paths: BTreeSet::new(),
            names: HashMap::new(),
        };
        reader.visit_file(&file.syntax);
        Self {
            name: file
                .path
                .iter()
                .skip(1)
                .collect::<std::path::PathBuf>()
                .display()
                .to_string(),
            paths: reader.paths,
            names: reader.names,
        }
    }
}

struct Reader {
    module: Module,
    children: BTreeSet<String>,
    paths: BTreeSet<Vec<String>>,
    names: HashMap<String, Vec<String>>,
}

impl Reader {
    /// A path from the crate's root; `None` if it leads into another crate or is only a name.
    fn absolute(&self, segments: &[String]) -> Option<Vec<String>> {
        let (first, rest) = segments.split_first()?;
        let base: &[String] = match &**first {
            "crate" => &[],
            "self" => &self.module,
            "super" => {
                let mut base = self.module.split_last()?.1;
                let mut rest = rest;
                while let Some((next, behind)) = rest.split_first()
                    && next == "super"
                {
                    (base, rest) = (base.split_last()?.1, behind);
                }
                return Some([base, rest].concat());
            }
            child if self.children.contains(child) => {
                return Some([&self.module[..], segments].concat());
            }
            _ => return None,
        };
        Some([base, rest].concat())
    }

    fn path(&mut self, segments: &[String]) {
        if let Some(path) = self.absolute(segments) {
            self.paths.insert(path);
        }
    }

    fn uses(&mut self, tree: &syn::UseTree, prefix: &mut Vec<String>, is_import: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.uses(&path.tree, prefix, is_import);
                prefix.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.uses(tree, prefix, is_import);
                }
            }
            syn::UseTree::Name(syn::UseName { ident }) => {
                self.used(ident, ident, prefix, is_import)
            }
            syn::UseTree::Rename(rename) => {
                self.used(&rename.ident, &rename.rename, prefix, is_import);
            }
            syn::UseTree::Glob(_) if is_import => self.path(prefix),
            syn::UseTree::Glob(_) => {}
        }
    }

    fn used(
        &mut self,
        ident: &proc_macro2::Ident,
        name: &proc_macro2::Ident,
        prefix: &[String],
        is_import: bool,
    ) {
        let mut path = prefix.to_vec();
        if ident != "self" {
            path.push(ident.to_string());
        }
        let Some(path) = self.absolute(&path) else {
            return;
        };
        let name = if name == "self" {
            path.last().cloned()
        } else {
            Some(name.to_string())
        };
        if let Some(name) = name
            && path.split_last() != Some((&name, &self.module))
        {
            self.names.insert(name, path.clone());
        }
        if is_import {
            self.paths.insert(path);
        }
    }

    /// Paths in the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.path(&path);
                        path.clear();
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.path(&path);
                    path.clear();
                    self.tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.path(&path);
                    path.clear();
                    colons = 0;
                }
            }
        }
        self.path(&path);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|what| what.is_ident("test"))
    })
}

impl<'s> Visit<'s> for Reader {
    fn visit_item_mod(&mut self, item: &'s syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'s syn::ItemUse) {
        if !is_test(&item.attrs) {
            let is_import = matches!(item.vis, syn::Visibility::Inherited);
            self.uses(&item.tree, &mut Vec::new(), is_import);
        }
    }

    fn visit_path(&mut self, path: &'s syn::Path) {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if segments.len() > 1 {
            self.path(&segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'s syn::Visibility) {
        // `pub(in path)` is no import.
    }

    fn visit_macro(&mut self, invocation: &'s syn::Macro) {
        self.tokens(invocation.tokens.clone());
    }
}
