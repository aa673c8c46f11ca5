//! Lambda's poller and execution environments on one machine: a queue drives the function's real binary.

mod delivery;
mod environment;
mod faults;
mod poller;
mod settings;
mod warm;

pub use faults::{Faults, Percent, PercentError};
pub use poller::{Poller, PollerControls, PollerError};
pub use settings::PollerSettings;

use crate::local_event::{LocalEvent, Observer};
use std::time::SystemTime;

/// The observers of a poller.
#[derive(Clone, Default)]
struct Observers(Vec<Observer>);

impl Observers {
    fn tell(&self, happening: &LocalEvent) {
        let now = SystemTime::now();
        for observer in &self.0 {
            observer(now, happening);
        }
    }
}
