//! The store and its transactions on a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test")]

mod abandoned;
mod conformance;
mod crashes;
mod errors;
mod exactly_once;
mod expired;
mod model;
mod orders;
mod pgbouncer;
mod relay;
mod room;
mod round_trips;
mod slices;
mod support;
mod transactions;
mod values;
