//! Events for tests.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::lambda::LenientEvent;

use super::clock::BEGINNING;

const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";

/// A batch as Lambda sends it. It has the attributes that SQS sets, except checksums, with the same values in every
/// run.
///
/// ```
/// use serde_json::json;
/// use sqs_once::testing::{Event, Record};
///
/// let order = json!({ "order_id": "o-1001" });
///
/// // One record for each payload. The message ids are m-1, m-2 and so on.
/// let event = Event::new([&order, &json!({ "order_id": "o-1002" })]);
///
/// // Other properties of a record.
/// let event = Event::new([
///     Record::json(&order).attribute("tenant", "t-7").receive_count(3),
///     Record::text("no JSON").message_id("poison"),
/// ]);
///
/// // A sample event.
/// let event = Event::from_json(r#"{ "Records": [{ "messageId": "f6ee9120", "body": "{}" }] }"#);
/// ```
#[derive(Clone, Debug)]
pub struct Event {
    json: String,
}

impl Event {
    /// Creates an event from payloads by reference, which become JSON bodies, or from [`Record`]s.
    #[must_use]
    pub fn new<R: Into<Record>>(records: impl IntoIterator<Item = R>) -> Self {
        let records = records.into_iter().zip(1..);
        let records: Vec<_> = records
            .map(|(record, place)| record.into().finish(place))
            .collect();
        Self {
            json: json!({ "Records": records }).to_string(),
        }
    }

    /// Creates an event from the JSON of a file or of Lambda's console.
    ///
    /// # Panics
    /// If it is not an SQS event, that is, a JSON object with the array `Records`, or the array that an EventBridge pipe
    /// sends.
    #[must_use]
    #[track_caller]
    pub fn from_json(json: impl Into<String>) -> Self {
        let event = Self::try_from_json(json);
        event.unwrap_or_else(|error| panic!("this is not an SQS event: {error}"))
    }

    /// Creates an event from any text.
    ///
    /// # Errors
    /// If the text is not JSON, or not an object with the array `Records`, and not an array of records. Lambda's
    /// invocation would then fail before it reads any record.
    pub fn try_from_json(json: impl Into<String>) -> Result<Self, serde_json::Error> {
        let json = json.into();
        serde_json::from_str::<LenientEvent>(&json)?;
        Ok(Self { json })
    }

    /// Returns the event as JSON text.
    pub fn as_json(&self) -> &str {
        &self.json
    }

    pub(super) fn read(&self) -> LenientEvent {
        // `new` wrote the JSON, or `try_from_json` checked it.
        serde_json::from_str(&self.json).expect("an event is an SQS event")
    }
}

/// One message of an [`Event`]. By default SQS delivers it for the first time, from a standard queue, without message
/// attributes.
#[derive(Clone, Debug, Default)]
pub struct Record {
    message_id: Option<String>,
    body: Option<String>,
    system_attributes: Map<String, Value>,
    attributes: Map<String, Value>,
    is_fifo: bool,
}

impl Record {
    /// Creates a message with the payload as its JSON body.
    ///
    /// # Panics
    /// If the payload can't be written as JSON.
    #[must_use]
    #[track_caller]
    pub fn json<T: Serialize + ?Sized>(payload: &T) -> Self {
        match serde_json::to_string(payload) {
            Ok(body) => Self::text(body),
            Err(error) => panic!("the payload can't be written as JSON: {error}"),
        }
    }

    /// Creates a message with any text as its body.
    #[must_use]
    pub fn text(body: impl Into<String>) -> Self {
        Self {
            body: Some(body.into()),
            ..Self::default()
        }
    }

    /// Sets the message id. Default: `m-` and the message's place in the event, from 1.
    ///
    /// A message that is sent again, or redriven, has another id. A message that is delivered again keeps its id.
    #[must_use]
    pub fn message_id(mut self, id: impl Into<String>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// Puts the message into a group of a FIFO queue. All messages of the event should come from that queue.
    #[must_use]
    pub fn fifo(mut self, group: impl Into<String>) -> Self {
        self.is_fifo = true;
        self.system_attribute("MessageGroupId", group)
    }

    /// Sets how often the message was delivered, including this time. Default: 1.
    #[must_use]
    pub fn receive_count(self, count: u32) -> Self {
        self.system_attribute("ApproximateReceiveCount", count.to_string())
    }

    /// Sets a message attribute of the type `String`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let attribute = json!({
            "stringValue": value.into(),
            "stringListValues": [],
            "binaryListValues": [],
            "dataType": "String",
        });
        self.attributes.insert(name.into(), attribute);
        self
    }

    /// Sets a system attribute, such as `SenderId` or `AWSTraceHeader`.
    #[must_use]
    pub fn system_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let value = Value::String(value.into());
        self.system_attributes.insert(name.into(), value);
        self
    }

    /// Returns the record as Lambda sends it, at this position in its event.
    fn finish(self, place: u64) -> Value {
        let id = self.message_id.unwrap_or_else(|| format!("m-{place}"));
        let sent = BEGINNING.as_millis() - 1000 + place;
        let mut attributes = Map::new();
        let mut set = |name: &str, value: String| attributes.insert(name.to_owned(), value.into());
        set("ApproximateReceiveCount", "1".to_owned());
        set("SentTimestamp", sent.to_string());
        set("SenderId", "AIDAIENQZJOLO23YVJ4VO".to_owned());
        set("ApproximateFirstReceiveTimestamp", (sent + 9).to_string());
        if self.is_fifo {
            set("SequenceNumber", format!("1885{place:016}"));
            set("MessageDeduplicationId", format!("deduplication-{id}"));
        }
        attributes.extend(self.system_attributes);
        json!({
            "receiptHandle": format!("receipt-handle-of-{id}"),
            "messageId": id,
            "body": self.body,
            "attributes": attributes,
            "messageAttributes": self.attributes,
            "eventSource": "aws:sqs",
            "eventSourceARN": if self.is_fifo { format!("{QUEUE}.fifo") } else { QUEUE.to_owned() },
            "awsRegion": "eu-central-1",
        })
    }
}

/// A payload becomes the message's JSON body.
impl<T: Serialize + ?Sized> From<&T> for Record {
    #[track_caller]
    fn from(payload: &T) -> Self {
        Self::json(payload)
    }
}
