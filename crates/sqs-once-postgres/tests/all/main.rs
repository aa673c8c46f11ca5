//! The store and its transactions on a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test")]

mod abandoned;
mod batch_transactions;
#[path = "../../../sqs-once/tests/all/store_suite/claims.rs"]
mod claims;
mod conformance;
mod errors;
mod exactly_once;
mod operations;
mod orders;
mod pgbouncer;
mod room;
mod round_trips;
mod support;
mod transactions;
mod work;
