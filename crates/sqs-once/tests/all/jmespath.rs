//! Keys by JMESPath. The fuzzing of `extraction` checks that they agree with keys by JSON pointer.

use crate::support::envelope_bench::sns;
use crate::support::{assert_lacks, handled, with};
use serde::de::IgnoredAny;
use serde_json::json;
use sqs_once::body::Sns;
use sqs_once::consumer;
use sqs_once::key::JmesPath;
use sqs_once::telemetry::Outcome::{Duplicate, Processed, Terminal};
use sqs_once::testing::{Bench, Event, Record};

#[tokio::test(start_paused = true)]
async fn no_key_comes_of_a_number_that_went_through_a_float() {
    let bodies = [r#"{"id": 9007199254740992}"#, r#"{"id": 9007199254740993}"#];
    let beyond = [
        r#"{"id": 18446744073709551616}"#,
        r#"{"id": 18446744073709551617}"#,
    ];
    let join = "join('-', [to_string([id]), 'x'])";
    for (expression, bodies, outcome) in [
        ("abs(id)", bodies, Terminal),
        ("sum([id])", bodies, Terminal),
        ("to_string(abs(id))", bodies, Terminal),
        ("ceil(id)", bodies, Terminal),
        ("to_string(id)", bodies, Processed),
        ("to_string(@)", bodies, Processed),
        (join, bodies, Processed),
        ("to_string(id)", beyond, Terminal),
        ("to_string(@)", beyond, Terminal),
        (join, beyond, Terminal),
    ] {
        let answer = handled(JmesPath::new(expression), bodies.map(Record::text)).await;
        assert_eq!(
            answer.outcomes(),
            [outcome; 2],
            "{expression} of {bodies:?}"
        );
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
        let answer = handled(JmesPath::new(expression), [Record::text(json)]).await;
        answer.assert_terminal("m-1").assert_reason("m-1", said);
        assert_lacks!(answer.reason("m-1").unwrap(), "canary");
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
        let answer = handled(JmesPath::new(expression), [text, text].map(Record::text)).await;
        assert_eq!(answer.outcomes(), [Processed, Duplicate], "{expression}");
    }
    let composed = (JmesPath::new("tenant"), JmesPath::new("id"));
    let answer = handled(composed, [text, text].map(Record::text)).await;
    answer.assert_outcomes([Processed, Duplicate]);
}

#[tokio::test(start_paused = true)]
async fn an_expression_reads_what_is_inside_of_an_envelope() {
    let opening = consumer().envelope(Sns).key(JmesPath::new("id"));
    let bench = Bench::new(opening.handler(async |_: IgnoredAny| {}));
    let raw = r#"{"id":1}"#;
    let wrapped = Record::json(&with(sns("n-1", raw), json!({ "id": 2 })));
    let answer = bench.run(Event::new([Record::text(raw), wrapped])).await;
    answer.assert_outcomes([Processed, Duplicate]);
}
