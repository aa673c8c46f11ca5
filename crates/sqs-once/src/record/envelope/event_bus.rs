//! The envelope of EventBridge's custom event bus.

use std::any::TypeId;

use crate::record::Message;

use super::fields::Fields;
use super::{DecodeError, Envelope, Opened};

const NAME: &str = "EventBus";

/// The envelope that a subscriber of an EventBridge custom event bus puts around an event, if its transformer has the type
/// `WITH_METADATA`. The payload is `Data`, as written in the body, so that large integers are exact.
///
/// [`Message::attribute`] and [`MessageKey::attribute`](crate::key::MessageKey::attribute) keys read the publisher's
/// `Metadata` as if SQS had delivered it. [`EventBusMeta`] has what the bus writes itself.
///
/// The `Data` of an event that was published with `PutEvents` is EventBridge's own envelope: set
/// `(EventBus, EventBridge)`. A subscriber whose transformer is `RAW`, the default, sends `Data` alone and needs no
/// `EventBus`.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::body::EventBus;
/// use sqs_once::extract::EventBusMeta;
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// let handler = sqs_once::Handler::json::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .call(async |order: OrderPlaced, event: EventBusMeta| {
///         tracing::info!(is_replayed = event.is_replayed, "an order");
///     })
///     .envelope(EventBus);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EventBus;

/// What a custom event bus writes about an event, as an argument of a handler. Absent and malformed fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventBusMeta {
    /// The event's id. The bus gives one to each publication that it accepts: an event that is published again has another
    /// one.
    pub event_id: Option<String>,
    /// Whether the subscriber reads the event from the bus's history. The bus delivers it then as often as a subscriber
    /// starts before it.
    pub is_replayed: bool,
    /// The group whose events a FIFO subscriber delivers in order.
    pub event_group_id: Option<String>,
    /// The number of the event in its order.
    pub sequence_number: Option<String>,
    /// When the bus accepted it, as the bus writes it.
    pub ingestion_time: Option<String>,
    /// The source of an event from `PutEvents`, from AWS or a partner.
    pub source: Option<String>,
    /// The detail type of such an event.
    pub detail_type: Option<String>,
}

impl Envelope for EventBus {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
        match Fields::read(content) {
            Some(fields) => open(&fields),
            None => Err(DecodeError::envelope(NAME, "it is not a JSON object")),
        }
    }

    fn metadata(&self) -> Option<Vec<TypeId>> {
        Some(vec![TypeId::of::<EventBusMeta>()])
    }
}

/// Returns whether it has the fields that every event of a bus has.
pub(super) fn is_event(fields: &Fields<'_>) -> bool {
    let written = fields.object("SystemMetadata");
    let delivery = written.and_then(|written| written.text("aws:DeliveryType"));
    delivery.is_some() && fields.raw("Data").is_some()
}

pub(super) fn open(fields: &Fields<'_>) -> Result<Opened, DecodeError> {
    let wrong = |problem| DecodeError::envelope(NAME, problem);
    let data = fields
        .raw("Data")
        .ok_or_else(|| wrong("`Data` is missing"))?;
    let written = fields
        .object("SystemMetadata")
        .ok_or_else(|| wrong("`SystemMetadata` is missing"))?;
    let meta = EventBusMeta {
        event_id: written.text("aws:EventId"),
        is_replayed: written.text("aws:DeliveryType").as_deref() == Some("REPLAY"),
        event_group_id: written.text("EventGroupId"),
        sequence_number: written.text("aws:SequenceNumber"),
        ingestion_time: written.text("aws:IngestionTime"),
        source: written.text("aws:Source"),
        detail_type: written.text("aws:DetailType"),
    };
    let mut opened = Opened::new(data).with_metadata(meta);
    if let Some(published) = fields.object("Metadata") {
        for name in published.names() {
            if let Some(value) = published.text(name) {
                opened = opened.with_attribute(name, value);
            }
        }
    }
    Ok(opened)
}
