//! One batch: which record runs when, and what each came to.

mod answer;
mod claiming;
mod eager;
mod engine;
mod handling;
mod hooking;
mod hooks;
mod lanes;
mod ledger;
mod moving;
mod record_line;
mod run;
mod settling;
mod visibility_warning;

pub(crate) use answer::run;
pub(crate) use engine::Engine;
pub use engine::{FifoFailure, InProgress, MissingKey, PayloadMismatch, Requests};
pub(crate) use hooks::{Hooks, hook};
pub use hooks::{InvalidRecord, RecordEnd};
