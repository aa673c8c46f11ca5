//! Message attributes that a producer sets for the consumer, and bodies that it puts into S3.

#[cfg(feature = "s3")]
mod offload;

use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use aws_sdk_sqs::types::builders::SendMessageBatchRequestEntryBuilder;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends as SystemName,
    MessageSystemAttributeValue,
};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::env::process_env;
use crate::failed::{MAX_ATTRIBUTES, accepted};
use crate::key::{BusinessKey, KeyError, KeyPart, PRODUCER_ATTRIBUTE, hex};
use crate::record::CorrelationId;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

#[cfg(feature = "s3")]
pub use offload::Offload;

/// The attributes of a message for a consumer: its business key, its correlation id, and its position in a trace.
///
/// | written | where | read by |
/// |---|---|---|
/// | the key, such as `s:tenant-7,i:42` | message attribute `business-key` | [`MessageKey::producer`](crate::key::MessageKey::producer) |
/// | the correlation id, if there is one | message attribute `correlation-id` | [`CorrelationId`] |
/// | the trace, if there is one | system attribute `AWSTraceHeader` | the message's span |
///
/// Both sides create keys from the same types. A key is the same whether the consumer takes it from the attribute or
/// from the payload. The trace is that of the current span (feature `opentelemetry`), or else that of the current
/// Lambda invocation (`_X_AMZN_TRACE_ID`). A trace header that the message already has stays.
///
/// ```no_run
/// use sqs_once::key::MessageKey;
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
/// #[sqs_once::handler(key = MessageKey::producer(), namespace = "charges")]
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

/// The error if the attributes can't be added to a message.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutgoingError {
    /// The message already has an attribute of this name.
    #[error("the message has an attribute `{name}` already: set it in one place")]
    Taken {
        /// The attribute's name.
        name: &'static str,
    },
    /// The message would have too many attributes.
    #[error(
        "with the attributes that Outgoing adds, the message would have {count} attributes, and SQS accepts {MAX_ATTRIBUTES}"
    )]
    TooMany {
        /// The number of attributes it would have.
        count: usize,
    },
    /// The SDK could not build an attribute.
    #[error("the SDK can't build the attribute")]
    Unbuilt(#[from] BuildError),
    /// S3 did not store the body.
    #[cfg(feature = "s3")]
    #[error("the body could not be put into S3")]
    NotStored(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Outgoing {
    /// Creates the attributes for an event with this key: any key part, or a tuple of several.
    ///
    /// # Errors
    /// The errors of [`BusinessKey::new`](struct@BusinessKey).
    pub fn new<K: KeyPart + ?Sized>(key: &K) -> Result<Self, KeyError> {
        let key = BusinessKey::new(key)?;
        let text = key.readable().ok_or(KeyError::Malformed)?;
        Ok(Self {
            key,
            text,
            correlation_id: None,
        })
    }

    /// Sets the correlation id, such as the one that a handler received. Default: none. Characters that SQS refuses
    /// become `U+FFFD`.
    #[must_use]
    pub fn correlation_id(mut self, id: CorrelationId) -> Self {
        self.correlation_id = Some(id);
        self
    }

    /// Returns a deduplication id for FIFO queues: 64 hexadecimal digits, the same for equal keys of one namespace.
    /// Standard queues refuse the id.
    ///
    /// For five minutes, SQS accepts further messages with the same id and delivers none of them. Give the namespace of the
    /// handler that receives the message, so that events of several kinds with one key have several ids. An event that
    /// has to run again needs another id, or five minutes.
    pub fn deduplication_id(&self, namespace: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(namespace);
        // Its length is fixed, so no other namespace and key make the same text.
        hash.update(self.key.digest().as_str());
        hex(&hash.finalize())
    }

    /// Adds the attributes to a message, or to an entry of a batch.
    ///
    /// # Errors
    /// [`OutgoingError`] if the message already has one of these attributes, or too many other attributes.
    pub fn onto<M: Sendable>(&self, mut message: M) -> Result<M, OutgoingError> {
        let correlation_id = self.correlation_id.as_ref();
        let correlation_id = correlation_id.map(|id| accepted(id.as_str()));
        let added = [
            (PRODUCER_ATTRIBUTE, Some(self.text.clone())),
            (CorrelationId::ATTRIBUTE, correlation_id),
        ];
        for (name, value) in added {
            let Some(value) = value else { continue };
            message = with(message, name, TEXT, value)?;
        }
        check_count(&message)?;
        match trace_header() {
            Some(header) if !message.has_trace_header() => Ok(message.with_trace_header(header)?),
            _ => Ok(message),
        }
    }
}

fn with<M: Sendable>(
    message: M,
    name: &'static str,
    kind: &str,
    value: String,
) -> Result<M, OutgoingError> {
    match message.has_attribute(name) {
        true => Err(OutgoingError::Taken { name }),
        false => Ok(message.with_attribute(name, kind, value)?),
    }
}

fn check_count<M: Sendable>(message: &M) -> Result<(), OutgoingError> {
    match message.attributes() {
        count if count > MAX_ATTRIBUTES => Err(OutgoingError::TooMany { count }),
        _ => Ok(()),
    }
}

fn trace_header() -> Option<String> {
    #[cfg(feature = "opentelemetry")]
    if let Some(header) = spans::current_header() {
        return Some(header);
    }
    process_env("_X_AMZN_TRACE_ID")
}

/// A message that [`Outgoing`] can be added to: the builder of `send_message`, or of an entry of `send_message_batch`.
pub trait Sendable: sealed::Message {}

mod sealed {
    use aws_sdk_sqs::error::BuildError;

    pub trait Message: Sized {
        fn attributes(&self) -> usize;
        fn has_attribute(&self, name: &str) -> bool;
        fn with_attribute(self, name: &str, kind: &str, value: String) -> Result<Self, BuildError>;
        /// The bytes of names, types and values.
        #[cfg(feature = "s3")]
        fn attributes_size(&self) -> usize;
        #[cfg(feature = "s3")]
        fn body(&self) -> Option<&str>;
        #[cfg(feature = "s3")]
        fn with_body(self, body: String) -> Self;
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

            fn with_attribute(self, name: &str, kind: &str, value: String) -> Result<Self, BuildError> {
                let value = MessageAttributeValue::builder().data_type(kind).string_value(value);
                Ok(self.message_attributes(name, value.build()?))
            }

            #[cfg(feature = "s3")]
            fn attributes_size(&self) -> usize {
                let all = self.get_message_attributes().iter().flatten();
                let size = |(name, value): (&String, &MessageAttributeValue)| {
                    let text = value.string_value().map_or(0, str::len);
                    let binary = value.binary_value().map_or(0, |bytes| bytes.as_ref().len());
                    name.len() + value.data_type().len() + text + binary
                };
                all.map(size).sum()
            }

            #[cfg(feature = "s3")]
            fn body(&self) -> Option<&str> {
                self.get_message_body().as_deref()
            }

            #[cfg(feature = "s3")]
            fn with_body(self, body: String) -> Self {
                self.message_body(body)
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
