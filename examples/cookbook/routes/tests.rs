use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::router;

fn of_type(kind: &str, amount_cents: u64) -> Record {
    let order = json!({ "order_id": "o-1001", "amount_cents": amount_cents });
    Record::json(&order).attribute("type", kind)
}

#[tokio::test]
async fn an_order_that_comes_twice_is_charged_once_and_refunded_once() {
    let bench = Bench::new(router());
    let sample = bench
        .run(Event::from_json(include_str!("event.json")))
        .await;
    sample.assert_all_acknowledged();
    let event = Event::new([
        of_type("OrderPlaced", 1299),
        of_type("OrderCancelled", 1299),
    ]);
    bench.run(&event).await.assert_duplicate("m-1");
    bench.run(&event).await.assert_duplicate("m-2");
}

#[tokio::test]
async fn an_order_without_an_amount_or_a_route_is_terminal() {
    Bench::new(router())
        .run(Event::new([
            of_type("OrderPlaced", 0),
            of_type("OrderShipped", 1),
        ]))
        .await
        .assert_terminal("m-1")
        .assert_terminal("m-2")
        .assert_reason("m-2", "no route takes it");
}
