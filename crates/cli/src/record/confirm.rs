//! The question whether patterns with very many places are meant.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracewire_recorder::StopHandle;
use tracewire_script::Excessive;
use tracewire_views::words;

use crate::message::say;

/// How long each wait for an answer is, in milliseconds, between checks whether the run is to end.
const TURN: u8 = 200;

/// Asks on a terminal, until there is an answer or the run is ended; elsewhere the answer is no.
pub fn ask(patterns: &[Excessive], stop: &StopHandle) -> bool {
    let input = io::stdin();
    if !input.is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    for pattern in patterns {
        say(words::printable(&pattern.to_string()));
    }
    anstream::eprint!("tracewire: set tracepoints at all of them? [y/N] ");
    loop {
        if stop.stopped().is_some() {
            message!("");
            return false;
        }
        let mut ready = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::from(TURN)) {
            Ok(0) | Err(nix::Error::EINTR) => {}
            Ok(_) => break,
            Err(_) => return false,
        }
    }
    let mut answer = String::new();
    let read = input.lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}
