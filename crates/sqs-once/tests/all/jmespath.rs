//! Keys by JMESPath, and their agreement with keys by JSON pointer.

use crate::support::{Bench, body, event, handled, names};
use serde::de::IgnoredAny;
use sqs_once::body::Sns;
use sqs_once::consumer;
use sqs_once::key::{JmesPath, JsonPointer};

async fn found(expression: &str, bodies: &[&str]) -> Vec<(String, String)> {
    let records = bodies.iter().map(|text| body(text));
    handled(JmesPath::new(expression), records).await
}

#[tokio::test(start_paused = true)]
async fn integers_of_64_bits_are_keys_by_their_text_and_larger_ones_are_refused() {
    let told = found(
        "id",
        &[
            r#"{"id": 9007199254740992}"#,
            r#"{"id": 9007199254740993}"#,
            r#"{"id": 18446744073709551614}"#,
            r#"{"id": 18446744073709551615}"#,
            r#"{"id": -9223372036854775808}"#,
            r#"{"id": -9223372036854775807}"#,
            r#"{"id": 18446744073709551616}"#,
            r#"{"id": 18446744073709551617}"#,
            r#"{"id": -9223372036854775809}"#,
            r#"{"id": 1.5}"#,
            r#"{"id": 1e3}"#,
        ],
    )
    .await;
    assert_eq!(names(&told[..6]), ["processed"; 6]);
    for (outcome, reason) in &told[6..] {
        assert_eq!(outcome, "terminal");
        assert!(reason.contains("more than 64 bits"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_comes_of_a_number_that_went_through_a_float() {
    let bodies = [r#"{"id": 9007199254740992}"#, r#"{"id": 9007199254740993}"#];
    let beyond = [
        r#"{"id": 18446744073709551616}"#,
        r#"{"id": 18446744073709551617}"#,
    ];
    for computed in ["abs(id)", "sum([id])", "to_string(abs(id))", "ceil(id)"] {
        assert_eq!(
            names(&found(computed, &bodies).await),
            ["terminal"; 2],
            "{computed}"
        );
    }
    for shown in [
        "to_string(id)",
        "to_string(@)",
        "join('-', [to_string([id]), 'x'])",
    ] {
        assert_eq!(
            names(&found(shown, &bodies).await),
            ["processed"; 2],
            "{shown}"
        );
        assert_eq!(
            names(&found(shown, &beyond).await),
            ["terminal"; 2],
            "{shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_expression_finds_the_same_key_as_a_pointer() {
    let bench = Bench::new();
    let pointed = consumer::<IgnoredAny>()
        .key(JsonPointer::new("/order/id"))
        .handler(async |_: IgnoredAny| {});
    let found = consumer::<IgnoredAny>()
        .key(JmesPath::new("order.id"))
        .handler(async |_: IgnoredAny| {});
    let (pointed, found) = (bench.consumer(pointed), bench.consumer(found));
    let records = || {
        let ids = [
            "7",
            "\"7\"",
            "-7",
            "true",
            "\"true\"",
            "18446744073709551615",
        ];
        event(ids.map(|id| body(&format!(r#"{{"order": {{"id": {id}}}}}"#))))
    };
    bench.invoke(&pointed, records()).await;
    let first: Vec<_> = bench.outcomes().into_iter().map(|(_, what)| what).collect();
    assert_eq!(first, ["processed"; 6]);
    bench.invoke(&found, records()).await;
    let then: Vec<_> = bench.outcomes().into_iter().map(|(_, what)| what).collect();
    assert_eq!(then, ["duplicate"; 6]);
}

#[tokio::test(start_paused = true)]
async fn what_is_absent_blank_or_of_the_wrong_kind_is_no_key_and_never_shown() {
    for (json, said) in [
        (r#"{}"#, "missing"),
        (r#"{"id": null}"#, "missing"),
        ("[]", "missing"),
        (r#"{"id": ""}"#, "empty"),
        (r#"{"id": " \n"}"#, "empty"),
        (r#"{"id": {"secret": 1}}"#, "is an object"),
        (r#"{"id": ["secret"]}"#, "is an array"),
    ] {
        let [(outcome, reason)] = found("id", &[json]).await.try_into().unwrap();
        assert_eq!(outcome, "terminal", "{json}");
        assert!(
            reason.contains(said) && !reason.contains("secret"),
            "{reason}"
        );
    }
    let [(outcome, reason)] = found("to_number(id)", &[r#"{"id": "secret"}"#])
        .await
        .try_into()
        .unwrap();
    assert_eq!(
        (&*outcome, &*reason),
        ("terminal", "the business key is missing")
    );
    let [(outcome, reason)] = found("length(id)", &[r#"{"id": true, "x": "secret"}"#])
        .await
        .try_into()
        .unwrap();
    assert_eq!(
        (&*outcome, &*reason),
        ("terminal", "the key extractor failed")
    );
}

#[tokio::test(start_paused = true)]
async fn expressions_choose_filter_and_compose() {
    let text = r#"{"tenant": "t", "id": 7, "lines": [{"sku": "a"}, {"sku": "b", "main": true}]}"#;
    for expression in [
        "lines[?main].sku | [0]",
        "number || id",
        "join('/', [tenant, to_string(id)])",
        "length(lines)",
    ] {
        let told = found(expression, &[text, text]).await;
        assert_eq!(names(&told), ["processed", "duplicate"], "{expression}");
    }
    let composed = (JmesPath::new("tenant"), JmesPath::new("id"));
    assert_eq!(
        names(&handled(composed, [text, text].map(body)).await),
        ["processed", "duplicate"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expression_reads_what_is_inside_of_an_envelope() {
    let bench = Bench::new();
    let opening = consumer::<IgnoredAny>()
        .envelope(Sns)
        .key(JmesPath::new("id"))
        .handler(async |_: IgnoredAny| {});
    let consumer = bench.consumer(opening);
    let raw = r#"{"id":1}"#;
    let wrapped = serde_json::json!({
        "Type": "Notification", "TopicArn": "arn:aws:sns:r:1:t", "Message": raw, "id": 2,
    });
    bench
        .invoke(&consumer, event([body(raw), body(&wrapped.to_string())]))
        .await;
    let told: Vec<_> = bench.outcomes().into_iter().map(|(_, what)| what).collect();
    assert_eq!(told, ["processed", "duplicate"]);
}

#[tokio::test(start_paused = true)]
async fn hostile_bodies_end_their_record_alone() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let told = found(
        "id",
        &[&deep, r#"{"id": "a", "x": "\ud800"}"#, r#"{"id": "a"}"#],
    )
    .await;
    assert_eq!(names(&told)[2], "processed");
    let twice = [r#"{"id": "x", "id": "a"}"#, r#"{"id": "a"}"#];
    assert_eq!(
        names(&found("id", &twice).await),
        ["processed", "duplicate"]
    );
}
