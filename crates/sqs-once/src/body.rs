//! Bodies of messages: decoders, and the envelopes around the payload.

pub use crate::handler::decode::{AsyncDecode, AtOnce, IntoDecoder, Waiting};
#[cfg(feature = "s3")]
pub use crate::large_messages::LargeMessages;
pub use crate::record::{
    Auto, Base64, Decode, DecodeError, Envelope, EventBridge, EventBus, Gzip, Json, Opened, S3,
    Sns, Text,
};
