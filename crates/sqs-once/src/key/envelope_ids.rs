//! Keys from the metadata of envelopes.

use crate::record::{EventBridgeMeta, Message, S3Object, SnsMeta};

use super::{BusinessKey, KeyError, KeyExtractor};

/// The key is the id of an EventBridge event: for producers that never send an event twice.
///
/// **An event that the producer sends again has a new id**: its effect happens a second time. Take the id
/// in the event's `detail` wherever there is one.
#[derive(Clone, Copy, Debug)]
pub struct EventBridgeId;

impl<T> KeyExtractor<T> for EventBridgeId {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let event = message.metadata::<EventBridgeMeta>();
        BusinessKey::new(&event.and_then(|event| event.id.as_deref()))
    }
}

/// The key is what names an event of S3: bucket, object key, event name and sequencer, which copies of one
/// notification share and two events never do.
///
/// Events without a sequencer have no such key: all but those that create or delete objects.
#[derive(Clone, Copy, Debug)]
pub struct S3EventId;

impl<T> KeyExtractor<T> for S3EventId {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let object = message.metadata::<S3Object>().ok_or(KeyError::Missing)?;
        let S3Object {
            bucket,
            key,
            event_name,
            sequencer,
            ..
        } = object;
        BusinessKey::new(&(bucket, key, event_name, sequencer))
    }
}

/// The key is the id of an SNS publication: for publishers that never publish an event twice.
///
/// **An event that is published again has a new id**: its effect happens a second time. Take the id of
/// the event itself if it has one. With raw delivery the message has no such id, and the key is missing.
#[derive(Clone, Copy, Debug)]
pub struct SnsMessageId;

impl<T> KeyExtractor<T> for SnsMessageId {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let sns = message.metadata::<SnsMeta>();
        BusinessKey::new(&sns.and_then(|sns| sns.message_id.as_deref()))
    }
}
