//! The protocol: pure decisions, and the small driver that takes them to the store and back.

mod cache;
mod driver;
mod opening;
mod protocol;
mod settings;

pub use cache::Cache;
pub(crate) use driver::{Driver, Ending};
pub use protocol::{Admission, Completion, Mode, Refusal, on_claimed, on_completed, on_found};
pub(crate) use settings::DriverSettings;
