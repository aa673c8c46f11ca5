//! Tests how processes start, end and are replaced.

use super::world::{Plan, SHORT, World, body, text};
use crate::support::scripted;
use serde_json::json;
use sqs_once_local::{Launch, PollerError};

#[tokio::test]
async fn a_process_that_takes_longer_than_the_timeout_is_killed_and_its_batch_comes_back() {
    let plan = Plan::new().visibility(SHORT * 2);
    let plan = plan.with(|plan| plan.settings.timeout = SHORT);
    let mut world = World::start(plan, &[body(json!("hang"), 1)]).await;
    let is_process = |event: &_| text(event, "line").starts_with("process ");
    let line = world.until("logged", is_process).await;
    let reason = world.until_ended().await;
    assert!(reason.contains("timed out"), "{reason}");
    if cfg!(target_os = "linux") {
        let process = &text(&line, "line")["process ".len()..];
        assert!(!std::path::Path::new("/proc").join(process).exists());
    }
    assert!(world.until_failed().await.contains("timed out"));
    world.until_deleted("m-1").await;
    world.stop().await;
}

/// As on Lambda, the invocation lasts until the function asks for the next event.
#[tokio::test]
async fn a_process_that_asks_for_no_event_after_its_answer_is_ended_at_the_timeout() {
    let plan = Plan::new().with(|plan| plan.settings.timeout = SHORT);
    let mut world = World::start(plan, &[body(json!("linger"), 1)]).await;
    world.until_deleted("m-1").await;
    let reason = world.until_ended().await;
    assert!(reason.contains("after its answer"), "{reason}");
    world.stop().await;
}

#[tokio::test]
async fn an_environment_is_kept_for_the_next_batch() {
    let mut world = World::start(Plan::new(), &["a"]).await;
    world.until_deleted("m-1").await;
    world.send("m-2", "b");
    world.until_deleted("m-2").await;
    world.stop().await;
    // A second idle environment may exist beside it.
    let environments = world.all("environment_started").count();
    assert!(environments <= 2, "{:#?}", world.seen);
}

#[tokio::test]
async fn another_build_takes_over_when_running_invocations_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go on");
    let wait = body(json!({"wait_for": &file}), 1);
    let mut world = World::start(Plan::new(), &[wait]).await;
    world.until_invoked().await;
    world.controls.replace(scripted());
    std::fs::write(&file, "").unwrap();
    world.until_deleted("m-1").await;
    world.send("m-2", "b");
    world.until_deleted("m-2").await;
    world.stop().await;
    let first = json!({
        "happened": "environment_ended", "environment": 1, "reason": "the function was rebuilt",
    });
    assert!(world.seen.contains(&first), "{:#?}", world.seen);
}

#[tokio::test]
async fn a_function_that_can_not_start_takes_no_message_until_another_build_can() {
    let plan = Plan::new().with(|plan| plan.launch = scripted().env("AT_START", "exit"));
    let mut world = World::start(plan, &["a"]).await;
    let reason = world.until_ended().await;
    for part in ["did not start", "exit status: 7"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(world.all("received").count(), 0);
    world.controls.replace(scripted());
    world.until_deleted("m-1").await;
    world.stop().await;
}

#[tokio::test]
async fn a_run_until_the_queue_is_empty_fails_if_the_function_can_not_start() {
    let exits = scripted().env("AT_START", "exit");
    let missing = Launch::new("no/such/binary");
    for (launch, expected) in [(exits, "exit status: 7"), (missing, "no/such/binary")] {
        let plan = Plan::until_empty().with(|plan| plan.launch = launch);
        let mut world = World::start(plan, &["a"]).await;
        let error = world.end().await.unwrap_err();
        let is_named = matches!(&error, PollerError::Start { reason } if reason.contains(expected));
        assert!(is_named, "{error:?}");
    }
}
