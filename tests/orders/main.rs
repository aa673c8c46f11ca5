//! The real function binary: a process of its own, the Runtime API, HTTP to DynamoDB.

#![allow(clippy::unwrap_used, reason = "a test")]

mod end_to_end;
mod least_privilege;
#[path = "../permissions/mod.rs"]
mod permissions;
mod setup;
mod shutdown;
mod support;
