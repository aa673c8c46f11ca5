//! Tests of the consumer in memory, with a payments service on loopback. `tests/` at the top of the repository has the
//! end-to-end tests of the real binary.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use sqs_once::store::StoreErrorKind;
use sqs_once::testing::{Bench, Event, Operation, Record};

use crate::charge;
use crate::order::OrderPlaced;
use crate::payments::Payments;

fn order(id: &str, amount_cents: u64) -> OrderPlaced {
    OrderPlaced {
        order_id: id.to_owned(),
        customer_id: "c-7".to_owned(),
        amount_cents,
        currency: "EUR".to_owned(),
    }
}

/// A payments service that records the idempotency key of every charge.
#[derive(Clone, Default)]
struct Service(Arc<Mutex<Vec<String>>>);

impl Service {
    /// Creates a bench with the consumer, and the service that it calls.
    async fn with_bench() -> (Self, Bench) {
        let service = Self::default();
        let routes = Router::new().route("/charges", post(answer));
        let routes = routes.with_state(service.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let payments = Payments::at(&url).unwrap();
        let bench = Bench::new(charge::handler(payments));
        (service, bench)
    }

    fn charges(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

async fn answer(State(service): State<Service>, headers: HeaderMap) -> StatusCode {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    service.0.lock().unwrap().push(key);
    StatusCode::CREATED
}

#[tokio::test]
async fn an_order_that_comes_twice_is_charged_once() {
    let (service, bench) = Service::with_bench().await;
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
    assert_eq!(service.charges().len(), 1);
}

#[tokio::test]
async fn an_order_that_can_never_be_charged_is_terminal_and_holds_up_no_other() {
    let (service, bench) = Service::with_bench().await;
    let orders = [order("o-1", 100), order("o-2", 0), order("o-3", 300)];
    bench
        .run(Event::new(&orders))
        .await
        .assert_terminal("m-2")
        .assert_reason("m-2", "the amount is zero")
        .assert_retried(["m-2"]);
    assert_eq!(service.charges().len(), 2);
}

#[tokio::test]
async fn a_charge_that_is_repeated_after_a_crash_carries_the_same_idempotency_key() {
    let (service, bench) = Service::with_bench().await;
    let event = Event::new([&order("o-1001", 1299)]);
    bench.run_and_crash(&event).await;
    bench.run(&event).await.assert_in_progress("m-1");
    // Longer than the lease: the invocation's 30 s and a margin of 3 s.
    bench.clock().advance(Duration::from_secs(34));
    bench.run(&event).await.assert_processed("m-1");

    let charges = service.charges();
    assert_eq!(charges.len(), 2);
    assert_eq!(charges[0], charges[1]);
}

#[tokio::test]
async fn another_order_under_a_known_key_is_terminal_and_not_charged() {
    let (service, bench) = Service::with_bench().await;
    bench.run(Event::new([&order("o-1001", 1299)])).await;
    let other = Record::json(&order("o-1001", 1)).message_id("another");
    let answer = bench.run(Event::new([other])).await;
    answer
        .assert_terminal("another")
        .assert_retried(["another"]);
    assert_eq!(service.charges().len(), 1);
}

#[tokio::test]
async fn without_the_table_nobody_is_charged() {
    let (service, bench) = Service::with_bench().await;
    let store = bench.store();
    store.fail(Operation::Claim, StoreErrorKind::TableNotFound, usize::MAX);
    let orders = [order("o-1", 100), order("o-2", 200)];
    let answer = bench.run(Event::new(&orders)).await;
    answer.assert_retried(["m-1", "m-2"]);
    assert!(service.charges().is_empty());
}
