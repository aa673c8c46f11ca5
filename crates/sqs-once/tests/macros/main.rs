//! The macros: accepted input, the consumers they create, and their error messages.

#![allow(clippy::unwrap_used, reason = "a test")]

mod accepted;
mod compiler;
mod consumers;
mod listings;
// Public, since the lints check a crate's exports.
pub mod strict_lints;
mod ui;
