//! S3's event notifications.

use percent_encoding::percent_decode_str;

use crate::record::Message;

use super::fields::Fields;
use super::{Envelope, EnvelopeError, Opened};

/// A notification of S3. The payload is its one record; the object it is about is [`S3Object`].
///
/// The `s3:TestEvent` that S3 sends when notifications are set up is acknowledged as
/// [`Outcome::Ignored`](crate::telemetry::Outcome::Ignored). A notification of several records, which S3 may send
/// though it does not, is terminal: read it whole, without this envelope.
///
/// S3 may deliver a notification more than once. [`S3EventId`](crate::key::S3EventId) is the key that recognises it:
///
/// ```
/// use serde::de::IgnoredAny;
/// use sqs_once::body::S3;
/// use sqs_once::extract::S3Object;
/// use sqs_once::key::S3EventId;
///
/// let consumer = sqs_once::consumer::<IgnoredAny>()
///     .envelope(S3)
///     .key(S3EventId)
///     .handler(async |_record: IgnoredAny, object: S3Object| {
///         let _place = (&object.bucket, &object.key);
///     });
/// ```
///
/// Events of S3 that come by EventBridge are in [`EventBridge`](super::EventBridge)'s envelope instead.
#[derive(Clone, Copy, Debug)]
pub struct S3;

/// The object that a notification of S3 is about: a handler takes it as an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct S3Object {
    /// The bucket.
    pub bucket: String,
    /// The object's key, as the object is called in S3: in the notification it is URL-encoded, with `+`
    /// for a space.
    pub key: String,
    /// The object's version, in buckets that keep versions.
    pub version_id: Option<String>,
    /// The object's entity tag.
    pub e_tag: Option<String>,
    /// What orders the events of one object key: a hexadecimal number, to be padded with zeros on the left
    /// before two of them are compared. Only events that create or delete objects have it.
    pub sequencer: Option<String>,
    /// What happened, such as `ObjectCreated:Put`.
    pub event_name: Option<String>,
    /// The object's size in bytes.
    pub size: Option<u64>,
}

impl Envelope for S3 {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, EnvelopeError> {
        match Fields::read(content) {
            Some(fields) => open(&fields),
            None => wrong("it is not a JSON object"),
        }
    }
}

const TEST_EVENT: &str = "s3:TestEvent";

/// Whether it has what every notification of S3 has, or is its test event.
pub(super) fn is_notification(fields: &Fields<'_>) -> bool {
    let records = fields.array("Records").unwrap_or_default();
    let first = records
        .first()
        .and_then(|record| Fields::read(record.get()));
    let is_record = |record: Fields<'_>| {
        record.text("eventSource").as_deref() == Some("aws:s3") && record.object("s3").is_some()
    };
    is_test_event(fields) || first.is_some_and(is_record)
}

/// Only an event of S3 may be acknowledged without a handler.
fn is_test_event(fields: &Fields<'_>) -> bool {
    fields.text("Event").as_deref() == Some(TEST_EVENT)
        && fields.text("Service").as_deref() == Some("Amazon S3")
        && fields.raw("Records").is_none()
}

pub(super) fn open(fields: &Fields<'_>) -> Result<Opened, EnvelopeError> {
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
            let problem = "records where there must be one: read the notification whole, without the envelope";
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

/// None if it is not UTF-8: replacement characters would make two keys equal.
fn decoded(key: &str) -> Option<String> {
    let key = key.replace('+', " ");
    let decoded = percent_decode_str(&key).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

fn wrong(problem: &str) -> Result<Opened, EnvelopeError> {
    Err(EnvelopeError::new("S3", problem))
}
