//! Lambda's poller and execution environments on one machine: a queue drives the function's real binary.

mod delivery;
mod environment;
mod environments;
mod faults;
mod poller;
mod settings;

pub use faults::{FaultControls, Faults, Percent, PercentError};
pub use poller::{Poller, PollerControls, PollerError};
pub use settings::PollerSettings;
