use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::{DELIVERIES, Queue, update};

fn change(customer: &str, version: u64, address: &str) -> Record {
    let change = json!({ "customer_id": customer, "version": version, "address": address });
    let id = format!("{customer}-{version}");
    Record::json(&change).fifo(customer).message_id(id)
}

#[tokio::test]
async fn a_change_that_is_sent_again_is_a_duplicate() {
    let bench = Bench::new(update::handler());
    let first = bench
        .run(Event::from_json(include_str!("event.json")))
        .await;
    first.assert_all_acknowledged();
    let again = Event::new([change("c-7", 3, "1 Long Lane")]);
    bench.run(again).await.assert_duplicate("c-7-3");
}

#[tokio::test]
async fn the_changes_behind_one_that_can_never_succeed_wait_for_it() {
    let dead_letters = "https://sqs.eu-central-1.amazonaws.com/123456789012/changes-dlq.fifo";
    let queue = Queue::any().dead_letter_queue(dead_letters);
    let bench = Bench::new(update::consumer().queue(queue.keep_order(DELIVERIES)));
    let changes = [change("c-7", 1, ""), change("c-7", 2, "1 Long Lane")];
    bench
        .run(Event::new(changes))
        .await
        .assert_reason("c-7-1", "the address is empty")
        .assert_reason("c-7-2", "behind a dead letter of its message group")
        .assert_all_acknowledged();
}

#[tokio::test]
async fn a_change_that_fails_stops_only_its_own_customer() {
    let changes = [
        change("c-7", 1, ""),
        change("c-7", 2, "1 Long Lane"),
        change("c-8", 1, "2 High Street"),
    ];
    Bench::new(update::handler())
        .run(Event::new(changes))
        .await
        .assert_terminal("c-7-1")
        .assert_processed("c-8-1")
        .assert_retried(["c-7-1", "c-7-2"]);
}
