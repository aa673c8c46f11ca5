//! The message behind a record.

use std::any::Any;
use std::fmt;
use std::iter;
use std::sync::{Arc, OnceLock};

use aws_lambda_events::event::sqs::SqsMessageAttribute;

use crate::time::Timestamp;

use super::packed::Packed;
use super::{Correlate, CorrelationId, Envelope, EnvelopeError, Opened, RawRecord};

/// One SQS message as Lambda delivered it.
///
/// Metadata that is absent or malformed reads as `None`: it never fails a record by itself.
pub struct Message {
    /// Shared with the answer, which comes when the message is gone.
    id: Arc<str>,
    body: Option<Box<str>>,
    /// Shared by the messages of an event, which come from one queue.
    queue_arn: Option<Arc<str>>,
    /// The receipt handle, or an empty text; then names and values of the system attributes.
    texts: Packed,
    attributes: Box<[(String, SqsMessageAttribute)]>,
    /// The content of its envelope; empty until it is opened, and without an envelope.
    opened: OnceLock<Box<Opened>>,
    /// Empty until it is looked for.
    correlation_id: OnceLock<Option<CorrelationId>>,
}

impl Message {
    /// Keeps a message of an event. A missing id is empty. The message shares its queue's ARN with the message `before` it.
    pub(crate) fn new(raw: RawRecord<'_>, before: Option<&Self>) -> Self {
        let id = raw.message_id.map_or(Arc::default(), |id| id.0.into());
        let queue_arn = raw.event_source_arn.map(|arn| {
            let shared = before.and_then(|message| message.queue_arn.clone());
            let shared = shared.filter(|shared| **shared == *arn.0);
            shared.unwrap_or_else(|| arn.0.into())
        });
        #[cfg(feature = "sqs")]
        let receipt_handle = raw.receipt_handle.as_ref().map_or("", |handle| &*handle.0);
        #[cfg(not(feature = "sqs"))]
        let receipt_handle = "";
        let pairs = raw.system_attributes.map_or(Vec::new(), |pairs| pairs.0);
        let pairs = pairs.iter().flat_map(|(name, value)| [&*name.0, &*value.0]);
        let attributes = raw.message_attributes.unwrap_or_default();
        Self {
            id,
            body: raw.body.map(|body| body.0.into()),
            queue_arn,
            texts: Packed::new(iter::once(receipt_handle).chain(pairs)),
            attributes: attributes.into_iter().collect(),
            opened: OnceLock::new(),
            correlation_id: OnceLock::new(),
        }
    }

    /// The message id. SQS gives a **new** one when a message is sent again, and when it is moved
    /// out of a dead-letter queue: never use it as a business key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The message id, for users that outlive the message.
    pub(crate) fn shared_id(&self) -> Arc<str> {
        Arc::clone(&self.id)
    }

    /// The body, as text: with its envelope, where it came in one.
    pub fn body(&self) -> Option<&str> {
        self.body.as_deref()
    }

    /// The text that the payload is made of: what is inside the message's envelope where the consumer
    /// has one ([`Consumer::envelope`](crate::Consumer::envelope)), the body otherwise.
    pub fn content(&self) -> Option<&str> {
        let inside = self.opened.get().and_then(|inside| inside.content());
        inside.or_else(|| self.body())
    }

    /// The metadata of the message's envelope: [`SnsMeta`](crate::extract::SnsMeta),
    /// [`EventBridgeMeta`](crate::extract::EventBridgeMeta), [`S3Object`](crate::extract::S3Object), or what an
    /// [`Envelope`] of your own adds. `None` where the message did not come in that envelope.
    pub fn metadata<M: Any>(&self) -> Option<&M> {
        self.opened.get()?.metadata()
    }

    /// Opens the envelope, once.
    pub(crate) fn open(&self, envelope: &dyn Envelope) -> Result<(), EnvelopeError> {
        if let (Some(body), None) = (self.body(), self.opened.get()) {
            let opened = envelope.open(body, self)?;
            self.check(&opened)?;
            // Full only if the envelope itself did this.
            let _ = self.opened.set(Box::new(opened));
        }
        Ok(())
    }

    /// Refuses an envelope whose attributes contradict each other or the message's own: its producer wrote them into
    /// the body, and a forwarder that the consumer trusts may have set the message's own.
    fn check(&self, opened: &Opened) -> Result<(), EnvelopeError> {
        let wrong = |problem| Err(EnvelopeError::new("message's", problem));
        if opened.is_contradictory() {
            return wrong("it gives an attribute two values".to_owned());
        }
        for (name, value) in opened.attributes() {
            let own = self.own_attribute(name);
            if own.is_some_and(|own| own.string_value.as_deref() != Some(value)) {
                return wrong(format!(
                    "its attribute {name:?} has another value than the message's own"
                ));
            }
        }
        Ok(())
    }

    /// Why the message holds no event, where its envelope says so.
    pub(crate) fn ignored_because(&self) -> Option<&str> {
        self.opened.get()?.ignored_because()
    }

    /// What links the message to whatever else happened on account of the same request, if anything does.
    pub fn correlation_id(&self) -> Option<&CorrelationId> {
        self.correlation_id.get()?.as_ref()
    }

    /// Looks for the correlation id, once: by the consumer's own function, or in the default places.
    pub(crate) fn correlate(&self, by: Option<&Correlate>) {
        self.correlation_id.get_or_init(|| match by {
            Some(correlate) => CorrelationId::by(correlate, self),
            None => CorrelationId::of(self),
        });
    }

    /// How often SQS has delivered the message, this time included.
    pub fn receive_count(&self) -> Option<u32> {
        self.system_number("ApproximateReceiveCount")
    }

    /// When the producer sent the message.
    pub fn sent_at(&self) -> Option<Timestamp> {
        self.system_number("SentTimestamp")
            .map(Timestamp::from_millis)
    }

    /// When SQS first delivered the message.
    pub fn first_received_at(&self) -> Option<Timestamp> {
        self.system_number("ApproximateFirstReceiveTimestamp")
            .map(Timestamp::from_millis)
    }

    /// The message group, which standard queues may have too (fair queues).
    pub fn group_id(&self) -> Option<&str> {
        self.system_attribute("MessageGroupId")
    }

    /// A system attribute, such as `SenderId` or `AWSTraceHeader`.
    pub fn system_attribute(&self, name: &str) -> Option<&str> {
        let mut names = (1..self.texts.len()).step_by(2);
        // The last counts, should there be two.
        let at = names.rfind(|&at| self.texts.get(at) == name)?;
        Some(self.texts.get(at + 1))
    }

    /// The text of a message attribute (types `String` and `Number`): the message's own, or else one that came in its
    /// envelope. An envelope is a part of the body, and its producer writes what it likes there.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        match self.own_attribute(name) {
            Some(own) => own.string_value.as_deref(),
            None => self.opened.get()?.attribute(name),
        }
    }

    fn own_attribute(&self, name: &str) -> Option<&SqsMessageAttribute> {
        let mut attributes = self.attributes.iter();
        let (_, attribute) = attributes.find(|(own, _)| own == name)?;
        Some(attribute)
    }

    /// What SQS wants to hear to change this delivery. Never logged.
    #[cfg(feature = "sqs")]
    pub(crate) fn receipt_handle(&self) -> Option<&str> {
        Some(self.texts.get(0)).filter(|handle| !handle.is_empty())
    }

    #[cfg(feature = "sqs")]
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&str, &SqsMessageAttribute)> {
        let attributes = self.attributes.iter();
        attributes.map(|(name, attribute)| (name.as_str(), attribute))
    }

    /// The ARN of the queue the message came from.
    pub fn queue_arn(&self) -> Option<&str> {
        self.queue_arn.as_deref()
    }

    #[cfg(feature = "opentelemetry")]
    pub(crate) fn shared_queue_arn(&self) -> Option<Arc<str>> {
        self.queue_arn.clone()
    }

    /// Whether the queue keeps order. Only its ARN tells: standard queues may have message groups too.
    pub fn is_fifo(&self) -> bool {
        self.queue_arn().is_some_and(|arn| arn.ends_with(".fifo"))
    }

    fn system_number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.system_attribute(name)?.parse().ok()
    }
}

/// Shows the id only: neither body nor receipt handle belong in logs.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
