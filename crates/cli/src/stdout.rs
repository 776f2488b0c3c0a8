//! Standard output, with colours for a terminal.

use std::io::{BufWriter, Write};
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracewire_views::words;

/// Standard output, buffered.
pub type Output = BufWriter<anstream::AutoStream<std::io::StdoutLock<'static>>>;

/// Standard output, with colours where a person sees them.
pub fn output() -> Output {
    let stdout = anstream::stdout().lock();
    BufWriter::with_capacity(1 << 16, stdout)
}

/// As [`output`], or for JSON, which has no colours that would have to be looked for and taken out.
pub fn output_of(json: bool) -> Output {
    if !json {
        return output();
    }
    let stdout = anstream::AutoStream::always_ansi(std::io::stdout().lock());
    BufWriter::with_capacity(1 << 16, stdout)
}

/// Whether the reader of standard output has closed it. A socket that an error is about may be closed, too.
pub fn is_closed() -> bool {
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)];
    let polled = poll(&mut fds, PollTimeout::ZERO).is_ok();
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
    polled && (fds[0].revents()).is_some_and(|events| events.intersects(gone))
}

/// Whether an error is about our output, which its reader has closed.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    });
    is_pipe && is_closed()
}

/// Writes lines on, with the control characters in them shown and not sent.
pub struct Shown<'o>(pub &'o mut Output);

impl Write for Shown<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let shown = words::printable_lines(&text);
        self.0.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
