//! Bad input causes an error for its record, or a normal run. It never causes a panic, a stall or a shared key.

use crate::support::{assert_contains, body, json_body, noting, order};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_the_payload_fails_alone_with_a_reason_and_touches_no_key() {
    let (bench, seen) = noting();
    let records = [
        order("a"),
        body("{ not json"),
        body(r#"{"id": 7}"#),
        body(r#"{"order": "x"}"#),
        body(""),
        json!({}),
        json!({ "body": null }),
        order("b"),
    ];
    let failed = ["m-1", "m-2", "m-3", "m-4", "m-5", "m-6"];
    assert_eq!(bench.run(records).await, failed);
    assert_eq!(seen.take(), ["a", "b"]);
    assert_eq!(bench.store.take_calls(), [("claim", 2), ("settle", 2)]);
    let lines = bench.lines();
    let integer = "invalid type: integer, expected a string";
    let reasons = ["not JSON", integer, "missing field `id`", "", "no body", ""];
    for (line, reason) in lines[1..].iter().zip(reasons) {
        assert_eq!(line["outcome"], "terminal");
        assert_contains!(line["reason"], reason);
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_bodies_fail_or_run_but_neither_panic_nor_stall() {
    let (bench, seen) = noting();
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
    let failed = bench.run(records).await;
    for id in ["m-0", "m-3", "m-7", "m-8"] {
        assert!(failed.iter().any(|failed| failed == id), "{id} ran");
    }
    let seen = seen.take();
    for id in ["big", "nul\0", "a"] {
        assert!(seen.iter().any(|seen| seen == id), "{id:?} did not run");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_ten_thousand_and_six_megabytes_runs() {
    let (bench, seen) = noting();
    let padding = "z".repeat(500);
    let records = (0..10_000).map(|at| json_body(&json!({ "id": at.to_string(), "x": padding })));
    assert_eq!(bench.run(records).await, [""; 0]);
    assert_eq!(seen.len(), 10_000);
}
