//! Policies: values that choose a consumer's behaviour.

pub use crate::batch::{FifoFailure, InProgress, MissingKey, PayloadMismatch, Requests};
pub use crate::disposition::AfterDeadLetter;
#[cfg(feature = "sqs")]
pub use crate::disposition::Backoff;
pub use crate::error::Disposition;
pub use crate::idempotency::{Cache, Mode};
