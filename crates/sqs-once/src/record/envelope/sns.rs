//! The envelope of SNS, for queues that subscribe to a topic without raw message delivery.

use std::any::TypeId;

use crate::record::Message;

use super::fields::Fields;
use super::{DecodeError, Envelope, Opened};

/// The envelope that SNS puts around a published message. The payload is the message.
///
/// [`Message::attribute`] and [`MessageKey::attribute`](crate::key::MessageKey::attribute) keys read the envelope's message
/// attributes as if SQS had delivered them. [`SnsMeta`] has the other fields. A message whose own attribute differs
/// from the envelope's is terminal.
///
/// **An envelope proves nothing.** Anyone who may send to the queue can write an envelope with any topic and any
/// attributes.
///
/// A body that is not an SNS envelope is the payload itself, as with *raw message delivery*. The attributes are then
/// the message's own, and there is no metadata. A subscription can therefore switch to raw delivery while messages of
/// both kinds are in flight.
///
/// Messages that confirm a subscription or its end are terminal.
///
/// ```
/// use sqs_once::body::Sns;
/// use sqs_once::extract::SnsMeta;
/// use sqs_once::key::MessageKey;
///
/// let handler = sqs_once::Handler::json::<serde_json::Value>()
///     .key(MessageKey::attribute("order-id"))
///     .call(async |order: serde_json::Value, sns: Option<SnsMeta>| {})
///     .envelope(Sns);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sns;

/// The fields of an SNS envelope, as an argument of a handler. Take an `Option` if messages may come by raw delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnsMeta {
    /// The topic.
    pub topic_arn: String,
    /// The id of the publication. It is the same for every subscriber and delivery attempt, but an event that is
    /// published again has another one.
    pub message_id: Option<String>,
    /// The subject, if the producer set one.
    pub subject: Option<String>,
    /// When it was published, as SNS writes it: `2026-01-01T00:00:00.000Z`.
    pub timestamp: Option<String>,
}

impl Envelope for Sns {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
        match Fields::read(content).filter(is_sns) {
            Some(fields) => open(&fields),
            None => Ok(Opened::untouched()),
        }
    }

    fn metadata(&self) -> Option<Vec<TypeId>> {
        Some(vec![TypeId::of::<SnsMeta>()])
    }
}

const NOTIFICATION: &str = "Notification";
const SUBSCRIBED: &str = "SubscriptionConfirmation";
const UNSUBSCRIBED: &str = "UnsubscribeConfirmation";

/// Returns whether the object is an SNS envelope. A payload may have a field `Type` too, but hardly also the ARN of a
/// topic.
pub(super) fn is_sns(fields: &Fields<'_>) -> bool {
    let is_topic = |arn: String| arn.starts_with("arn:");
    let kind = fields.text("Type").unwrap_or_default();
    [NOTIFICATION, SUBSCRIBED, UNSUBSCRIBED].contains(&kind.as_str())
        && fields.text("TopicArn").is_some_and(is_topic)
}

pub(super) fn open(fields: &Fields<'_>) -> Result<Opened, DecodeError> {
    let wrong = |problem: &str| Err(DecodeError::envelope("SNS", problem));
    let message = match (fields.text("Type").as_deref(), fields.text("Message")) {
        (Some(SUBSCRIBED), _) => {
            return wrong(
                "it is a SubscriptionConfirmation, which contains no event: confirm it with its SubscribeURL",
            );
        }
        (Some(UNSUBSCRIBED), _) => {
            return wrong(
                "it is an UnsubscribeConfirmation, which contains no event: the queue's subscription has ended",
            );
        }
        (_, Some(message)) => message,
        (_, None) => return wrong("`Message` is missing or is not text"),
    };
    let meta = SnsMeta {
        topic_arn: fields.text("TopicArn").unwrap_or_default(),
        message_id: fields.text("MessageId"),
        subject: fields.text("Subject"),
        timestamp: fields.text("Timestamp"),
    };
    let mut opened = Opened::new(message).with_metadata(meta);
    if let Some(attributes) = fields.object("MessageAttributes") {
        for name in attributes.names() {
            let Some(attribute) = attributes.object(name) else {
                continue;
            };
            // Binary attributes are omitted: in SQS they have no text either.
            let is_text = attribute
                .text("Type")
                .is_some_and(|kind| !kind.starts_with("Binary"));
            if let (true, Some(value)) = (is_text, attribute.text("Value")) {
                opened = opened.with_attribute(name, value);
            }
        }
    }
    Ok(opened)
}
