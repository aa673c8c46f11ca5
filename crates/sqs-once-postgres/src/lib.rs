//! [sqs-once](sqs_once) on PostgreSQL: handlers whose rows commit together with the record of their business key.
//!
//! ```no_run
//! use serde::Deserialize;
//! use sqs_once::{Error, HandlerError};
//! use sqs_once_postgres::{PostgresStore, Transaction, without_values};
//!
//! #[derive(Deserialize)]
//! struct OrderPlaced { id: String, sku: String }
//!
//! /// Reserves one piece for an order, once.
//! #[sqs_once::handler(key = order.id)]
//! async fn reserve(order: OrderPlaced, tx: Transaction) -> Result<(), HandlerError> {
//!     let take = "UPDATE stock SET pieces = pieces - 1 WHERE sku = $1 AND pieces > 0";
//!     if tx.execute(take, &[&order.sku]).await.map_err(without_values)? == 0 {
//!         return Err(HandlerError::terminal("out of stock"));     // no retry helps: to the dead-letter queue
//!     }
//!     let reserve = "INSERT INTO reservations (id) VALUES ($1)";
//!     tx.execute(reserve, &[&order.id]).await.map_err(without_values)?;
//!     Ok(())                                                      // both rows commit with the key, or nothing does
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let store = PostgresStore::from_env()?;                     // DATABASE_URL
//!     sqs_once::run(reserve::consumer().store(store)).await
//! }
//! ```
//!
//! # What is promised
//!
//! - Of a handler that takes a [`Transaction`]: *effectively once*. Its rows and the record of its key are there, or
//!   neither is, whatever dies when and whichever answer is lost; for as long as the record is kept (`retention`), and as
//!   durably as the database keeps a commit. Two deliveries at the same time never both commit: the second waits for the
//!   first, and then is a duplicate or runs.
//! - Of any other handler on a [`PostgresStore`]: what sqs-once promises on every store, *at least once, deduplicated*.
//!   The key is claimed before the handler runs and completed after it, in requests of their own.
//!
//! # The table
//!
//! [`SCHEMA_V1`] makes it (`schema/v1.sql` in the package): apply it once, as any migration. It is tested with PostgreSQL
//! 18. By what it uses it needs 13 (`pg_current_xact_id`; generated columns are older, of 12).
//! The table lies in the schema that the connection's `search_path` finds, or that [`PostgresStore::schema`] names. The
//! function's role needs `USAGE` on the schema and `SELECT`, `INSERT` and `UPDATE` on the table, besides what its handlers
//! need.
//!
//! Rows stay when they expire, and are deleted by a scheduler: `cargo sqs-once delete-expired`,
//! [`PostgresStore::delete_expired`] from a function of your own, or [`DELETE_EXPIRED`] inside the database, such as
//!
//! ```sql
//! SELECT cron.schedule('delete expired keys', '* * * * *', $$ ...schema/delete-expired.sql... $$);
//! ```
//!
//! which deletes a thousand rows a minute at most; a queue with more than sixteen new keys a second needs it more often.
//!
//! # Configuration
//!
//! [`PostgresStore::from_env`] reads, once at the start:
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `SQS_ONCE_POSTGRES_URL` | `DATABASE_URL` | the database: `postgresql://USER@HOST/DATABASE?auth=iam`, `postgresql://USER:PASSWORD@HOST/DATABASE`, or `key=value` pairs |
//! | `PGSSLROOTCERT` | the system's | a file (PEM) with the certificates to trust; `sslrootcert` in the URL goes before it |
//! | `SQS_ONCE_CONCURRENCY` | `10` | how many connections there may be: the consumer, which reads it too, runs as many handlers at once |
//!
//! A consumer whose concurrency is set in its code, `.concurrency(16)`, does not tell the store:
//! [`.connections(16)`](PostgresStore::connections) on the store does.
//!
//! # TLS
//!
//! The store asks for TLS and verifies the server's certificate and name, as libpq does with `sslmode=verify-full`. One
//! exception is the default for a database on the same machine, by a loopback address, `localhost` or a Unix socket:
//! there TLS is used if the server offers it. Naming a root certificate ends that exception.
//!
//! | `sslmode` in the connection string | TLS |
//! |---|---|
//! | none | required and verified; on the same machine, without a root certificate, as `prefer` |
//! | `require`, `verify-ca`, `verify-full` | required and verified |
//! | `prefer` | verified if the server offers it; an attacker in the server's place can say that it does not |
//! | `disable` | none |
//!
//! The certificates of Amazon RDS and Aurora come from authorities that no system trusts. Download AWS's bundle from
//! `https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem`, ship it with the function, and name it:
//!
//! - in a layer, whose files are in `/opt`: `sslrootcert=/opt/global-bundle.pem`. The template of
//!   `cargo sqs-once new --postgres` has such a layer.
//! - beside `bootstrap` in the package, whose files are in `/var/task`: `sslrootcert=/var/task/global-bundle.pem`.
//!   `cargo lambda deploy --include global-bundle.pem` puts it there.
//!
//! A function whose file is missing or empty does not start. When AWS announces new authorities, deploy the new bundle before the
//! database's certificate changes. RDS Proxy has certificates of AWS Certificate Manager, which systems trust: it needs no bundle.
//!
//! # Passwords, and none
//!
//! Everyone who may read a function's configuration can read a password in its environment. IAM database authentication needs none:
//!
//! ```text
//! DATABASE_URL=postgresql://orders@orders.cluster-abc.eu-central-1.rds.amazonaws.com/orders?auth=iam&sslrootcert=/opt/global-bundle.pem
//! ```
//!
//! `auth=iam` signs a token for each new connection, with the credentials that Lambda puts into the environment
//! (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`) and for the region in `AWS_REGION`. No request is sent for
//! it. RDS accepts a token for 15 minutes; a connection that is open stays open. The parameter is this crate's: libpq and
//! `psql` refuse it.
//!
//! | who | needs |
//! |---|---|
//! | the database | IAM authentication enabled |
//! | its user | `CREATE USER orders; GRANT rds_iam TO orders;` |
//! | the function's role | `rds-db:connect` on `arn:aws:rds-db:REGION:ACCOUNT:dbuser:RESOURCE/orders`, where `RESOURCE` is `db-…` of an instance, `cluster-…` of an Aurora cluster, `prx-…` of a proxy |
//! | the connection string | the host's name as RDS gave it, not an alias: the token names it; one host; no password |
//!
//! A token never goes out without TLS: the store refuses `auth=iam` with `sslmode=disable` or `prefer`.
//!
//! A password that changes otherwise wants a pool of your own that asks for it whenever it opens a connection:
//! [`PostgresStore::new`] with deadpool's [`Manager::from_connect`](deadpool_postgres::Manager::from_connect).
//!
//! # Connections
//!
//! A connection is opened when one is needed and none is free, and lives as long as the process. One handler's transaction
//! has one connection, and so has a record that waits for another delivery's; so a function needs `concurrency` of them in
//! each of its execution environments, no more, and a database `concurrency` times the event source's
//! `MaximumConcurrency`. What the pool can't give within 4 s fails as throttled, and
//! is tried again.
//!
//! The store waits up to 4 s for the answer to a request. A claim outside of a transaction has limits on the server as well,
//! which end it before that: 2 s for each lock, 3 s for the statement. They are set by `SET LOCAL` in the claim's own short
//! transaction, so nothing stays on the connection. Completions and releases have no such limit: they name their claim's owner,
//! so a late one is still true.
//!
//! Lambda freezes a process between invocations, and connections may die meanwhile. One that has idled for more than a
//! minute is not used again. A request that finds its connection dead, or has no answer after 4 s, is repeated once on a new
//! one, which is safe: the store recognises its own claims and completions, and a transaction that was only begun has not
//! happened. A commit is never repeated.
//!
//! What a handler does to its session outlives its record: a `SET` without `LOCAL`, a temporary table, an advisory lock of
//! the session. The next record that gets the connection has it too, `search_path` included. Use `SET LOCAL` and
//! `pg_advisory_xact_lock`, which end with the transaction.
//!
//! The claim's completion is the last statement of that transaction, under what the handler has set by then. Where that is
//! another `search_path`, name the table's schema by [`PostgresStore::schema`]; where it is another `ROLE`, that role needs
//! `SELECT` and `UPDATE` on the table too. Otherwise every such record fails, and nothing of it is committed.
//!
//! ## PgBouncer and RDS Proxy
//!
//! With a proxy, many small functions share few connections. A transaction still has one of the database's for as long as
//! it is open, so keep calls to other services out of it where you can.
//!
//! The store leaves nothing on a connection that outlives a transaction: its statements have no names, and its settings are `SET
//! LOCAL`. A proxy can therefore give each transaction another connection.
//!
//! *PgBouncer in transaction pooling* is tested: the conformance suite, handlers with a [`Transaction`], abandoned claims, and that no
//! setting reaches the next client, with `max_prepared_statements` of 0 and of 100 (`python3 .ci/pgbouncer.py`, PgBouncer 1.24). It
//! needs no `ignore_startup_parameters`. A handler's plain `tx.execute("…", …)` prepares its statement under a name, for which
//! PgBouncer needs a `max_prepared_statements` above 0 (1.21 or later).
//! [`execute_typed`](tokio_postgres::Client::execute_typed) and [`query_typed`](tokio_postgres::Client::query_typed) use no name
//! and take one round trip where the others take two. A claim that waits for a free connection leaves
//! PgBouncer's queue when the store stops waiting, after 4 s.
//!
//! *RDS Proxy* is not tested; this is what AWS documents:
//!
//! | about | RDS Proxy |
//! |---|---|
//! | certificates | of AWS Certificate Manager, which systems trust: the default `sslmode` verifies them, without a bundle |
//! | IAM authentication | needs TLS, and a token for the proxy's own endpoint: `auth=iam` with that host, and `rds-db:connect` on `prx-…` |
//! | start-up parameters | `options` in the connection string is refused: name the schema by [`PostgresStore::schema`], not by `search_path` |
//! | pinning | `SET` pins a session to its connection. AWS's user guide does not tell `SET LOCAL` apart; the guide of its agent toolkit says that it pins until the transaction ends, for which the proxy keeps the connection anyway |
//! | pinning by handlers | `PREPARE`, temporary tables, cursors, `LISTEN`, `nextval` and locks of the session pin; statements with names may |
//!
//! A pinned session is correct, and shares its connection with no other. The metric `DatabaseConnectionsCurrentlySessionPinned`
//! counts them: watch it when you introduce the proxy.
//!
//! # What it costs
//!
//! In round trips to the database, those of the handler apart:
//!
//! | | a new key | a duplicate |
//! |---|---|---|
//! | a handler with a [`Transaction`] | 2: begin and claim, complete and commit | 2: refused, and shown by what; nobody waits for the rollback |
//! | any other handler, for all records of a request together | 2: claim, complete | 2, for all of them together |
//!
//! Opening a connection takes more of them, for TCP, TLS and the password; it is kept for the records that follow.
//!
//! A new key writes its row twice, and the table's indexes once: the comments in `schema/v1.sql` say how. Without recorded
//! data, and with the default fingerprint, it takes about 1000 bytes of the table, room that is kept free included, and 150
//! of the indexes (`cargo test -p sqs-once-postgres --test all room`): four weeks at one new key a second are less
//! than 3 GB. What is left between the rows goes to later keys once autovacuum has come by, and the table is smaller then.
//!
//! # When it goes wrong
//!
//! | what happens | what the record does |
//! |---|---|
//! | the handler fails, panics, or is cancelled | rolled back; comes again |
//! | the answer to the commit is lost | comes again, and is a duplicate if the commit went through |
//! | a deferred constraint fails, or the transaction can't be serialized | rolled back at the commit; comes again |
//! | a statement fails and the handler goes on | PostgreSQL has given the transaction up: comes again |
//! | the handler sends `COMMIT` or `ROLLBACK` | is not acknowledged, and comes again when the claim's lease has lapsed |
//! | something that the handler has spawned still has the transaction | its session is ended; comes again |
//! | the function is frozen or killed in the middle | the server rolls back: at once when it sees the connection close, or else when the transaction has been idle for as long as the record had left |
//! | another delivery's transaction has the key | waits for it until shortly before the deadline; then comes again |
//!
//! A handler without a [`Transaction`] claims its key before it runs:
//!
//! | what happens | what the claim does |
//! |---|---|
//! | another transaction has the key's row | waits for 2 s; then the record fails as throttled, and comes again |
//! | the caller has gone while the claim waits: its future was dropped, its connection was cut, its process was frozen or killed | the server ends the claim within 3 s of its arrival and writes nothing |
//! | the process is frozen or killed, or loses its connection, before all of the claim was sent | the server rolls the claim back, after 2 s at the latest |
//! | the network delivers a claim late, when its caller has gone | the claim is written; the key is free again when the claim's lease has lapsed |
//!
//! # Testing
//!
//! A handler with a [`Transaction`] is tested on a PostgreSQL of your own with [`SCHEMA_V1`] and your tables in it: the
//! consumer is a service, and is called as Lambda does.
//!
//! ```no_run
//! use aws_lambda_events::event::sqs::SqsEvent;
//! use lambda_runtime::{Context, Error, LambdaEvent};
//! use sqs_once::time::{Clock, SystemClock};
//! use sqs_once_postgres::PostgresStore;
//! use tower_service::Service;
//! # use {serde::Deserialize, sqs_once::HandlerError, sqs_once_postgres::Transaction};
//! # #[derive(Deserialize)] struct OrderPlaced { id: String }
//! # #[sqs_once::handler(key = order.id)]
//! # async fn reserve(order: OrderPlaced, tx: Transaction) -> Result<(), HandlerError> { Ok(()) }
//!
//! async fn an_order_that_comes_twice_is_reserved_once(url: &str) -> Result<(), Error> {
//!     let mut consumer = reserve::consumer().store(PostgresStore::from_url(url)?);
//!     for message_id in ["m-1", "m-2"] {
//!         let event: SqsEvent = serde_json::from_value(serde_json::json!({ "Records": [{
//!             "messageId": message_id,
//!             "body": r#"{ "id": "o-1" }"#,
//!             "eventSource": "aws:sqs",
//!             "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders",
//!             "receiptHandle": "handle",
//!         }] }))?;
//!         let mut context = Context::default();
//!         context.deadline = SystemClock.now().as_millis() + 30_000;
//!         let answer = consumer.call(LambdaEvent::new(event, context)).await?;
//!         assert!(answer.batch_item_failures.is_empty());
//!     }
//!     // And then: one row in `reservations`.
//!     Ok(())
//! }
//! ```
//!
//! The real binary, from the shell: `DATABASE_URL=postgresql://… cargo sqs-once invoke events/orders.json`. It hands on its
//! own environment, all but `AWS_…`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod config;
mod errors;
mod expired;
mod iam;
mod pool;
mod rows;
mod statements;
mod store;
mod tls;
mod transaction;
mod values;

pub use config::ConfigError;
pub use deadpool_postgres;
pub use expired::Deleted;
pub use store::PostgresStore;
pub use transaction::Transaction;
pub use values::without_values;

/// The statements that make the table: `schema/v1.sql`. Its comments say how the table is laid out, and why.
pub const SCHEMA_V1: &str = include_str!("../schema/v1.sql");

/// The statement that deletes expired rows, for a scheduler such as pg_cron: `schema/delete-expired.sql`.
pub const DELETE_EXPIRED: &str = include_str!("../schema/delete-expired.sql");

/// Compiles what the guide shows. It lies outside of the package, which is built without it.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/exactly-once.md")]
    mod exactly_once {}
}
