//! The outbox example, end to end: real process, real Runtime API, real HTTP to DynamoDB.

#![allow(clippy::unwrap_used, reason = "a test")]

mod bench;
mod killed;
mod permissions;
#[path = "../permissions/mod.rs"]
mod recorded;
mod redelivered;
