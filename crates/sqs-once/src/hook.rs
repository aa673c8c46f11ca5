//! Hooks: functions that the consumer calls when a record has ended.

pub use crate::batch::{EarlierAttempt, InvalidCompletion, Reconciled, RecordEnd};
