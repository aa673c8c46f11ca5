//! What the library hands to your functions: a handler's arguments after its payload, the arguments of layers and hooks,
//! and the traits to write your own extractors.

pub use crate::batch::{EarlierAttempt, RecordEnd};
pub use crate::handler::batch_handler::{BatchParts, FromBatch};
pub use crate::handler::extract::{Attempt, FromRecord, RecordParts, Remaining};
pub use lambda_runtime::Context;

pub use crate::record::{CorrelationId, EventBridgeMeta, EventBusMeta, Message, S3Object, SnsMeta};
