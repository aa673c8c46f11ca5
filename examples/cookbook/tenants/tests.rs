use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::ship;

fn order(tenant: &str, pieces: u32) -> Record {
    let order = json!({ "order_id": "o-1001", "pieces": pieces });
    Record::json(&order).attribute("tenant", tenant)
}

#[tokio::test]
async fn an_order_that_comes_twice_is_shipped_once_for_each_tenant() {
    let bench = Bench::new(ship::handler());
    let sample = bench
        .run(Event::from_json(include_str!("event.json")))
        .await;
    sample.assert_all_acknowledged();
    bench
        .run(Event::new([order("acme", 2), order("globex", 2)]))
        .await
        .assert_duplicate("m-1")
        .assert_processed("m-2");
}

#[tokio::test]
async fn an_order_without_a_tenant_or_without_pieces_is_terminal() {
    let nobodys = Record::json(&json!({ "order_id": "o-1001", "pieces": 2 }));
    Bench::new(ship::handler())
        .run(Event::new([nobodys, order("acme", 0)]))
        .await
        .assert_terminal("m-1")
        .assert_reason("m-1", "tenant")
        .assert_terminal("m-2");
}
