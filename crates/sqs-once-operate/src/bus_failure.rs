//! Failure records of EventBridge's custom event bus.

use serde::Deserialize;

/// What a subscriber of a custom event bus sends to the queue of its `OnFailureConfiguration`: a report on events that it
/// could not deliver, without the events.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BusFailure {
    /// The ARN of the bus.
    pub bus_arn: String,
    /// The ARN of the subscriber.
    pub subscriber_arn: String,
    /// The ARN of the queue that the events were for.
    pub target_arn: String,
    /// EventBridge's code, for example `ACCESS_DENIED`.
    pub error_code: String,
    /// The error in words.
    pub error_message: Option<String>,
    /// The events.
    pub failed_messages: Vec<FailedEvent>,
    #[serde(skip)]
    pub(crate) reason: String,
}

/// An event that was not delivered.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FailedEvent {
    /// Its ID on the bus.
    pub event_id: String,
    /// Its time, as in RFC 3339.
    pub timestamp: String,
}

impl BusFailure {
    pub(crate) fn from_body(body: &str) -> Option<Self> {
        let mut failure: Self = serde_json::from_str(body).ok()?;
        failure.reason = failure.in_words();
        failure.bus_arn.contains(":event-busv2/").then_some(failure)
    }

    /// The events, the bus, and EventBridge's error.
    fn in_words(&self) -> String {
        let events = self.failed_messages.iter().map(|event| &*event.event_id);
        // Without spaces, so that records of one event and of several are in one group.
        let events = events.collect::<Vec<_>>().join(",");
        let bus = self.bus_arn.split('/').nth(1).unwrap_or(&self.bus_arn);
        let code = &self.error_code;
        let message = self.error_message.as_deref().unwrap_or("no message");
        format!("not delivered: event {events} of the bus {bus}: {code}: {message}")
    }
}
