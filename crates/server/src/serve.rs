//! Serving clients, one after the other or in parallel.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracewire_packets::family::features::FeatureList;

use crate::access::Token;
use crate::handshake::{Admission, Opening, admit};
use crate::log::SessionLog;
use crate::saved::{SavedSession, SavedTrace};
use crate::session::{Responder, run_on};
use crate::transport::{Listener, Transport};

/// The most clients in parallel; further ones are refused.
const MOST_CLIENTS: usize = 64;

/// Which clients a server accepts.
#[derive(Clone, Copy, Debug)]
pub struct Clients<'a> {
    /// Only the first one; then the service ends.
    pub once: bool,
    /// Only those on TCP that send this token.
    pub token: Option<&'a Token>,
}

impl Clients<'_> {
    /// Any client.
    pub const ANY: Self = Self {
        once: false,
        token: None,
    };
}

/// Serves a saved trace to all clients, each with its own selected frame; standard input and output have only one
/// client.
///
/// # Errors
/// When clients cannot be accepted. An error of one client's connection ends only that one.
pub fn serve_saved(
    listener: &Listener,
    trace: &SavedTrace,
    log: &SessionLog,
    clients: Clients<'_>,
) -> io::Result<()> {
    serve_each(listener, || SavedSession::new(trace), log, clients)
}

/// Serves clients in parallel, each in its own session.
pub(crate) fn serve_each<R: Responder>(
    listener: &Listener,
    session: impl Fn() -> R + Sync,
    log: &SessionLog,
    Clients { once, token }: Clients<'_>,
) -> io::Result<()> {
    let admission = token.map(|token| Admission {
        token,
        features: session().features(&FeatureList::default()),
        hint: "You are let in. In GDB: attach 1\n".to_owned(),
    });
    let serve_one = |transport: &mut Transport| {
        let opening = match admission.as_ref().filter(|_| transport.is_open_to_others()) {
            Some(admission) => admit(transport, admission),
            None => Some(Opening::new()),
        };
        match opening {
            Some(opening) => {
                run_on(transport, |_| true, &mut session(), log, opening).map(|_| true)
            }
            None => Ok(false),
        }
    };
    if listener.is_stdio() {
        return serve_one(&mut listener.accept()?).map(drop);
    }
    if once {
        // A client that is not accepted does not count.
        while !serve_one(&mut listener.accept()?)? {}
        return Ok(());
    }
    let clients = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        loop {
            let mut transport = listener.accept()?;
            if clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                // Dropped, which closes it: GDB reports that to its user.
                continue;
            }
            let (clients, serve_one) = (&clients, &serve_one);
            scope.spawn(move || {
                // The error of a lost client concerns no one else.
                let _ = serve_one(&mut transport);
                clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}
