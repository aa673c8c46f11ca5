//! Correlation ids, which link a message to the request that caused it.

use std::fmt;
use std::sync::Arc;

use crate::guarded::caught;

use super::{EventBridgeMeta, Message, SnsMeta};

/// An id that links a message to the request that caused it. Every log line of the message contains it as
/// `correlation_id`, and so does the span `record` around its handler. The span `batch` around a batch handler's call
/// has none.
///
/// Unless [`Telemetry::correlation_id`](crate::telemetry::Telemetry::correlation_id) chooses it, the id is the first of
/// these that exists:
///
/// 1. the message attribute `correlation-id`, `correlationId`, `CorrelationId`, `correlation_id`,
///    `x-correlation-id` or `X-Correlation-Id`, in this order;
/// 2. the id of the EventBridge event, then the id of the SNS publication, if the handler has these envelopes;
/// 3. the root of the X-Ray trace (`AWSTraceHeader`).
///
/// Blank text and text with control characters count as absent. Text of more than [`CorrelationId::MAX_LEN`] bytes is
/// truncated.
///
/// A handler can take the id as an argument. A message without an id is then terminal, so most handlers take an
/// `Option`:
///
/// ```
/// use sqs_once::extract::CorrelationId;
/// use sqs_once::HandlerError;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// async fn charge(order: OrderPlaced, correlation: Option<CorrelationId>) -> Result<(), HandlerError> {
///     let header = correlation.as_ref().map(CorrelationId::as_str);
///     # let _ = header;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CorrelationId(Arc<str>);

pub(crate) type Correlate = Arc<dyn Fn(&Message) -> Option<String> + Send + Sync>;

const ATTRIBUTES: [&str; 6] = [
    CorrelationId::ATTRIBUTE,
    "correlationId",
    "CorrelationId",
    "correlation_id",
    "x-correlation-id",
    "X-Correlation-Id",
];

impl CorrelationId {
    /// The message attribute that producers set.
    pub(crate) const ATTRIBUTE: &str = "correlation-id";
    /// The maximum size of an id in bytes.
    pub const MAX_LEN: usize = 128;

    /// Creates a correlation id from this text. `None` if the text is blank or has control characters.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return None;
        }
        Some(Self(text[..text.floor_char_boundary(Self::MAX_LEN)].into()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn of(message: &Message) -> Option<Self> {
        let attributes = ATTRIBUTES.iter().map(|name| message.attribute(name));
        let event = || message.metadata::<EventBridgeMeta>()?.id.as_deref();
        let publication = || message.metadata::<SnsMeta>()?.message_id.as_deref();
        let trace = || trace_part(message.system_attribute("AWSTraceHeader")?, "Root");
        let mut texts = attributes
            .chain([event(), publication(), trace()])
            .flatten();
        texts.find_map(Self::new)
    }

    /// Calls the consumer's own function. If it panics, the message has no id.
    pub(super) fn by(correlate: &Correlate, message: &Message) -> Option<Self> {
        let text = caught(|| correlate(message));
        Self::new(&text.ok()??)
    }
}

/// Returns a part of a trace header such as
/// `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`.
pub(crate) fn trace_part<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = header.split(';').map(str::trim);
    parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
