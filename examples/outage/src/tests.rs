#[path = "../../cookbook/service.rs"]
mod service;

use std::time::Duration;

use serde_json::json;
use sqs_once::Handler;
use sqs_once::testing::{Bench, Event, Record};

use super::handler;
use service::Service;

const PROBE_SECONDS: u64 = 30;

fn calling(service: &Service) -> Handler {
    handler(service.url(), PROBE_SECONDS).unwrap()
}

/// The sample, and more orders.
fn orders(count: usize) -> Event {
    let sample = Record::text(include_str!("../event.json")).message_id("sample");
    let more = (1..count).map(|order| {
        let order = json!({ "order_id": format!("o-{order}"), "amount_cents": 100 });
        Record::json(&order)
    });
    Event::new(std::iter::once(sample).chain(more))
}

#[tokio::test]
async fn an_order_that_comes_twice_is_charged_once() {
    let service = Service::answering([201]).await;
    let bench = Bench::new(calling(&service));
    bench.run(&orders(1)).await.assert_processed("sample");
    bench.run(&orders(1)).await.assert_duplicate("sample");
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn while_the_service_is_down_orders_wait_and_then_each_is_charged_with_its_token() {
    let service = Service::answering([500, 502, 503, 201, 201, 201, 201]).await;
    let bench = Bench::new(calling(&service));
    assert_eq!(bench.run(&orders(3)).await.retried().len(), 3);
    assert_eq!(bench.run(&orders(4)).await.retried().len(), 4);
    assert_eq!(service.requests().len(), 3, "orders wait without a call");

    bench
        .clock()
        .advance(Duration::from_secs(PROBE_SECONDS + 1));
    assert!(bench.run(&orders(4)).await.retried().is_empty());
    let requests = service.requests();
    let charge = |it: &service::Request| {
        let token = it.headers["idempotency-key"].clone();
        (it.body["order_id"].clone(), token)
    };
    let charges: Vec<_> = requests.iter().map(charge).collect();
    let (failed, charged) = charges.split_at(3);
    assert_eq!(charged.len(), 4);
    assert!(failed.iter().all(|charge| charged.contains(charge)));
}

#[tokio::test]
async fn declined_charges_are_no_outage() {
    let service = Service::answering([402, 402, 402, 201]).await;
    let bench = Bench::new(calling(&service));
    bench.run(&orders(3)).await.assert_terminal("sample");
    let next = json!({ "order_id": "o-next", "amount_cents": 100 });
    bench.run(Event::new([&next])).await.assert_processed("m-1");
}

#[tokio::test]
async fn a_charge_is_not_repeated_when_its_token_is_forgotten() {
    let service = Service::answering([503]).await;
    let bench = Bench::new(calling(&service));
    assert_eq!(bench.run(&orders(1)).await.retried().len(), 1);
    bench.clock().advance(Duration::from_secs(25 * 60 * 60));
    let answer = bench.run(&orders(1)).await;
    answer.assert_terminal("sample");
    answer.assert_reason("sample", "outcome unknown");
}
