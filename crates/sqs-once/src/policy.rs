//! Policies: values that choose what happens to a message.

pub use crate::batch::{MissingKey, PayloadMismatch, Reconciled, UnknownOutcome};
pub use crate::breaker::Dependency;
pub use crate::error::Disposition;
