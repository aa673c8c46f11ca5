//! From whatever a developer has at hand to an SQS event as Lambda sends it.

use crate::{ACCOUNT_ID, REGION};
use axum::body::Bytes;
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Who has sent every message here.
pub(crate) const SENDER_ID: &str = "AIDAIENQZJOLO23YVJ4VO";

/// An SQS event, ready to be sent to a function.
#[derive(Debug, Clone)]
pub struct Event {
    payload: Bytes,
    message_ids: Vec<String>,
}

impl Event {
    /// Makes an event out of `text`, which may be
    ///
    /// - an SQS event, that is an object with `Records`: sent as it stands, byte for byte;
    /// - one SQS message, as Lambda (`messageId`, `body`) or SQS (`MessageId`, `Body`) writes it:
    ///   what it lacks is filled in;
    /// - JSON Lines: a message or a body a line;
    /// - any other JSON or text: the body of one message.
    ///
    /// Messages are made up as if they had just arrived, for the first time, from the standard
    /// queue called `queue`.
    ///
    /// # Errors
    /// [`EventError`] if the text is empty, or looks like JSON or JSON Lines and is neither.
    pub fn parse(text: &str, queue: &str) -> Result<Self, EventError> {
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return Err(EventError::Empty);
        }
        let looks_like_json = text.starts_with(['{', '[']);
        let messages = match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(event)) if event.contains_key("Records") => {
                return Ok(Self::unchanged(text, &event["Records"]));
            }
            Ok(json) => vec![message(text, json)],
            Err(_) if looks_like_json && is_json(first_line(text)) => json_lines(text)?,
            Err(source) if looks_like_json => return Err(EventError::Json { source }),
            Err(_) => vec![bare_body(text)],
        };
        Ok(Self::new(messages, queue))
    }

    /// An event of messages as Lambda writes them, whose lacks are filled in.
    pub(crate) fn new(messages: impl IntoIterator<Item = Map<String, Value>>, queue: &str) -> Self {
        let records: Vec<Value> = messages
            .into_iter()
            .map(|message| record(message, queue))
            .collect();
        let message_ids = message_ids(&records);
        Self {
            payload: json!({"Records": records}).to_string().into(),
            message_ids,
        }
    }

    fn unchanged(text: &str, records: &Value) -> Self {
        Self {
            payload: Bytes::copy_from_slice(text.as_bytes()),
            message_ids: message_ids(records.as_array().map_or(&[], Vec::as_slice)),
        }
    }

    /// The event as it goes to the function.
    pub fn payload(&self) -> Bytes {
        self.payload.clone()
    }

    /// The message ids of its records, in their order. A record without one is left out: what to
    /// make of it is the function's business.
    pub fn message_ids(&self) -> &[String] {
        &self.message_ids
    }
}

fn message_ids(records: &[Value]) -> Vec<String> {
    records
        .iter()
        .filter_map(|record| record["messageId"].as_str())
        .map(str::to_owned)
        .collect()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn json_lines(text: &str) -> Result<Vec<Map<String, Value>>, EventError> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| match serde_json::from_str(line) {
            Ok(json) => Ok(message(line, json)),
            Err(source) => Err(EventError::JsonLine { number, source }),
        })
        .collect()
}

/// A message, or what is known of it: `json` is one, or else `text` is its body.
fn message(text: &str, json: Value) -> Map<String, Value> {
    match json {
        Value::Object(message) if is_message(&message, "body", &["messageId", "receiptHandle"]) => {
            message
        }
        Value::Object(message) if is_message(&message, "Body", &["MessageId", "ReceiptHandle"]) => {
            from_sqs_api(message)
        }
        _ => bare_body(text),
    }
}

fn is_message(object: &Map<String, Value>, body: &str, ids: &[&str]) -> bool {
    object.get(body).is_some_and(Value::is_string) && ids.iter().any(|id| object.contains_key(*id))
}

fn bare_body(text: &str) -> Map<String, Value> {
    Map::from_iter([("body".to_owned(), text.into())])
}

/// Lambda spells the fields of the SQS API with a small first letter.
pub(crate) fn from_sqs_api(message: Map<String, Value>) -> Map<String, Value> {
    message
        .into_iter()
        .map(|(name, value)| match (name.as_str(), value) {
            ("MD5OfBody", value) => ("md5OfBody".to_owned(), value),
            ("MessageAttributes", Value::Object(attributes)) => {
                let attributes = attributes
                    .into_iter()
                    .map(|(name, attribute)| match attribute {
                        Value::Object(fields) => {
                            let fields = fields
                                .into_iter()
                                .map(|(name, value)| (uncapitalized(&name), value));
                            (name, Value::Object(fields.collect()))
                        }
                        other => (name, other),
                    });
                (
                    "messageAttributes".to_owned(),
                    Value::Object(attributes.collect()),
                )
            }
            (name, value) => (uncapitalized(name), value),
        })
        .collect()
}

fn uncapitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .map(|first| first.to_lowercase().chain(letters).collect())
        .unwrap_or_default()
}

/// A record as Lambda sends it: `message` with all that it lacks.
fn record(mut message: Map<String, Value>, queue: &str) -> Value {
    let body = message
        .get("body")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis()
        .to_string();
    let defaults = json!({
        "messageId": Uuid::new_v4().to_string(),
        "receiptHandle": format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()),
        "attributes": {},
        "messageAttributes": {},
        "md5OfBody": format!("{:x}", md5::compute(body)),
        "eventSource": "aws:sqs",
        "eventSourceARN": format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}"),
        "awsRegion": REGION,
    });
    fill(&mut message, defaults);
    if let Some(Value::Object(attributes)) = message.get_mut("attributes") {
        fill(
            attributes,
            json!({
                "ApproximateReceiveCount": "1",
                "SentTimestamp": now_ms,
                "SenderId": SENDER_ID,
                "ApproximateFirstReceiveTimestamp": now_ms,
            }),
        );
    }
    Value::Object(message)
}

fn fill(object: &mut Map<String, Value>, defaults: Value) {
    if let Value::Object(defaults) = defaults {
        for (name, value) in defaults {
            object.entry(name).or_insert(value);
        }
    }
}

/// A text that no event can be made of.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// There is nothing in it.
    #[error(
        "the event is empty: give an SQS event, an SQS message, a body, or JSON Lines of bodies"
    )]
    Empty,
    /// It looks like JSON and is not.
    #[error("the event looks like JSON but is not valid JSON")]
    Json {
        /// Where and why.
        source: serde_json::Error,
    },
    /// It looks like JSON Lines, and a line is not JSON.
    #[error("the event looks like JSON Lines, but line {number} is not valid JSON")]
    JsonLine {
        /// The line's number, counted from 1.
        number: usize,
        /// Where in it, and why.
        source: serde_json::Error,
    },
}
