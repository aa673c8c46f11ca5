//! Schedules the records of one batch, and answers with their results.

mod answer;
mod batcher;
mod call;
mod claims;
mod ending;
mod engine;
mod error_rules;
mod gate;
mod handling;
mod held;
mod hooks;
mod leaders;
mod ledger;
mod line;
mod order;
mod prepare;
mod record;
mod room;
mod run;
mod settlements;
mod stop;
mod together;
mod unknown_outcome;
mod visibility_warning;
pub(crate) mod watchdog;

pub(crate) use answer::answer;
pub(crate) use engine::Requests;
pub(crate) use engine::{Engine, Route};
pub use engine::{MissingKey, PayloadMismatch};
pub(crate) use error_rules::ErrorRules;
pub use hooks::RecordEnd;
pub(crate) use hooks::{Hook, Hooks, hook};
pub use unknown_outcome::{EarlierAttempt, Reconciled, UnknownOutcome};
