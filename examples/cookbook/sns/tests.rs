use serde_json::{Value, json};
use sqs_once::testing::{Bench, Event, Record};

use super::invoice;

/// The order of the sample, with another id and amount.
fn published(id: &str, amount_cents: u64) -> Record {
    let mut sample: Value = serde_json::from_str(include_str!("event.json")).unwrap();
    let order = json!({ "order_id": "o-1001", "amount_cents": amount_cents });
    sample["MessageId"] = id.into();
    sample["Message"] = order.to_string().into();
    Record::json(&sample)
}

#[tokio::test]
async fn an_order_that_is_published_twice_is_invoiced_once_by_each_subscriber() {
    let invoices = Bench::new(invoice::handler());
    let event = Event::new([Record::text(include_str!("event.json"))]);
    invoices.run(&event).await.assert_processed("m-1");
    let again = Event::new([published("another", 1299)]);
    invoices.run(again).await.assert_duplicate("m-1");

    let another_subscriber = invoices.beside(invoice::handler().namespace("points"));
    another_subscriber.run(&event).await.assert_processed("m-1");
}

#[tokio::test]
async fn an_order_without_an_amount_is_terminal() {
    let event = Event::new([published("first", 0)]);
    let answer = Bench::new(invoice::handler()).run(event).await;
    let answer = answer.assert_terminal("m-1");
    answer.assert_reason("m-1", "the amount is zero");
}
