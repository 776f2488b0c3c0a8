//! Serving clients, one after the other or several at once.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracewire_packets::family::features::FeatureList;

use crate::access::Token;
use crate::handshake::{Admission, Opening, admit};
use crate::log::SessionLog;
use crate::saved::{SavedSession, SavedTrace};
use crate::session::{Responder, run_on};
use crate::transport::{Listener, Transport};

/// How many clients may look at something at once; those over it are refused.
const MOST_CLIENTS: usize = 64;

/// Whom a server serves.
#[derive(Clone, Copy, Debug)]
pub struct Clients<'a> {
    /// Only the first one, after whom it is over.
    pub once: bool,
    /// Only those on TCP who have given this token.
    pub token: Option<&'a Token>,
}

impl Clients<'_> {
    /// Anybody who can connect.
    pub const ANY: Self = Self {
        once: false,
        token: None,
    };
}

/// Serves a saved trace to all who come, each with a frame of its own selected; standard input and output have one client
/// anyway.
///
/// # Errors
/// When clients cannot be accepted. One client's trouble is its own.
pub fn serve_saved(
    listener: &Listener,
    trace: &SavedTrace,
    log: &SessionLog,
    clients: Clients<'_>,
) -> io::Result<()> {
    serve_each(listener, || SavedSession::new(trace), log, clients)
}

/// Serves clients side by side, each in a session of its own.
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
        // Who is not let in is not the one.
        while !serve_one(&mut listener.accept()?)? {}
        return Ok(());
    }
    let clients = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        loop {
            let mut transport = listener.accept()?;
            if clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                // Dropped, which closes it: GDB says so to its user.
                continue;
            }
            let (clients, serve_one) = (&clients, &serve_one);
            scope.spawn(move || {
                // A client that is lost is not this one's trouble.
                let _ = serve_one(&mut transport);
                clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}
