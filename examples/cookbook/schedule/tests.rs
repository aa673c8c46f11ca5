use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::run;

fn due(job: &str, scheduled_for: &str) -> Record {
    Record::json(&json!({ "job": job, "scheduled_for": scheduled_for }))
}

#[tokio::test]
async fn an_occurrence_that_is_sent_twice_runs_once_and_the_next_one_runs() {
    let bench = Bench::new(run::handler());
    let sample = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&sample).await.assert_processed("m-1");
    let again = due("invoices", "2026-01-01T00:00:00Z");
    let tomorrow = due("invoices", "2026-01-02T00:00:00Z");
    bench
        .run(Event::new([again, tomorrow]))
        .await
        .assert_duplicate("m-1")
        .assert_processed("m-2");
}

#[tokio::test]
async fn an_unknown_job_is_terminal() {
    let event = Event::new([due("invioces", "2026-01-01T00:00:00Z")]);
    let answer = Bench::new(run::handler()).run(event).await;
    let answer = answer.assert_terminal("m-1");
    answer.assert_reason("m-1", "no such job");
}
