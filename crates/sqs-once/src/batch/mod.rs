//! Schedules the records of one batch, and answers with their outcomes.

mod alarm;
mod answer;
mod claiming;
mod earlier;
mod engine;
mod gate;
mod handling;
mod hooks;
mod lanes;
mod ledger;
mod limited;
mod moving;
#[cfg(debug_assertions)]
mod path;
mod run;
mod settling;
mod visibility_warning;

pub(crate) use answer::answer;
pub use earlier::{EarlierAttempt, Reconciled};
pub(crate) use earlier::{TokenValidity, reconcile};
pub(crate) use engine::{Engine, Route, Traits};
pub use engine::{FifoFailure, InProgress, MissingKey, PayloadMismatch, Requests};
pub(crate) use hooks::{Hooks, hook};
pub use hooks::{InvalidRecord, RecordEnd};
