//! What a producer writes beside a message's body, for the consumer to read.

use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use aws_sdk_sqs::types::builders::SendMessageBatchRequestEntryBuilder;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends as SystemName,
    MessageSystemAttributeValue,
};
use thiserror::Error;

use crate::disposition::{MAX_ATTRIBUTES, accepted};
use crate::env::process_env;
use crate::key::{BusinessKey, KeyError, KeyPart, ProducerKey};
use crate::record::CorrelationId;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

/// What goes with a message that is sent to a consumer: its business key, its correlation id, and where in a trace it
/// was sent.
///
/// | written | where | read by |
/// |---|---|---|
/// | the key, such as `s:tenant-7,i:42` | message attribute `business-key` | [`ProducerKey`] |
/// | the correlation id, if there is one | message attribute `correlation-id` | [`CorrelationId`] |
/// | the trace, if there is one | system attribute `AWSTraceHeader` | the record's span |
///
/// Both sides say the key by the same types, and two equal keys are one event whether the consumer takes them from
/// the attribute or from the payload. The trace is that of the current span (feature `opentelemetry`), else that of the
/// Lambda invocation that sends (`_X_AMZN_TRACE_ID`); a header that is set already stays.
///
/// ```no_run
/// use sqs_once::key::ProducerKey;
/// use sqs_once::producer::Outgoing;
/// use sqs_once::HandlerError;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { amount_cents: u64 }
///
/// // The producer:
/// # async fn send(client: aws_sdk_sqs::Client, queue_url: &str) -> Result<(), sqs_once::Error> {
/// let order = Outgoing::new(&("tenant-7", 42_u64))?;
/// let message = client.send_message().queue_url(queue_url).message_body(r#"{"amount_cents": 1299}"#);
/// order.onto(message)?.send().await?;
/// # Ok(())
/// # }
///
/// // The consumer:
/// #[sqs_once::handler(key = ProducerKey)]
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Outgoing {
    key: BusinessKey,
    text: String,
    correlation_id: Option<CorrelationId>,
}

/// A message can't take what goes with it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutgoingError {
    /// It has an attribute of that name with another value.
    #[error("the message has an attribute `{name}` already: set it in one place")]
    Taken {
        /// The attribute's name.
        name: &'static str,
    },
    /// It has too many attributes of its own.
    #[error(
        "with its key and correlation id the message would have {count} attributes, and SQS takes {MAX_ATTRIBUTES}"
    )]
    TooMany {
        /// How many it would have.
        count: usize,
    },
    /// The SDK made no attribute of it.
    #[error("the SDK can't make an attribute of it")]
    Unbuilt(#[from] BuildError),
}

impl Outgoing {
    /// A message about the event with this key: anything that can be a key, several parts as a tuple.
    ///
    /// # Errors
    /// Those of [`BusinessKey::new`](struct@BusinessKey).
    pub fn new<K: KeyPart + ?Sized>(key: &K) -> Result<Self, KeyError> {
        let key = BusinessKey::new(key)?;
        let text = key.readable().ok_or(KeyError::Malformed)?;
        Ok(Self {
            key,
            text,
            correlation_id: None,
        })
    }

    /// Hands a correlation id on, such as the one that a handler got. Default: none. Characters that SQS refuses
    /// become `U+FFFD`.
    #[must_use]
    pub fn correlation_id(mut self, id: CorrelationId) -> Self {
        self.correlation_id = Some(id);
        self
    }

    /// A deduplication id for FIFO queues, the same for equal keys: 64 hexadecimal digits. Of two messages with one
    /// such id SQS keeps the first, for five minutes; a standard queue refuses it.
    pub fn deduplication_id(&self) -> String {
        self.key.digest().as_str().to_owned()
    }

    /// Adds the attributes to a message, or to an entry of a batch.
    ///
    /// # Errors
    /// [`OutgoingError`] when the message has attributes of its own that leave no room.
    pub fn onto<M: Sendable>(&self, mut message: M) -> Result<M, OutgoingError> {
        let correlation_id = self.correlation_id.as_ref();
        let correlation_id = correlation_id.map(|id| accepted(id.as_str()));
        let added = [
            (ProducerKey::ATTRIBUTE, Some(self.text.clone())),
            (CorrelationId::ATTRIBUTE, correlation_id),
        ];
        for (name, value) in added {
            let Some(value) = value else { continue };
            if message.has_attribute(name) {
                return Err(OutgoingError::Taken { name });
            }
            message = message.with_attribute(name, value)?;
        }
        let count = message.attributes();
        if count > MAX_ATTRIBUTES {
            return Err(OutgoingError::TooMany { count });
        }
        match trace_header() {
            Some(header) if !message.has_trace_header() => Ok(message.with_trace_header(header)?),
            _ => Ok(message),
        }
    }
}

fn trace_header() -> Option<String> {
    #[cfg(feature = "opentelemetry")]
    if let Some(header) = spans::current_header() {
        return Some(header);
    }
    process_env("_X_AMZN_TRACE_ID")
}

/// What [`Outgoing`] can be put onto: `send_message`'s builder, and that of an entry of `send_message_batch`.
pub trait Sendable: Sized + sealed::Message {}

mod sealed {
    use aws_sdk_sqs::error::BuildError;

    pub trait Message: Sized {
        fn attributes(&self) -> usize;
        fn has_attribute(&self, name: &str) -> bool;
        fn with_attribute(self, name: &str, value: String) -> Result<Self, BuildError>;
        fn has_trace_header(&self) -> bool;
        fn with_trace_header(self, header: String) -> Result<Self, BuildError>;
    }
}

const TEXT: &str = "String";

macro_rules! sendable {
    ($($builder:ty)*) => {$(
        impl Sendable for $builder {}

        impl sealed::Message for $builder {
            fn attributes(&self) -> usize {
                self.get_message_attributes().as_ref().map_or(0, |all| all.len())
            }

            fn has_attribute(&self, name: &str) -> bool {
                let all = self.get_message_attributes().as_ref();
                all.is_some_and(|all| all.contains_key(name))
            }

            fn with_attribute(self, name: &str, value: String) -> Result<Self, BuildError> {
                let value = MessageAttributeValue::builder().data_type(TEXT).string_value(value);
                Ok(self.message_attributes(name, value.build()?))
            }

            fn has_trace_header(&self) -> bool {
                let all = self.get_message_system_attributes().as_ref();
                all.is_some_and(|all| all.contains_key(&SystemName::AwsTraceHeader))
            }

            fn with_trace_header(self, header: String) -> Result<Self, BuildError> {
                let value = MessageSystemAttributeValue::builder().data_type(TEXT).string_value(header);
                Ok(self.message_system_attributes(SystemName::AwsTraceHeader, value.build()?))
            }
        }
    )*};
}

sendable! { SendMessageFluentBuilder SendMessageBatchRequestEntryBuilder }
