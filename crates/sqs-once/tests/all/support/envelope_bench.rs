//! A consumer that opens envelopes and records its handler's arguments.

use serde_json::{Value, json};
use sqs_once::Handler;
use sqs_once::body::{Envelope, Text};
use sqs_once::extract::{EventBridgeMeta, S3Object, SnsMeta};
use sqs_once::key::KeyExtractor;

use super::{Bench, Notes, Tested, body, ends, names};

/// The records of a sample event from the repository.
pub(crate) fn sample(name: &str) -> Vec<Value> {
    let path = format!("{}/../../events/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let event: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    event["Records"].as_array().unwrap().clone()
}

pub(crate) fn sns(message_id: &str, message: &str) -> Value {
    json!({
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:orders",
        "Message": message,
        "Timestamp": "2026-01-01T00:00:00.000Z",
        "SignatureVersion": "1",
    })
}

pub(crate) fn publication(message_id: &str, message: &str) -> String {
    sns(message_id, message).to_string()
}

pub(crate) fn attributed(message: &str, attributes: &[(&str, &str)]) -> Value {
    let mut published = sns("n-1", message);
    for (name, value) in attributes {
        published["MessageAttributes"][name] = json!({ "Type": "String", "Value": value });
    }
    published
}

pub(crate) fn event_bridge(id: &str, detail: &str) -> String {
    let event = json!({
        "version": "0", "id": id, "detail-type": "OrderPlaced", "source": "com.example.shop",
        "account": "123456789012", "time": "2026-01-01T00:00:00Z", "region": "eu-central-1",
        "resources": [], "detail": "DETAIL",
    });
    event.to_string().replace("\"DETAIL\"", detail)
}

/// The handler's arguments: the content and the envelopes' metadata.
pub(crate) type Given = (
    String,
    Option<SnsMeta>,
    Option<EventBridgeMeta>,
    Option<S3Object>,
);

pub(crate) struct EnvelopeBench {
    pub(crate) bench: Tested,
    given: Notes<Given>,
}

pub(crate) fn envelope_bench(
    envelope: impl Envelope,
    key: impl KeyExtractor<String>,
) -> EnvelopeBench {
    let (given, notes) = Notes::pair();
    let keyed = Handler::decode(Text).key(key);
    let noting = keyed.call(move |text: String, sns, event, object| {
        notes.add((text, sns, event, object));
        async {}
    });
    EnvelopeBench {
        bench: Bench::new().on(noting.envelope(envelope)),
        given,
    }
}

/// Uses the content as the key, so each payload is its own event.
#[allow(clippy::ptr_arg, reason = "a key is taken from the payload type")]
pub(crate) fn whole(text: &String) -> String {
    text.clone()
}

impl EnvelopeBench {
    /// The outcome and the reason of each record, in the batch's order.
    pub(crate) async fn ends(&self, records: &[Value]) -> Vec<(String, String)> {
        self.bench.run(records.to_vec()).await;
        let mut lines = self.bench.lines();
        // The records of a sample have their own message IDs.
        lines.sort_by_key(|line| {
            let is = |record: &Value| record["messageId"] == line["message_id"];
            records.iter().position(is)
        });
        ends(lines)
    }

    /// The outcomes of these bodies, in their order.
    pub(crate) async fn outcomes(&self, bodies: impl IntoIterator<Item: AsRef<str>>) -> String {
        let records = bodies.into_iter().map(|text| body(text.as_ref()));
        let ends = self.ends(&records.collect::<Vec<_>>()).await;
        names(&ends).join(" ")
    }

    pub(crate) async fn reason(&self, content: &str) -> String {
        let [(outcome, reason)] = self.ends(&[body(content)]).await.try_into().unwrap();
        assert_eq!(outcome, "terminal", "{reason}");
        reason
    }

    pub(crate) fn given(&self) -> Vec<Given> {
        self.given.take()
    }
}
