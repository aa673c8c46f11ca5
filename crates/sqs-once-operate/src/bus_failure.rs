//! Failure records of EventBridge's custom event bus.

use serde_json::Value;

/// What a subscriber of a custom event bus sends to the queue of its `OnFailureConfiguration`: a report on events that it
/// could not deliver, without the events. Fields are empty if the report lacks them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BusFailure {
    /// The ARN of the bus.
    pub bus_arn: String,
    /// The ARN of the subscriber.
    pub subscriber_arn: String,
    /// The events.
    pub failed_messages: Vec<FailedEvent>,
    pub(crate) reason: String,
}

/// An event that was not delivered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedEvent {
    /// Its ID on the bus.
    pub event_id: String,
    /// Its time, as in RFC 3339.
    pub timestamp: String,
}

impl BusFailure {
    /// Reads the record. Its bus alone decides: a record without the other fields is not an event either.
    pub(crate) fn from_body(body: &str) -> Option<Self> {
        let record: Value = serde_json::from_str(body).ok()?;
        let bus_arn = text(&record, "busArn");
        if !bus_arn.contains(":event-busv2/") {
            return None;
        }
        let events = record["failedMessages"].as_array().into_iter().flatten();
        let events = events.filter(|event| event["eventId"].is_string());
        let events = events.map(|event| FailedEvent {
            event_id: text(event, "eventId"),
            timestamp: text(event, "timestamp"),
        });
        let failed_messages: Vec<_> = events.collect();
        Some(Self {
            reason: in_words(&record, &bus_arn, &failed_messages),
            bus_arn,
            subscriber_arn: text(&record, "subscriberArn"),
            failed_messages,
        })
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// The events, the bus, and EventBridge's error.
fn in_words(record: &Value, bus_arn: &str, events: &[FailedEvent]) -> String {
    let ids: Vec<_> = events.iter().map(|event| &*event.event_id).collect();
    // Without spaces, so that records of one event and of several are in one group.
    let ids = ids.join(",");
    let bus = bus_arn.split('/').nth(1).unwrap_or(bus_arn);
    let code = record["errorCode"].as_str().unwrap_or("no code");
    let message = record["errorMessage"].as_str().unwrap_or("no message");
    format!("not delivered: event {ids} of the bus {bus}: {code}: {message}")
}
