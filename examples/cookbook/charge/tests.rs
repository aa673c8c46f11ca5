#[path = "../service.rs"]
mod service;

use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::consumer;
use service::Service;

#[tokio::test]
async fn an_order_that_comes_twice_is_charged_once() {
    let service = Service::answering([201]).await;
    let bench = Bench::new(consumer(service.url()).unwrap());
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn a_charge_that_fails_is_repeated_with_its_token_and_a_declined_one_is_not() {
    let service = Service::answering([503, 201, 402]).await;
    let bench = Bench::new(consumer(service.url()).unwrap());
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_retried(["m-1"]);
    bench.run(&event).await.assert_processed("m-1");
    let declined = json!({ "order_id": "o-2", "amount_cents": 1, "currency": "EUR" });
    let answer = bench.run(Event::new([&declined])).await;
    answer.assert_terminal("m-1");

    let requests = service.requests();
    let token = |request: usize| &requests[request].headers["idempotency-key"];
    assert_eq!(requests[0].body["amount_cents"], 1299);
    assert_eq!(token(0), token(1));
    assert_ne!(token(1), token(2));
}
