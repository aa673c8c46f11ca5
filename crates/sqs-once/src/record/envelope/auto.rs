//! Whatever envelope there is.

use crate::record::Message;

use super::fields::Fields;
use super::{Envelope, EnvelopeError, Opened, event_bridge, s3, sns};

/// Opens whichever of [`Sns`](super::Sns), [`EventBridge`](super::EventBridge) and [`S3`](super::S3) it
/// recognises, one in another up to four deep. Anything else is the payload itself.
///
/// For queues that several services write to. Where there is one, name it instead: a payload of your own
/// that looks like an envelope is opened here as well, and a broken envelope may pass for a payload.
///
/// ```
/// let consumer = sqs_once::consumer::<serde_json::Value>()
///     .envelope(sqs_once::body::Auto)
///     .key(sqs_once::key::JsonPointer::new("/order/id"))
///     .handler(async |order: serde_json::Value| {});
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Auto;

const DEPTH: usize = 4;

impl Envelope for Auto {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, EnvelopeError> {
        let mut opened = Opened::untouched();
        for _ in 0..DEPTH {
            let Some(inner) = open(opened.content().unwrap_or(content)) else {
                break;
            };
            opened = inner?.inside(opened);
            if opened.ignored_because().is_some() {
                break;
            }
        }
        Ok(opened)
    }
}

/// None if it is not an envelope.
fn open(content: &str) -> Option<Result<Opened, EnvelopeError>> {
    let fields = Fields::read(content)?;
    if sns::is_sns(&fields) {
        Some(sns::open(&fields))
    } else if event_bridge::is_event(&fields) {
        Some(event_bridge::open(&fields))
    } else if s3::is_notification(&fields) {
        Some(s3::open(&fields))
    } else {
        None
    }
}
