//! sqs-once on PostgreSQL.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod config;
mod errors;
mod expired;
mod pool;
mod rows;
mod statements;
mod store;
mod tls;

pub use config::ConfigError;
pub use deadpool_postgres;
pub use expired::Deleted;
pub use store::PostgresStore;

/// The statements that make the table: `schema/v1.sql`.
pub const SCHEMA_V1: &str = include_str!("../schema/v1.sql");

/// The statement that deletes expired rows, for a scheduler such as pg_cron: `schema/delete-expired.sql`.
pub const DELETE_EXPIRED: &str = include_str!("../schema/delete-expired.sql");
