//! Tests of the protocol's model, and of whole consumers under simulated trouble.

#![allow(clippy::unwrap_used, reason = "a test")]

mod model;
mod mutants;
mod sdk;
mod simulation;
