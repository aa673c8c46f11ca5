//! One batch: which record runs when, and what each came to.

mod answer;
mod deadline;
mod engine;
mod lanes;
mod ledger;
mod run;
mod settling;

pub(crate) use answer::run;
pub(crate) use deadline::Deadline;
pub(crate) use engine::Engine;
pub use engine::{MissingKey, PayloadMismatch};
pub use ledger::Outcome;
pub(crate) use ledger::Report;
