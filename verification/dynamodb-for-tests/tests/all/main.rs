//! The tables beside another DynamoDB, and what they refuse.

#![allow(clippy::unwrap_used, reason = "a test")]

mod agreement;
mod refusals;
