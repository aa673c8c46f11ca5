//! One message as Lambda delivers it: envelope, body, metadata, and how its key is taken.

mod body;
mod json_pointer;
mod key_extractor;
mod message;

pub(crate) use body::{BodyError, decode_json};
pub use json_pointer::JsonPointer;
pub use key_extractor::{KeyExtractor, MessageAttribute, MessageGroup, MessageId, SystemAttribute};
pub use message::Message;
