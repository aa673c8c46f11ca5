//! Fingerprints distinguish messages with the same key.

use crate::support::{Bench, body, event, outcomes};
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::key::KeyError;
use sqs_once::key::{Fingerprint, KeyPart};
use sqs_once::policy::{Mode, PayloadMismatch};
use sqs_once::{BusinessKey, Consumer, consumer};

#[derive(Deserialize)]
struct Order {
    id: String,
    amount: u64,
    coupon: Option<String>,
}

fn order(amount: u64, coupon: Option<&str>, sent_at: u64) -> Value {
    let order = json!({ "id": "a", "amount": amount, "coupon": coupon, "sent_at": sent_at });
    body(&order.to_string())
}

fn comparing<P: KeyPart>(
    bench: &Bench,
    part: impl Fn(&Order) -> P + Send + Sync + 'static,
) -> Consumer {
    let comparing = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .fingerprint(part)
        .payload_mismatch(PayloadMismatch::Reject)
        .handler(async |_: Order| {});
    bench.consumer(comparing)
}

#[tokio::test(start_paused = true)]
async fn only_the_chosen_part_of_the_payload_is_compared() {
    let bench = Bench::new();
    let consumer = comparing(&bench, |order| (order.amount, order.coupon.clone()));
    let batch = [order(1, None, 10), order(1, None, 11), order(2, None, 10)];
    assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-2"]);
    let later = [order(1, None, 12), order(1, Some(""), 10)];
    assert_eq!(
        bench.invoke(&consumer, event([later[0].clone()])).await,
        [""; 0]
    );
    assert_eq!(
        bench.invoke(&consumer, event([later[1].clone()])).await,
        ["m-0"]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_and_empty_text_are_values_in_a_fingerprint() {
    let parts: [&dyn Fn() -> Result<Fingerprint, KeyError>; 5] = [
        &|| Fingerprint::new(&(1, None::<String>)),
        &|| Fingerprint::new(&(2, None::<String>)),
        &|| Fingerprint::new(&(1, "")),
        &|| Fingerprint::new(&(1, " ")),
        &|| Fingerprint::new(&"x".repeat(2 * BusinessKey::MAX_LEN)),
    ];
    let fingerprints = parts.map(|part| part().unwrap());
    for (at, fingerprint) in fingerprints.iter().enumerate() {
        assert!(!fingerprints[..at].contains(fingerprint), "{at}");
        assert_eq!(parts[at]().unwrap(), *fingerprint);
    }
    let inside = BusinessKey::new(&(1, None::<String>));
    assert_eq!(inside, Err(KeyError::Missing));
}

#[tokio::test(start_paused = true)]
async fn a_fingerprint_that_fails_or_panics_makes_its_record_terminal() {
    let bench = Bench::new();
    let consumer = comparing(&bench, |order| match order.amount {
        1 => Err("no part in it"),
        2 => panic!("4111-1111"),
        amount => Ok(amount),
    });
    let batch = [order(1, None, 0), order(2, None, 0), order(3, None, 0)];
    assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-0", "m-1"]);
    assert!(!bench.log.all().contains("4111"));
    let lines = bench.log.take("sqs_once::record");
    let of = |id: &str| lines.iter().find(|line| line["message_id"] == id).unwrap();
    for id in ["m-0", "m-1"] {
        assert_eq!(of(id)["outcome"], "terminal");
        assert!(of(id)["reason"].starts_with("the payload has no usable fingerprint: "));
    }
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
}

#[tokio::test(start_paused = true)]
async fn ignoring_payloads_computes_and_stores_no_fingerprint() {
    for mode in [Mode::ClaimFirst, Mode::RecordAfter] {
        let bench = Bench::new();
        let consumer = comparing(&bench, |_| -> u8 { panic!("it was computed") })
            .payload_mismatch(PayloadMismatch::Ignore)
            .mode(mode);
        let batch = [order(1, None, 0), order(2, None, 0)];
        assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
        assert!(
            bench
                .invoke(&consumer, event([order(3, None, 0)]))
                .await
                .is_empty()
        );
        assert_eq!(bench.store.item("a").unwrap().fingerprint, None);
        let lines = bench.log.take("sqs_once::record");
        assert_eq!(lines.len(), 3);
        assert!(
            lines
                .iter()
                .all(|line| line["level"] == "INFO" && !line.contains_key("reason"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_without_a_fingerprint_is_a_plain_duplicate_for_a_consumer_that_compares() {
    let bench = Bench::new();
    let consumer = comparing(&bench, |order| order.amount);
    let ignoring = consumer.clone().payload_mismatch(PayloadMismatch::Ignore);
    bench.invoke(&ignoring, event([order(1, None, 0)])).await;
    bench.invoke(&consumer, event([order(2, None, 0)])).await;
    assert_eq!(
        bench.outcomes(),
        outcomes([("m-0", "duplicate"), ("m-0", "processed")])
    );
}
