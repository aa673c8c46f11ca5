//! The idempotency protocol: pure decisions, and the driver that executes them on a store.

mod admit;
mod also_read;
pub mod block;
pub mod breaker;
mod cache;
mod connect;
mod deadline;
mod driver;
mod key_rules;
mod mode;
mod namesakes;
mod protocol;
mod renewal;
mod retry;
mod settings;
mod settle;
mod shared_settings;

pub(crate) use admit::{Admitted, admit};
pub(crate) use also_read::{Asked, OtherId};
pub(crate) use block::short_group;
pub use cache::Cache;
pub use deadline::Margins;
#[cfg(feature = "opentelemetry")]
pub(crate) use deadline::time_left;
pub(crate) use deadline::{Deadline, Until, answer_until, answers_until};
pub(crate) use driver::{Driver, Owners, first_of};
pub(crate) use key_rules::{KeyRules, OnUnknown};
pub(crate) use mode::Mode;
pub(crate) use namesakes::{HandlerType, shared_name_error};
pub(crate) use protocol::UNCOMPARED;
pub use protocol::{
    Admission, Completed, Refusal, carried_over, ends_refused, on_claimed, on_committed,
    on_completed, on_found, on_found_under_other_id, on_refused, takes_over,
};
pub(crate) use retry::{Retries, contended};
pub(crate) use settings::{KeySettings, StoreSettings};
pub(crate) use settle::{CommitsWith, Conclusion, PendingSettlement, Sent};
pub(crate) use shared_settings::shared_settings;
