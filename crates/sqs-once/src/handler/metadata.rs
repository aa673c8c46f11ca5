//! What is known of a message besides its payload, as extractors.

use crate::record::{CorrelationId, EventBridgeMeta, S3Object, SnsMeta};

use super::{FromRecord, HandlerError, RecordParts};

macro_rules! extractors {
    ($($metadata:ident, $envelope:literal;)*) => {$(
        /// Terminal for a message that did not come in this envelope.
        impl<S: Sync> FromRecord<S> for $metadata {
            async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
                Option::<Self>::from_record(parts).await?.ok_or_else(|| {
                    HandlerError::terminal(concat!(
                        "the handler asks for ",
                        stringify!($metadata),
                        ", but the message did not come in ",
                        $envelope,
                        " that the consumer opened: see Consumer::envelope, or ask for an Option of it"
                    ))
                })
            }
        }

        /// `None` for a message that did not come in this envelope.
        impl<S: Sync> FromRecord<S> for Option<$metadata> {
            async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
                Ok(parts.message().metadata().cloned())
            }
        }
    )*};
}

extractors! {
    SnsMeta, "an SNS envelope";
    EventBridgeMeta, "an EventBridge envelope";
    S3Object, "an S3 notification";
}

/// Terminal for a message without a correlation id.
impl<S: Sync> FromRecord<S> for CorrelationId {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Option::<Self>::from_record(parts).await?.ok_or_else(|| {
            HandlerError::terminal(
                "the handler asks for a CorrelationId, but the message has none: ask for an Option of it",
            )
        })
    }
}

/// `None` for a message without a correlation id.
impl<S: Sync> FromRecord<S> for Option<CorrelationId> {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(parts.message().correlation_id().cloned())
    }
}
