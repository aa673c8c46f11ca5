//! Hooks: functions that the consumer calls when a record ended.

pub use crate::batch::{InvalidRecord, RecordEnd};
