//! Bad input causes an error for its record, or a normal run. It never causes a panic, a stall or a shared key.

use crate::support::{Bench, Order, body, event, noting, order, outcomes};
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::key::{KeyError, MessageAttribute, MessageGroup};
use sqs_once::{BusinessKey, EventError, consumer};

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_the_payload_fails_alone_with_a_reason_and_touches_no_key() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let mut no_body = order("x");
    no_body.as_object_mut().unwrap().remove("body");
    let mut null_body = order("x");
    null_body["body"] = Value::Null;
    let records = [
        order("a"),
        body("{ not json"),
        body(r#"{"id": 7}"#),
        body(r#"{"order": "x"}"#),
        body(""),
        no_body,
        null_body,
        order("b"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-1", "m-2", "m-3", "m-4", "m-5", "m-6"]);
    assert_eq!(*seen.lock().unwrap(), ["a", "b"]);
    assert_eq!(bench.store.take_calls(), [("claim", 2), ("settle", 2)]);
    let lines = bench.log.take("sqs_once::record");
    let reason = |id: &str| {
        let line = lines.iter().find(|line| line["message_id"] == id).unwrap();
        assert_eq!(line["outcome"], "terminal");
        line["reason"].clone()
    };
    assert!(reason("m-1").contains("not JSON"));
    assert!(reason("m-2").contains("invalid type: integer, expected a string"));
    assert!(reason("m-3").contains("missing field `id`"));
    assert!(reason("m-5").contains("no body"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_empty_or_oversized_key_is_terminal_and_never_shared() {
    #[derive(Deserialize)]
    struct Optional {
        id: Option<String>,
    }
    let bench = Bench::new();
    let optional = consumer::<Optional>()
        .key(|payload: &Optional| payload.id.clone())
        .handler(async |_: Optional| {});
    let consumer = bench.consumer(optional);
    let long = "x".repeat(BusinessKey::MAX_LEN + 1);
    let records = [
        body("{}"),
        body(r#"{"id": null}"#),
        body(r#"{"id": ""}"#),
        body(r#"{"id": "  \n"}"#),
        body(&json!({ "id": long }).to_string()),
        order("a"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3", "m-4"]);
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_extractor_that_fails_or_panics_makes_its_record_terminal() {
    let bench = Bench::new();
    let fallible = consumer::<Order>()
        .key(|order: &Order| match order.id.as_str() {
            "bad" => Err("no key in it"),
            "panic" => panic!("the key is 4111-1111"),
            id => Ok(id.to_owned()),
        })
        .handler(async |_: Order| {});
    let consumer = bench.consumer(fallible);
    let failed = bench
        .invoke(&consumer, event(["bad", "panic", "a"].map(order)))
        .await;
    assert_eq!(failed, ["m-0", "m-1"]);
    assert!(!bench.log.all().contains("4111"));
    assert_eq!(
        bench.outcomes(),
        outcomes([
            ("m-0", "terminal"),
            ("m-1", "terminal"),
            ("m-2", "processed")
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_payload_type_that_panics_makes_its_record_terminal() {
    struct Fragile;
    impl<'de> Deserialize<'de> for Fragile {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("out of luck")
        }
    }
    let bench = Bench::new();
    let fragile = consumer::<Fragile>()
        .key(|_: &Fragile| "a")
        .handler(async |_: Fragile| {});
    let consumer = bench.consumer(fragile);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
}

#[tokio::test(start_paused = true)]
async fn keys_from_attributes_and_groups_are_terminal_where_they_are_missing() {
    let bench = Bench::new();
    let by_attribute = consumer::<Value>()
        .key(MessageAttribute::new("order-id"))
        .handler(async |_: Value| {});
    let by_attribute = bench.consumer(by_attribute);
    let mut named = order("a");
    named["messageAttributes"] =
        json!({ "order-id": { "stringValue": "o-1", "dataType": "String" } });
    let failed = bench
        .invoke(&by_attribute, event([named, order("a")]))
        .await;
    assert_eq!(failed, ["m-1"]);

    let by_group = consumer::<Value>()
        .key(MessageGroup)
        .handler(async |_: Value| {});
    let by_group = bench.consumer(by_group);
    let failed = bench
        .invoke(
            &by_group,
            event([crate::support::grouped("g", "a"), order("b")]),
        )
        .await;
    assert_eq!(failed, ["m-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_message_id_fails_the_invocation_before_anything_runs() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    for unnamed in [Value::Null, json!("")] {
        let mut records = [order("a"), order("b")];
        records[1]["messageId"] = unnamed;
        let refused = bench.try_invoke(&consumer, event(records)).await;
        assert!(matches!(refused, Err(EventError::NoMessageId { index: 1 })));
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_answered_with_an_empty_list() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    assert!(bench.invoke(&consumer, event([])).await.is_empty());
    assert!(bench.store.take_calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_and_attributes_are_ignored() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let mut record = body(r#"{"id": "a", "new": {"field": []}}"#);
    record["someday"] = json!(1);
    record["attributes"] = json!({ "ApproximateReceiveCount": "many", "New": "1" });
    record["messageAttributes"] = json!({ "trace": { "dataType": "String", "stringValue": "x" } });
    assert!(bench.invoke(&consumer, event([record])).await.is_empty());
    assert_eq!(*seen.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn hostile_bodies_fail_or_run_but_neither_panic_nor_stall() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let deep = "[".repeat(200_000);
    let deep_inside = format!(r#"{{"id": "deep", "x": {deep}{}}}"#, "]".repeat(200_000));
    let megabyte = format!(r#"{{"id": "big", "x": "{}"}}"#, "y".repeat(1 << 20));
    let records = [
        body(&deep),
        body(&deep_inside),
        body(&megabyte),
        body(r#"{"id": "\ud800"}"#),
        body(r#"{"id": "ok", "x": "\ud800"}"#),
        body(r#"{"id": "twice", "id": "again"}"#),
        body("{\"id\": \"nul\\u0000\"}"),
        body("\u{0}"),
        body("1e999999"),
        order("a"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert!(failed.contains(&"m-0".to_owned()) && failed.contains(&"m-3".to_owned()));
    assert!(failed.contains(&"m-7".to_owned()) && failed.contains(&"m-8".to_owned()));
    let seen = seen.lock().unwrap();
    for id in ["big", "nul\0", "a"] {
        assert!(seen.iter().any(|seen| seen == id), "{id:?} did not run");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_ten_thousand_and_six_megabytes_runs() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let padding = "z".repeat(500);
    let records =
        (0..10_000).map(|at| body(&json!({ "id": at.to_string(), "x": padding }).to_string()));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(seen.lock().unwrap().len(), 10_000);
}

#[test]
fn no_two_lists_of_parts_share_a_key() {
    let keys = [
        BusinessKey::new(&("a", "bc")),
        BusinessKey::new(&("ab", "c")),
        BusinessKey::new("abc"),
        BusinessKey::new(&("a", "b", "c")),
        BusinessKey::new(&0),
        BusinessKey::new("0"),
        BusinessKey::new(&false),
        BusinessKey::new("false"),
        BusinessKey::new(&[0_u8]),
        BusinessKey::new("\0"),
        BusinessKey::new(&u64::MAX),
        BusinessKey::new(&(u128::from(u64::MAX) + 1)),
    ];
    let keys = keys.map(Result::unwrap);
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "key {at} is not its own");
    }
    assert_eq!(BusinessKey::new(&("a", "")), Err(KeyError::Empty));
    assert_eq!(BusinessKey::new(&None::<String>), Err(KeyError::Missing));
}
