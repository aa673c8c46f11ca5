//! Keys by JMESPath. The fuzzing of `extraction` checks that they agree with keys by JSON pointer.

use crate::support::envelope_bench::sns;
use crate::support::{Bench, assert_contains, assert_lacks, body, handled, json_body, names, with};
use serde::de::IgnoredAny;
use serde_json::json;
use sqs_once::body::Sns;
use sqs_once::consumer;
use sqs_once::key::JmesPath;

#[tokio::test(start_paused = true)]
async fn no_key_comes_of_a_number_that_went_through_a_float() {
    let bodies = [r#"{"id": 9007199254740992}"#, r#"{"id": 9007199254740993}"#];
    let beyond = [
        r#"{"id": 18446744073709551616}"#,
        r#"{"id": 18446744073709551617}"#,
    ];
    let join = "join('-', [to_string([id]), 'x'])";
    for (expression, bodies, outcome) in [
        ("abs(id)", bodies, "terminal"),
        ("sum([id])", bodies, "terminal"),
        ("to_string(abs(id))", bodies, "terminal"),
        ("ceil(id)", bodies, "terminal"),
        ("to_string(id)", bodies, "processed"),
        ("to_string(@)", bodies, "processed"),
        (join, bodies, "processed"),
        ("to_string(id)", beyond, "terminal"),
        ("to_string(@)", beyond, "terminal"),
        (join, beyond, "terminal"),
    ] {
        let told = handled(JmesPath::new(expression), bodies.map(body)).await;
        assert_eq!(names(&told), [outcome; 2], "{expression} of {bodies:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_absent_blank_or_of_the_wrong_kind_is_no_key_and_never_shown() {
    for (expression, json, said) in [
        ("id", r#"{}"#, "missing"),
        ("id", r#"{"id": null}"#, "missing"),
        ("id", "[]", "missing"),
        ("id", r#"{"id": ""}"#, "empty"),
        ("id", r#"{"id": " \n"}"#, "empty"),
        ("id", r#"{"id": 18446744073709551616}"#, "more than 64 bits"),
        ("id", r#"{"id": 1.5}"#, "more than 64 bits"),
        ("id", r#"{"id": {"canary": 1}}"#, "is an object"),
        ("id", r#"{"id": ["canary"]}"#, "is an array"),
        (
            "to_number(id)",
            r#"{"id": "canary"}"#,
            "the business key is missing",
        ),
        (
            "length(id)",
            r#"{"id": true, "x": "canary"}"#,
            "the key extractor failed",
        ),
    ] {
        let told = handled(JmesPath::new(expression), [body(json)]).await;
        let [(outcome, reason)] = told.try_into().unwrap();
        assert_eq!(outcome, "terminal", "{json}");
        assert_contains!(reason, said);
        assert_lacks!(reason, "canary");
    }
}

#[tokio::test(start_paused = true)]
async fn expressions_choose_filter_and_compose() {
    let text = r#"{"tenant": "t", "id": 7, "lines": [{"sku": "a"}, {"sku": "b", "main": true}],
        "largest": 18446744073709551615, "least": -9223372036854775808}"#;
    for expression in [
        "lines[?main].sku | [0]",
        "number || id",
        "join('/', [tenant, to_string(id)])",
        "length(lines)",
        // `to_string` adds no quotes to a text, and takes an integer of 64 bits with or without a sign.
        "lines[?to_string(sku) == 'b'].sku | [0]",
        "to_string(largest)",
        "to_string(least)",
    ] {
        let told = handled(JmesPath::new(expression), [text, text].map(body)).await;
        assert_eq!(names(&told), ["processed", "duplicate"], "{expression}");
    }
    let composed = (JmesPath::new("tenant"), JmesPath::new("id"));
    let told = handled(composed, [text, text].map(body)).await;
    assert_eq!(names(&told), ["processed", "duplicate"]);
}

#[tokio::test(start_paused = true)]
async fn an_expression_reads_what_is_inside_of_an_envelope() {
    let opening = consumer().envelope(Sns).key(JmesPath::new("id"));
    let bench = Bench::new().on(opening.handler(async |_: IgnoredAny| {}));
    let raw = r#"{"id":1}"#;
    let wrapped = json_body(&with(sns("n-1", raw), json!({ "id": 2 })));
    bench.run([body(raw), wrapped]).await;
    assert_eq!(bench.outcomes(), "processed duplicate");
}
