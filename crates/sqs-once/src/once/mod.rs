//! Idempotency without SQS: one key, one piece of work.

mod attempt;
mod builder;
mod error;
mod invocation;

pub use builder::Idempotency;
pub use error::RunError;
pub use invocation::{Invocation, Once};
