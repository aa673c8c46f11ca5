//! Tests of the consumer in memory, with a payments service on loopback. `tests/` at the top of the repository has the
//! end-to-end tests of the real binary.

#[path = "../../cookbook/service.rs"]
mod service;

use std::time::Duration;

use sqs_once::testing::{Bench, Event, Record};

use crate::charge;
use crate::order::OrderPlaced;
use crate::payments::Payments;
use service::Service;

fn order(id: &str, amount_cents: u64) -> OrderPlaced {
    OrderPlaced {
        order_id: id.to_owned(),
        customer_id: "c-7".to_owned(),
        amount_cents,
        currency: "EUR".to_owned(),
    }
}

/// A payments service, and a bench with the consumer that calls it.
async fn with_bench() -> (Service, Bench) {
    let service = Service::answering([201, 201]).await;
    let payments = Payments::at(&service.url()).unwrap();
    (service, Bench::new(charge::handler(payments)))
}

#[tokio::test]
async fn an_order_that_comes_twice_is_charged_once() {
    let (service, bench) = with_bench().await;
    let order = order("o-1001", 1299);
    let first = bench.run(Event::new([&order])).await;
    first.assert_processed("m-1");

    let delivered_again = Record::json(&order).receive_count(2);
    let sent_again = Record::json(&order).message_id("another");
    bench
        .run(Event::new([delivered_again, sent_again]))
        .await
        .assert_duplicate("m-1")
        .assert_duplicate("another")
        .assert_all_acknowledged();
    let [charge] = &service.requests()[..] else {
        panic!("one charge should be made")
    };
    assert_eq!(charge.body["order_id"], "o-1001");
}

#[tokio::test]
async fn an_order_that_can_never_be_charged_is_terminal_and_holds_up_no_other() {
    let (service, bench) = with_bench().await;
    let orders = [order("o-1", 100), order("o-2", 0), order("o-3", 300)];
    bench
        .run(Event::new(&orders))
        .await
        .assert_terminal("m-2")
        .assert_reason("m-2", "the amount is zero")
        .assert_retried(["m-2"]);
    assert_eq!(service.requests().len(), 2);
}

#[tokio::test]
async fn a_charge_that_is_repeated_after_a_crash_carries_the_same_idempotency_key() {
    let (service, bench) = with_bench().await;
    let event = Event::new([&order("o-1001", 1299)]);
    bench.run_and_crash(&event).await;
    bench.run(&event).await.assert_in_progress("m-1");
    // Longer than the lease: the invocation's 30 s and a margin of 3 s.
    bench.clock().advance(Duration::from_secs(34));
    bench.run(&event).await.assert_processed("m-1");

    let charges = service.requests();
    let token = |charge: usize| &charges[charge].headers["idempotency-key"];
    assert_eq!(charges.len(), 2);
    assert_eq!(token(0), token(1));
}
