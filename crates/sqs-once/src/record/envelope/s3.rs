//! Event notifications of S3.

use std::any::TypeId;

use percent_encoding::percent_decode_str;

use crate::record::Message;

use super::fields::Fields;
use super::{DecodeError, Envelope, Opened};

/// The envelope of an S3 notification. The payload is its only record. [`S3Object`] has the object that it is about.
///
/// S3 sends an `s3:TestEvent` when notifications are set up; the consumer acknowledges it as
/// [`Outcome::Ignored`](crate::telemetry::Outcome::Ignored). A notification with several records is terminal. The
/// format allows several, but S3 sends only one. To handle several, read the whole notification without this envelope.
///
/// S3 may deliver a notification more than once. Use the key
/// [`MessageKey::s3_event`](crate::key::MessageKey::s3_event) to recognise duplicates:
///
/// ```
/// use serde::de::IgnoredAny;
/// use sqs_once::body::S3;
/// use sqs_once::extract::S3Object;
/// use sqs_once::key::MessageKey;
///
/// let handler = sqs_once::Handler::json::<IgnoredAny>()
///     .key(MessageKey::s3_event())
///     .call(async |_record: IgnoredAny, object: S3Object| {
///         let _place = (&object.bucket, &object.key);
///     })
///     .envelope(S3);
/// ```
///
/// For S3 events that come through EventBridge, use [`EventBridge`](super::EventBridge) instead.
#[derive(Clone, Copy, Debug)]
pub struct S3;

/// The object that an S3 notification is about, as an argument of a handler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct S3Object {
    /// The bucket.
    pub bucket: String,
    /// The object's key as in S3. The notification contains it URL-encoded, with `+` for a space.
    pub key: String,
    /// The object's version, in versioned buckets.
    pub version_id: Option<String>,
    /// The object's entity tag.
    pub e_tag: Option<String>,
    /// A hexadecimal number that orders the events of one object key. Pad it with zeros on the left before you compare
    /// two of them. Only events that create or delete objects have a sequencer.
    pub sequencer: Option<String>,
    /// The name of the event, such as `ObjectCreated:Put`.
    pub event_name: Option<String>,
    /// The object's size in bytes.
    pub size: Option<u64>,
}

impl Envelope for S3 {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
        match Fields::read(content) {
            Some(fields) => open(&fields),
            None => wrong("it is not a JSON object"),
        }
    }

    fn metadata(&self) -> Option<Vec<TypeId>> {
        Some(vec![TypeId::of::<S3Object>()])
    }
}

const TEST_EVENT: &str = "s3:TestEvent";

/// Returns whether it has the fields that every S3 notification has, or is the test event.
pub(super) fn is_notification(fields: &Fields<'_>) -> bool {
    let records = fields.array("Records").unwrap_or_default();
    let first = records.first();
    let first = first.and_then(|record| Fields::read(record.get()));
    let is_record = |record: Fields<'_>| {
        record.text("eventSource").as_deref() == Some("aws:s3") && record.object("s3").is_some()
    };
    is_test_event(fields) || first.is_some_and(is_record)
}

/// Returns whether it is the test event. The check is strict, because the event is acknowledged without a handler.
fn is_test_event(fields: &Fields<'_>) -> bool {
    fields.text("Event").as_deref() == Some(TEST_EVENT)
        && fields.text("Service").as_deref() == Some("Amazon S3")
        && fields.raw("Records").is_none()
}

pub(super) fn open(fields: &Fields<'_>) -> Result<Opened, DecodeError> {
    if is_test_event(fields) {
        return Ok(Opened::ignored(
            "an s3:TestEvent, which S3 sends when notifications are set up",
        ));
    }
    let Some(records) = fields.array("Records") else {
        return wrong("`Records` is missing or is not a list");
    };
    let record = match records.as_slice() {
        [record] => record.get(),
        records => {
            let problem =
                "records instead of one: read the whole notification without the envelope";
            return wrong(&format!("it has {} {problem}", records.len()));
        }
    };
    let Some(fields) = Fields::read(record) else {
        return wrong("its record is not a JSON object");
    };
    let s3 = fields.object("s3");
    let inside = |name: &str| s3.as_ref()?.object(name);
    let Some(bucket) = inside("bucket").and_then(|bucket| bucket.text("name")) else {
        return wrong("`s3.bucket.name` is missing or is not text");
    };
    let Some(object) = inside("object") else {
        return wrong("`s3.object` is missing");
    };
    let Some(key) = object.text("key").and_then(|key| decoded(&key)) else {
        return wrong("`s3.object.key` is missing or is not URL-encoded text");
    };
    let object = S3Object {
        bucket,
        key,
        version_id: object.text("versionId"),
        e_tag: object.text("eTag"),
        sequencer: object.text("sequencer"),
        event_name: fields.text("eventName"),
        size: object.raw("size").and_then(|size| size.parse().ok()),
    };
    Ok(Opened::new(record).with_metadata(object))
}

/// Decodes an object key. `None` if it is not UTF-8, because replacement characters could make two keys equal.
fn decoded(key: &str) -> Option<String> {
    let key = key.replace('+', " ");
    let decoded = percent_decode_str(&key).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

fn wrong(problem: &str) -> Result<Opened, DecodeError> {
    Err(DecodeError::envelope("S3", problem))
}
