//! Bodies of messages: decoders, and the envelopes around the payload.

pub use crate::handler::decode::{AsyncDecode, AtOnce, Decoder, IntoDecoder, Waiting};
pub use crate::record::{
    Auto, Bytes, Decode, DecodeError, Envelope, EnvelopeError, EventBridge, Json, Opened, S3, Sns,
    Text,
};
