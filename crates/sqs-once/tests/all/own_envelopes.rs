//! Custom envelopes: when they are opened, and the metadata that a handler can extract.

use crate::support::sqs::Sqs;
use crate::support::{Bench, DLQ, Notes, Tested, assert_contains, body, in_group, messages};
use serde::de::IgnoredAny;
use serde_json::json;
use sqs_once::body::{DecodeError, Envelope, EventBridge, Opened, Sns, Text};
use sqs_once::extract::{FromRecord, Message, RecordParts, SnsMeta};
use sqs_once::{Batch, Handler, HandlerError};
use std::sync::Arc;

/// The format `tenant|payload`. Counts how often it is opened.
#[derive(Clone, Default)]
struct Tenanted(Notes<()>);

#[derive(Clone)]
struct Tenant(String);

impl Envelope for Tenanted {
    fn open(&self, content: &str, message: &Message) -> Result<Opened, DecodeError> {
        self.0.add(());
        assert_eq!(message.content(), message.body());
        match content.split_once('|') {
            Some(("nobody", _)) => Ok(Opened::ignored("nobody wants it")),
            Some(("bomb", _)) => panic!("4111-1111"),
            Some((tenant, payload)) => {
                let opened = Opened::new(payload).with_attribute("tenant", tenant);
                Ok(opened.with_metadata(Tenant(tenant.to_owned())))
            }
            None => Err(DecodeError::envelope("tenant", "it has no `|`")),
        }
    }
}

impl<S: Sync> FromRecord<S> for Tenant {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        let tenant = parts.message().metadata::<Self>().cloned();
        tenant.ok_or_else(|| HandlerError::terminal("no tenant"))
    }
}

fn tenanted() -> (Tested, Tenanted) {
    let envelope = Tenanted::default();
    let handler = Handler::decode(Text)
        .key(|payload: &String| payload.clone())
        .call(async |payload: String, tenant: Tenant| {
            assert_eq!(payload, format!("of {}", tenant.0));
        })
        .envelope(envelope.clone());
    (Bench::new().on(handler), envelope)
}

#[tokio::test(start_paused = true)]
async fn without_an_envelope_the_body_is_the_payload() {
    const WRAPPED: &str =
        r#"{"Type":"Notification","TopicArn":"arn:aws:sns:x:1:y","Message":"inside"}"#;
    let reading = Handler::decode(Text)
        .key(|payload: &String| payload.clone())
        .call(async |text: String, message: Arc<Message>| {
            assert_eq!((&*text, message.content()), (WRAPPED, message.body()));
        });
    assert_eq!(Bench::new().on(reading).run([body(WRAPPED)]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_ignores_or_panics_ends_its_record_alone() {
    let (bench, _) = tenanted();
    let batch = ["a|of a", "canary", "bomb|", "nobody|", "b|of b"].map(body);
    assert_eq!(bench.run(batch).await, ["m-1", "m-2"]);
    let broken = "the tenant envelope can't be opened: it has no `|`";
    assert_contains!(bench.log.all(), broken, "nobody wants it");
    let outcomes = "processed terminal terminal ignored processed";
    assert_eq!(bench.outcomes(), outcomes);
}

#[tokio::test(start_paused = true)]
async fn an_envelope_is_opened_when_its_record_is_taken_up_and_not_before_or_without_a_body() {
    let (bench, envelope) = tenanted();
    assert_eq!(bench.run([json!({})]).await, ["m-0"]);
    bench.assert_ended("terminal", "the message has no body");
    assert_eq!(envelope.0.len(), 0);
    let batch = ["canary", "a|of a"].map(|content| in_group("g", body(content)));
    // After the first failure, the consumer returns the rest of the group without opening it.
    assert_eq!(bench.run(batch).await, ["m-0", "m-1"]);
    assert_eq!(envelope.0.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_keeps_its_envelope() {
    let sqs = Sqs::default();
    let refusing = async |_: IgnoredAny| Err::<(), _>(HandlerError::terminal("no such card"));
    let refusing = messages().call(refusing).envelope(EventBridge);
    let bench = Bench::new()
        .on(refusing)
        .with_consumer(|it| it.queue(sqs.queue().dead_letter_queue(DLQ)));
    let whole = r#"{"id": "e-1", "detail": {"id": 1}}"#;
    assert_eq!(bench.run([body(whole)]).await, [""; 0]);
    let [sent] = sqs.asked("SendMessage").try_into().unwrap();
    assert_eq!(sent["MessageBody"], whole);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_for_an_envelope_that_was_not_there_is_told_so() {
    let asking = messages().call(async |_: IgnoredAny, _: SnsMeta| {});
    let bench = Bench::new().on(asking.envelope(Sns));
    assert_eq!(bench.run([body("{}")]).await, ["m-0"]);
    let line = bench.line();
    assert_eq!(line["outcome"], "terminal");
    assert_contains!(line["reason"], "asks for SnsMeta");
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_gets_what_is_opened_and_nothing_that_is_ignored() {
    let handler = Handler::decode(Text)
        .key(|payload: &String| payload.clone())
        .call_batch(async |batch: Batch<String>| {
            let mut outcome = batch.outcome();
            for record in &batch {
                let tenant = record.extract::<Tenant>().await?;
                if *record.payload() == format!("of {}", tenant.0) {
                    outcome.succeeded(record);
                }
            }
            Ok::<_, HandlerError>(outcome)
        })
        .envelope(Tenanted::default());
    let bench = Bench::new().on(handler);
    let records = ["a|of a", "nobody|x", "bomb|x", "b|of b", "c|of a", "c|of b"].map(body);
    assert_eq!(bench.run(records).await, ["m-2"]);
    let outcomes = "processed ignored terminal processed duplicate duplicate";
    assert_eq!(bench.outcomes(), outcomes);
}
