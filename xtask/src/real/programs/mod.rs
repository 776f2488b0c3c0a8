//! The programs, one file for each way in which they get work.

mod batch;
mod openssl;
mod pgbench;
mod pipeline;
mod postgresql;
mod redis;
mod sqlite;
mod web;

use anyhow::{Context, Result};

use super::subject::Subject;

/// All programs.
pub fn all() -> Vec<Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> = vec![
        Box::new(redis::Redis::default()),
        Box::new(web::Web::nginx()),
        Box::new(postgresql::PostgreSql::default()),
        Box::new(sqlite::Sqlite::default()),
        Box::new(web::Web::node()),
        Box::new(openssl::OpenSsl::default()),
        Box::new(pgbench::Pgbench::sessions()),
        Box::new(pgbench::Pgbench::connections()),
        Box::new(web::Web::workers()),
        Box::new(redis::Redis::saving()),
        Box::new(pipeline::Pipeline::default()),
    ];
    all.extend(
        batch::programs()
            .into_iter()
            .map(|program| Box::new(program) as Box<dyn Subject>),
    );
    all
}

/// A TCP port of the loopback interface that is free at this moment.
fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}
