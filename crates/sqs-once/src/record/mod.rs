//! One message as Lambda delivers it: envelope, body, metadata, and how its key is taken.

mod decode;
mod json_pointer;
mod key_extractor;
mod message;

pub use decode::{Bytes, Decode, DecodeError, Json, Text};
pub use json_pointer::JsonPointer;
pub use key_extractor::{KeyExtractor, MessageAttribute, MessageGroup, MessageId, SystemAttribute};
pub use message::Message;
