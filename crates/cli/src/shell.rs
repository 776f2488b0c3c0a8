//! `completions` and `man`: what a shell and `man` know of the program.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;

use crate::Answer;
use crate::arguments::Arguments;

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<Answer> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "tracewire", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Answer::Yes)
}

/// Writes a page for the program and one for each command.
pub fn manual(directory: &Path) -> anyhow::Result<Answer> {
    let shown = directory.display();
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the folder {shown}"))?;
    clap_mangen::generate_to(Arguments::command(), directory)
        .with_context(|| format!("cannot write the manual pages into {shown}"))?;
    Ok(Answer::Yes)
}
