//! Reads messages from a file of events or bodies.

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use sqs_once_local::{Event, NewMessage};

const NO_RECORDS: &str = "its event has no list of `Records`, each with a `body` that is a text";

/// Reads messages from any text that `invoke` accepts as an event. On a FIFO queue, a message without a group joins the
/// group `default`, and a message without a deduplication id uses its message id.
pub(crate) fn messages(text: &str, queue: &str) -> Result<Vec<NewMessage>> {
    let event = Event::parse(text, queue)?;
    let event: Value = serde_json::from_slice(&event.payload()).context(NO_RECORDS)?;
    let records = event["Records"].as_array().context(NO_RECORDS)?;
    let is_fifo = queue.ends_with(".fifo");
    records
        .iter()
        .map(|record| message(record, is_fifo).context(NO_RECORDS))
        .collect()
}

fn message(record: &Value, is_fifo: bool) -> Option<NewMessage> {
    let id = record["messageId"].as_str()?;
    let system = |name: &str| record["attributes"][name].as_str().map(str::to_owned);
    let or = |value: Option<String>, other: &str| value.or(is_fifo.then(|| other.to_owned()));
    let attributes = record["messageAttributes"].as_object();
    Some(NewMessage {
        attributes: attributes.map(to_sqs_api).unwrap_or_default(),
        group_id: or(system("MessageGroupId"), "default"),
        deduplication_id: or(system("MessageDeduplicationId"), id).filter(|_| is_fifo),
        trace_header: system("AWSTraceHeader"),
        ..NewMessage::new(id, record["body"].as_str()?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_keeps_what_sqs_knows_of_it() {
        let event = json!({"Records": [{
            "messageId": "m-1", "body": "{}",
            "attributes": {"MessageGroupId": "a", "MessageDeduplicationId": "d", "AWSTraceHeader": "Root=1"},
            "messageAttributes": {"tenant": {
                "dataType": "String", "stringValue": "acme", "binaryValue": null, "stringListValues": [],
            }},
        }]});
        let sent = messages(&event.to_string(), "q.fifo").unwrap();
        let tenant = json!({"DataType": "String", "StringValue": "acme"});
        let expected = NewMessage {
            attributes: Map::from_iter([("tenant".to_owned(), tenant)]),
            trace_header: Some("Root=1".to_owned()),
            ..NewMessage::new("m-1", "{}").in_group("a", "d")
        };
        assert_eq!(sent, [expected]);
    }

    #[test]
    fn bodies_get_what_their_queue_needs() {
        let sent = messages("{\"order\": 1}\n{\"order\": 2}\n", "q.fifo").unwrap();
        assert_eq!(sent[0].group_id.as_deref(), Some("default"));
        assert_eq!(sent[0].deduplication_id.as_deref(), Some(&*sent[0].id));
        assert_ne!(sent[0].deduplication_id, sent[1].deduplication_id);
        let sent = messages("hello", "q").unwrap();
        assert_eq!((sent[0].body.as_str(), &sent[0].group_id), ("hello", &None));
    }

    #[test]
    fn an_event_that_is_none_is_refused() {
        for text in [r#"{"Records": 1}"#, r#"{"Records": [{"messageId": "m"}]}"#] {
            let error = messages(text, "q").unwrap_err();
            assert_eq!(error.to_string(), NO_RECORDS, "{text}");
        }
    }
}
