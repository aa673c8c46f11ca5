//! Keys from the metadata of envelopes.

use crate::record::{EventBridgeMeta, Message, Needed, S3Object, SnsMeta};

use super::{BusinessKey, KeyError, KeyExtractor};

/// An extractor that uses the id of an EventBridge event as the key, for producers that never send an event twice.
///
/// **An event that the producer sends again has a new id**, and its effect happens a second time. Use the id in the
/// event's `detail` if it has one.
#[derive(Clone, Copy, Debug)]
pub struct EventBridgeId;

impl<T> KeyExtractor<T> for EventBridgeId {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let event = message.metadata::<EventBridgeMeta>();
        BusinessKey::new(&event.and_then(|event| event.id.as_deref()))
    }

    fn needs(&self) -> Vec<Needed> {
        vec![Needed::new::<EventBridgeMeta>(
            "EventBridgeId",
            "EventBridge",
        )]
    }
}

/// An extractor that uses the identity of an S3 event as the key: bucket, object key, event name and sequencer. Copies
/// of one notification share it, but two events never do.
///
/// Events without a sequencer have no key. Only events that create or delete objects have a sequencer.
#[derive(Clone, Copy, Debug)]
pub struct S3EventId;

impl<T> KeyExtractor<T> for S3EventId {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let event = message.metadata::<S3Object>().ok_or(KeyError::Missing)?;
        BusinessKey::new(&(
            &event.bucket,
            &event.key,
            &event.event_name,
            &event.sequencer,
        ))
    }

    fn needs(&self) -> Vec<Needed> {
        vec![Needed::new::<S3Object>("S3EventId", "S3")]
    }
}

/// An extractor that uses the id of an SNS publication as the key, for publishers that never publish an event twice.
///
/// **An event that is published again has a new id**, and its effect happens a second time. Use the id of the event
/// itself if it has one. With raw delivery the message has no publication id, and the key is missing.
#[derive(Clone, Copy, Debug)]
pub struct SnsMessageId;

impl<T> KeyExtractor<T> for SnsMessageId {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let sns = message.metadata::<SnsMeta>();
        BusinessKey::new(&sns.and_then(|sns| sns.message_id.as_deref()))
    }

    fn needs(&self) -> Vec<Needed> {
        vec![Needed::new::<SnsMeta>("SnsMessageId", "Sns")]
    }
}
