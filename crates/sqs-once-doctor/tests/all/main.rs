//! What the doctor finds in templates and plans, and what its fixes write.

#![allow(clippy::unwrap_used, reason = "a test")]

mod mutated;
mod rules;
mod sarif;
mod templates;
mod terraform;
