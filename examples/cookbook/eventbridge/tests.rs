use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::refund;

fn event(id: &str, kind: &str) -> Event {
    let detail = json!({ "return_id": "r-1", "amount_cents": 1299 });
    let source = "com.example.warehouse";
    let event = json!({ "id": id, "source": source, "detail-type": kind, "detail": detail });
    Event::new([Record::json(&event)])
}

#[tokio::test]
async fn a_return_that_is_published_twice_is_refunded_once() {
    let bench = Bench::new(refund::handler());
    let sample = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&sample).await.assert_processed("m-1");
    bench.run(&sample).await.assert_duplicate("m-1");
    let published_again = event("another", "ParcelReturned");
    bench.run(published_again).await.assert_duplicate("m-1");
}

#[tokio::test]
async fn an_event_of_another_type_is_terminal() {
    let answer = Bench::new(refund::handler())
        .run(event("e-1", "ParcelSent"))
        .await;
    let answer = answer.assert_terminal("m-1");
    answer.assert_reason("m-1", "events of another type");
}
