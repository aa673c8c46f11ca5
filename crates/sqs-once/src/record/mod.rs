//! The messages that Lambda delivers: envelopes, bodies and metadata.

mod body_memory;
mod correlation;
mod decode;
mod envelope;
mod json;
mod message;
mod raw;

pub(crate) use body_memory::{BodyMemory, HeldMemory, Reserved};
pub use correlation::CorrelationId;
pub(crate) use correlation::{Correlate, trace_part};
pub use decode::{Base64, Decode, DecodeError, Gzip, Text};
pub(crate) use envelope::Needed;
pub use envelope::{
    Auto, Envelope, EventBridge, EventBridgeMeta, Opened, S3, S3Object, Sns, SnsMeta,
};
pub use json::Json;
pub use message::Message;
pub(crate) use raw::{NoBody, RawRecord};
