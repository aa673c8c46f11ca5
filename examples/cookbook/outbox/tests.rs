use sqs_once::store::StoreErrorKind;
use sqs_once::testing::{Bench, Event, Operation, Record};

use super::{Tables, accept};

fn bench() -> Bench {
    let (orders, outbox) = ("orders".to_owned(), "outbox".to_owned());
    Bench::new(accept::handler(Tables { orders, outbox }))
}

#[tokio::test]
async fn an_order_that_comes_twice_is_accepted_and_told_once() {
    let bench = bench();
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");

    let writes = bench.store().writes();
    let tables = writes.iter().map(|write| write.put().unwrap().table_name());
    assert!(tables.eq(["orders", "outbox"]));
}

#[tokio::test]
async fn if_the_transaction_fails_nothing_is_told() {
    let bench = bench();
    let store = bench.store();
    store.fail(
        Operation::Complete,
        StoreErrorKind::AccessDenied,
        usize::MAX,
    );
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_retried(["m-1"]);
    assert!(bench.store().writes().is_empty());
}
