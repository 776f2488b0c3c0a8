//! `completions` and `man`: the program's interface for a shell and `man`.

use std::io::Write;
use std::path::Path;

use crate::answer::Answer;
use anyhow::Context;

/// Completes names of the program for `-t` and `list` by calling it; for all else the script's own function is used.
const BASH_NAMES: &str = r#"
_tracewire_names() {
    local IFS=$'\n'
    COMPREPLY=($("$1" complete --line="$COMP_LINE" --point="$COMP_POINT" --word="$2" 2>/dev/null))
    if [[ $? -eq 0 ]]; then
        compopt -o nospace +o bashdefault +o default 2>/dev/null
        return
    fi
    COMPREPLY=()
    IFS=$' \t\n'
    _tracewire "$@"
}
complete -F _tracewire_names -o nosort -o bashdefault -o default tracewire
"#;

/// Prints a completion script for the command line.
pub fn completions(
    shell: clap_complete::Shell,
    mut command_line: clap::Command,
) -> anyhow::Result<Answer> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line, "tracewire", &mut script);
    if shell == clap_complete::Shell::Bash {
        script.extend_from_slice(BASH_NAMES.as_bytes());
    }
    std::io::stdout().write_all(&script)?;
    Ok(Answer::Yes)
}

/// Writes a page for the program and one for each command.
pub fn manual(directory: &Path, command_line: clap::Command) -> anyhow::Result<Answer> {
    let shown = directory.display();
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the folder {shown}"))?;
    clap_mangen::generate_to(command_line, directory)
        .with_context(|| format!("cannot write the manual pages into {shown}"))?;
    Ok(Answer::Yes)
}
