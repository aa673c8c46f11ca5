//! The protocol: pure decisions, and the small driver that takes them to the store and back.

mod cache;
mod driver;
mod effect;
mod elsewhere;
mod opening;
mod protocol;
mod settings;

pub use cache::Cache;
pub(crate) use driver::{Conclusion, Driver, Ending};
#[doc(hidden)]
pub use effect::Effect;
pub(crate) use effect::Work;
pub(crate) use elsewhere::Elsewhere;
pub use protocol::{
    Admission, Commitment, Completion, Mode, Refusal, on_claimed, on_committed, on_completed,
    on_found, on_found_elsewhere,
};
pub(crate) use settings::DriverSettings;
