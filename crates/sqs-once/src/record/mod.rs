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
    Auto, Envelope, EventBridge, EventBridgeMeta, EventBus, EventBusMeta, Opened, S3, S3Object,
    Sns, SnsMeta,
};
pub use json::Json;
pub use message::Message;
pub(crate) use raw::{NoBody, RawRecord};

/// The attribute of a message that starts another execution: how often it did. `cargo sqs-once dlq redrive --restart` sets
/// it, and it stays with the message.
#[cfg(any(
    feature = "durable-functions",
    feature = "step-functions",
    feature = "unstable"
))]
#[cfg_attr(
    not(feature = "unstable"),
    allow(unreachable_pub, reason = "the tools reach it through `unstable`")
)]
pub const RESTARTS: &str = "execution-restarts";
