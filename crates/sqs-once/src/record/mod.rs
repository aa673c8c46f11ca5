//! One message as Lambda delivers it: its envelope, body and metadata.

mod correlation;
mod decode;
mod envelope;
mod message;
mod packed;
mod raw;

pub(crate) use correlation::Correlate;
pub use correlation::CorrelationId;
pub use decode::{Bytes, Decode, DecodeError, Json, Text};
pub use envelope::{
    Auto, Envelope, EnvelopeError, EventBridge, EventBridgeMeta, Opened, S3, S3Object, Sns, SnsMeta,
};
pub use message::Message;
pub(crate) use raw::RawRecord;
