//! A poller and the processes that it drives: what a developer sees of Lambda.

#![allow(clippy::unwrap_used, reason = "a test")]

mod answers;
mod batches;
mod environments;
mod faults;
mod world;
