//! What links a record to whatever else happened on account of the same request.

use std::fmt;
use std::sync::Arc;

use crate::guarded::caught;

use super::{EventBridgeMeta, Message, SnsMeta};

/// Links a record to the request that caused it. It is in each of the record's log lines, as `correlation_id`, and in the
/// span `record` around its handler. The span `batch` around a batch handler's call has none.
///
/// Unless [`Consumer::correlation_id`](crate::Consumer::correlation_id) sets it, it is the first of these that exists:
///
/// 1. the message attribute `correlation-id`, `correlationId`, `CorrelationId`, `correlation_id`,
///    `x-correlation-id` or `X-Correlation-Id`, in this order;
/// 2. the id of the EventBridge event, then that of the SNS publication, where the consumer opens these
///    envelopes;
/// 3. the root of the X-Ray trace (`AWSTraceHeader`).
///
/// Blank text and text with control characters count as absent. Text of more than [`CorrelationId::MAX_LEN`] bytes is cut.
///
/// A handler takes it as an argument. A message without one is then terminal, so most handlers take an `Option` of it:
///
/// ```
/// use sqs_once::extract::CorrelationId;
/// use sqs_once::HandlerError;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
///
/// #[sqs_once::handler(key = order.order_id)]
/// async fn charge(order: OrderPlaced, correlation: Option<CorrelationId>) -> Result<(), HandlerError> {
///     let header = correlation.as_ref().map(CorrelationId::as_str);
///     # let _ = header;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CorrelationId(Arc<str>);

/// Takes the text of a message's correlation id.
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
    /// Where producers write it.
    pub(crate) const ATTRIBUTE: &str = "correlation-id";
    /// The most bytes that are kept of a text.
    pub const MAX_LEN: usize = 128;

    /// A correlation id of this text; `None` when it is blank or has control characters.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return None;
        }
        Some(Self(text[..text.floor_char_boundary(Self::MAX_LEN)].into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// By the default order.
    pub(super) fn of(message: &Message) -> Option<Self> {
        let attributes = ATTRIBUTES.iter().map(|name| message.attribute(name));
        let event = || message.metadata::<EventBridgeMeta>()?.id.as_deref();
        let publication = || message.metadata::<SnsMeta>()?.message_id.as_deref();
        let mut texts = attributes
            .chain([event(), publication(), trace_root(message)])
            .flatten();
        texts.find_map(Self::new)
    }

    /// Calls the consumer's own function. If it panics, the record only has no id.
    pub(super) fn by(correlate: &Correlate, message: &Message) -> Option<Self> {
        let text = caught(|| correlate(message));
        Self::new(&text.ok()??)
    }
}

/// Such as `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`.
fn trace_root(message: &Message) -> Option<&str> {
    let header = message.system_attribute("AWSTraceHeader")?;
    let mut parts = header.split(';').map(str::trim);
    parts.find_map(|part| part.strip_prefix("Root="))
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
