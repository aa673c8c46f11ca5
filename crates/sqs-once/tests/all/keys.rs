//! Sources of business keys, and the values that count as one key.

use crate::support::{Bench, body, handled, messages, names, order, with, with_attribute};
use serde::de::IgnoredAny;
use serde_json::json;

use sqs_once::key::{JsonPointer, MessageAttribute, MessageGroup, SystemAttribute};

#[tokio::test(start_paused = true)]
async fn a_number_is_a_key_by_its_text_and_never_through_a_float() {
    let ids = [
        "18446744073709551616",
        "18446744073709551617",
        "18446744073709551616 ",
        "340282366920938463463374607431768211456",
        "340282366920938463463374607431768211457",
        "0",
        "-0",
    ];
    let outcomes = "processed processed duplicate processed processed processed duplicate";
    let records = ids.map(|id| body(&format!("{{\"id\": {id} }}")));
    let told = handled(JsonPointer::new("/id"), records).await;
    assert_eq!(names(&told).join(" "), outcomes);
}

#[tokio::test(start_paused = true)]
async fn a_pointer_leads_through_objects_and_arrays_and_escaped_names() {
    let text = r#"{"a": [{"x/y": {"m~n": "k"}}], "": {" ": "\u006b"}, "é": "k"}"#;
    for (pointer, bodies) in [
        ("/a/0/x~1y/m~0n", [text, text]),
        ("// ", [text, text]),
        ("/é", [text, text]),
        ("", ["\"k\"", " \"k\" "]),
        ("/é", [r#"{"\u00e9": "k"}"#, r#"{"é": "k"}"#]),
    ] {
        let told = handled(JsonPointer::new(pointer), bodies.map(body)).await;
        assert_eq!(names(&told), ["processed", "duplicate"], "{pointer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_absent_or_blank_is_no_key() {
    for (pointer, text, why) in [
        ("/id/x", r#"{"id": {}}"#, "missing"),
        ("/id/x", r#"{"id": "text"}"#, "missing"),
        ("/id/x", "7", "missing"),
        ("/id/01", r#"{"id": ["a", "b"]}"#, "missing"),
        ("/id/-", r#"{"id": ["a"]}"#, "missing"),
        ("/id/+0", r#"{"id": ["a"]}"#, "missing"),
        ("/id/1", r#"{"id": ["a"]}"#, "missing"),
        ("/id/99999999999999999999", r#"{"id": ["a"]}"#, "missing"),
        ("/id", r#"{"id": null}"#, "missing"),
        ("/id", r#"{"id": ""}"#, "empty"),
        ("/id", r#"{"id": " \n"}"#, "empty"),
    ] {
        let told = handled(JsonPointer::new(pointer), [body(text)]).await;
        let [(outcome, reason)] = told.try_into().unwrap();
        assert_eq!(outcome, "terminal", "{pointer} in {text}");
        assert!(reason.contains(why), "{pointer} in {text}: {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_arrays_and_floats_are_refused_by_name_and_without_their_value() {
    let refused = [
        (r#"{"id": {"secret": 1}}"#, "an object"),
        (r#"{"id": ["secret"]}"#, "an array"),
        (r#"{"id": 0.5}"#, "a fraction or an exponent"),
        (r#"{"id": 1e3}"#, "a fraction or an exponent"),
        (r#"{"id": 1E3}"#, "a fraction or an exponent"),
        (r#"{"id": "secret \ud800"}"#, "not valid JSON"),
    ];
    let records = refused.map(|(text, _)| body(text));
    let told = handled(JsonPointer::new("/id"), records).await;
    for ((outcome, reason), (text, expected)) in told.iter().zip(refused) {
        assert_eq!(outcome, "terminal", "{text}");
        assert!(reason.contains(expected), "{text}: {reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hostile_body_neither_panics_nor_stalls_a_pointer() {
    let [open, close] = ["[", "]"].map(|bracket| bracket.repeat(100_000));
    let deep = format!(r#"{{"x": {open}{close}, "id": 1}}"#);
    let long = format!(r#"{{"id": {}}}"#, "9".repeat(5_000));
    let twice = r#"{"id": 1, "id": 2}"#;
    let records = [&*deep, &*long, twice, r#"{"id": 2}"#].map(body);
    let told = handled(JsonPointer::new("/id"), records).await;
    assert!(told[1].1.contains("2048"), "{told:?}");
    let outcomes = names(&told).join(" ");
    assert_eq!(outcomes, "processed terminal processed duplicate");
}

#[tokio::test(start_paused = true)]
async fn an_attribute_is_a_key_and_terminal_where_it_is_missing() {
    let records = || {
        let system = json!({ "MessageGroupId": "g", "MessageDeduplicationId": "d" });
        let named = with_attribute(order("a"), "tenant", "t");
        let named = with(named, json!({ "attributes": system }));
        [named.clone(), named, order("b")]
    };
    for told in [
        handled(SystemAttribute::new("MessageDeduplicationId"), records()).await,
        handled(MessageAttribute::new("tenant"), records()).await,
        handled(MessageGroup, records()).await,
    ] {
        assert_eq!(names(&told), ["processed", "duplicate", "terminal"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_message_id_is_a_key_that_a_message_sent_again_does_not_keep() {
    let bench = Bench::new().on(messages().handler(async |_: IgnoredAny| {}));
    for id in ["first", "first", "redriven"] {
        let named = with(order("a"), json!({ "messageId": id }));
        bench.run([named]).await;
    }
    assert_eq!(bench.outcomes(), "duplicate processed processed");
}
