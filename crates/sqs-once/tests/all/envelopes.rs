//! The envelopes of SNS, EventBridge and S3, and the payloads and metadata in them.

use serde_json::{Value, json};
use sqs_once::body::{Auto, EventBridge, S3, Sns};
use sqs_once::extract::EventBridgeMeta;
use sqs_once::key::{EventBridgeId, JsonPointer, MessageAttribute, S3EventId, SnsMessageId};

use crate::support::envelope_bench::{EnvelopeBench, envelope_bench, names, sample, whole};
use crate::support::{body, event, grouped};

fn sns(message_id: &str, message: &str) -> Value {
    json!({
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:orders",
        "Message": message,
        "Timestamp": "2026-01-01T00:00:00.000Z",
        "SignatureVersion": "1",
    })
}

fn event_bridge(id: &str, detail: &str) -> String {
    let event = json!({
        "version": "0", "id": id, "detail-type": "OrderPlaced", "source": "com.example.shop",
        "account": "123456789012", "time": "2026-01-01T00:00:00Z", "region": "eu-central-1",
        "resources": [], "detail": "DETAIL",
    });
    event.to_string().replace("\"DETAIL\"", detail)
}

fn s3(object: &Value) -> Value {
    let record = json!({
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "s3": { "bucket": { "name": "invoices" }, "object": object },
    });
    json!({ "Records": [record] })
}

#[tokio::test(start_paused = true)]
async fn what_sns_delivers_is_opened_with_its_attributes_and_what_it_says() {
    let opening = envelope_bench(Sns, MessageAttribute::new("order-id"));
    assert_eq!(
        names(&opening.ends(sample("sns-envelope")).await),
        ["processed"; 2]
    );
    let given = opening.given();
    let (content, Some(sns), None, None) = &given[0] else {
        panic!("{given:?}")
    };
    let order: Value = serde_json::from_str(content).unwrap();
    assert_eq!(order["order_id"], "o-4001");
    assert_eq!(
        sns.topic_arn,
        "arn:aws:sns:eu-central-1:123456789012:orders"
    );
    assert_eq!(sns.subject.as_deref(), Some("An order"));
    assert_eq!(sns.timestamp.as_deref(), Some("2026-01-01T00:00:00.000Z"));
    assert_eq!(sns.message_id.as_ref().unwrap().len(), 36);
    assert_eq!(given[1].1.as_ref().unwrap().subject, None);
}

#[tokio::test(start_paused = true)]
async fn raw_delivery_passes_through_and_is_a_duplicate_of_what_came_in_an_envelope() {
    let opening = envelope_bench(Sns, MessageAttribute::new("order-id"));
    let mut enveloped = sns("n-1", r#"{"total": 1}"#);
    enveloped["MessageAttributes"] = json!({ "order-id": { "Type": "String", "Value": "o-1" } });
    let raw = |order: &str| {
        let mut record = body(r#"{ "total":1 }"#);
        record["messageAttributes"] =
            json!({ "order-id": { "dataType": "String", "stringValue": order } });
        record
    };
    let batch = [body(&enveloped.to_string()), raw("o-1"), raw("o-2")];
    let ends = opening.ends(event(batch)).await;
    let expected = [("processed", ""), ("duplicate", ""), ("processed", "")];
    assert_eq!(
        ends,
        expected.map(|(outcome, why)| (outcome.to_owned(), why.to_owned()))
    );
    assert_eq!(
        opening.given()[1],
        (r#"{ "total":1 }"#.to_owned(), None, None, None)
    );
}

#[tokio::test(start_paused = true)]
async fn copies_of_an_event_that_differ_in_their_envelope_only_are_plain_duplicates() {
    let opening = envelope_bench(Sns, JsonPointer::new("/id"));
    let publication = |id: &str, payload: &str| body(&sns(id, payload).to_string());
    let batch = [
        publication("n-1", r#"{"id": "a"}"#),
        publication("n-2", r#"{"id": "a"}"#),
        publication("n-3", r#"{"id": "a", "total": 2}"#),
    ];
    let ends = opening.ends(event(batch)).await;
    assert_eq!(names(&ends), ["processed", "duplicate", "duplicate"]);
    assert_eq!(ends[1].1, "");
    assert!(ends[2].1.contains("two different messages"), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_binary_attribute_has_no_text_in_an_envelope_either() {
    for (kind, outcome) in [
        ("String", "processed"),
        ("Number.int", "processed"),
        ("String.Array", "processed"),
        ("Binary", "terminal"),
        ("Binary.gzip", "terminal"),
    ] {
        let opening = envelope_bench(Sns, MessageAttribute::new("order-id"));
        let mut enveloped = sns("n-1", "{}");
        enveloped["MessageAttributes"] =
            json!({ "order-id": { "Type": kind, "Value": "AP8=" }, "broken": 1 });
        let ends = opening.ends(event([body(&enveloped.to_string())])).await;
        assert_eq!(names(&ends), [outcome], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_sns_envelope_without_an_event_in_it_is_terminal_and_says_what_it_is() {
    let opening = envelope_bench(Sns, whole);
    for kind in ["SubscriptionConfirmation", "UnsubscribeConfirmation"] {
        let mut confirmation = sns("n-1", "You have chosen to subscribe to secret");
        confirmation["Type"] = json!(kind);
        let reason = opening.reason(&confirmation.to_string()).await;
        assert!(
            reason.contains(kind) && !reason.contains("secret"),
            "{reason}"
        );
    }
    for message in [Value::Null, json!({ "secret": 1 })] {
        let mut broken = sns("n-1", "");
        broken["Message"] = message;
        let reason = opening.reason(&broken.to_string()).await;
        let said = "the SNS envelope can't be opened: `Message` is missing or is not text";
        assert_eq!(reason, said);
    }
    assert!(opening.bench.store.take_calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_merely_looks_like_sns_is_the_payload() {
    let opening = envelope_bench(Sns, whole);
    let payloads = [
        r#"{"Type":"Notification","Message":"m"}"#,
        r#"{"Type":"Notification","TopicArn":"orders","Message":"m"}"#,
        r#"{"Type":"Other","TopicArn":"arn:aws:sns:x:1:y","Message":"m"}"#,
        "not json",
    ];
    let ends = opening.ends(event(payloads.map(body))).await;
    assert_eq!(names(&ends), ["processed"; 4]);
    assert_eq!(opening.contents(), payloads);
}

#[tokio::test(start_paused = true)]
async fn what_eventbridge_delivers_is_opened_with_what_it_says() {
    let opening = envelope_bench(EventBridge, JsonPointer::new("/order_id"));
    let event = sample("event-bridge");
    let first: Value = serde_json::from_str(event["Records"][0]["body"].as_str().unwrap()).unwrap();
    let ends = opening.ends(event).await;
    assert_eq!(names(&ends), ["processed", "processed", "duplicate"]);
    assert_eq!(ends[2].1, "", "its id and time are not the payload");
    let given = opening.given();
    assert_eq!(
        serde_json::from_str::<Value>(&given[0].0).unwrap(),
        first["detail"]
    );
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
async fn a_detail_is_taken_by_its_text_and_never_through_a_float() {
    let opening = envelope_bench(EventBridge, JsonPointer::new("/id"));
    let details = [
        r#"{"id": 18446744073709551616}"#,
        r#"{"id": 18446744073709551617}"#,
    ];
    let batch = details.map(|detail| body(&event_bridge("e", detail)));
    assert_eq!(names(&opening.ends(event(batch)).await), ["processed"; 2]);
    assert_eq!(opening.contents(), details);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_event_of_eventbridge_is_terminal_and_says_what_is_missing() {
    let opening = envelope_bench(EventBridge, whole);
    for (content, problem) in [
        ("secret", "it is not a JSON object"),
        ("[\"secret\"]", "it is not a JSON object"),
        (r#"{"id": "secret"}"#, "`detail` is missing"),
    ] {
        let reason = opening.reason(content).await;
        assert_eq!(
            reason,
            format!("the EventBridge envelope can't be opened: {problem}")
        );
    }
    // A rule's input transformer may send only these fields.
    let ends = opening
        .ends(event([body(r#"{"detail": {"a": 1}, "resources": 7}"#)]))
        .await;
    assert_eq!(names(&ends), ["processed"]);
    assert_eq!(opening.given()[0].2, Some(EventBridgeMeta::default()));
}

#[tokio::test(start_paused = true)]
async fn an_envelopes_own_id_is_a_key_for_whoever_wants_it() {
    let by_event = envelope_bench(EventBridge, EventBridgeId);
    let batch = ["e-1", "e-1", "e-2"].map(|id| body(&event_bridge(id, "{}")));
    let ends = by_event.ends(event(batch)).await;
    assert_eq!(names(&ends), ["processed", "duplicate", "processed"]);

    let by_publication = envelope_bench(Sns, SnsMessageId);
    let batch = ["n-1", "n-1", "n-2"].map(|id| body(&sns(id, "{}").to_string()));
    let raw = body("{}");
    let ends = by_publication
        .ends(event(batch.into_iter().chain([raw])))
        .await;
    assert_eq!(
        names(&ends),
        ["processed", "duplicate", "processed", "terminal"]
    );
    assert_eq!(ends[3].1, "the business key is missing");
}

#[tokio::test(start_paused = true)]
async fn what_s3_sends_is_opened_once_an_event_and_its_test_event_is_ignored_quietly() {
    let opening = envelope_bench(S3, S3EventId);
    let ends = opening.ends(sample("s3-notifications")).await;
    assert_eq!(
        names(&ends),
        ["ignored", "processed", "duplicate", "processed"]
    );
    assert!(ends[0].1.contains("s3:TestEvent"));
    assert_eq!(
        opening.bench.store.take_calls(),
        [("claim", 2), ("settle", 2)]
    );
    let given = opening.given();
    let record: Value = serde_json::from_str(&given[0].0).unwrap();
    assert_eq!(record["eventSource"], "aws:s3");
    let object = given[0].3.as_ref().unwrap();
    assert_eq!(object.bucket, "example-invoices");
    assert_eq!(object.key, "2026/January invoice ü+1.pdf");
    assert_eq!(object.sequencer.as_deref(), Some("0055AED6DCD90281E5"));
    assert_eq!(object.event_name.as_deref(), Some("ObjectCreated:Put"));
    assert_eq!(
        object.e_tag.as_deref(),
        Some("d41d8cd98f00b204e9800998ecf8427e")
    );
    assert_eq!(
        object.version_id.as_deref(),
        Some("096fKKXTRTtl3on89fVO.nfljtsv6qko")
    );
    assert_eq!(object.size, Some(1024));
    let removed = given[1].3.as_ref().unwrap();
    assert_eq!((removed.size, &removed.version_id), (None, &None));
}

#[tokio::test(start_paused = true)]
async fn an_ignored_record_is_acknowledged_without_a_warning_and_its_group_goes_on() {
    let opening = envelope_bench(S3, whole);
    let mut test = grouped("g", "");
    test["body"] = json!(r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}"#);
    let mut next = grouped("g", "");
    next["body"] = json!(s3(&json!({ "key": "a" })).to_string());
    let failed = opening
        .bench
        .invoke(&opening.consumer, event([test, next]))
        .await;
    assert!(failed.is_empty());
    let lines = opening.bench.log.take("sqs_once::record");
    let said: Vec<_> = lines
        .iter()
        .map(|line| (&*line["outcome"], &*line["level"]))
        .collect();
    assert_eq!(said, [("ignored", "INFO"), ("processed", "INFO")]);
}

#[tokio::test(start_paused = true)]
async fn a_notification_that_is_not_of_one_object_is_terminal_and_says_why() {
    let opening = envelope_bench(S3, whole);
    let mut two = s3(&json!({ "key": "a" }));
    let another = two["Records"][0].clone();
    two["Records"].as_array_mut().unwrap().push(another);
    for (content, problem) in [
        (
            two.to_string(),
            "it has 2 records where there must be one: read the notification whole",
        ),
        (r#"{"Records": []}"#.to_owned(), "it has 0 records"),
        (r#"{"secret": 1}"#.to_owned(), "`Records` is missing"),
        (
            r#"{"Event": "s3:TestEvent"}"#.to_owned(),
            "`Records` is missing",
        ),
        (
            r#"{"Records": ["secret"]}"#.to_owned(),
            "its record is not a JSON object",
        ),
        (
            r#"{"Records": [{"s3": {}}]}"#.to_owned(),
            "`s3.bucket.name` is missing",
        ),
        (
            s3(&json!({ "size": 1 })).to_string(),
            "`s3.object.key` is missing",
        ),
        (
            s3(&json!({ "key": "%ff%fe" })).to_string(),
            "is not URL-encoded text",
        ),
        ("secret".to_owned(), "it is not a JSON object"),
    ] {
        let reason = opening.reason(&content).await;
        assert!(
            reason.starts_with("the S3 envelope can't be opened: "),
            "{reason}"
        );
        assert!(
            reason.contains(problem) && !reason.contains("secret"),
            "{reason}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_s3_event_without_a_sequencer_has_no_key_of_its_own() {
    let opening = envelope_bench(S3, S3EventId);
    let batch = [
        json!({ "key": "a" }),
        json!({ "key": "a", "sequencer": "01" }),
        json!({ "key": "a", "sequencer": "02" }),
        json!({ "key": "b", "sequencer": "01" }),
    ];
    let mut removed = s3(&batch[1]);
    removed["Records"][0]["eventName"] = json!("ObjectRemoved:Delete");
    let batch = batch.iter().map(s3).chain([removed]);
    let batch = batch.map(|notification| body(&notification.to_string()));
    let ends = opening.ends(event(batch)).await;
    assert_eq!(
        names(&ends),
        [
            "terminal",
            "processed",
            "processed",
            "processed",
            "processed"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn envelopes_in_one_another_are_opened_from_the_outside_in() {
    let nested = envelope_bench((Sns, EventBridge), JsonPointer::new("/id"));
    let inside = event_bridge("e-1", r#"{"id":"a"}"#);
    let batch = [body(&sns("n-1", &inside).to_string()), body(&inside)];
    let ends = nested.ends(event(batch)).await;
    assert_eq!(names(&ends), ["processed", "duplicate"]);
    let given = nested.given();
    assert_eq!(given[0].0, r#"{"id":"a"}"#);
    assert_eq!(
        given[0].1.as_ref().unwrap().message_id.as_deref(),
        Some("n-1")
    );
    assert_eq!(given[0].2.as_ref().unwrap().id.as_deref(), Some("e-1"));

    let tested = envelope_bench((Sns, S3, EventBridge), whole);
    let test = r#"{"Service":"Amazon S3","Event":"s3:TestEvent"}"#;
    let ends = tested
        .ends(event([body(&sns("n-1", test).to_string())]))
        .await;
    assert_eq!(names(&ends), ["ignored"]);
}

#[tokio::test(start_paused = true)]
async fn auto_opens_what_it_recognises_however_it_is_nested_and_nothing_else() {
    let opening = envelope_bench(Auto, whole);
    let detail = r#"{"id":"a"}"#;
    let event_of = |detail: &str| event_bridge("e-1", detail);
    let object = s3(&json!({ "key": "a" })).to_string();
    let alike = r#"{"Records":[{"eventSource":"mine"}],"detail":{"id":1},"Type":"Notification"}"#;
    let contents = [
        (sns("n", "one").to_string(), "one"),
        (event_of(r#"{"two":2}"#), r#"{"two":2}"#),
        (sns("n", &event_of(detail)).to_string(), detail),
        (sns("n", &sns("n", "four").to_string()).to_string(), "four"),
        (alike.to_owned(), alike),
        ("five".to_owned(), "five"),
        (
            r#"{"Type":"Notification"#.to_owned(),
            r#"{"Type":"Notification"#,
        ),
    ];
    let batch = contents.iter().map(|(content, _)| body(content));
    let ends = opening.ends(event(batch)).await;
    assert_eq!(names(&ends), ["processed"; 7]);
    assert_eq!(opening.contents(), contents.map(|(_, inside)| inside));

    let test = r#"{"Service":"Amazon S3","Event":"s3:TestEvent"}"#;
    let ends = opening
        .ends(event([body(test), body(&sns("n", &object).to_string())]))
        .await;
    assert_eq!(names(&ends), ["ignored", "processed"]);
    assert_eq!(opening.given()[0].3.as_ref().unwrap().key, "a");

    let five_deep = (0..5).fold("core".to_owned(), |inside, _| sns("n", &inside).to_string());
    opening.ends(event([body(&five_deep)])).await;
    assert_eq!(opening.contents(), [sns("n", "core").to_string()]);
}

#[tokio::test(start_paused = true)]
async fn hostile_bodies_end_their_record_and_nothing_else() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let bombs = [
        deep.clone(),
        format!(r#"{{"detail": {deep}}}"#),
        format!(r#"{{"Records": [{deep}]}}"#),
        format!(r#"{{"Type": "Notification", "TopicArn": "arn:", "Message": {deep}}}"#),
        r#"{"Type": "Notification", "TopicArn": "arn:", "Message": "\ud800"}"#.to_owned(),
        r#"{"\ud800": 1}"#.to_owned(),
        "\u{0}".to_owned(),
        String::new(),
    ];
    let envelopes: [fn() -> EnvelopeBench; 4] = [
        || envelope_bench(Sns, whole),
        || envelope_bench(EventBridge, whole),
        || envelope_bench(S3, whole),
        || envelope_bench(Auto, whole),
    ];
    for envelope in envelopes {
        let batch = bombs.iter().map(|bomb| body(bomb));
        let ends = envelope().ends(event(batch)).await;
        assert_eq!(ends.len(), bombs.len());
    }
}

/// A message to which a forwarder added a tenant, with another tenant in its body.
fn forwarded(tenant: &Value, inside: &str) -> Value {
    let mut notification = sns("n-1", r#"{"total": 1}"#);
    notification["MessageAttributes"] = json!({
        "tenant": { "Type": "String", "Value": inside },
        "order-id": { "Type": "String", "Value": "o-1" },
    });
    let mut record = body(&notification.to_string());
    record["messageAttributes"] = json!({ "tenant": tenant });
    record
}

#[tokio::test(start_paused = true)]
async fn a_body_that_contradicts_an_attribute_of_its_message_is_terminal_and_takes_nobodys_key() {
    let key = (
        MessageAttribute::new("tenant"),
        MessageAttribute::new("order-id"),
    );
    let opening = envelope_bench(Sns, key);
    let text = |tenant: &str| json!({ "dataType": "String", "stringValue": tenant });
    let binary = json!({ "dataType": "Binary", "binaryValue": "dmljdGlt" });
    let batch = [
        forwarded(&text("attacker"), "victim"),
        forwarded(&binary, "victim"),
        forwarded(&text("victim"), "victim"),
    ];
    let ends = opening.ends(event(batch)).await;
    let why = "the message's envelope can't be opened: its attribute \"tenant\" has another value than the message's own";
    let expected = [("terminal", why), ("terminal", why), ("processed", "")];
    assert_eq!(
        ends,
        expected.map(|(outcome, why)| (outcome.to_owned(), why.to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn envelopes_in_one_another_that_contradict_each_other_are_terminal() {
    for (envelope, inside) in [
        ("Auto", "victim"),
        ("tuple", "victim"),
        ("Auto", "attacker"),
    ] {
        let mut inner = sns("n-2", r#"{"total": 1}"#);
        inner["MessageAttributes"] = json!({ "tenant": { "Type": "String", "Value": inside } });
        let mut outer = sns("n-1", &inner.to_string());
        outer["MessageAttributes"] = json!({ "tenant": { "Type": "String", "Value": "attacker" } });
        let key = MessageAttribute::new("tenant");
        let opening = match envelope {
            "Auto" => envelope_bench(Auto, key),
            _ => envelope_bench((Sns, Sns), key),
        };
        let ends = opening.ends(event([body(&outer.to_string())])).await;
        let expected = match inside {
            "attacker" => ("processed", ""),
            _ => (
                "terminal",
                "the message's envelope can't be opened: it gives an attribute two values",
            ),
        };
        let [(outcome, why)] = &ends[..] else {
            panic!("{ends:?}")
        };
        assert_eq!((&**outcome, &**why), expected);
    }
}
