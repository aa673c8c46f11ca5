//! The protocol: pure decisions, and the small driver that takes them to the store and back.

mod cache;
mod claiming;
mod driver;
mod effect;
mod elsewhere;
mod opening;
mod protocol;
mod settings;

pub use cache::Cache;
pub use claiming::claim;
pub(crate) use driver::{Conclusion, Driver, Ending};
#[doc(hidden)]
pub use effect::Effect;
pub(crate) use effect::Work;
pub(crate) use elsewhere::Elsewhere;
pub use protocol::{
    Admission, Commitment, Completion, Mode, Refusal, on_claimed, on_committed, on_completed,
    on_found, on_found_elsewhere, on_refused,
};
pub(crate) use settings::DriverSettings;
