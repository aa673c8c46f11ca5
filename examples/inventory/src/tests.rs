//! Tests of the consumer in memory. `tests/inventory` at the top of the repository tests the writes on DynamoDB.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqs_once::sdk::dynamodb::types::AttributeValue;
use sqs_once::testing::{Bench, Event, Record};

use crate::order::OrderPlaced;
use crate::reserve;
use crate::tables::Tables;

fn order(id: &str, pieces: u32) -> OrderPlaced {
    OrderPlaced {
        order_id: id.to_owned(),
        customer_id: "c-7".to_owned(),
        article: "mug-blue".to_owned(),
        pieces,
    }
}

fn bench() -> Bench {
    let tables = Tables {
        orders: "orders".to_owned(),
        stock: "stock".to_owned(),
        outbox: "outbox".to_owned(),
        initial_stock: 0,
    };
    Bench::new(reserve::handler(tables))
}

#[tokio::test]
async fn an_order_that_comes_twice_is_reserved_once_and_told_once() {
    let bench = bench();
    let order = order("o-2001", 2);
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

    let writes = bench.store().writes();
    let [kept, less, message] = &writes[..] else {
        panic!("three writes should be committed, not {}", writes.len());
    };
    let text = |value: &str| AttributeValue::S(value.to_owned());
    assert_eq!(kept.put().unwrap().item()["order_id"], text("o-2001"));
    assert_eq!(less.update().unwrap().key()["article"], text("mug-blue"));
    let message = message.put().unwrap().item();
    assert_eq!(message["id"], text("o-2001"));
    let expires_at: u64 = message["expires_at"].as_n().unwrap().parse().unwrap();
    let in_a_week = SystemTime::now() + Duration::from_secs(7 * 24 * 60 * 60);
    assert!(expires_at > in_a_week.duration_since(UNIX_EPOCH).unwrap().as_secs());
}

#[tokio::test]
async fn an_order_that_says_nothing_is_terminal_and_holds_up_no_other() {
    let nameless = OrderPlaced {
        article: String::new(),
        ..order("o-3", 1)
    };
    let orders = [order("o-1", 1), order("o-2", 0), nameless];
    bench()
        .run(Event::new(&orders))
        .await
        .assert_reason("m-2", "the order is for no pieces")
        .assert_reason("m-3", "the order names no article")
        .assert_terminal("m-3")
        .assert_retried(["m-2", "m-3"]);
}
