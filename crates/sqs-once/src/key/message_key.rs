//! Keys that the library reads in a message, for any payload type.

use crate::error::ConfigError;
use crate::record::{EventBridgeMeta, EventBusMeta, Message, Needed, S3Object, SnsMeta};

#[cfg(feature = "jmespath")]
use super::jmes_path::JmesPath;
use super::{BusinessKey, JsonPointer, KeyError, KeyExtractor};

/// The message attribute in which the producer sends a key.
pub(crate) const PRODUCER_ATTRIBUTE: &str = "business-key";

/// A key that the library reads in a message, whatever the payload type is: in an attribute, in the metadata of its
/// envelope, or in its body.
///
/// ```
/// use sqs_once::key::MessageKey;
/// # #[derive(serde::Deserialize)] struct OrderPlaced {}
///
/// let handler = sqs_once::Handler::json::<OrderPlaced>()
///     .key(MessageKey::attribute("order-id"))
///     .call(async |_order: OrderPlaced| {});
/// ```
#[derive(Clone, Debug)]
pub struct MessageKey(Source);

#[derive(Clone, Debug)]
enum Source {
    Attribute(String),
    Producer,
    SystemAttribute(String),
    Group,
    Id,
    EventBridgeId,
    EventBusId,
    S3Event,
    SnsMessageId,
    JsonPointer(JsonPointer),
    #[cfg(feature = "jmespath")]
    JmesPath(JmesPath),
}

impl MessageKey {
    /// The text of a message attribute that the producer sets.
    pub fn attribute(name: impl Into<String>) -> Self {
        Self(Source::Attribute(name.into()))
    }

    /// The key that the producer sent with the message, with `Outgoing` or in the same form.
    ///
    /// The message attribute `business-key` contains the parts, separated by `,`. A part is `s:` and text, `i:` and an
    /// integer, `b:` and `true` or `false`, or `x:` and bytes in lower-case hexadecimal digits. In text, every byte that is
    /// not visible ASCII is escaped as `%` and two upper-case hexadecimal digits, and so are `%` and `,`. For example,
    /// `("tenant-7", 42)` is `s:tenant-7,i:42`. Any other form makes the message terminal.
    pub const fn producer() -> Self {
        Self(Source::Producer)
    }

    /// An attribute that SQS sets, as SQS spells it, such as `MessageDeduplicationId`.
    ///
    /// Choose an attribute that identifies the event. `MessageDeduplicationId` does, whether the producer sets it or the
    /// queue derives it from the body; SQS itself forgets it after five minutes. `SequenceNumber` identifies a message: a
    /// message that is sent again has another one. `SenderId` identifies the sender, so all messages of one sender would be
    /// duplicates. Attributes with times or counts of deliveries change with every delivery, so no message would be a
    /// duplicate.
    pub fn system_attribute(name: impl Into<String>) -> Self {
        Self(Source::SystemAttribute(name.into()))
    }

    /// The message group, for queues where each group contains one event.
    pub const fn group_id() -> Self {
        Self(Source::Group)
    }

    /// The message id. Use it only for messages that contain no id of an event.
    ///
    /// **It recognises only repeated deliveries of one message.** A message that the producer sends again, or that is
    /// redriven from a dead-letter queue, has a new id. Its effect happens a second time. Use the id of the event itself if
    /// it has one.
    pub const fn message_id() -> Self {
        Self(Source::Id)
    }

    /// The id of an EventBridge event, for producers that never send an event twice.
    ///
    /// **An event that the producer sends again has a new id**, and its effect happens a second time. Use the id in the
    /// event's `detail` if it has one.
    pub const fn event_bridge_id() -> Self {
        Self(Source::EventBridgeId)
    }

    /// The id that a custom event bus gives to an event, for publishers that never publish an event twice.
    ///
    /// Replays of an event have the same id. **An event that is published again has a new id**, and its effect happens a
    /// second time. Use the id in the event's data if it has one.
    pub const fn event_bus_id() -> Self {
        Self(Source::EventBusId)
    }

    /// The identity of an S3 event: bucket, object key, event name and sequencer. Copies of one notification share it, but
    /// two events never do.
    ///
    /// Events without a sequencer have no key. Only events that create or delete objects have a sequencer.
    pub const fn s3_event() -> Self {
        Self(Source::S3Event)
    }

    /// The id of an SNS publication, for publishers that never publish an event twice.
    ///
    /// **An event that is published again has a new id**, and its effect happens a second time. Use the id of the event
    /// itself if it has one. With raw delivery the message has no publication id, and the key is missing.
    pub const fn sns_message_id() -> Self {
        Self(Source::SnsMessageId)
    }

    /// The value at a JSON pointer (RFC 6901) in the body, such as `/order/id` or `/lines/0/sku`. The empty pointer is the
    /// whole body. The body is the text inside the envelope, if the handler has one.
    ///
    /// Text, integers and booleans are keys of different kinds: `1`, `"1"` and `true` are three keys. Integers of any size
    /// are read as text, never as a float. An absent or null value is [`KeyError::Missing`], and blank text is
    /// [`KeyError::Empty`]. Objects, arrays, and numbers with a fraction or an exponent are [`KeyError::WrongType`]. If a
    /// field appears twice, the last one counts, as in [`serde_json::Value`].
    ///
    /// A consumer fails at [`init`](crate::Consumer::init) if the pointer is neither empty nor starts with `/`, or if a `~`
    /// is followed by neither `0` nor `1`. In a name, `~1` means `/` and `~0` means `~`.
    ///
    /// ```
    /// use sqs_once::key::MessageKey;
    ///
    /// let handler = sqs_once::Handler::json::<serde_json::Value>()
    ///     .key(MessageKey::json_pointer("/order/id"))
    ///     .call(async |_order: serde_json::Value| {});
    /// ```
    pub fn json_pointer(pointer: &str) -> Self {
        Self(Source::JsonPointer(JsonPointer::new(pointer)))
    }

    /// The result of a [JMESPath](https://jmespath.org) expression over the body, such as `order.id`,
    /// `lines[?main].sku | [0]` or `join('/', [tenant, id])`. The body is the text inside the envelope, if the handler has
    /// one.
    ///
    /// Values are keys as with [`json_pointer`](Self::json_pointer), and numbers of more than 64 bits are
    /// [`KeyError::WrongType`]. For a key of several parts, use a tuple of extractors, not a list.
    ///
    /// JMESPath computes and compares numbers as floats, and different large integers can become the same float. Computed
    /// numbers therefore can't be keys: the extractor refuses results of `sum`, `abs` and similar functions, and
    /// `to_string` of a number that is not a 64-bit integer. A filter such as ``[?id == `1`]`` compares approximately
    /// beyond 2^53.
    ///
    /// A consumer fails at [`init`](crate::Consumer::init) if the text is not a JMESPath expression, or calls a
    /// function that JMESPath does not have. A call inside a projection or a filter fails only when a message reaches
    /// it. That message has no key.
    ///
    /// ```
    /// use sqs_once::key::MessageKey;
    ///
    /// let number = MessageKey::jmespath("order.id || order.number");
    /// let handler = sqs_once::Handler::json::<serde_json::Value>()
    ///     .key((MessageKey::jmespath("tenant"), number))
    ///     .call(async |_order: serde_json::Value| {});
    /// ```
    #[cfg(feature = "jmespath")]
    pub fn jmespath(expression: &str) -> Self {
        Self(Source::JmesPath(JmesPath::new(expression)))
    }
}

impl<T> KeyExtractor<T> for MessageKey {
    fn key(&self, _: &T, message: &Message) -> Result<BusinessKey, KeyError> {
        let found = |value, name| BusinessKey::new(attribute(value, name)?);
        match &self.0 {
            Source::Attribute(name) if message.has_binary(name) => Err(KeyError::WrongType {
                found: "a binary attribute",
            }),
            Source::Attribute(name) => found(message.attribute(name), name),
            Source::SystemAttribute(name) => found(message.system_attribute(name), name),
            Source::Group => found(message.group_id(), "MessageGroupId"),
            Source::Producer => {
                let text = message.attribute(PRODUCER_ATTRIBUTE);
                BusinessKey::from_readable(attribute(text, PRODUCER_ATTRIBUTE)?)
            }
            Source::Id => BusinessKey::new(message.id()),
            Source::EventBridgeId => {
                let event = message.metadata::<EventBridgeMeta>();
                BusinessKey::new(&event.and_then(|event| event.id.as_deref()))
            }
            Source::EventBusId => {
                let event = message.metadata::<EventBusMeta>();
                BusinessKey::new(&event.and_then(|event| event.event_id.as_deref()))
            }
            Source::S3Event => {
                let event = message.metadata::<S3Object>().ok_or(KeyError::Missing)?;
                let (bucket, key) = (&event.bucket, &event.key);
                BusinessKey::new(&(bucket, key, &event.event_name, &event.sequencer))
            }
            Source::SnsMessageId => {
                let sns = message.metadata::<SnsMeta>();
                BusinessKey::new(&sns.and_then(|sns| sns.message_id.as_deref()))
            }
            Source::JsonPointer(pointer) => {
                pointer.key_in(message.content().ok_or(KeyError::Missing)?)
            }
            #[cfg(feature = "jmespath")]
            Source::JmesPath(path) => path.key_in(message.content().ok_or(KeyError::Missing)?),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        match &self.0 {
            Source::JsonPointer(pointer) => pointer.check(),
            #[cfg(feature = "jmespath")]
            Source::JmesPath(path) => path.check(),
            _ => Ok(()),
        }
    }

    fn needs(&self) -> Vec<Needed> {
        match &self.0 {
            Source::EventBridgeId => vec![Needed::new::<EventBridgeMeta>(
                "MessageKey::event_bridge_id",
                "EventBridge",
            )],
            Source::EventBusId => vec![Needed::new::<EventBusMeta>(
                "MessageKey::event_bus_id",
                "EventBus",
            )],
            Source::S3Event => vec![Needed::new::<S3Object>("MessageKey::s3_event", "S3")],
            Source::SnsMessageId => {
                vec![Needed::new::<SnsMeta>("MessageKey::sns_message_id", "Sns")]
            }
            _ => Vec::new(),
        }
    }
}

fn attribute<'a>(value: Option<&'a str>, name: &str) -> Result<&'a str, KeyError> {
    value.ok_or_else(|| KeyError::MissingAttribute {
        name: name.to_owned(),
    })
}
