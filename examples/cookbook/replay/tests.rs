use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use serde_json::json;
use sqs_once::HandlerError;
use sqs_once::extract::RecordEnd;
use sqs_once::testing::{Bench, Event, Record};

use super::{Numbers, handler, issue};

#[tokio::test]
async fn a_duplicate_gets_the_number_of_the_first() {
    let replies = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&replies);
    let reply = move |end: RecordEnd| {
        let told = Arc::clone(&told);
        async move {
            let number: Option<u64> = end.completion()?;
            told.lock().unwrap().push(number);
            Ok::<_, HandlerError>(())
        }
    };
    let numbers = Numbers::default();
    let issuing = issue::handler(numbers.clone());
    let bench = Bench::new(issuing.on_done(reply));
    let sample = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&sample).await.assert_processed("m-1");
    bench.run(&sample).await.assert_duplicate("m-1");

    assert_eq!(*replies.lock().unwrap(), [Some(1), Some(1)]);
    assert_eq!(numbers.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_order_for_which_nothing_was_paid_gets_no_number() {
    let unpaid = json!({ "order_id": "o-2", "amount_cents": 0 });
    let numbers = Numbers::default();
    let answer = Bench::new(handler(numbers.clone()))
        .run(Event::new([&unpaid]))
        .await;
    let answer = answer.assert_terminal("m-1");
    answer.assert_reason("m-1", "nothing was paid");
    assert_eq!(numbers.load(Ordering::Relaxed), 0);
}
