//! EventBridge's envelope.

use std::any::TypeId;

use crate::record::Message;

use super::fields::Fields;
use super::{DecodeError, Envelope, Opened};

const NAME: &str = "EventBridge";

/// The envelope of an EventBridge event. The payload is its `detail`, as written in the body, so that large integers
/// are exact. The other fields are in [`EventBridgeMeta`].
///
/// Use it for rules that send the whole event, which is their default. A rule with an input path or an input
/// transformer sends another body. With the input path `$.detail`, no envelope is needed.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::body::EventBridge;
/// use sqs_once::extract::EventBridgeMeta;
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// let handler = sqs_once::Handler::json::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .call(async |order: OrderPlaced, event: EventBridgeMeta| {
///         tracing::info!(detail_type = event.detail_type, "an order");
///     })
///     .envelope(EventBridge);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EventBridge;

/// The fields of an EventBridge event, as an argument of a handler. Absent and malformed fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventBridgeMeta {
    /// The event's id. It is the same for every rule and delivery attempt, but an event that the producer sends again
    /// has another one.
    pub id: Option<String>,
    /// The sender, such as `aws.s3` or `com.example.shop`.
    pub source: Option<String>,
    /// Its detail type, such as `Object Created`.
    pub detail_type: Option<String>,
    /// The AWS account it comes from.
    pub account: Option<String>,
    /// The region it comes from.
    pub region: Option<String>,
    /// When it happened, as EventBridge writes it: `2026-01-01T00:00:00Z`.
    pub time: Option<String>,
    /// The ARNs of the resources that the event is about.
    pub resources: Vec<String>,
}

impl Envelope for EventBridge {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
        match Fields::read(content) {
            Some(fields) => open(&fields),
            None => Err(DecodeError::envelope(NAME, "it is not a JSON object")),
        }
    }

    fn metadata(&self) -> Option<Vec<TypeId>> {
        Some(vec![TypeId::of::<EventBridgeMeta>()])
    }
}

/// Returns whether it has the fields that every EventBridge event has.
pub(super) fn is_event(fields: &Fields<'_>) -> bool {
    let texts = ["id", "detail-type", "source", "account", "region"];
    texts.iter().all(|name| fields.text(name).is_some()) && fields.object("detail").is_some()
}

pub(super) fn open(fields: &Fields<'_>) -> Result<Opened, DecodeError> {
    let Some(detail) = fields.raw("detail") else {
        return Err(DecodeError::envelope(NAME, "`detail` is missing"));
    };
    let resources = fields.array("resources").unwrap_or_default().into_iter();
    let meta = EventBridgeMeta {
        id: fields.text("id"),
        source: fields.text("source"),
        detail_type: fields.text("detail-type"),
        account: fields.text("account"),
        region: fields.text("region"),
        time: fields.text("time"),
        resources: resources
            .filter_map(|arn| serde_json::from_str(arn.get()).ok())
            .collect(),
    };
    Ok(Opened::new(detail).with_metadata(meta))
}
