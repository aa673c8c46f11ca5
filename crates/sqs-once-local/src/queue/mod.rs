//! SQS on one machine: queues with visibility timeouts, redrive and message groups, and Lambda's event source mapping.

mod api;
mod endpoint;
mod error;
mod mapping;
mod one;
mod queues;
mod settings;
mod source;

pub(crate) use api::send::message;
pub use endpoint::LocalSqs;
pub use error::QueueError;
pub(crate) use mapping::event;
pub use mapping::{Batch, EventSourceMapping, Settled};
pub use queues::Queues;
pub use settings::{Counts, QueueSettings, Redrive};
pub use source::{LocalQueue, Source};
