//! The benchmark's own tests. `allocations` and `peak` count the allocations of their whole process, so each is a
//! separate program.

#![allow(clippy::unwrap_used, reason = "a test")]

mod requests;
mod table;
mod units;
