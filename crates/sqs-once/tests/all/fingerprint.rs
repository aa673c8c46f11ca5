//! Fingerprints distinguish messages with the same key.

use crate::support::sqs::{Sqs, Turn};
use crate::support::{
    Bench, DLQ, Mode, Order, Tested, assert_contains, body, codes, grouped, in_group, json_body,
    orders,
};
use serde_json::{Value, json};
use sqs_once::consumer::{Named, OfMessages, Runnable};
use sqs_once::key::{Fingerprint, Ids, KeyError, KeyPart, KeySecret};
use sqs_once::policy::PayloadMismatch;
use sqs_once::{Batch, BatchHandler, BusinessKey, Consumer, Handler};

const REASON: &str = "payload mismatch: its key was completed for another payload";

fn order(total: u64) -> Value {
    of("a", total)
}

fn of(id: &str, total: u64) -> Value {
    json_body(&json!({ "id": id, "total": total }))
}

fn comparing<P: KeyPart>(part: impl Fn(&Order) -> P + Send + Sync + 'static) -> Tested {
    let comparing = orders().fingerprint(part);
    rejecting(comparing.call(async |_: Order| {}))
}

/// A consumer that returns messages with another payload.
fn rejecting<Kind>(handler: Handler<Kind>) -> Tested<Kind>
where
    Kind: Named + OfMessages + Clone,
    Handler<Kind>: Runnable,
{
    Bench::new().on(handler.payload_mismatch(PayloadMismatch::Retry))
}

#[tokio::test(start_paused = true)]
async fn nothing_and_empty_text_are_values_in_a_fingerprint() {
    let long = "x".repeat(2 * BusinessKey::MAX_LEN);
    let parts: [&dyn KeyPart; 5] = [
        &(1, None::<String>),
        &(2, None::<String>),
        &(1, ""),
        &(1, " "),
        &long,
    ];
    let fingerprints = parts.map(|part| Fingerprint::new(part).unwrap());
    for (at, fingerprint) in fingerprints.iter().enumerate() {
        assert!(!fingerprints[..at].contains(fingerprint), "{at}");
        assert_eq!(Fingerprint::new(parts[at]).unwrap(), *fingerprint);
    }
    let inside = BusinessKey::new(&(1, None::<String>));
    assert_eq!(inside, Err(KeyError::Missing));
}

#[test]
fn a_fingerprint_shows_its_digits() {
    let fingerprint = Fingerprint::new(&1).unwrap();
    assert_eq!(fingerprint.to_string(), fingerprint.as_str());
    let (scheme, digits) = fingerprint.as_str().split_once(':').unwrap();
    assert_eq!((scheme, digits.len()), ("fields1", 64));
}

/// Whether a message with this payload is a duplicate, after `before` was processed by another version.
async fn compared(versions: [Handler; 2], before: Value, after: Value) -> String {
    let [old, new] = versions.map(|version| version.payload_mismatch(PayloadMismatch::Retry));
    let bench = Bench::new();
    let [old, new] = [old, new].map(|version| bench.consumer(version));
    bench.deliver(&old, [before]).await;
    bench.lines();
    bench.deliver(&new, [after]).await;
    let [line] = bench.lines().try_into().unwrap();
    let reason = line.get("reason").map_or("", String::as_str);
    assert_eq!(line["level"] == "WARN", !reason.is_empty(), "{line:?}");
    format!("{}, {reason}", codes(std::slice::from_ref(&line)))
}

fn whole() -> Handler {
    orders().call(async |_: Order| {})
}

#[sqs_once::handler(key = order.id, fingerprint = none, namespace = "test")]
async fn uncompared(order: Order) {
    let _ = order;
}

#[sqs_once::handler(key = order.id, fingerprint = order.total, namespace = "declared")]
async fn total(order: Order) {
    let _ = order;
}

#[sqs_once::handler(key = order.id, fingerprint = (order.total, &order.id), namespace = "declared")]
async fn total_and_id(order: Order) {
    let _ = order;
}

#[tokio::test(start_paused = true)]
async fn payloads_whose_fields_differ_are_duplicates_with_a_warning_and_their_values_count() {
    let fields = || {
        let orders = orders().fingerprint(|order: &Order| order.total);
        orders.call(async |_: Order| {})
    };
    let secret = || {
        let secret = KeySecret::new([7; 32]).unwrap();
        whole().ids(Ids::secret(secret).read_alone())
    };
    let (total, total_and_id) = (total::handler, total_and_id::handler);
    let more = || json_body(&json!({ "id": "a", "total": 1, "currency": "EUR" }));
    let uncompared =
        "duplicate: payload-not-compared, its key was processed for a payload with other fields";
    let mismatch = "failed: payload-mismatch, payload mismatch: ";
    for (old, new, after, starts) in [
        // A version declares fields, or other fields.
        (whole(), fields(), order(1), uncompared),
        (fields(), whole(), order(1), uncompared),
        (total(), total_and_id(), order(1), uncompared),
        // A producer adds a field.
        (whole(), whole(), more(), uncompared),
        (secret(), secret(), more(), uncompared),
        (fields(), fields(), order(2), mismatch),
        (total(), total(), order(2), mismatch),
        (total(), total(), more(), "duplicate, "),
        (whole(), whole(), order(2), mismatch),
        (secret(), secret(), order(2), mismatch),
        (whole(), whole(), order(1), "duplicate, "),
        (secret(), secret(), order(1), "duplicate, "),
        // The old version compared nothing.
        (uncompared::handler(), fields(), order(2), "duplicate, "),
    ] {
        let ends = compared([old, new], order(1), after).await;
        assert!(ends.starts_with(starts), "{ends}");
        assert_eq!(ends.starts_with(uncompared), starts == uncompared, "{ends}");
    }
    // In one batch, too.
    let bench = rejecting(whole());
    assert_eq!(bench.run([order(1), more()]).await, [""; 0]);
    assert_eq!(bench.outcomes(), "processed duplicate");
}

#[tokio::test(start_paused = true)]
async fn an_item_whose_fingerprint_names_no_scheme_is_a_duplicate_with_a_warning() {
    let bench = rejecting(whole());
    bench.run([order(1)]).await;
    bench.store.change("a", |item| {
        item.fingerprint = Some(Fingerprint::from_stored("7".repeat(64)));
    });
    assert_eq!(bench.run([order(1)]).await, [""; 0]);
    assert_eq!(bench.outcomes(), "duplicate processed");
}

#[tokio::test(start_paused = true)]
async fn values_deeper_than_sixteen_levels_are_compared_as_they_are_written() {
    let deep = |levels: usize, innermost: &str| {
        let (open, close) = (r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let deep = format!("{open}{innermost}{close}");
        body(&format!(r#"{{"id": "a", "total": 1, "deep": {deep}}}"#))
    };
    for (levels, returned) in [(3, 0), (20, 1)] {
        let bench = rejecting(whole());
        bench.run([deep(levels, "[1,2]")]).await;
        let failed = bench.run([deep(levels, "[1, 2]")]).await;
        assert_eq!(failed.len(), returned, "{levels}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fingerprint_that_fails_or_panics_makes_its_record_terminal() {
    let bench = comparing(|order| match order.total {
        1 => Err("no part in it"),
        2 => panic!("4111-1111"),
        total => Ok(total),
    });
    let batch = [1, 2, 3].map(order);
    assert_eq!(bench.run(batch).await, ["m-0", "m-1"]);
    for line in &bench.lines()[..2] {
        assert_eq!(line["outcome"], "terminal");
        let reason = "the payload has no usable fingerprint: ";
        assert!(line["reason"].starts_with(reason), "{line:?}");
    }
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
}

#[tokio::test(start_paused = true)]
async fn ignoring_payloads_computes_and_stores_no_fingerprint() {
    for mode in Mode::BOTH {
        let keyed = orders().fingerprint(|_| -> u8 { panic!("it was computed") });
        let handler = mode.call(keyed.without_fingerprint(), async |_: Order| {});
        let bench = Bench::new().on(handler);
        assert_eq!(bench.run([1, 2].map(order)).await, [""; 0]);
        assert_eq!(bench.run([order(3)]).await, [""; 0]);
        assert_eq!(bench.store.item("a").unwrap().fingerprint, None);
        let lines = bench.lines();
        assert_eq!(lines.len(), 3);
        for line in lines {
            let is_plain = line["level"] == "INFO" && !line.contains_key("reason");
            assert!(is_plain, "{line:?}");
        }
    }
}

fn batches() -> BatchHandler {
    orders().call_batch(async |orders: Batch<Order>| orders.all_succeeded())
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_does_not_wait_for_a_duplicate_behind_a_message_that_differs() {
    let bench = rejecting(batches());
    assert_eq!(bench.run([order(1)]).await, [""; 0]);
    let records = [order(2), order(1), of("b", 1)];
    assert_eq!(bench.run(records).await, ["m-0"]);
}

fn with_dead_letters(consumer: Consumer, sqs: &Sqs) -> Consumer {
    consumer.queue(sqs.queue().dead_letter_queue(format!("{DLQ}.fifo")))
}

/// A consumer that has processed the order `a` for a total of 1.
async fn charged(handler: Handler, settings: impl FnOnce(Consumer) -> Consumer) -> Tested {
    let bench = Bench::new().on(handler).with_consumer(settings);
    assert_eq!(bench.run([order(1)]).await, [""; 0]);
    bench.lines();
    bench
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_a_dead_letter_at_once_and_each_time_until_its_key_is_forgotten() {
    for mode in Mode::BOTH {
        let sqs = Sqs::default();
        let whole = mode.call(orders(), async |_: Order| {});
        let bench = charged(whole, |it| with_dead_letters(it, &sqs)).await;
        for redriven in 1..=2 {
            assert_eq!(bench.run([order(999)]).await, [""; 0]);
            let line = bench.line();
            assert_eq!((&*line["outcome"], &*line["level"]), ("terminal", "ERROR"));
            assert_eq!(sqs.reasons(), vec![&*line["reason"]; redriven]);
            let said = &line["reason"];
            assert_contains!(said, REASON, "drop it", "key forget", "correct the key");
        }
        assert_eq!(bench.run([order(1)]).await, [""; 0]);
        assert_eq!(bench.outcomes(), "duplicate");
        bench.forget("a");
        assert_eq!(bench.run([order(999)]).await, [""; 0]);
        assert_eq!(bench.outcomes(), "processed");
    }
}

#[tokio::test(start_paused = true)]
async fn in_one_batch_too_only_the_message_with_another_payload_ends_as_the_policy_says() {
    let others = &["m-1", "m-3", "m-4", "m-6"][..];
    for (policy, ends, failed, dead_letters) in [
        (PayloadMismatch::Terminal, "terminal", &[][..], 4),
        (PayloadMismatch::Retry, "failed", others, 0),
        (PayloadMismatch::Acknowledge, "duplicate", &[], 0),
    ] {
        let sqs = Sqs::default();
        let handler = whole().payload_mismatch(policy);
        let bench = charged(handler, |it| with_dead_letters(it, &sqs)).await;
        // Behind a message that runs, and behind one that differs itself.
        let new = [1, 2, 1].map(|total| of("new", total));
        let records = new.into_iter().chain([2, 2, 1, 3, 1].map(order));
        assert_eq!(bench.run(records).await, failed);
        let other = format!("{ends}: payload-mismatch");
        let expected = format!(
            "processed, {other}, duplicate, {other}, {other}, duplicate, {other}, duplicate"
        );
        assert_eq!(codes(&bench.lines()), expected);
        assert_eq!(sqs.reasons().len(), dead_letters);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_with_another_payload_does_not_stop_its_group_even_if_it_can_not_be_moved() {
    let denied = Sqs::always(Turn::Refuse("com.amazonaws.sqs#AccessDeniedException"));
    let both = &["m-1", "m-3"][..];
    for (sqs, failed) in [
        (Some(Sqs::default()), &[][..]),
        (Some(denied), both),
        (None, both),
    ] {
        let bench = charged(whole(), |it| sqs.iter().fold(it, with_dead_letters)).await;
        // The second is behind its leader, and the fourth behind a completion.
        let records = [of("b", 1), of("b", 2), of("c", 1), order(2), of("d", 1)];
        let records = records.map(|record| in_group("g", record));
        assert_eq!(bench.run(records).await, failed);
        let expected = "processed terminal processed terminal processed";
        assert_eq!(bench.outcomes(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_gets_the_group_behind_a_message_with_another_payload() {
    let sqs = Sqs::default();
    let bench = charged(whole(), |it| it).await;
    let consumer = with_dead_letters(bench.consumer(batches()), &sqs);
    let records = [in_group("g", order(2)), grouped("g", "b")];
    assert_eq!(bench.deliver(&consumer, records).await, [""; 0]);
    assert_eq!(bench.outcomes(), "terminal processed");
}
