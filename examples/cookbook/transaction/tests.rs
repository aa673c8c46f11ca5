use sqs_once::testing::{Bench, Event, Record};

use super::{Customers, add_points};

fn bench() -> Bench {
    Bench::new(add_points::handler(Customers("customers".to_owned())))
}

#[tokio::test]
async fn an_order_that_comes_twice_adds_its_points_once() {
    let bench = bench();
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");

    let writes = bench.store().writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].update().unwrap().table_name(), "customers");
}

#[tokio::test]
async fn an_order_of_an_unknown_customer_is_terminal_and_writes_nothing() {
    let bench = bench();
    bench.store().fail_condition(0, 1);
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_terminal("m-1");
    assert!(bench.store().writes().is_empty());
}
