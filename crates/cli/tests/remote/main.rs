//! Programs behind stubs: `record --upstream` and `proxy`.

mod hostile;
mod packages;
mod proxy;
mod record;
mod support;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../wire/mod.rs"]
mod wire;
