//! Bodies of messages: decoders, and the envelopes around the payload.

pub use crate::handler::decode::AsyncDecode;
#[cfg(feature = "s3")]
pub use crate::large_messages::LargeMessages;
pub use crate::record::{
    Auto, Bytes, Decode, DecodeError, Envelope, EnvelopeError, EventBridge, Json, Opened, S3, Sns,
    Text,
};
