//! The machine's policy, set by the administrator: `/etc/tracewire.toml`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, ValueHint};
use tracewire_recorder::{Audit, Policy, Recorder};

use crate::audit::Log;

/// The policy of this machine.
const OF_THIS_MACHINE: &str = "/etc/tracewire.toml";

/// The longest policy, in bytes.
const LONGEST: u64 = 1 << 20;

/// A log of recordings.
pub type SharedAudit = Arc<dyn Audit>;

#[derive(Args, Debug)]
pub struct PolicyArguments {
    /// What may be recorded, besides what /etc/tracewire.toml says
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,
    /// Log what is recorded, by whom and where: a file, to which one JSON object a line is added, or journal
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    audit: Option<String>,
}

impl PolicyArguments {
    /// Makes a recorder follow the policies, and logs its actions.
    ///
    /// # Errors
    /// When a policy cannot be read, or a log cannot be written.
    pub fn apply(&self, recorder: &mut Recorder) -> anyhow::Result<()> {
        let (policies, logs) = self.read()?;
        for policy in policies {
            recorder.policy(policy);
        }
        for log in logs {
            recorder.audit(log);
        }
        Ok(())
    }

    /// The policies that hold, and the logs that they and the command line name.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn read(&self) -> anyhow::Result<(Vec<Policy>, Vec<SharedAudit>)> {
        let own = self.policy.as_deref().map(read).transpose()?;
        let policies: Vec<Policy> = of_this_machine()?.into_iter().chain(own).collect();
        let of_policies = policies.iter().filter_map(Policy::audit);
        let names = self.audit.as_deref().into_iter().chain(of_policies);
        let logs = names.map(|name| Ok(Arc::new(Log::open(name)?) as SharedAudit));
        let logs = logs.collect::<anyhow::Result<_>>()?;
        Ok((policies, logs))
    }
}

/// Refuses to serve a debugger if a policy forbids it: the machine's, or one that was named.
pub fn check_debugger(own: Option<&Path>) -> anyhow::Result<()> {
    let machine = Some(Path::new(OF_THIS_MACHINE)).zip(of_this_machine()?);
    let own = own.map(|path| Ok::<_, anyhow::Error>((path, read(path)?)));
    for (path, policy) in machine.into_iter().chain(own.transpose()?) {
        if !policy.allows_debuggers() {
            anyhow::bail!(
                "a debugger may not be served: {} does not have `debuggers = true`",
                path.display()
            );
        }
    }
    Ok(())
}

fn of_this_machine() -> anyhow::Result<Option<Policy>> {
    let path = Path::new(OF_THIS_MACHINE);
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        _ => read(path).map(Some),
    }
}

fn read(path: &Path) -> anyhow::Result<Policy> {
    let shown = || format!("the policy {}", path.display());
    let length = path.metadata().with_context(shown)?.len();
    if length > LONGEST {
        anyhow::bail!("{} has more than {LONGEST} bytes", shown());
    }
    let text = std::fs::read_to_string(path).with_context(shown)?;
    Policy::parse(&text).with_context(shown)
}
