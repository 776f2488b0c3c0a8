//! Processes that `record` attaches to, selected by their properties.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use nix::unistd::User;
use tracewire_model::ThreadId;
use tracewire_recorder::ProcessSelection;

#[derive(Args, Debug)]
pub struct SelectionArguments {
    /// Attach to every process of this name, or whose program has this path; may be given several times
    #[arg(long, value_name = "NAME", groups = ["target", "selected"])]
    name: Vec<String>,
    /// Attach to every process of this user, or to those of --name: a name or a number; may be given several times
    #[arg(long, value_name = "USER", groups = ["target", "selected"], value_parser = user, value_hint = ValueHint::Username)]
    user: Vec<u32>,
    /// Attach to every process in this control group or below it, or to those of --name: a path below /sys/fs/cgroup
    #[arg(long, value_name = "PATH", groups = ["target", "selected"], value_hint = ValueHint::DirPath)]
    cgroup: Vec<PathBuf>,
    /// Attach to every process of this unit of systemd, or to those of --name: nginx, app.slice
    #[arg(long, value_name = "UNIT", groups = ["target", "selected"])]
    unit: Vec<String>,
    /// Attach to every process of this container, or to those of --name: the ID that `docker ps` prints, or a name of LXC or nspawn
    #[arg(long, value_name = "ID", groups = ["target", "selected"])]
    container: Vec<String>,
    /// Record processes that start later, too, until the run is ended. --name, --user, --cgroup, --unit and --container say which
    #[arg(long, requires = "selected")]
    pub later: bool,
}

impl SelectionArguments {
    /// Whether processes are to be selected.
    pub fn is_given(&self) -> bool {
        !self.selection().is_empty()
    }

    /// The selection of processes.
    pub fn selection(&self) -> ProcessSelection {
        let mut selection = ProcessSelection::default();
        for name in &self.name {
            selection.name(name);
        }
        for user in &self.user {
            selection.user(*user);
        }
        for path in &self.cgroup {
            selection.cgroup(path);
        }
        for unit in &self.unit {
            selection.unit(unit);
        }
        for container in &self.container {
            selection.container(container);
        }
        selection
    }

    /// The selected processes that run now.
    ///
    /// # Errors
    /// When none runs and none is waited for; of several names, when one of them has none.
    pub fn running(&self) -> anyhow::Result<Vec<ThreadId>> {
        let selection = self.selection();
        let found = selection.running()?;
        if self.later || selection.is_empty() {
            return Ok(found);
        }
        for name in &self.name {
            let mut alone = ProcessSelection::default();
            if alone.name(name).running()?.is_empty() {
                anyhow::bail!(
                    "--name {name}: no process of this name runs now; --later waits for one"
                );
            }
        }
        if found.is_empty() {
            anyhow::bail!("no such process runs now; --later waits for one");
        }
        Ok(found)
    }
}

/// The number of a user.
pub fn user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    match User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err("there is no such user".to_owned()),
        Err(error) => Err(format!("the users cannot be looked up: {error}")),
    }
}
