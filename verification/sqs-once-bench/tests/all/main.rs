//! The benchmark's own tests. `allocations` and `peak` count what their whole process allocates, so each is a program.

#![allow(clippy::unwrap_used, reason = "a test")]

mod report;
mod requests;
mod table;
mod units;
