//! Tests the server as other crates use it.

#![allow(clippy::unwrap_used, reason = "a test")]

mod server;
mod tls;
