//! Builds an SQS event, as Lambda sends it, from an event, a message or a body.

use crate::message::{NewMessage, arn};
use crate::{REGION, millis};
use axum::body::Bytes;
use serde_json::{Map, Value, json};
use std::time::SystemTime;
use uuid::Uuid;

pub(crate) const SENDER_ID: &str = "AIDAIENQZJOLO23YVJ4VO";

/// An SQS event, ready to send to a function.
#[derive(Debug, Clone)]
pub struct Event {
    payload: Bytes,
    message_ids: Vec<String>,
    pub(crate) receipt_handles: Vec<String>,
    pub(crate) queue_arns: Vec<String>,
}

impl Event {
    /// Creates an event from `text`, which may be
    ///
    /// - an SQS event, which is an object with `Records`: sent unchanged, apart from surrounding whitespace;
    /// - one SQS message, as Lambda (`messageId` or `messageAttributes`, and `body`) or SQS (`MessageId` or
    ///   `MessageAttributes`, and `Body`) writes it: missing fields are filled in;
    /// - JSON Lines, with a message or a body on each line, or a list of messages, as EventBridge Pipes sends them;
    /// - any other JSON or text, such as an event of S3 or EventBridge: the body of one message.
    ///
    /// Filled-in fields describe a message that has just arrived, for the first time, from the standard queue called
    /// `queue`.
    ///
    /// # Errors
    /// [`EventError`] if the text is empty, looks like JSON or JSON Lines and is neither, or is what another service sends
    /// to a function without a queue.
    pub fn parse(text: &str, queue: &str) -> Result<Self, EventError> {
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return Err(EventError::Empty);
        }
        let looks_like_json = text.starts_with(['{', '[']);
        let messages = match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(event)) if event.contains_key("Records") => {
                match other_source(&event["Records"]) {
                    None => return Ok(Self::unchanged(text, &event["Records"])),
                    // S3 sends the same event to a queue, as the body of a message.
                    Some("aws:s3") => vec![bare_body(text)],
                    Some(source) => {
                        let service = source.to_owned();
                        return Err(EventError::OtherSource { service });
                    }
                }
            }
            Ok(Value::Array(list)) if !list.is_empty() && list.iter().all(is_any_message) => {
                list.into_iter().map(|json| message("", json)).collect()
            }
            Ok(json) => vec![message(text, json)],
            Err(_) if looks_like_json && begins_with_a_json_line(text) => json_lines(text)?,
            Err(source) if looks_like_json => return Err(EventError::Json { source }),
            Err(_) => vec![bare_body(text)],
        };
        Ok(Self::new(messages, queue))
    }

    /// Creates an event from messages as Lambda writes them. Fills in their missing fields.
    pub(crate) fn new(messages: impl IntoIterator<Item = Map<String, Value>>, queue: &str) -> Self {
        let records: Vec<Value> = messages
            .into_iter()
            .map(|message| record(message, queue))
            .collect();
        let payload = json!({"Records": records}).to_string();
        Self::of(payload.into(), &records)
    }

    fn unchanged(text: &str, records: &Value) -> Self {
        let payload = Bytes::copy_from_slice(text.as_bytes());
        Self::of(payload, records.as_array().map_or(&[], Vec::as_slice))
    }

    fn of(payload: Bytes, records: &[Value]) -> Self {
        Self {
            payload,
            message_ids: texts(records, "messageId"),
            receipt_handles: texts(records, "receiptHandle"),
            queue_arns: texts(records, "eventSourceARN"),
        }
    }

    /// The bytes to send to the function.
    pub fn payload(&self) -> Bytes {
        self.payload.clone()
    }

    /// The message ids of the records, in order. Records without an id are left out: the function decides how to treat
    /// them.
    pub fn message_ids(&self) -> &[String] {
        &self.message_ids
    }

    /// The records as messages to send, in order.
    ///
    /// # Errors
    /// [`EventError::Records`] if a record has no id or no body, or if there is no list of records.
    pub fn messages(&self) -> Result<Vec<NewMessage>, EventError> {
        let event: Value = serde_json::from_slice(&self.payload).unwrap_or_default();
        let records = event["Records"].as_array().ok_or(EventError::Records)?;
        let messages = records.iter().map(to_send);
        messages.collect::<Option<_>>().ok_or(EventError::Records)
    }
}

fn to_send(record: &Value) -> Option<NewMessage> {
    let text = |field: &Value| field.as_str().map(str::to_owned);
    let system = |name: &str| text(&record["attributes"][name]);
    let attributes = record["messageAttributes"].as_object();
    Some(NewMessage {
        attributes: attributes.map(to_sqs_api).unwrap_or_default(),
        group_id: system("MessageGroupId"),
        deduplication_id: system("MessageDeduplicationId"),
        trace_header: system("AWSTraceHeader"),
        ..NewMessage::new(text(&record["messageId"])?, text(&record["body"])?)
    })
}

/// Converts Lambda's attributes to the SQS API's, whose fields start with an upper-case letter and which has no lists.
fn to_sqs_api(attributes: &Map<String, Value>) -> Map<String, Value> {
    const FIELDS: [(&str, &str); 3] = [
        ("dataType", "DataType"),
        ("stringValue", "StringValue"),
        ("binaryValue", "BinaryValue"),
    ];
    let attribute = |(name, value): (&String, &Value)| {
        let fields = FIELDS.iter().filter_map(|(lambda, sqs)| {
            let value = value.get(lambda).filter(|value| !value.is_null())?;
            Some(((*sqs).to_owned(), value.clone()))
        });
        (name.clone(), Value::Object(fields.collect()))
    };
    attributes.iter().map(attribute).collect()
}

fn texts(records: &[Value], field: &str) -> Vec<String> {
    records
        .iter()
        .filter_map(|record| record[field].as_str())
        .map(str::to_owned)
        .collect()
}

fn begins_with_a_json_line(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    serde_json::from_str::<serde::de::IgnoredAny>(first).is_ok()
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

/// Returns `json` if it is a message, or else a message with the body `text`.
fn message(text: &str, json: Value) -> Map<String, Value> {
    match json {
        Value::Object(message) if is_message(&message, OF_LAMBDA) => message,
        Value::Object(message) if is_message(&message, OF_SQS) => from_sqs_api(message),
        _ => bare_body(text),
    }
}

/// The fields of a message as Lambda writes it: the body, and those of which a message has at least one.
const OF_LAMBDA: [&str; 4] = ["body", "messageId", "receiptHandle", "messageAttributes"];
/// The same fields as SQS writes them.
const OF_SQS: [&str; 4] = ["Body", "MessageId", "ReceiptHandle", "MessageAttributes"];

fn is_message(object: &Map<String, Value>, [body, ids @ ..]: [&str; 4]) -> bool {
    object.get(body).is_some_and(Value::is_string) && ids.iter().any(|id| object.contains_key(*id))
}

fn is_any_message(json: &Value) -> bool {
    let message = json.as_object();
    message.is_some_and(|it| is_message(it, OF_LAMBDA) || is_message(it, OF_SQS))
}

/// The service that has sent the records, if it is not SQS.
fn other_source(records: &Value) -> Option<&str> {
    let first = records.get(0)?;
    // SNS writes the field with an upper-case letter.
    let source = first
        .get("eventSource")
        .or_else(|| first.get("EventSource"))?;
    source.as_str().filter(|source| *source != "aws:sqs")
}

fn bare_body(text: &str) -> Map<String, Value> {
    Map::from_iter([("body".to_owned(), text.into())])
}

/// Converts field names from the SQS API's spelling to Lambda's, which starts with a lower-case letter.
pub(crate) fn from_sqs_api(message: Map<String, Value>) -> Map<String, Value> {
    let mut message = uncapitalized(message);
    if let Some(digest) = message.remove("mD5OfBody") {
        message.insert("md5OfBody".to_owned(), digest);
    }
    if let Some(Value::Object(attributes)) = message.get_mut("messageAttributes") {
        for attribute in attributes.values_mut().filter_map(Value::as_object_mut) {
            *attribute = uncapitalized(std::mem::take(attribute));
        }
    }
    message
}

fn uncapitalized(object: Map<String, Value>) -> Map<String, Value> {
    let fields = object.into_iter().map(|(name, value)| {
        let mut letters = name.chars();
        let first = letters.next().into_iter().flat_map(char::to_lowercase);
        (first.chain(letters).collect(), value)
    });
    fields.collect()
}

/// Fills in the fields that `message` lacks, which gives a record as Lambda sends it.
fn record(mut message: Map<String, Value>, queue: &str) -> Value {
    let body = message
        .get("body")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let now_ms = millis(SystemTime::now()).to_string();
    let defaults = json!({
        "messageId": Uuid::new_v4().to_string(),
        "receiptHandle": format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()),
        "attributes": {},
        "messageAttributes": {},
        "md5OfBody": format!("{:x}", md5::compute(body)),
        "eventSource": "aws:sqs",
        "eventSourceARN": arn(queue),
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

/// The text can't be made into an event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The text is empty.
    #[error(
        "the event is empty: give an SQS event, an SQS message, a body, or JSON Lines of bodies"
    )]
    Empty,
    /// The text looks like JSON but is not.
    #[error("the event looks like JSON but is not valid JSON")]
    Json {
        /// Where and why parsing failed.
        source: serde_json::Error,
    },
    /// The text looks like JSON Lines, but a line is not JSON.
    #[error("the event looks like JSON Lines, but line {number} is not valid JSON")]
    JsonLine {
        /// The line's number, counted from 1.
        number: usize,
        /// Where in the line parsing failed, and why.
        source: serde_json::Error,
    },
    /// The event is what another service sends to a function directly.
    #[error(
        "the event is from `{service}`, not from SQS: give the body of the message that {service} puts into the queue"
    )]
    OtherSource {
        /// The name of the service, such as `aws:sns`.
        service: String,
    },
    /// The event has no messages that could be sent.
    #[error(
        "the event has no list of `Records`, each with a `messageId` and a `body` that are texts"
    )]
    Records,
}
