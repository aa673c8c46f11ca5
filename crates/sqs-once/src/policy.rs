//! Policies: values that choose a consumer's behaviour.

pub use crate::batch::{
    FifoFailure, InProgress, MissingKey, PayloadMismatch, Requests, UnknownOutcome,
};
pub use crate::breaker::Dependency;
pub use crate::error::Disposition;
pub use crate::failed::{AfterDeadLetter, Backoff};
pub use crate::idempotency::{Cache, Mode};
pub use crate::router::{RouteBy, Unrouted};
