use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use sqs_once::testing::{Bench, Event, Record};

use super::{OrderPlaced, charge};

fn message(order_id: &str, amount_cents: u64) -> Record {
    let order_id = order_id.to_owned();
    let order = OrderPlaced {
        order_id,
        amount_cents,
    };
    Record::text(STANDARD.encode(order.encode_to_vec()))
}

#[tokio::test]
async fn an_order_that_comes_twice_is_charged_once() {
    let bench = Bench::new(charge::handler());
    let sample = Event::new([Record::text(include_str!("event.txt"))]);
    bench.run(&sample).await.assert_processed("m-1");
    let again = Event::new([message("o-1001", 1299)]);
    bench.run(again).await.assert_duplicate("m-1");
}

#[tokio::test]
async fn what_is_no_order_is_terminal() {
    let records = [
        Record::text("!"),
        Record::text("/w=="),
        message("", 5),
        message("o-2", 0),
    ];
    let answer = Bench::new(charge::handler()).run(Event::new(records)).await;
    for id in ["m-1", "m-2", "m-3", "m-4"] {
        answer.assert_terminal(id);
    }
}
