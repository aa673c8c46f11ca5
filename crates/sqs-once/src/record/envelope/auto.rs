//! Detection of envelopes.

use crate::record::Message;

use super::fields::Fields;
use super::{DecodeError, Envelope, Opened, event_bridge, event_bus, s3, sns};

/// An envelope that recognises [`Sns`](super::Sns), [`EventBridge`](super::EventBridge), [`EventBus`](super::EventBus) and
/// [`S3`](super::S3), nested up to four levels deep. Any other body is the payload itself.
///
/// Use it for queues that several services write to. If only one does, name its envelope instead: `Auto` also opens a
/// payload of yours that looks like an envelope, and may treat a broken envelope as a payload.
///
/// ```
/// let handler = sqs_once::Handler::json::<serde_json::Value>()
///     .key(sqs_once::key::MessageKey::json_pointer("/order/id"))
///     .call(async |order: serde_json::Value| {})
///     .envelope(sqs_once::body::Auto);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Auto;

const DEPTH: usize = 4;

impl Envelope for Auto {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
        let mut opened = Opened::untouched();
        for _ in 0..DEPTH {
            let Some(inner) = open(opened.content.as_deref().unwrap_or(content)) else {
                break;
            };
            opened = inner?.inside(opened);
            if opened.ignored.is_some() {
                break;
            }
        }
        Ok(opened)
    }
}

/// Opens the outermost envelope. `None` if there is none.
fn open(content: &str) -> Option<Result<Opened, DecodeError>> {
    let fields = Fields::read(content)?;
    if sns::is_sns(&fields) {
        Some(sns::open(&fields))
    } else if event_bridge::is_event(&fields) {
        Some(event_bridge::open(&fields))
    } else if event_bus::is_event(&fields) {
        Some(event_bus::open(&fields))
    } else if s3::is_notification(&fields) {
        Some(s3::open(&fields))
    } else {
        None
    }
}
