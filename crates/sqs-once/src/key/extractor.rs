//! Extractors, which take a record's business key from its payload or metadata.

use crate::error::ConfigError;
use crate::record::{Message, Needed};

use super::{BusinessKey, KeyError, KeyPart};

/// Extracts the business key from a record.
///
/// | extractor | the key is |
/// |---|---|
/// | a function of the payload | its result, any [`KeyPart`](crate::key::KeyPart) |
/// | [`MessageAttribute`] | a message attribute that the producer set |
/// | [`ProducerKey`] | the key that the producer sent with the message, with `Outgoing` (feature `sqs`) |
/// | [`SystemAttribute`] | an attribute that SQS set, such as `MessageDeduplicationId` |
/// | [`MessageGroup`] | the message group |
/// | [`JsonPointer`](crate::key::JsonPointer) | a value in the body's JSON, for any payload type |
/// | `JmesPath` (feature `jmespath`) | the result of a JMESPath expression over the body's JSON |
/// | [`S3EventId`](crate::key::S3EventId) | the identity of an S3 event: bucket, object key, event name and sequencer |
/// | [`EventBridgeId`](crate::key::EventBridgeId), [`SnsMessageId`](crate::key::SnsMessageId) | the id in the envelope; an event that is sent again has a new one |
/// | [`MessageId`] | the message id, which is rarely the right choice |
/// | a tuple of two to six extractors | the keys of all of them together |
///
/// An error or a panic makes the record terminal; it is never processed under another key.
/// [`Handler::missing_key`](crate::Handler::missing_key) chooses what happens to a record without a key.
///
/// ```
/// use sqs_once::key::{JsonPointer, MessageAttribute};
///
/// let handler = sqs_once::Handler::json::<serde_json::Value>()
///     .key((MessageAttribute::new("tenant"), JsonPointer::new("/order/id")))
///     .call(async |_order: serde_json::Value| {});
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not extract a business key from `{T}`",
    label = "not a key extractor for this payload",
    note = "use a function of the payload, such as `|order: &OrderPlaced| order.order_id.clone()`",
    note = "the function must return a key: text, an integer, or a tuple of these; floats can't be keys"
)]
pub trait KeyExtractor<T>: Send + Sync + 'static {
    /// Returns the key of the record with this payload and message.
    ///
    /// # Errors
    /// [`KeyError`] if the record has no usable key.
    fn key(&self, payload: &T, message: &Message) -> Result<BusinessKey, KeyError>;

    /// Checks the extractor's settings. [`Consumer::init`](crate::Consumer::init) calls it and returns its error, so
    /// that the function does not start. Default: accepts them.
    ///
    /// # Errors
    /// [`ConfigError`] if the extractor can't find a key in any message.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// The metadata without which no message has a key.
    #[doc(hidden)]
    fn needs(&self) -> Vec<Needed> {
        Vec::new()
    }
}

impl<T, K, F> KeyExtractor<T> for F
where
    F: Fn(&T) -> K + Send + Sync + 'static,
    K: KeyPart,
{
    fn key(&self, payload: &T, _: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(&self(payload))
    }
}

/// An extractor that reads the key from a message attribute of the producer.
///
/// ```
/// use sqs_once::key::MessageAttribute;
/// # #[derive(serde::Deserialize)] struct OrderPlaced {}
///
/// let handler = sqs_once::Handler::json::<OrderPlaced>()
///     .key(MessageAttribute::new("order-id"))
///     .call(async |_order: OrderPlaced| {});
/// ```
#[derive(Clone, Debug)]
pub struct MessageAttribute {
    name: String,
}

impl MessageAttribute {
    /// Creates an extractor for the text of the attribute `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl<T> KeyExtractor<T> for MessageAttribute {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let value = message.attribute(&self.name);
        BusinessKey::new(value.ok_or_else(|| KeyError::no_attribute(&self.name))?)
    }
}

/// An extractor that reads the key from the message attribute in which the producer sent it, with `Outgoing` (feature
/// `sqs`) or in the same form.
///
/// The message attribute `business-key` contains the parts, separated by `,`. A part is `s:` and text, `i:` and an
/// integer, `b:` and `true` or `false`, or `x:` and bytes in lower-case hexadecimal digits. In text, every byte that is
/// not visible ASCII is escaped as `%` and two upper-case hexadecimal digits, and so are `%` and `,`. For example,
/// `("tenant-7", 42)` is `s:tenant-7,i:42`. Any other form makes the record terminal.
///
/// ```
/// use sqs_once::key::ProducerKey;
/// # #[derive(serde::Deserialize)] struct OrderPlaced {}
///
/// let handler = sqs_once::Handler::json::<OrderPlaced>()
///     .key(ProducerKey)
///     .call(async |_order: OrderPlaced| {});
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProducerKey;

impl ProducerKey {
    pub(crate) const ATTRIBUTE: &str = "business-key";
}

impl<T> KeyExtractor<T> for ProducerKey {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let text = message.attribute(Self::ATTRIBUTE);
        BusinessKey::from_readable(text.ok_or_else(|| KeyError::no_attribute(Self::ATTRIBUTE))?)
    }
}

/// An extractor that reads the key from a system attribute, which SQS sets, such as `MessageDeduplicationId`.
///
/// Choose an attribute that identifies the event. `MessageDeduplicationId` does, whether the producer sets it or the
/// queue derives it from the body; SQS itself forgets it after five minutes. `SequenceNumber` identifies a message: a
/// message that is sent again has another one. `SenderId` identifies the sender, so all messages of one sender would be
/// duplicates. Attributes with times or counts of deliveries change with every delivery, so no message would be a
/// duplicate.
#[derive(Clone, Debug)]
pub struct SystemAttribute {
    name: String,
}

impl SystemAttribute {
    /// Creates an extractor for the attribute `name`, as SQS spells it.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl<T> KeyExtractor<T> for SystemAttribute {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let value = message.system_attribute(&self.name);
        BusinessKey::new(value.ok_or_else(|| KeyError::no_attribute(&self.name))?)
    }
}

/// An extractor that uses the message group as the key, for queues where each group contains one event.
#[derive(Clone, Copy, Debug)]
pub struct MessageGroup;

impl<T> KeyExtractor<T> for MessageGroup {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let group = message.group_id();
        BusinessKey::new(group.ok_or_else(|| KeyError::no_attribute("MessageGroupId"))?)
    }
}

/// An extractor that uses the message id as the key. Use it only for messages that contain no id of an event.
///
/// **It recognises only repeated deliveries of one message.** A message that the producer sends again, or that is
/// redriven from a dead-letter queue, has a new id. Its effect happens a second time. Use the id of the event itself if
/// it has one.
#[derive(Clone, Copy, Debug)]
pub struct MessageId;

impl<T> KeyExtractor<T> for MessageId {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(message.id())
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        /// Combines the keys of all extractors. The record needs every one of them.
        impl<T, $($part: KeyExtractor<T>),*> KeyExtractor<T> for ($($part,)*) {
            fn key(&self, payload: &T, message: &Message) -> Result<BusinessKey, KeyError> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($part,)*) = self;
                BusinessKey::new(&($($part.key(payload, message)?,)*))
            }

            fn check(&self) -> Result<(), ConfigError> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($part,)*) = self;
                $($part.check()?;)*
                Ok(())
            }

            fn needs(&self) -> Vec<Needed> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($part,)*) = self;
                [$($part.needs()),*].concat()
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }
