use std::time::Duration;

use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::handler;

fn order(id: &str) -> Record {
    let record = Record::json(&json!({ "order_id": id })).attribute("tenant", "acme");
    record.system_attribute("SenderId", "AROAIENQZJOLO23YVJ4VO:shop")
}

#[tokio::test]
async fn an_order_that_comes_twice_is_shipped_once() {
    let bench = Bench::new(handler());
    let sample = Event::from_json(include_str!("event.json"));
    bench.run(&sample).await.assert_all_acknowledged();
    bench
        .run(Event::new([order("o-1001")]))
        .await
        .assert_duplicate("m-1");
}

#[tokio::test]
async fn an_order_of_another_sender_is_terminal() {
    let stranger = order("o-1002").system_attribute("SenderId", "AIDASOMEBODYELSE");
    Bench::new(handler())
        .run(Event::new([stranger]))
        .await
        .assert_terminal("m-1")
        .assert_reason("m-1", "may not order");
}

#[tokio::test]
async fn a_tenants_third_order_at_once_comes_back_later() {
    let slow = async |_: sqs_once::extract::RecordParts, next: sqs_once::handler::Next| {
        tokio::task::yield_now().await;
        next.run().await
    };
    let bench = Bench::new(handler().layer(slow));
    let answer = bench.run(Event::new(["a", "b", "c"].map(order))).await;
    answer.assert_retried(["m-3"]);
    assert_eq!(answer.delay("m-3"), Some(Duration::from_secs(5)));
}
