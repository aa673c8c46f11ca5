//! Policies: values that choose what a handler or a consumer does.

pub use crate::batch::{
    EarlierAttempt, Fifo, MissingKey, PayloadMismatch, Reconciled, RecordEnd, UnknownOutcome,
};
pub use crate::breaker::Dependency;
pub use crate::error::Disposition;
#[cfg(feature = "sqs")]
pub use crate::failed::Queue;
pub use crate::idempotency::{Cache, Margins};
pub use crate::router::{RouteBy, Unrouted};
