//! Tests what happens to a batch after each kind of answer.

use super::world::{DEAD, Plan, QUEUE, SHORT, World, body};
use serde_json::{Value, json};
use sqs_once_local::{LocalEvent, PollerSettings};

/// Answers once with `answer`. Returns the reason why the batch returned to the queue.
async fn returned_for(answer: Value) -> String {
    let plan = Plan {
        visibility: SHORT,
        ..Plan::default()
    };
    let mut world = World::start(plan, &[body(json!({"answer": answer}), 1)]).await;
    let reason = world.until_failed().await;
    assert!(world.deleted().is_empty(), "{reason}");
    world.until_deleted("m-1").await;
    assert!(world.batches().len() >= 2, "it was delivered again");
    world.stop().await;
    reason
}

#[tokio::test]
async fn an_answer_that_lambda_can_not_read_returns_the_whole_batch() {
    let reason = returned_for(json!("done")).await;
    assert!(reason.contains("not an object"), "{reason}");
    let reason = returned_for(json!({"batchItemFailures": "m-1"})).await;
    assert!(reason.contains("not a list"), "{reason}");
    let empty = json!({"batchItemFailures": [{"itemIdentifier": ""}]});
    let reason = returned_for(empty).await;
    assert!(reason.contains("no itemIdentifier"), "{reason}");
    let unknown = json!({"batchItemFailures": [{"itemIdentifier": "m-9"}]});
    let reason = returned_for(unknown).await;
    assert!(reason.contains("`m-9`"), "{reason}");
}

#[tokio::test]
async fn null_deletes_the_whole_batch() {
    let bodies = [body(json!({"answer": null}), 9), String::new()];
    let mut world = World::start(Plan::default(), &bodies).await;
    world.until_deleted("m-2").await;
    world.stop().await;
    assert_eq!(
        (world.batches(), world.left()),
        (vec![vec!["m-1", "m-2"]], 0)
    );
}

#[tokio::test]
async fn only_what_is_reported_comes_back() {
    let reports = json!({"answer": {"batchItemFailures": [{"itemIdentifier": "m-2"}]}});
    let plan = Plan {
        visibility: SHORT,
        ..Plan::default()
    };
    let mut world = World::start(plan, &["fine".to_owned(), body(reports, 1)]).await;
    world.until_deleted("m-2").await;
    world.stop().await;
    assert_eq!(world.deleted(), ["m-1", "m-2"]);
    assert_eq!(world.batches().last().unwrap(), &["m-2"]);
}

#[tokio::test]
async fn without_report_batch_item_failures_any_answer_deletes_the_batch() {
    let reports = json!({"answer": {"batchItemFailures": [{"itemIdentifier": "m-1"}]}});
    let settings = PollerSettings {
        reports_failures: false,
        until_empty: true,
        ..PollerSettings::default()
    };
    let plan = Plan {
        settings,
        ..Plan::default()
    };
    let mut world = World::start(plan, &[body(reports, 9)]).await;
    world.end().await.unwrap();
    assert_eq!((world.deleted(), world.batches().len()), (vec!["m-1"], 1));
}

#[tokio::test]
async fn an_error_returns_the_batch_and_keeps_the_environment() {
    let plan = Plan {
        visibility: SHORT,
        ..Plan::default()
    };
    let mut world = World::start(plan, &[body(json!({"fail": "no card"}), 1)]).await;
    let reason = world.until_failed().await;
    assert!(reason.contains("no card"), "{reason}");
    world.until_deleted("m-1").await;
    let ended = |one: &LocalEvent| matches!(one, LocalEvent::EnvironmentEnded { .. });
    assert!(!world.seen.iter().any(ended));
    world.stop().await;
}

#[tokio::test]
async fn what_was_received_too_often_goes_to_the_dead_letter_queue() {
    let plan = Plan {
        visibility: SHORT,
        max_receive_count: Some(2),
        settings: PollerSettings {
            until_empty: true,
            ..PollerSettings::default()
        },
        ..Plan::default()
    };
    let mut world = World::start(plan, &[body(json!({"fail": "never"}), 99)]).await;
    world.end().await.unwrap();
    assert_eq!(world.batches().len(), 2);
    assert!(world.seen.contains(&LocalEvent::DeadLettered {
        queue: QUEUE.to_owned(),
        to: DEAD.to_owned(),
        message_id: "m-1".to_owned(),
    }));
    assert_eq!(world.sqs.queues().len(DEAD).unwrap(), 1);
}
