//! Extractors: the arguments of a handler after its payload, and the traits to write your own.

pub use crate::handler::batch_handler::{BatchParts, FromBatch};
pub use crate::handler::extract::{Attempt, FromRecord, RecordParts, Remaining};
pub use lambda_runtime::Context;

pub use crate::record::{CorrelationId, EventBridgeMeta, Message, S3Object, SnsMeta};
