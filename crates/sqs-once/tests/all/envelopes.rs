//! The envelopes of SNS, EventBridge and S3, and custom ones: metadata, reasons, keys, and when they are opened. The fuzzing
//! of `envelope` checks the payloads.

use std::slice;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sqs_once::body::{Auto, DecodeError, Envelope, EventBridge, EventBus, Opened, S3, Sns, Text};
use sqs_once::extract::{EventBridgeMeta, FromRecord, Message, RecordParts, SnsMeta};
use sqs_once::key::MessageKey;
use sqs_once::{Batch, Handler, HandlerError};

use crate::support::envelope_bench::{
    attributed, envelope_bench, event_bridge, publication, sample, sns, whole,
};
use crate::support::{
    Bench, Notes, OpenedBy, Tested, assert_contains, assert_lacks, body, codes, in_group,
    json_body, messages, names, told, with, with_attribute,
};

fn s3(object: &Value) -> Value {
    json!({ "Records": [{
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "s3": { "bucket": { "name": "invoices" }, "object": object },
    }] })
}

#[tokio::test(start_paused = true)]
async fn what_sns_delivers_is_opened_with_its_attributes_and_what_it_says() {
    let opening = envelope_bench(Sns, MessageKey::attribute("order-id"));
    let ends = opening.ends(&sample("sns-envelope")).await;
    assert_eq!(names(&ends), ["processed"; 2]);
    let given = opening.given();
    let (content, Some(sns), None, None) = &given[0] else {
        panic!("{given:?}")
    };
    let order: Value = serde_json::from_str(content).unwrap();
    assert_eq!(order["order_id"], "o-4001");
    let topic = "arn:aws:sns:eu-central-1:123456789012:orders";
    assert_eq!(sns.topic_arn, topic);
    assert_eq!(sns.subject.as_deref(), Some("An order"));
    assert_eq!(sns.timestamp.as_deref(), Some("2026-01-01T00:00:00.000Z"));
    assert_eq!(sns.message_id.as_ref().unwrap().len(), 36);
    assert_eq!(given[1].1.as_ref().unwrap().subject, None);
}

#[tokio::test(start_paused = true)]
async fn raw_delivery_passes_through_and_is_a_duplicate_of_what_came_in_an_envelope() {
    let opening = envelope_bench(Sns, MessageKey::attribute("order-id"));
    let enveloped = attributed(r#"{"total": 1}"#, &[("order-id", "o-1")]);
    let raw = |order: &str| with_attribute(body(r#"{ "total":1 }"#), "order-id", order);
    let other = with_attribute(body(r#"{ "total": 2 }"#), "order-id", "o-1");
    let batch = [json_body(&enveloped), raw("o-1"), raw("o-2"), other];
    let ends = opening.ends(&batch).await;
    let expected = [("processed", ""), ("duplicate", ""), ("processed", "")];
    assert_eq!(told(&ends)[..3], expected);
    assert_eq!(ends[3].0, "terminal");
    assert_contains!(ends[3].1, "two different messages");
    let second = (r#"{ "total":1 }"#.to_owned(), None, None, None);
    assert_eq!(opening.given()[1], second);
}

#[tokio::test(start_paused = true)]
async fn what_eventbridge_delivers_is_opened_with_what_it_says() {
    let opening = envelope_bench(EventBridge, MessageKey::json_pointer("/order_id"));
    let records = sample("event-bridge");
    let first: Value = serde_json::from_str(records[0]["body"].as_str().unwrap()).unwrap();
    let ends = opening.ends(&records).await;
    assert_eq!(names(&ends), ["processed", "processed", "duplicate"]);
    assert_eq!(ends[2].1, "", "its id and time are not the payload");
    let given = opening.given();
    let detail: Value = serde_json::from_str(&given[0].0).unwrap();
    assert_eq!(detail, first["detail"]);
    let meta = given[0].2.as_ref().unwrap();
    assert_eq!(meta.id.as_deref(), first["id"].as_str());
    assert_eq!(meta.source.as_deref(), Some("com.example.shop"));
    assert_eq!(meta.detail_type.as_deref(), Some("OrderPlaced"));
    assert_eq!(meta.account.as_deref(), Some("123456789012"));
    assert_eq!(meta.region.as_deref(), Some("eu-central-1"));
    assert_eq!(meta.time.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(json!(meta.resources), first["resources"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_rules_input_transformer_leaves_of_an_event_is_enough() {
    let opening = envelope_bench(EventBridge, whole);
    let transformed = r#"{"detail": {"a": 1}, "resources": 7}"#;
    assert_eq!(opening.outcomes([transformed]).await, "processed");
    assert_eq!(opening.given()[0].2, Some(EventBridgeMeta::default()));
}

/// What a subscriber of an event bus sends.
fn from_bus(id: &str, delivery: &str, data: &str) -> String {
    let written =
        json!({ "aws:EventId": id, "aws:DeliveryType": delivery, "aws:SequenceNumber": "7" });
    let around = json!({ "Data": 0, "Metadata": { "tenant": "seven" }, "SystemMetadata": written });
    let around = around.to_string();
    around.replace(r#""Data":0"#, &format!(r#""Data":{data}"#))
}

#[tokio::test(start_paused = true)]
async fn what_an_event_bus_delivers_is_opened_and_its_replay_is_a_duplicate() {
    let opening = envelope_bench(EventBus, MessageKey::event_bus_id());
    let big = r#"{"total":9007199254740993}"#;
    let batch = [("e-1", "LIVE"), ("e-1", "REPLAY"), ("e-2", "LIVE")];
    let batch = batch.map(|(id, delivery)| from_bus(id, delivery, big));
    let outcomes = opening.outcomes(batch).await;
    assert_eq!(outcomes, "processed duplicate processed");
    assert_eq!(opening.given()[0].0, big);
    drop(opening);

    let by_attribute = envelope_bench(EventBus, MessageKey::attribute("tenant"));
    let outcomes = by_attribute.outcomes([from_bus("e-1", "LIVE", "{}")]).await;
    assert_eq!(outcomes, "processed");
    drop(by_attribute);

    // What PutEvents publishes has an envelope of its own.
    let inside = event_bridge("b-1", r#"{"order_id":"o-1"}"#);
    let inside = from_bus("e-1", "LIVE", &inside);
    let both = envelope_bench(
        (EventBus, EventBridge),
        MessageKey::json_pointer("/order_id"),
    );
    assert_eq!(both.outcomes([inside.clone()]).await, "processed");
    drop(both);
    let auto = envelope_bench(Auto, MessageKey::json_pointer("/order_id"));
    assert_eq!(auto.outcomes([inside]).await, "processed");
    drop(auto);

    let strict = envelope_bench(EventBus, whole);
    let ends = strict
        .ends(&[body("[]"), body("{}"), body(r#"{"Data":1}"#)])
        .await;
    assert_eq!(names(&ends), ["terminal", "terminal", "terminal"]);
}

#[tokio::test(start_paused = true)]
async fn an_envelopes_own_id_is_a_key_for_whoever_wants_it() {
    let by_event = envelope_bench(EventBridge, MessageKey::event_bridge_id());
    let batch = ["e-1", "e-1", "e-2"].map(|id| event_bridge(id, "{}"));
    let outcomes = by_event.outcomes(batch).await;
    assert_eq!(outcomes, "processed duplicate processed");
    drop(by_event);

    let by_publication = envelope_bench(Sns, MessageKey::sns_message_id());
    let batch = ["n-1", "n-1", "n-2"].map(|id| body(&publication(id, "{}")));
    let batch: Vec<_> = batch.into_iter().chain([body("{}")]).collect();
    let ends = by_publication.ends(&batch).await;
    assert_eq!(names(&ends[..3]), ["processed", "duplicate", "processed"]);
    assert_eq!(told(&ends)[3], ("terminal", "the business key is missing"));
}

#[tokio::test(start_paused = true)]
async fn what_s3_sends_is_opened_once_an_event_and_its_test_event_is_ignored_quietly() {
    let opening = envelope_bench(S3, MessageKey::s3_event());
    let ends = opening.ends(&sample("s3-notifications")).await;
    let outcomes = names(&ends).join(" ");
    assert_eq!(outcomes, "ignored processed duplicate processed");
    assert!(ends[0].1.contains("s3:TestEvent"));
    let requests = opening.bench.store.take_calls();
    assert_eq!(requests, [("claim", 2), ("settle", 2)]);
    let given = opening.given();
    let record: Value = serde_json::from_str(&given[0].0).unwrap();
    assert_eq!(record["eventSource"], "aws:s3");
    let object = given[0].3.as_ref().unwrap();
    assert_eq!(object.bucket, "example-invoices");
    assert_eq!(object.key, "2026/January invoice ü+1.pdf");
    assert_eq!(object.sequencer.as_deref(), Some("0055AED6DCD90281E5"));
    assert_eq!(object.event_name.as_deref(), Some("ObjectCreated:Put"));
    let e_tag = "d41d8cd98f00b204e9800998ecf8427e";
    assert_eq!(object.e_tag.as_deref(), Some(e_tag));
    let version = "096fKKXTRTtl3on89fVO.nfljtsv6qko";
    assert_eq!(object.version_id.as_deref(), Some(version));
    assert_eq!(object.size, Some(1024));
    let removed = given[1].3.as_ref().unwrap();
    assert_eq!((removed.size, &removed.version_id), (None, &None));
}

#[tokio::test(start_paused = true)]
async fn an_ignored_record_is_acknowledged_without_a_warning_and_its_group_goes_on() {
    let opening = envelope_bench(S3, whole);
    let test = body(r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}"#);
    let next = json_body(&s3(&json!({ "key": "a" })));
    let batch = [test, next].map(|record| in_group("g", record));
    assert_eq!(opening.bench.run(batch).await, [""; 0]);
    let lines = opening.bench.lines();
    let said = lines
        .iter()
        .map(|line| ["outcome", "level"].map(|field| &*line[field]));
    let expected = [["ignored", "INFO"], ["processed", "INFO"]];
    assert!(said.eq(expected), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn an_envelope_without_one_event_in_it_is_terminal_and_says_why() {
    for row in [
        r#"SNS {"Type": "SubscriptionConfirmation"} => it is a SubscriptionConfirmation"#,
        r#"SNS {"Type": "UnsubscribeConfirmation"} => it is an UnsubscribeConfirmation"#,
        r#"SNS {"Message": null} => `Message` is missing or is not text"#,
        r#"SNS {"Message": {"canary": 1}} => `Message` is missing or is not text"#,
        r#"EventBridge canary => it is not a JSON object"#,
        r#"EventBridge ["canary"] => it is not a JSON object"#,
        r#"EventBridge {"id": "canary"} => `detail` is missing"#,
        r#"S3 {"Records": [{}, {}]} => it has 2 records instead of one: read the whole notification"#,
        r#"S3 {"Records": []} => it has 0 records"#,
        r#"S3 {"canary": 1} => `Records` is missing"#,
        r#"S3 {"Event": "s3:TestEvent"} => `Records` is missing"#,
        r#"S3 {"Records": ["canary"]} => its record is not a JSON object"#,
        r#"S3 {"Records": [{"s3": {}}]} => `s3.bucket.name` is missing"#,
        r#"S3 {"Records": [{"s3": {"bucket": {"name": "b"}, "object": {}}}]} => `s3.object.key` is missing"#,
        r#"S3 {"Records": [{"s3": {"bucket": {"name": "b"}, "object": {"key": "%ff"}}}]} => is not URL-encoded text"#,
        r#"S3 canary => it is not a JSON object"#,
    ] {
        let (envelope, rest) = row.split_once(' ').unwrap();
        let (content, problem) = rest.split_once(" => ").unwrap();
        let opening = match envelope {
            "SNS" => envelope_bench(Sns, whole),
            "S3" => envelope_bench(S3, whole),
            _ => envelope_bench(EventBridge, whole),
        };
        let content = match envelope {
            "SNS" => with(sns("n-1", "canary"), serde_json::from_str(content).unwrap()).to_string(),
            _ => content.to_owned(),
        };
        let reason = opening.reason(&content).await;
        let fails = format!("the {envelope} envelope can't be opened: ");
        assert_contains!(reason, problem, &fails);
        assert_lacks!(reason, "canary");
        assert_eq!(opening.bench.store.take_calls(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn an_s3_event_without_a_sequencer_has_no_key_of_its_own() {
    let opening = envelope_bench(S3, MessageKey::s3_event());
    let batch = [
        json!({ "key": "a" }),
        json!({ "key": "a", "sequencer": "01" }),
        json!({ "key": "a", "sequencer": "02" }),
        json!({ "key": "b", "sequencer": "01" }),
    ];
    let mut removed = s3(&batch[1]);
    removed["Records"][0]["eventName"] = json!("ObjectRemoved:Delete");
    let batch = batch.iter().map(s3).chain([removed]);
    let batch = batch.map(|notification| notification.to_string());
    let outcomes = opening.outcomes(batch).await;
    assert_eq!(outcomes, "terminal processed processed processed processed");
}

#[tokio::test(start_paused = true)]
async fn auto_opens_what_has_every_mark_of_an_envelope_and_takes_all_else_as_the_payload() {
    let text = "text";
    let payloads = [
        json!({ "Records": [{ "eventSource": "aws:sqs", "s3": {} }] }),
        // Without what the event is about, its topic, its type, its details, and with nothing else.
        json!({ "Records": [{ "eventSource": "aws:s3" }] }),
        json!({ "Type": "Notification", "Message": "m" }),
        json!({ "TopicArn": "arn:aws:sns:eu-central-1:1:t", "Message": "m" }),
        json!({
            "id": text, "detail-type": text, "source": text, "account": text, "region": text, "detail": text,
        }),
        json!({ "detail": {} }),
    ];
    let test_event = r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}"#;
    let notification = s3(&json!({ "key": "a" }));

    let opening = envelope_bench(Auto, whole);
    let ends = opening.ends(&payloads.each_ref().map(json_body)).await;
    assert_eq!(names(&ends), ["processed"; 6]);
    let given = opening.given().into_iter();
    let given = given.map(|(content, sns, event, s3)| {
        assert_eq!((sns, event, s3), (None, None, None), "{content}");
        content
    });
    assert!(given.eq(payloads.iter().map(Value::to_string)));

    let batch = [json_body(&notification), body(test_event)];
    let ends = opening.ends(&batch).await;
    assert_eq!(names(&ends), ["processed", "ignored"]);
    let (_, _, _, object) = &opening.given()[0];
    assert_eq!(object.as_ref().unwrap().key, "a");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_contradicts_an_attribute_of_its_message_is_terminal_and_takes_nobodys_key() {
    let [tenant, order] = ["tenant", "order-id"].map(MessageKey::attribute);
    let opening = envelope_bench(Sns, (tenant, order));
    let attributes = [("tenant", "victim"), ("order-id", "o-1")];
    let published = json_body(&attributed(r#"{"total": 1}"#, &attributes));
    let binary = json!({ "tenant": { "dataType": "Binary", "binaryValue": "dmljdGlt" } });
    let batch = [
        with_attribute(published.clone(), "tenant", "attacker"),
        with(published.clone(), json!({ "messageAttributes": binary })),
        with_attribute(published, "tenant", "victim"),
    ];
    let ends = opening.ends(&batch).await;
    let why = "the message's envelope can't be opened: its attribute \"tenant\" has another value than the message's own";
    let expected = [("terminal", why), ("terminal", why), ("processed", "")];
    assert_eq!(told(&ends), expected);
}

const CONTRADICTORY: OpenedBy = OpenedBy(|content| {
    let opened = Opened::new(content).with_attribute("tenant", "victim");
    Ok(opened.with_attribute("tenant", "attacker"))
});

#[tokio::test(start_paused = true)]
async fn envelopes_in_one_another_that_contradict_each_other_or_themselves_are_terminal() {
    let why = "the message's envelope can't be opened: it gives an attribute two values";
    let terminal = ("terminal", why);
    for (envelopes, inside, expected) in [
        ("auto", "victim", terminal),
        ("two", "victim", terminal),
        ("auto", "attacker", ("processed", "")),
        ("contradictory", "attacker", terminal),
    ] {
        let inner = attributed(r#"{"total": 1}"#, &[("tenant", inside)]);
        let outer = attributed(&inner.to_string(), &[("tenant", "attacker")]);
        let key = MessageKey::attribute("tenant");
        let opening = match envelopes {
            "auto" => envelope_bench(Auto, key),
            "two" => envelope_bench((Sns, Sns), key),
            _ => envelope_bench((Sns, CONTRADICTORY), key),
        };
        assert_eq!(told(&opening.ends(&[json_body(&outer)]).await), [expected]);
    }
}

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
    let handler = Handler::decode(Text).key(whole);
    let handler = handler.call(async |payload: String, tenant: Tenant| {
        assert_eq!(payload, format!("of {}", tenant.0));
    });
    (
        Bench::new().on(handler.envelope(envelope.clone())),
        envelope,
    )
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_ignores_or_panics_ends_its_record_alone() {
    let (bench, _) = tenanted();
    let batch = ["a|of a", "canary", "bomb|", "nobody|", "b|of b"].map(body);
    assert_eq!(bench.run(batch).await, ["m-1", "m-2"]);
    let broken = "the tenant envelope can't be opened: it has no `|`";
    assert_contains!(bench.log.all(), broken, "nobody wants it");
    let expected = "processed, terminal: envelope-unreadable, terminal: preparation-panicked, ignored: no-event, processed";
    assert_eq!(codes(&bench.lines()), expected);
}

#[tokio::test(start_paused = true)]
async fn an_envelope_is_opened_when_its_record_is_taken_up_and_not_before_or_without_a_body() {
    let (bench, envelope) = tenanted();
    assert_eq!(bench.run([json!({})]).await, ["m-0"]);
    let line = bench.line();
    assert_eq!(codes(slice::from_ref(&line)), "terminal: body-unreadable");
    assert_eq!(line["reason"], "the message has no body");
    assert_eq!(envelope.0.len(), 0);
    let batch = ["canary", "a|of a"].map(|content| in_group("g", body(content)));
    // After the first failure, the consumer returns the rest of the group without opening it.
    assert_eq!(bench.run(batch).await, ["m-0", "m-1"]);
    assert_eq!(envelope.0.len(), 1);
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
    let handler = Handler::decode(Text).key(whole);
    let handler = handler.call_batch(async |batch: Batch<String>| {
        let mut outcome = batch.outcome();
        for record in &batch {
            let tenant = record.extract::<Tenant>().await?;
            if *record.payload() == format!("of {}", tenant.0) {
                outcome.succeeded(record);
            }
        }
        Ok::<_, HandlerError>(outcome)
    });
    let bench = Bench::new().on(handler.envelope(Tenanted::default()));
    let records = ["a|of a", "nobody|x", "bomb|x", "b|of b", "c|of a", "c|of b"].map(body);
    assert_eq!(bench.run(records).await, ["m-2"]);
    let outcomes = "processed ignored terminal processed duplicate duplicate";
    assert_eq!(bench.outcomes(), outcomes);
}
