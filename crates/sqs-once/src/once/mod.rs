//! Idempotency without SQS: one key, one piece of work.

mod builder;
mod error;
mod invocation;
mod keyed_work;
mod outcome;

pub use builder::Idempotency;
pub use error::RunError;
pub use invocation::{Invocation, Once};
pub use outcome::WorkOutcome;
