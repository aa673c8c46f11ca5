use sqs_once::testing::{Bench, Event, Record};

use super::charge;

#[tokio::test]
async fn a_replayed_event_is_a_duplicate_and_one_that_was_missed_is_charged() {
    let live = include_str!("event.json");
    let bench = Bench::new(charge::consumer());
    let answer = bench.run(Event::new([Record::text(live)])).await;
    answer.assert_processed("m-1");

    let replayed = live.replace("LIVE", "REPLAY");
    let missed = replayed.replace("o-1001", "o-1002");
    let event = Event::new([Record::text(replayed), Record::text(missed)]);
    let answer = bench.run(event).await;
    answer.assert_duplicate("m-1").assert_processed("m-2");
}
