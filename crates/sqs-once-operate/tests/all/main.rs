//! Operations on keys and dead letters.

#![allow(clippy::unwrap_used, reason = "a test")]

mod dead_letters;
mod keys;
