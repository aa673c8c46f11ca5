//! One message as Lambda delivers it: envelope, body, metadata, and how its key is taken.

mod body;
mod key_extractor;
mod message;

pub(crate) use body::{BodyError, decode_json};
pub use key_extractor::{KeyExtractor, MessageAttribute, MessageGroup};
pub use message::Message;
