//! [sqs-once](sqs_once) on PostgreSQL: a handler's rows commit in one transaction with the completion of its business key.
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
//! #[sqs_once::handler(key = order.id, namespace = "reservations")]
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
//! # Guarantees
//!
//! - A handler that takes a [`Transaction`], or a batch handler that takes a [`BatchTransaction`], is *effectively once*.
//!   Either both its rows and the completion of its key are committed, or neither is. This holds if a process dies at any
//!   point or any answer is lost. It holds for as long as the completion is kept (`retention`), and as durably as the
//!   database keeps a commit. Two concurrent deliveries never both commit: the second waits for the first, and then is a
//!   duplicate or runs.
//! - Any other handler on a [`PostgresStore`] has the promise of every store, *at least once, deduplicated*. The store
//!   claims the key before the handler runs and completes it afterwards, in separate requests.
//!
//! # The table
//!
//! [`SCHEMA_V1`] creates the table (`schema/v1.sql` in the package). Apply it once, like any migration. The tests use
//! PostgreSQL 18. The schema and statements need version 13 or later (`pg_current_xact_id`; generated columns need 12).
//! The store finds the table by the connection's `search_path`, or in the schema given to [`PostgresStore::schema`].
//! The function's role needs `USAGE` on the schema and `SELECT`, `INSERT` and `UPDATE` on the table, in addition to the
//! privileges for its handlers.
//!
//! Expired rows stay until a scheduler deletes them: `cargo sqs-once postgres delete-expired`,
//! [`PostgresStore::delete_expired`] in a function of your own, or [`DELETE_EXPIRED`] inside the database, for example:
//!
//! ```sql
//! SELECT cron.schedule('delete expired keys', '* * * * *', $$ ...schema/delete-expired.sql... $$);
//! ```
//!
//! This example deletes at most a thousand rows a minute. A queue with more than sixteen new keys a second needs it
//! more often.
//!
//! # Configuration
//!
//! [`PostgresStore::from_env`] reads these variables once, at the start:
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `DATABASE_URL` | required | the database: `postgresql://USER@HOST/DATABASE?auth=iam`, `postgresql://USER:PASSWORD@HOST/DATABASE`, or `key=value` pairs |
//! | `PGSSLROOTCERT` | the system's | a PEM file with the certificates to trust; `sslrootcert` in the URL takes precedence |
//! | `SQS_ONCE_CONCURRENCY` | `10` | the most connections. The consumer reads it too and runs at most as many handlers of a batch at once |
//!
//! The store does not see a concurrency that the code sets on the consumer, such as `.concurrency(16)`. Set
//! [`.connections(16)`](PostgresStore::connections) on the store as well.
//!
//! # TLS
//!
//! By default, the store requires TLS and verifies the server's certificate and name, as libpq does with
//! `sslmode=verify-full`. For a database on the same machine (a loopback address, `localhost` or a Unix socket), it uses
//! TLS if the server offers it, and requires TLS only if you name a root certificate.
//!
//! | `sslmode` in the connection string | TLS |
//! |---|---|
//! | none | required and verified; on the same machine, without a root certificate, as `prefer` |
//! | `require`, `verify-ca`, `verify-full` | required and verified |
//! | `prefer` | verified if the server offers it; an attacker who impersonates the server can refuse TLS |
//! | `disable` | none |
//!
//! Operating systems do not trust the authorities that issue certificates for Amazon RDS and Aurora. Download AWS's
//! bundle from `https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem`, ship it with the function, and name
//! it:
//!
//! - in a layer, whose files are in `/opt`: `sslrootcert=/opt/global-bundle.pem`. The template of
//!   `cargo sqs-once new --effect postgres` has such a layer.
//! - next to `bootstrap` in the package, whose files are in `/var/task`: `sslrootcert=/var/task/global-bundle.pem`.
//!   `cargo lambda deploy --include global-bundle.pem` adds the file.
//!
//! If the file is missing or empty, the function does not start. When AWS announces new authorities, deploy the new
//! bundle before the database's certificate changes. RDS Proxy uses certificates of AWS Certificate Manager, which
//! operating systems trust, so it needs no bundle.
//!
//! # Passwords and IAM authentication
//!
//! Everyone who may read the function's configuration can read a password in its environment. IAM database
//! authentication needs no password:
//!
//! ```text
//! DATABASE_URL=postgresql://orders@orders.cluster-abc.eu-central-1.rds.amazonaws.com/orders?auth=iam&sslrootcert=/opt/global-bundle.pem
//! ```
//!
//! `auth=iam` signs a token for each new connection. It uses the credentials that Lambda sets in the environment
//! (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`) and the region in `AWS_REGION`. Signing sends no
//! request. RDS accepts a token for 15 minutes; connections that are open stay open. The parameter belongs to this
//! crate: libpq and `psql` reject it.
//!
//! | who | needs |
//! |---|---|
//! | the database | IAM authentication enabled |
//! | its user | `CREATE USER orders; GRANT rds_iam TO orders;` |
//! | the function's role | `rds-db:connect` on `arn:aws:rds-db:REGION:ACCOUNT:dbuser:RESOURCE/orders`, where `RESOURCE` is `db-…` for an instance, `cluster-…` for an Aurora cluster, `prx-…` for a proxy |
//! | the connection string | exactly one host, by the name that RDS assigned and not an alias, since the token contains it; no password |
//!
//! The store never sends a token without TLS: it rejects `auth=iam` with `sslmode=disable` or `prefer`.
//!
//! For other passwords that change, pass a pool of your own to [`PostgresStore::new`]. A pool with deadpool's
//! [`Manager::from_connect`](deadpool_postgres::Manager::from_connect) can look up the password for every new
//! connection.
//!
//! # Connections
//!
//! The store opens a connection when it needs one and none is free. Connections live as long as the process. Each
//! handler's transaction occupies one connection, and so does each message that waits for another delivery. A batch
//! therefore needs at most `concurrency` connections. If the pool has no free connection within 4 s, the message fails
//! as throttled and is retried.
//!
//! | function | connections of an execution environment | connections of the database |
//! |---|---|---|
//! | Lambda's default: one batch at a time | `concurrency` | `concurrency` times the event source's `MaximumConcurrency` |
//! | Lambda Managed Instances: several batches at once on one pool | `concurrency` times `PerExecutionEnvironmentMaxConcurrency`: set [`connections`](PostgresStore::connections) to that | those of an environment, times the environments |
//!
//! The store waits up to 4 s for the answer to a request. On the server, a claim outside a transaction has shorter
//! limits: 2 s for each lock and 3 s for the statement. A request that claims new keys and keys with a row sends two
//! statements, and each has half of that. `SET LOCAL` sets the limits in the claim's own short transaction, so no
//! setting stays on the connection. Completions and releases have no such limits. They name the owner of their claim,
//! so they are still valid if they arrive late.
//!
//! Lambda freezes a process between invocations, and connections may die meanwhile. The store does not reuse a
//! connection that was idle for more than a minute. If a reused connection is dead, or does not answer within 4 s, the
//! store repeats the request once on a new connection. This is safe: the store recognises its own claims and
//! completions, and without a commit a transaction has no effect. The store never repeats a commit.
//!
//! Changes to the session outlive the message: a `SET` without `LOCAL`, a temporary table, a session-level advisory
//! lock. They affect the next message on the same connection, `search_path` included. Use `SET LOCAL` and
//! `pg_advisory_xact_lock`, which end with the transaction.
//!
//! The claim's completion is the last statement of the transaction and runs with the handler's settings. If the handler
//! changes `search_path`, name the table's schema by [`PostgresStore::schema`]. If it changes `ROLE`, the new role
//! needs `SELECT` and `UPDATE` on the table. Otherwise every such message fails and its transaction is rolled back.
//!
//! ## PgBouncer and RDS Proxy
//!
//! A proxy lets many small functions share few connections. An open transaction still occupies one database connection,
//! so avoid calls to other services inside it where you can.
//!
//! The store leaves no state on a connection after a transaction: its statements have no names, and its settings are
//! `SET LOCAL`. A proxy can therefore give each transaction another connection.
//!
//! *PgBouncer in transaction pooling* is tested (`python3 .ci/pgbouncer.py`, PgBouncer 1.24) with
//! `max_prepared_statements` of 0 and of 100. The tests cover the conformance suite, handlers with a [`Transaction`],
//! abandoned claims, and that no setting reaches the next client. PgBouncer needs no `ignore_startup_parameters`. A
//! handler's plain `tx.execute("…", …)` prepares a named statement, for which PgBouncer needs a
//! `max_prepared_statements` above 0 (1.21 or later). [`execute_typed`](tokio_postgres::Client::execute_typed) and
//! [`query_typed`](tokio_postgres::Client::query_typed) use no name and take one round trip instead of two. A claim
//! that waits for a free connection leaves PgBouncer's queue when the store stops waiting, after 4 s.
//!
//! *RDS Proxy* is not tested. AWS documents:
//!
//! | about | RDS Proxy |
//! |---|---|
//! | certificates | issued by AWS Certificate Manager, which operating systems trust: the default `sslmode` verifies them without a bundle |
//! | IAM authentication | needs TLS and a token for the proxy's own endpoint: `auth=iam` with that host, and `rds-db:connect` on `prx-…` |
//! | start-up parameters | the proxy rejects `options` in the connection string: name the schema by [`PostgresStore::schema`], not by `search_path` |
//! | pinning | `SET` pins a session to its connection. AWS's user guide does not mention `SET LOCAL`. The guide of AWS's agent toolkit documents that it pins until the transaction ends, for which the proxy keeps the connection anyway |
//! | pinning by handlers | `PREPARE`, temporary tables, cursors, `LISTEN`, `nextval` and session-level locks pin; named statements may pin |
//!
//! A pinned session works correctly but does not share its connection. The metric
//! `DatabaseConnectionsCurrentlySessionPinned` counts pinned sessions: watch it when you introduce the proxy.
//!
//! # Costs
//!
//! Round trips to the database, without the handler's own:
//!
//! | | a new key | a duplicate |
//! |---|---|---|
//! | a handler with a [`Transaction`] | 2: begin and claim, complete and commit | 2: refused claim, read of the item; the message does not wait for the rollback |
//! | any other handler, for all messages of a request together | 2: claim, complete | 2, for all of them together |
//!
//! Opening a connection takes further round trips for TCP, TLS and the password. Later messages reuse the connection.
//!
//! A new key writes its row twice and the table's indexes once; the comments in `schema/v1.sql` explain this. A key
//! with the default fingerprint and a completion without a value takes about 1200 bytes of the table, including free space,
//! and 150 bytes of the indexes (`cargo test -p sqs-once-postgres --test all room`). Four weeks at one new key a second
//! take less than 4 GB. After autovacuum, later keys reuse the free space between the rows, and the table is smaller.
//!
//! # Failures
//!
//! | event | effect on the message |
//! |---|---|
//! | the handler fails, panics, or is cancelled | rolled back and retried |
//! | the answer to the commit is lost | retried; a duplicate if the commit succeeded |
//! | a deferred constraint fails, or the transaction cannot be serialized | rolled back at the commit and retried |
//! | a statement fails and the handler continues | PostgreSQL has aborted the transaction: retried |
//! | the handler sends `COMMIT` or `ROLLBACK` | not acknowledged; retried after the claim's lease expires |
//! | a task that the handler spawned still holds the transaction | the store ends the session; retried |
//! | the function is frozen or killed during the transaction | the server rolls back: at once if the connection closes, otherwise when the transaction was idle for the message's remaining time |
//! | another delivery's transaction holds the key | waits for it until shortly before the deadline; then retried |
//!
//! A handler without a [`Transaction`] claims its key before it runs:
//!
//! | event | effect on the claim |
//! |---|---|
//! | another transaction has locked the key's row | waits for 2 s; then the message fails as throttled and is retried |
//! | the caller disappears while the claim waits: its future was dropped, its connection was cut, or its process was frozen or killed | the server ends the claim within 3 s of its arrival and writes nothing |
//! | the process is frozen or killed, or loses its connection, before it has sent the whole claim | the server rolls the claim back, after 2 s at the latest |
//! | the network delivers a claim after its caller has disappeared | the server writes the claim; the key is free again when the claim's lease expires |
//!
//! # Testing
//!
//! Test a handler with a [`Transaction`] on a PostgreSQL database of your own, with [`SCHEMA_V1`] and your tables. The
//! consumer is a service, which the test calls as Lambda does.
//!
//! ```no_run
//! use aws_lambda_events::event::sqs::SqsEvent;
//! use lambda_runtime::{Context, Error, LambdaEvent};
//! use sqs_once::store::Timestamp;
//! use sqs_once_postgres::PostgresStore;
//! use tower_service::Service;
//! # use {serde::Deserialize, sqs_once::HandlerError, sqs_once_postgres::Transaction};
//! # #[derive(Deserialize)] struct OrderPlaced { id: String }
//! # #[sqs_once::handler(key = order.id, namespace = "reservations")]
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
//!         context.deadline = Timestamp::now().as_millis() + 30_000;
//!         let answer = consumer.call(LambdaEvent::new(event, context)).await?;
//!         assert!(answer.batch_item_failures.is_empty());
//!     }
//!     // And then: one row in `reservations`.
//!     Ok(())
//! }
//! ```
//!
//! To run the real binary from the shell, use `DATABASE_URL=postgresql://… cargo sqs-once invoke events/orders.json`.
//! It passes its own environment on, except `AWS_…` variables.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod batch_transaction;
mod begin;
mod config;
mod errors;
mod expired;
mod iam;
mod pool;
mod rows;
mod session;
mod statements;
mod store;
mod tls;
mod transaction;
mod values;

pub use batch_transaction::BatchTransaction;
// Types of this crate and of tokio-postgres, which it re-exports, are in signatures. Both are 0.x: a new version of them is
// a new major version of this crate.
pub use deadpool_postgres;
pub use expired::Deleted;
pub use store::PostgresStore;
pub use transaction::Transaction;
pub use values::without_values;

/// The SQL that creates the table: `schema/v1.sql`. Its comments explain the layout.
pub const SCHEMA_V1: &str = include_str!("../schema/v1.sql");

/// The SQL that deletes expired rows, for a scheduler such as pg_cron: `schema/delete-expired.sql`.
pub const DELETE_EXPIRED: &str = include_str!("../schema/delete-expired.sql");

/// Compiles the examples of the guide, which the package does not contain.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/postgresql.md")]
    mod postgresql {}
}
