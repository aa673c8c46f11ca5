//! From Lambda's event to messages, record by record: one that is broken fails alone.

use std::borrow::Cow;

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use lambda_runtime::Diagnostic;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::config::ConfigError;
use crate::record::Message;

/// The invocation can't be answered record by record, so it fails as a whole, and nothing of it is
/// acknowledged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EventError {
    /// A record could not be reported as failed.
    #[error(
        "record {index} of the event has no messageId: an unnamed record can't be reported, so nothing of this batch is acknowledged"
    )]
    NoMessageId {
        /// Which record, counted from 0.
        index: usize,
    },
    /// The invocation came without a deadline, so that no lease would be long enough.
    #[error(
        "the invocation has no deadline (Lambda-Runtime-Deadline-Ms): a claim's lease can't be known, so nothing is started"
    )]
    NoDeadline,
    /// Every record failed, and the consumer is set to
    /// [`raise_on_total_failure`](crate::Consumer::raise_on_total_failure).
    #[error(
        "every record of the batch failed ({records} of {records}): each has a line in the log"
    )]
    EveryRecordFailed {
        /// How many records the batch had.
        records: usize,
    },
    /// The consumer's configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// What Lambda shows of a failed invocation.
impl From<EventError> for Diagnostic {
    fn from(error: EventError) -> Self {
        let error_type = match error {
            EventError::NoMessageId { .. } => "NoMessageId",
            EventError::NoDeadline => "NoDeadline",
            EventError::EveryRecordFailed { .. } => "EveryRecordFailed",
            EventError::Config(_) => "ConfigError",
        };
        Self {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}

pub(super) fn messages(event: SqsEvent) -> Result<Vec<Message>, EventError> {
    let messages = event.records.into_iter().enumerate();
    messages
        .map(|(index, sqs)| Message::new(sqs).ok_or(EventError::NoMessageId { index }))
        .collect()
}

/// An SQS event whose records are read one by one.
///
/// `SqsEvent` fails as a whole when one record has, say, half a surrogate pair in its body. Here such
/// a record becomes a message without a body, which fails alone.
pub(crate) struct LenientEvent(pub(crate) SqsEvent);

impl<'de> Deserialize<'de> for LenientEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "Records")]
            records: Vec<Box<RawValue>>,
        }
        #[derive(Deserialize)]
        struct Identity<'a> {
            #[serde(borrow, default, rename = "messageId")]
            message_id: Option<Cow<'a, str>>,
            #[serde(borrow, default, rename = "eventSourceARN")]
            event_source_arn: Option<&'a RawValue>,
            #[serde(borrow, default)]
            attributes: Option<&'a RawValue>,
        }

        let event = Event::deserialize(deserializer)?;
        let read = |raw: Box<RawValue>| {
            serde_json::from_str(raw.get()).unwrap_or_else(|_| {
                let mut sqs = SqsMessage::default();
                if let Ok(identity) = serde_json::from_str::<Identity<'_>>(raw.get()) {
                    sqs.message_id = identity.message_id.map(Cow::into_owned);
                    // Its queue and its group still say which records may not overtake it.
                    sqs.event_source_arn = part(identity.event_source_arn);
                    sqs.attributes = part(identity.attributes).unwrap_or_default();
                }
                sqs
            })
        };
        let mut sqs = SqsEvent::default();
        sqs.records = event.records.into_iter().map(read).collect();
        Ok(Self(sqs))
    }
}

fn part<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}
