//! An SQS message.

use std::any::Any;
use std::fmt;
use std::iter;
use std::sync::{Arc, OnceLock};

use aws_lambda_events::event::sqs::SqsMessageAttribute;

use crate::time::Timestamp;

use super::{
    Correlate, CorrelationId, DecodeError, Envelope, HeldMemory, NoBody, Opened, RawRecord,
};

/// One SQS message as Lambda delivered it.
///
/// Absent or malformed metadata is `None` and never makes the message fail.
#[derive(Clone)]
pub struct Message {
    /// Shared with the answer, which outlives the message.
    id: Arc<str>,
    body: Result<Box<str>, NoBody>,
    /// Shared by the messages of an event, because they come from one queue.
    queue_arn: Option<Arc<str>>,
    /// The receipt handle or an empty text, then the names and values of the system attributes.
    texts: Packed,
    attributes: Box<[(String, SqsMessageAttribute)]>,
    /// The content of the envelope. Empty until the envelope is opened, or if there is none.
    opened: OnceLock<Arc<Opened>>,
    /// The body to which the content points, if the consumer has fetched it.
    fetched: Option<Arc<Fetched>>,
    correlation_id: OnceLock<Option<CorrelationId>>,
}

#[derive(Debug)]
struct Fetched {
    body: Box<str>,
    /// The memory that the body takes.
    memory: OnceLock<HeldMemory>,
}

impl Message {
    /// Creates a message from a record of an event. A missing id becomes an empty text. A message from the same queue as
    /// the message `before` it shares that message's queue ARN.
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
            body: raw.body.map(|body| body.0.into()).ok_or(raw.no_body),
            queue_arn,
            texts: Packed::new(iter::once(receipt_handle).chain(pairs)),
            attributes: attributes.into_iter().collect(),
            opened: OnceLock::new(),
            fetched: None,
            correlation_id: OnceLock::new(),
        }
    }

    /// Returns the message id. A message that is sent again, or moved out of a dead-letter queue, has a **new** id:
    /// never use it as a business key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the message id, for uses that outlive the message.
    pub(crate) fn shared_id(&self) -> Arc<str> {
        Arc::clone(&self.id)
    }

    /// Returns the body as text, including its envelope if it has one.
    pub fn body(&self) -> Option<&str> {
        self.body.as_deref().ok()
    }

    /// Returns why the message has no body, if it has none.
    pub(crate) fn no_body(&self) -> NoBody {
        self.body.as_ref().err().copied().unwrap_or_default()
    }

    /// Returns the text that is decoded to the payload. This is the content of the envelope if the handler has one
    /// ([`Handler::envelope`](crate::Handler::envelope)), or else the body.
    pub fn content(&self) -> Option<&str> {
        let opened = self.opened.get();
        let inside = opened.and_then(|opened| opened.content.as_deref());
        let fetched = self.fetched.as_ref().map(|fetched| &*fetched.body);
        fetched.or(inside).or_else(|| self.body())
    }

    /// Returns the message with the body to which its content points.
    pub(crate) fn with_fetched(&self, body: String) -> Self {
        Self {
            fetched: Some(Arc::new(Fetched {
                body: body.into(),
                memory: OnceLock::new(),
            })),
            ..self.clone()
        }
    }

    /// Keeps the memory that was reserved for its body until the body is dropped, even if that outlives the message.
    pub(crate) fn hold(&self, memory: HeldMemory) {
        if let Some(fetched) = &self.fetched {
            let _ = fetched.memory.set(memory.fetched(fetched.body.len()));
        }
    }

    /// Returns the metadata of the message's envelope: [`SnsMeta`](crate::extract::SnsMeta),
    /// [`EventBridgeMeta`](crate::extract::EventBridgeMeta), [`S3Object`](crate::extract::S3Object), or the metadata of
    /// your own [`Envelope`]. `None` if the message did not come in that envelope.
    pub fn metadata<M: Any>(&self) -> Option<&M> {
        self.opened.get()?.metadata()
    }

    pub(crate) fn open(&self, envelope: &dyn Envelope) -> Result<(), DecodeError> {
        if let (Some(body), None) = (self.body(), self.opened.get()) {
            let opened = envelope.open(body, self)?;
            self.check(&opened)?;
            // `set` fails only if the envelope itself called this function.
            let _ = self.opened.set(Arc::new(opened));
        }
        Ok(())
    }

    /// Rejects an envelope whose attributes contradict each other or the message's own. The producer wrote the
    /// envelope's attributes into the body, but a trusted forwarder may have set the message's own.
    fn check(&self, opened: &Opened) -> Result<(), DecodeError> {
        let wrong = |problem| Err(DecodeError::envelope("message's", problem));
        if opened.is_contradictory {
            return wrong("it gives an attribute two values".to_owned());
        }
        for (name, value) in &opened.attributes {
            let own = self.own_attribute(name);
            if own.is_some_and(|own| own.string_value.as_ref() != Some(value)) {
                return wrong(format!(
                    "its attribute {name:?} has another value than the message's own"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn ignored_because(&self) -> Option<&str> {
        self.opened.get()?.ignored.as_deref()
    }

    /// Returns the id that links the message to the request that caused it, if there is one.
    pub fn correlation_id(&self) -> Option<&CorrelationId> {
        self.correlation_id.get()?.as_ref()
    }

    /// Finds the correlation id with the consumer's own function, or in the default places. Later calls do nothing.
    pub(crate) fn correlate(&self, by: Option<&Correlate>) {
        self.correlation_id.get_or_init(|| match by {
            Some(correlate) => CorrelationId::by(correlate, self),
            None => CorrelationId::of(self),
        });
    }

    /// Returns how often SQS has delivered the message, including this time.
    pub fn receive_count(&self) -> Option<u32> {
        self.system_number("ApproximateReceiveCount")
    }

    /// Returns when the producer sent the message.
    pub fn sent_at(&self) -> Option<Timestamp> {
        let millis = self.system_number("SentTimestamp");
        millis.map(Timestamp::from_millis)
    }

    /// Returns when SQS first delivered the message.
    pub fn first_received_at(&self) -> Option<Timestamp> {
        self.system_number("ApproximateFirstReceiveTimestamp")
            .map(Timestamp::from_millis)
    }

    /// Returns the message group. Messages of standard queues may have one too (fair queues).
    pub fn group_id(&self) -> Option<&str> {
        self.system_attribute("MessageGroupId")
    }

    /// Returns a system attribute, such as `SenderId` or `AWSTraceHeader`.
    pub fn system_attribute(&self, name: &str) -> Option<&str> {
        let mut names = (1..self.texts.len()).step_by(2);
        // If there are two, the last one counts.
        let at = names.rfind(|&at| self.texts.get(at) == name)?;
        Some(self.texts.get(at + 1))
    }

    /// Returns the text of a message attribute (types `String` and `Number`): the message's own, or else the
    /// envelope's. An envelope is part of the body, so its producer may write any attributes there.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        match self.own_attribute(name) {
            Some(own) => own.string_value.as_deref(),
            None => self.opened.get()?.attributes.get(name).map(String::as_str),
        }
    }

    /// Returns whether the message's own attribute with this name has bytes for its value.
    pub(crate) fn has_binary(&self, name: &str) -> bool {
        let own = self.own_attribute(name);
        own.is_some_and(|own| own.binary_value.is_some() && own.string_value.is_none())
    }

    fn own_attribute(&self, name: &str) -> Option<&SqsMessageAttribute> {
        let mut attributes = self.attributes.iter();
        let (_, attribute) = attributes.find(|(own, _)| own == name)?;
        Some(attribute)
    }

    /// Returns the receipt handle, which SQS needs to change this delivery. Never logged.
    #[cfg(feature = "sqs")]
    pub(crate) fn receipt_handle(&self) -> Option<&str> {
        Some(self.texts.get(0)).filter(|handle| !handle.is_empty())
    }

    #[cfg(feature = "sqs")]
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&str, &SqsMessageAttribute)> {
        let attributes = self.attributes.iter();
        attributes.map(|(name, attribute)| (name.as_str(), attribute))
    }

    /// Returns the ARN of the message's queue.
    pub fn queue_arn(&self) -> Option<&str> {
        self.queue_arn.as_deref()
    }

    #[cfg(feature = "opentelemetry")]
    pub(crate) fn shared_queue_arn(&self) -> Option<Arc<str>> {
        self.queue_arn.clone()
    }

    /// Returns whether the queue is FIFO. Only its ARN shows this, because standard queues may have message groups too.
    pub fn is_fifo(&self) -> bool {
        self.queue_arn().is_some_and(|arn| arn.ends_with(".fifo"))
    }

    fn system_number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.system_attribute(name)?.parse().ok()
    }
}

/// Shows only the id: the body and the receipt handle must not be logged.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A list of any number of texts in two allocations.
#[derive(Clone)]
struct Packed {
    texts: Box<str>,
    ends: Box<[usize]>,
}

impl Packed {
    fn new<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut packed = String::with_capacity(texts.clone().map(str::len).sum());
        let mut ends = Vec::with_capacity(texts.clone().count());
        for text in texts {
            packed.push_str(text);
            ends.push(packed.len());
        }
        Self {
            texts: packed.into(),
            ends: ends.into(),
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the text at an index.
    ///
    /// # Panics
    /// If there is no text at the index.
    fn get(&self, at: usize) -> &str {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.texts[begin..self.ends[at]]
    }
}
