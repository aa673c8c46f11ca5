//! Findings and fixes for templates and plans.

#![allow(clippy::unwrap_used, reason = "a test")]

mod changes;
mod examples;
mod mutated;
mod rules;
mod sarif;
mod templates;
mod terraform;
