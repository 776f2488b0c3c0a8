//! The signals of the agent: SIGTERM and SIGINT end it, SIGHUP has it read its configuration again.

use std::sync::mpsc::Sender;

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};

use super::request::News;

/// Blocks them in the calling thread and in those that it makes, and waits for them in a separate thread.
pub fn watch(news: Sender<News>) -> anyhow::Result<()> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block().context("signals cannot be blocked")?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            while let Ok(signal) = set.wait() {
                let news_of = match signal {
                    Signal::SIGHUP => News::Reload,
                    _ => News::End,
                };
                if news.send(news_of).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}
