//! A consumer that opens envelopes and records its handler's arguments.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use sqs_once::body::{Envelope, Text};
use sqs_once::extract::{EventBridgeMeta, S3Object, SnsMeta};
use sqs_once::key::KeyExtractor;
use sqs_once::{Consumer, consumer_with};

use super::{Bench, Line, body, event};

/// A sample event from the repository.
pub(crate) fn sample(name: &str) -> Value {
    let path = format!("{}/../../events/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The handler's arguments: the content and the envelopes' metadata.
pub(crate) type Given = (
    String,
    Option<SnsMeta>,
    Option<EventBridgeMeta>,
    Option<S3Object>,
);

pub(crate) struct EnvelopeBench {
    pub(crate) bench: Bench,
    pub(crate) consumer: Consumer,
    given: Arc<Mutex<Vec<Given>>>,
}

pub(crate) fn envelope_bench(
    envelope: impl Envelope,
    key: impl KeyExtractor<String>,
) -> EnvelopeBench {
    let bench = Bench::new();
    let given = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let given = Arc::clone(&given);
        consumer_with(Text).key(key).envelope(envelope).handler(
            move |text: String, sns, event, object| {
                given.lock().unwrap().push((text, sns, event, object));
                async {}
            },
        )
    };
    EnvelopeBench {
        consumer: bench.consumer(noting),
        bench,
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
    pub(crate) async fn ends(&self, event: Value) -> Vec<(String, String)> {
        let ids = event["Records"].as_array().unwrap().clone();
        self.bench.invoke(&self.consumer, event).await;
        let lines = self.bench.log.take("sqs_once::record");
        let ends = ids.iter().map(|record| {
            let of = |line: &&Line| line["message_id"] == record["messageId"];
            let line = lines.iter().find(of).unwrap();
            let reason = line.get("reason").cloned().unwrap_or_default();
            (line["outcome"].clone(), reason)
        });
        ends.collect()
    }

    pub(crate) async fn reason(&self, content: &str) -> String {
        let [(outcome, reason)] = self.ends(event([body(content)])).await.try_into().unwrap();
        assert_eq!(outcome, "terminal", "{reason}");
        reason
    }

    pub(crate) fn given(&self) -> Vec<Given> {
        std::mem::take(&mut self.given.lock().unwrap())
    }

    pub(crate) fn contents(&self) -> Vec<String> {
        let given = self.given().into_iter();
        given.map(|(text, ..)| text).collect()
    }
}

pub(crate) fn names(ends: &[(String, String)]) -> Vec<&str> {
    ends.iter().map(|(outcome, _)| outcome.as_str()).collect()
}
