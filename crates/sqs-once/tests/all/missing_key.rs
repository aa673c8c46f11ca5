//! Records without a business key.

use std::collections::BTreeSet;

use crate::support::{
    Bench, Notes, Tested, assert_contains, body, codes, in_group, json_body, set, with,
};
use crate::testing_kit::Hidden;
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::extract::Attempt;
use sqs_once::key::{ItemId, KeyExtractor, MessageKey};
use sqs_once::policy::MissingKey;
use sqs_once::{BusinessKey, Handler, HandlerError, IdempotencyToken, ResultExt, State, Writes};

#[derive(Deserialize)]
struct Order {
    id: Option<String>,
    #[serde(default)]
    ends: String,
}

/// An order's ID, and the token that the handler received.
type Seen = Notes<(Option<String>, String)>;

async fn note(
    order: Order,
    token: IdempotencyToken,
    item: ItemId,
    attempt: Attempt,
    State(seen): State<Seen>,
) -> Result<(), HandlerError> {
    assert!(attempt.fence().get() > 0 && item.as_str().starts_with("test#"));
    seen.add((order.id, token.to_string()));
    match order.ends.as_str() {
        "badly" => Err("no luck")?,
        "for good" => Err("no use").terminal(),
        "by panic" => panic!("what a surprise"),
        "never" => std::future::pending().await,
        _ => Ok(()),
    }
}

fn noting(policy: MissingKey) -> (Tested, Seen) {
    let seen = Seen::default();
    let noting = Handler::json::<Order>()
        .key(|order: &Order| order.id.clone())
        .state(seen.clone())
        .call(note)
        .missing_key(policy);
    (Bench::new().on(noting), seen)
}

#[tokio::test(start_paused = true)]
async fn a_key_in_an_attribute_that_is_missing_or_binary_is_none_with_a_reason_that_names_it() {
    async fn reason_of(key: impl KeyExtractor<Order>, record: Value) -> String {
        let bench = Bench::new().on(keyed(key));
        assert_eq!(bench.run([record]).await, ["m-0"]);
        bench.line()["reason"].clone()
    }
    let reason = |key| reason_of(key, body("{}"));
    let says =
        |name: &str| format!("the business key is missing: the message has no attribute `{name}`");
    let pair = (
        MessageKey::json_pointer("/ends"),
        MessageKey::attribute("tenant"),
    );
    let missing = "the business key is missing";
    assert_eq!(reason_of(pair, body("{}")).await, missing);
    let sequence = "SequenceNumber";
    for (key, name) in [
        (MessageKey::attribute("tenant"), "tenant"),
        (MessageKey::system_attribute(sequence), sequence),
        (MessageKey::group_id(), "MessageGroupId"),
        (MessageKey::producer(), "business-key"),
    ] {
        assert_eq!(reason(key).await, says(name));
    }
    let mut record = body("{}");
    record["messageAttributes"]["tenant"] = json!({ "dataType": "Binary", "binaryValue": "AP8=" });
    let binary = reason_of(MessageKey::attribute("tenant"), record).await;
    assert_contains!(binary, "the business key is a binary attribute: only text");
}

const KEYLESS: &str = "without a business key: not protected against duplicates";

#[tokio::test(start_paused = true)]
async fn a_record_without_a_key_is_terminal_by_default_or_returns_and_the_store_is_not_asked() {
    for (policy, outcome) in [
        (None, "terminal"),
        (Some(MissingKey::Terminal), "terminal"),
        (Some(MissingKey::Retry), "failed"),
    ] {
        let keyed = keyed(|order: &Order| BusinessKey::new(&("order", &order.id)));
        let bench = Bench::new().on(set(keyed, policy, Handler::missing_key));
        let keys = [json!(null), json!(""), json!("a")].map(|key| json!({ "id": key }));
        let records = [json!({})].into_iter().chain(keys);
        let failed = bench.run(records.map(|it| json_body(&it))).await;
        assert_eq!(failed, ["m-0", "m-1", "m-2"]);
        // An empty key is not a missing one.
        let missing = format!("{outcome}: key-missing");
        let expected = format!("{missing}, {missing}, terminal: key-invalid, processed");
        assert_eq!(codes(&bench.lines()), expected);
        assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_record_runs_every_time_without_a_claim_and_its_line_says_so() {
    let (bench, seen) = noting(MissingKey::ProcessUnprotected);
    for _ in 0..2 {
        let records = [body("{}"), body(r#"{"id": "a"}"#), body("{}")];
        assert_eq!(bench.run(records).await, [""; 0]);
    }
    let ids: Vec<_> = seen.take().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.iter().filter(|id| id.is_none()).count(), 4);
    assert_eq!(ids.iter().filter(|id| id.is_some()).count(), 1);
    let requests = [("claim", 1), ("settle", 1), ("claim", 1)];
    assert_eq!(bench.store.take_calls(), requests);
    let mut lines = bench.lines();
    lines.retain(|line| line["message_id"] != "m-1");
    assert_eq!(codes(&lines), ["processed: unprotected"; 4].join(", "));
    for line in lines {
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["reason"], KEYLESS);
        assert!(!line.contains_key("key"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_record_that_fails_is_returned_and_says_both() {
    let (bench, _) = noting(MissingKey::ProcessUnprotected);
    let ends = |how: &str| json_body(&json!({ "ends": how }));
    let records = ["badly", "for good", "by panic", "never", "well"].map(ends);
    assert_eq!(bench.run(records).await, ["m-0", "m-1", "m-2", "m-3"]);
    let lines = bench.lines();
    for (line, (outcome, reason)) in lines.iter().zip([
        ("failed", "no luck; "),
        ("terminal", "no use; "),
        ("failed", "panicked: what a surprise; "),
        ("failed", "cancelled at the deadline"),
        ("processed", ""),
    ]) {
        assert!(line["reason"].ends_with(KEYLESS), "{line:?}");
        assert!(line["reason"].contains(reason), "{line:?}");
        assert_eq!(line["outcome"], outcome);
    }
    assert_eq!(bench.store.take_calls(), []);
}

fn keyed(key: impl KeyExtractor<Order>) -> Handler {
    Handler::json().key(key).call(async |_: Order| {})
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_unusable_is_terminal_whatever_the_policy() {
    let (bench, seen) = noting(MissingKey::ProcessUnprotected);
    let long = "x".repeat(BusinessKey::MAX_LEN + 1);
    let keys = [json!(""), json!("  \n"), json!(long), json!(7)];
    let records = keys.map(|key| json_body(&json!({ "id": key })));
    assert_eq!(bench.run(records).await, ["m-0", "m-1", "m-2", "m-3"]);
    assert_eq!(bench.outcomes(), ["terminal"; 4].join(" "));
    assert_eq!(bench.store.take_calls(), []);

    let failing = keyed(|order: &Order| match order.id {
        Some(_) => panic!("the key is 4111-1111"),
        None => Err::<String, _>("no key in 4111-1111"),
    });
    let failing = bench.consumer(failing.missing_key(MissingKey::ProcessUnprotected));
    let records = [body("{}"), body(r#"{"id": "a"}"#)];
    assert_eq!(bench.deliver(&failing, records).await, ["m-0", "m-1"]);
    let unusable = ["terminal: extractor-failed"; 2].join(", ");
    assert_eq!(bench.codes(), unusable);
    assert_eq!(seen.take(), []);
}

#[tokio::test(start_paused = true)]
async fn the_token_of_an_unprotected_record_is_its_messages_own() {
    let (bench, seen) = noting(MissingKey::ProcessUnprotected);
    for _ in 0..2 {
        let named = with(body(r#"{"id": "m-0"}"#), json!({ "messageId": "other" }));
        bench.run([body("{}"), body("{}"), named]).await;
    }
    assert_eq!(seen.len(), 5);
    let tokens: BTreeSet<_> = seen.take().into_iter().map(|(_, token)| token).collect();
    assert_eq!(tokens.len(), 3, "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn in_a_message_group_unprotected_records_keep_their_order() {
    let (bench, seen) = noting(MissingKey::ProcessUnprotected);
    let bodies = [
        r#"{"id": "a"}"#,
        "{}",
        r#"{"id": "b"}"#,
        r#"{"ends": "badly"}"#,
        r#"{"id": "c"}"#,
    ];
    let records = bodies.map(|text| in_group("g", body(text)));
    assert_eq!(bench.run(records).await, ["m-3", "m-4"]);
    let ids: Vec<_> = seen.take().into_iter().map(|(id, _)| id).collect();
    let id = |id: &str| Some(id.to_owned());
    assert_eq!(ids, [id("a"), None, id("b"), None]);
}

#[tokio::test(start_paused = true)]
async fn writes_without_a_key_are_never_acknowledged_unwritten() {
    let keyed = Handler::json().key(|order: &Order| order.id.clone());
    let alone = keyed.call(async |_: Order| Hidden(Writes::new()));
    let bench = Bench::new().on(alone.missing_key(MissingKey::ProcessUnprotected));
    let records = [body("{}"), body(r#"{"id": "a"}"#)];
    assert_eq!(bench.run(records).await, ["m-0"]);
    assert_eq!(bench.outcomes(), "terminal processed");
    assert_eq!(bench.store.take_commits().len(), 1);
}
