//! One message as Lambda delivers it: envelope, body, metadata, and how its key is taken.

mod correlation;
mod decode;
mod envelope;
#[cfg(feature = "jmespath")]
mod jmes_path;
mod json_pointer;
mod key_extractor;
mod message;
mod packed;
mod raw;

pub(crate) use correlation::Correlate;
pub use correlation::CorrelationId;
pub use decode::{Bytes, Decode, DecodeError, Json, Text};
pub use envelope::{
    Auto, Envelope, EnvelopeError, EventBridge, EventBridgeId, EventBridgeMeta, Opened, S3,
    S3EventId, S3Object, Sns, SnsMessageId, SnsMeta,
};
#[cfg(feature = "jmespath")]
pub use jmes_path::JmesPath;
pub use json_pointer::JsonPointer;
pub use key_extractor::{
    KeyExtractor, MessageAttribute, MessageGroup, MessageId, ProducerKey, SystemAttribute,
};
pub use message::Message;
pub(crate) use raw::RawRecord;
