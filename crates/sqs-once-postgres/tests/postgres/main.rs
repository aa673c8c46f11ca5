//! The store and its transactions on a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test")]

mod conformance;
mod expired;
mod model;
mod slices;
mod support;
