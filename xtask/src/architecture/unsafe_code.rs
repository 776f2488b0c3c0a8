//! A crate without `unsafe` has `#![forbid(unsafe_code)]`, so that none is added by accident.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use super::source::{Part, SourceFile};
use super::{Crate, Workspace};

pub fn findings(workspace: &Workspace) -> Vec<String> {
    workspace.crates.iter().filter_map(of_crate).collect()
}

fn of_crate(one: &Crate) -> Option<String> {
    let source = || one.files.iter().filter(|file| file.part == Part::Source);
    if source().any(|file| has_unsafe(file.syntax.to_token_stream())) {
        return None;
    }
    let root = source().find(|file| file.module().is_empty())?;
    (!forbids(root)).then(|| {
        format!(
            "{}/{}: the crate has no unsafe code and lacks #![forbid(unsafe_code)]",
            one.name,
            root.path.display()
        )
    })
}

fn forbids(root: &SourceFile) -> bool {
    root.syntax.attrs.iter().any(|attribute| {
        attribute.path().is_ident("forbid")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|lint| lint.is_ident("unsafe_code"))
    })
}

fn has_unsafe(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "unsafe",
        TokenTree::Group(group) => has_unsafe(group.stream()),
        TokenTree::Literal(_) | TokenTree::Punct(_) => false,
    })
}
