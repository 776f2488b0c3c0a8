//! Programs behind stubs: `record --upstream` and `proxy`.

mod record;
mod support;
