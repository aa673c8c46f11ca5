//! Idempotency without SQS: one key, one piece of work. [`Idempotency`](crate::Idempotency) is the start.

pub(crate) mod builder;
mod error;
mod invocation;
mod keyed_work;
mod outcome;

pub use error::RunError;
pub use invocation::{Invocation, Once};
pub use outcome::WorkOutcome;
