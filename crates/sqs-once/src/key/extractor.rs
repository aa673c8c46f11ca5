//! How a record's business key is taken from its payload or its metadata.

use crate::error::ConfigError;
use crate::record::Message;

use super::{BusinessKey, KeyError, KeyPart};

/// Takes the business key from a record.
///
/// | extractor | the key is |
/// |---|---|
/// | a function of the payload | what it returns: anything that is a [`KeyPart`](crate::key::KeyPart) |
/// | [`MessageAttribute`] | a message attribute that the producer set |
/// | [`ProducerKey`] | the key that the producer wrote beside the body, with `Outgoing` (feature `sqs`) |
/// | [`SystemAttribute`] | an attribute that SQS set, such as `MessageDeduplicationId` |
/// | [`MessageGroup`] | the message group |
/// | [`JsonPointer`](crate::key::JsonPointer) | a place in the body's JSON, whatever the payload type |
/// | `JmesPath` (feature `jmespath`) | what a JMESPath expression finds in the body's JSON |
/// | [`S3EventId`](crate::key::S3EventId) | what names an event of S3: bucket, object key, event name and sequencer |
/// | [`EventBridgeId`](crate::key::EventBridgeId), [`SnsMessageId`](crate::key::SnsMessageId) | the id in the envelope, which an event that is sent again does not keep |
/// | [`MessageId`] | the message id, which is rarely the right one |
/// | a tuple of two to six extractors | all of theirs together |
///
/// An error, or a panic, makes that record terminal: it is never processed under another key. What
/// happens to a record without a key is set by [`Consumer::missing_key`](crate::Consumer::missing_key).
///
/// ```
/// use sqs_once::key::{JsonPointer, MessageAttribute};
///
/// let consumer = sqs_once::consumer::<serde_json::Value>()
///     .key((MessageAttribute::new("tenant"), JsonPointer::new("/order/id")))
///     .handler(async |_order: serde_json::Value| {});
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not extract a business key from `{T}`",
    label = "not a key extractor for this payload",
    note = "use a function of the payload, such as `|order: &OrderPlaced| order.order_id.clone()`",
    note = "the function must return a key: text, an integer, or a tuple of these; floats can't be keys"
)]
pub trait KeyExtractor<T>: Send + Sync + 'static {
    /// The key of the record whose payload and message are given.
    ///
    /// # Errors
    /// [`KeyError`] if the record has no usable key.
    fn key(&self, payload: &T, message: &Message) -> Result<BusinessKey, KeyError>;

    /// Checks the extractor's own settings. [`Consumer::init`](crate::Consumer::init) calls it and returns its error, so
    /// that the function does not start. Default: accepts them.
    ///
    /// # Errors
    /// [`ConfigError`] when the extractor can find no key, whatever the message.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
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

/// The key is a message attribute that the producer set.
///
/// ```
/// use sqs_once::key::MessageAttribute;
/// # #[derive(serde::Deserialize)] struct OrderPlaced {}
///
/// let consumer = sqs_once::consumer::<OrderPlaced>()
///     .key(MessageAttribute::new("order-id"))
///     .handler(async |_order: OrderPlaced| {});
/// ```
#[derive(Clone, Debug)]
pub struct MessageAttribute {
    name: String,
}

impl MessageAttribute {
    /// The attribute called `name`, by its text.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl<T> KeyExtractor<T> for MessageAttribute {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(&message.attribute(&self.name))
    }
}

/// The key is the one that the producer wrote beside the body: by `Outgoing`, of the feature `sqs`, or in the same form.
///
/// It is in the message attribute `business-key`, with its parts separated by `,`: `s:` and
/// text, `i:` and an integer, `b:` and `true` or `false`, or `x:` and bytes in lower-case hexadecimal digits. Of text,
/// whatever is not a visible character of ASCII is escaped, and so are `%` and `,`: as `%` and two upper-case
/// hexadecimal digits a byte. So `("tenant-7", 42)` is `s:tenant-7,i:42`. Anything else makes its record terminal.
///
/// ```
/// use sqs_once::key::ProducerKey;
/// # #[derive(serde::Deserialize)] struct OrderPlaced {}
///
/// let consumer = sqs_once::consumer::<OrderPlaced>()
///     .key(ProducerKey)
///     .handler(async |_order: OrderPlaced| {});
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProducerKey;

impl ProducerKey {
    pub(crate) const ATTRIBUTE: &str = "business-key";
}

impl<T> KeyExtractor<T> for ProducerKey {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let text = message.attribute(Self::ATTRIBUTE);
        BusinessKey::from_readable(text.ok_or(KeyError::Missing)?)
    }
}

/// The key is a system attribute, which SQS set, such as `MessageDeduplicationId`.
///
/// Choose one that names the event. `MessageDeduplicationId` does where the producer sets it, or the
/// queue makes it of the body; SQS itself forgets it after five minutes. `SequenceNumber` names a message:
/// a message that is sent again has another one. `SenderId` names the sender, so all messages of one sender would be
/// duplicates. Attributes with times or counts of deliveries change with every delivery, so no message would be a
/// duplicate.
#[derive(Clone, Debug)]
pub struct SystemAttribute {
    name: String,
}

impl SystemAttribute {
    /// The attribute called `name`, as SQS spells it.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl<T> KeyExtractor<T> for SystemAttribute {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(&message.system_attribute(&self.name))
    }
}

/// The key is the message group: for queues where a group holds one event.
#[derive(Clone, Copy, Debug)]
pub struct MessageGroup;

impl<T> KeyExtractor<T> for MessageGroup {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(&message.group_id())
    }
}

/// The key is the message id: only for messages that name no event.
///
/// **It recognises repeated deliveries of one message, and nothing else.** A message that the
/// producer sends again, or that is redriven from a dead-letter queue, has a new id: its effect
/// happens a second time. Take the id of the event itself wherever there is one.
#[derive(Clone, Copy, Debug)]
pub struct MessageId;

impl<T> KeyExtractor<T> for MessageId {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(message.id())
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        /// A key of several parts: the record needs every one of them.
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
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }
