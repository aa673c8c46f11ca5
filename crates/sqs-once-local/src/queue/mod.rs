//! SQS on one machine: queues with visibility, redrive and message groups, and Lambda's poller.

mod endpoint;
mod error;
mod mapping;
mod message;
mod one;
mod queues;
mod source;

pub use endpoint::LocalSqs;
pub use error::QueueError;
pub(crate) use mapping::event;
pub use mapping::{Batch, EventSourceMapping, Settled};
pub use message::{NewMessage, Received};
pub use queues::{QueueSettings, Queues, Redrive};
pub use source::{LocalQueue, Source};
