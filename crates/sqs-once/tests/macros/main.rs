//! The macros: what they accept, what their consumers do, and what they say about mistakes.

#![allow(clippy::unwrap_used, reason = "a test")]

mod accepted;
mod compiler;
mod consumers;
mod listings;
// Public, as the lints look at what a crate exports.
pub mod strict_lints;
mod ui;
