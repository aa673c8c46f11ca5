//! Sources of business keys, and the values that count as one key.

use crate::support::{Bench, body, event, handled, names, order};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sqs_once::consumer;
use sqs_once::key::{JsonPointer, MessageAttribute, MessageGroup, MessageId, SystemAttribute};

async fn pointed(pointer: &str, bodies: &[&str]) -> Vec<(String, String)> {
    handled(
        JsonPointer::new(pointer),
        bodies.iter().map(|text| body(text)),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn a_number_is_a_key_by_its_text_and_never_through_a_float() {
    let told = pointed(
        "/id",
        &[
            r#"{"id": 18446744073709551616}"#,
            r#"{"id": 18446744073709551617}"#,
            r#"{"id":18446744073709551616 }"#,
            r#"{"id": 340282366920938463463374607431768211456}"#,
            r#"{"id": 340282366920938463463374607431768211457}"#,
        ],
    )
    .await;
    assert_eq!(
        names(&told),
        [
            "processed",
            "processed",
            "duplicate",
            "processed",
            "processed"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_number_a_text_and_a_boolean_never_share_a_key() {
    let told = pointed(
        "/id",
        &[
            r#"{"id": 1}"#,
            r#"{"id": "1"}"#,
            r#"{"id": true}"#,
            r#"{"id": "true"}"#,
            r#"{"id": false}"#,
            r#"{"id": -1}"#,
            r#"{"id": 0}"#,
        ],
    )
    .await;
    assert_eq!(names(&told), ["processed"; 7]);
}

#[tokio::test(start_paused = true)]
async fn a_pointer_finds_the_same_key_as_the_field_of_a_payload() {
    let bench = Bench::new();
    let by_pointer = consumer::<Value>()
        .key(JsonPointer::new("/id"))
        .handler(async |_: Value| {});
    let by_integer = consumer::<Value>()
        .key(|order: &Value| order["id"].as_i64())
        .handler(async |_: Value| {});
    let records = || event([body(r#"{"id": 7}"#), body(r#"{"id": -0}"#)]);
    bench.invoke(&bench.consumer(by_pointer), records()).await;
    assert_eq!(bench.outcomes().len(), 2);
    let zero = event([body(r#"{"id": 7}"#), body(r#"{"id": 0}"#)]);
    let by_integer = bench.consumer(by_integer);
    bench.invoke(&by_integer, zero).await;
    let again: Vec<_> = bench.outcomes().into_iter().map(|(_, what)| what).collect();
    assert_eq!(again, ["duplicate", "duplicate"]);
}

#[tokio::test(start_paused = true)]
async fn a_pointer_leads_through_objects_and_arrays_and_escaped_names() {
    let same = ["processed", "duplicate"];
    let text = r#"{"a": [{"x/y": {"m~n": "k"}}], "": {" ": "\u006b"}, "é": "k"}"#;
    for pointer in ["/a/0/x~1y/m~0n", "// ", "/é"] {
        assert_eq!(names(&pointed(pointer, &[text, text]).await), same);
    }
    assert_eq!(names(&pointed("", &["\"k\"", " \"k\" "]).await), same);
    let renamed = [r#"{"\u00e9": "k"}"#, r#"{"é": "k"}"#];
    assert_eq!(names(&pointed("/é", &renamed).await), same);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_absent_null_or_blank_is_no_key() {
    let absent = [
        "{}",
        r#"{"id": null}"#,
        r#"{"id": {}}"#,
        r#"{"id": []}"#,
        r#"{"id": ["a"]}"#,
        r#"{"id": "text"}"#,
        "7",
        "null",
    ];
    for pointer in [
        "/id/x",
        "/id/01",
        "/id/-",
        "/id/+0",
        "/id/1",
        "/id/99999999999999999999",
    ] {
        for (outcome, reason) in pointed(pointer, &absent).await {
            assert_eq!(outcome, "terminal", "{pointer}");
            assert_eq!(reason, "the business key is missing", "{pointer}");
        }
    }
    for (outcome, reason) in pointed("/id", &[r#"{"id": ""}"#, r#"{"id": " \n"}"#]).await {
        assert_eq!(outcome, "terminal");
        assert!(reason.contains("empty"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_arrays_and_floats_are_refused_by_name_and_without_their_value() {
    let refused = [
        (r#"{"id": {"secret": 1}}"#, "an object"),
        (r#"{"id": ["secret"]}"#, "an array"),
        (r#"{"id": 1.5}"#, "a fraction or an exponent"),
        (r#"{"id": 1e3}"#, "a fraction or an exponent"),
        (r#"{"id": 1E3}"#, "a fraction or an exponent"),
        (r#"{"id": "secret \ud800"}"#, "not valid JSON"),
    ];
    let told = pointed("/id", &refused.map(|(text, _)| text)).await;
    for ((outcome, reason), (text, expected)) in told.iter().zip(refused) {
        assert_eq!(outcome, "terminal", "{text}");
        assert!(reason.contains(expected), "{text}: {reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hostile_body_neither_panics_nor_stalls_a_pointer() {
    let deep = format!(
        r#"{{"x": {}{}, "id": 1}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let long = format!(r#"{{"id": {}}}"#, "9".repeat(5_000));
    let twice = r#"{"id": 1, "id": 2}"#;
    let told = pointed("/id", &[&deep, &long, twice, r#"{"id": 2}"#]).await;
    assert!(told[1].1.contains("2048"), "{told:?}");
    assert_eq!(
        names(&told),
        ["processed", "terminal", "processed", "duplicate"]
    );
}

fn with_attributes(record: Value, tenant: &str, group: &str) -> Value {
    let mut record = record;
    record["messageAttributes"] =
        json!({ "tenant": { "stringValue": tenant, "dataType": "String" } });
    record["attributes"] = json!({ "MessageGroupId": group, "MessageDeduplicationId": "d" });
    record
}

#[tokio::test(start_paused = true)]
async fn a_system_attribute_is_a_key_and_terminal_where_it_is_missing() {
    let named = |id| with_attributes(order(id), "t", "g");
    let told = handled(
        SystemAttribute::new("MessageDeduplicationId"),
        [named("a"), named("a"), order("b")],
    )
    .await;
    assert_eq!(names(&told), ["processed", "duplicate", "terminal"]);
}

#[tokio::test(start_paused = true)]
async fn the_message_id_is_a_key_that_a_message_sent_again_does_not_keep() {
    let bench = Bench::new();
    let keyed = consumer::<IgnoredAny>()
        .key(MessageId)
        .handler(async |_: IgnoredAny| {});
    let consumer = bench.consumer(keyed);
    let sent_as = |id: &str| {
        let mut record = order("a");
        record["messageId"] = json!(id);
        event([record])
    };
    for id in ["first", "first", "redriven"] {
        bench.invoke(&consumer, sent_as(id)).await;
    }
    let outcomes: Vec<_> = bench.outcomes().into_iter().map(|(_, what)| what).collect();
    assert_eq!(outcomes, ["duplicate", "processed", "processed"]);
}

#[tokio::test(start_paused = true)]
async fn a_tuple_of_extractors_is_one_key_of_all_their_parts() {
    let record = |tenant: &str, group: &str, id: &str| with_attributes(order(id), tenant, group);
    let told = handled(
        (
            MessageAttribute::new("tenant"),
            MessageGroup,
            JsonPointer::new("/id"),
        ),
        [
            record("a", "bc", "x"),
            record("ab", "c", "x"),
            record("a", "bc", "y"),
            record("a", "bc", "x"),
            order("x"),
        ],
    )
    .await;
    assert_eq!(
        names(&told),
        [
            "processed",
            "processed",
            "processed",
            "duplicate",
            "terminal"
        ]
    );
}
