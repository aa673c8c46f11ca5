//! Breakers: what happens while a service that handlers call is unavailable.
//!
//! The state that environments share is one item for each dependency, written with the claims of the protocol. A breaker is
//! open while the item is claimed and the lease holds. A worker that claims the item after its lease sends the probe. A
//! completed item, or none, is a closed breaker. So one conditional write elects the probe, and a worker that dies leaves a
//! lease that lapses.

mod breakers;
mod budget;
mod circuit;
mod dependency;

/// The target of the lines about breakers.
const LOG: &str = "sqs_once::breaker";

pub(crate) use breakers::{Breakers, Permit};
#[cfg(feature = "sqs")]
pub(crate) use budget::Deliveries;
use budget::hidden_for;
pub(crate) use budget::{Hiding, QueueLimits};
pub(crate) use circuit::{Next, Pass, Tried};
pub use dependency::Dependency;
pub(crate) use dependency::checked;
