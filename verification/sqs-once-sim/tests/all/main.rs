//! The protocol's model, and whole consumers under simulated trouble.

#![allow(clippy::unwrap_used, reason = "a test")]

mod model;
mod mutants;
mod sdk;
mod simulation;
