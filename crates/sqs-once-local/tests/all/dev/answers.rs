//! Tests what happens to a batch after each kind of answer.

use super::world::{Plan, SHORT, World, body};
use serde_json::json;

#[tokio::test]
async fn without_report_batch_item_failures_any_answer_deletes_the_batch() {
    let reports = json!({"answer": {"batchItemFailures": [{"itemIdentifier": "m-1"}]}});
    let plan = Plan::until_empty().with(|plan| plan.settings.reports_failures = false);
    let mut world = World::start(plan, &[body(reports, 9)]).await;
    world.end().await.unwrap();
    assert_eq!((world.deleted(), world.batches().len()), (vec!["m-1"], 1));
}

#[tokio::test]
async fn an_error_returns_the_batch_and_keeps_the_environment() {
    let plan = Plan::new().visibility(SHORT);
    let mut world = World::start(plan, &[body(json!({"fail": "no card"}), 1)]).await;
    let reason = world.until_failed().await;
    assert!(reason.contains("no card"), "{reason}");
    world.until_deleted("m-1").await;
    assert_eq!(world.all("environment_ended").count(), 0);
    world.stop().await;
}
