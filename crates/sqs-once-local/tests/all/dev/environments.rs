//! Tests how processes start, end and are replaced.

use super::world::{Plan, SHORT, World, body, scripted};
use serde_json::json;
use sqs_once_local::{Launch, LocalEvent, PollerError, PollerSettings};

#[tokio::test]
async fn a_process_that_takes_longer_than_the_timeout_is_killed_and_its_batch_comes_back() {
    let settings = PollerSettings {
        timeout: SHORT,
        ..PollerSettings::default()
    };
    let plan = Plan {
        visibility: SHORT * 2,
        settings,
        ..Plan::default()
    };
    let mut world = World::start(plan, &[body(json!("hang"), 1)]).await;
    let process = world
        .until(|happening| match happening {
            LocalEvent::Logged { line, .. } => line.strip_prefix("process ").map(str::to_owned),
            _ => None,
        })
        .await;
    let reason = world.until_ended().await;
    assert!(reason.contains("timed out"), "{reason}");
    #[cfg(target_os = "linux")]
    assert!(!std::path::Path::new("/proc").join(&process).exists());
    #[cfg(not(target_os = "linux"))]
    drop(process);
    assert!(world.until_failed().await.contains("timed out"));
    world.until_deleted("m-1").await;
    world.stop().await;
}

/// As on Lambda, the invocation lasts until the function asks for the next event.
#[tokio::test]
async fn a_process_that_asks_for_no_event_after_its_answer_is_ended_at_the_timeout() {
    let settings = PollerSettings {
        timeout: SHORT,
        ..PollerSettings::default()
    };
    let plan = Plan {
        settings,
        ..Plan::default()
    };
    let mut world = World::start(plan, &[body(json!("linger"), 1)]).await;
    world.until_deleted("m-1").await;
    let reason = world.until_ended().await;
    assert!(reason.contains("after its answer"), "{reason}");
    world.stop().await;
}

#[tokio::test]
async fn a_process_that_crashes_is_replaced_and_its_batch_comes_back() {
    let plan = Plan {
        visibility: SHORT,
        ..Plan::default()
    };
    let crash = body(json!({"exit": ["out of cheese", 3]}), 1);
    let mut world = World::start(plan, &[crash]).await;
    let reason = world.until_ended().await;
    assert!(reason.contains("exit status: 3"), "{reason}");
    world.until_deleted("m-1").await;
    assert!(
        world
            .seen
            .iter()
            .any(|one| matches!(one, LocalEvent::Logged { line, .. } if line == "out of cheese"))
    );
    world.stop().await;
}

#[tokio::test]
async fn an_environment_is_kept_for_the_next_batch() {
    let mut world = World::start(Plan::default(), &["a".to_owned()]).await;
    world.until_deleted("m-1").await;
    world.send("m-2", "b");
    world.until_deleted("m-2").await;
    world.stop().await;
    // A second idle environment may exist beside it.
    assert!(world.environments() <= 2, "{:#?}", world.seen);
}

#[tokio::test]
async fn another_build_takes_over_when_running_invocations_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go on");
    let wait = body(json!({"wait_for": &file}), 1);
    let mut world = World::start(Plan::default(), &[wait]).await;
    world.until_invoked().await;
    world.controls.replace(scripted());
    std::fs::write(&file, "").unwrap();
    world.until_deleted("m-1").await;
    world.send("m-2", "b");
    world.until_deleted("m-2").await;
    world.stop().await;
    let of_first = |happening: &&LocalEvent| {
        matches!(happening, LocalEvent::EnvironmentEnded { environment: 1, reason }
            if reason == "the function was built anew")
    };
    assert!(
        world.seen.iter().any(|one| of_first(&one)),
        "{:#?}",
        world.seen
    );
}

#[tokio::test]
async fn a_function_that_can_not_start_takes_no_message_until_another_build_can() {
    let plan = Plan {
        launch: scripted().env("AT_START", "exit"),
        ..Plan::default()
    };
    let mut world = World::start(plan, &["a".to_owned()]).await;
    let reason = world.until_ended().await;
    assert!(
        reason.contains("did not start") && reason.contains("exit status: 7"),
        "{reason}"
    );
    let received = |one: &LocalEvent| matches!(one, LocalEvent::Received { .. });
    assert!(!world.seen.iter().any(received));
    world.controls.replace(scripted());
    world.until_deleted("m-1").await;
    world.stop().await;
}

#[tokio::test]
async fn a_run_until_the_queue_is_empty_fails_if_the_function_can_not_start() {
    for launch in [
        scripted().env("AT_START", "exit"),
        Launch::new("no/such/binary"),
    ] {
        let plan = Plan {
            launch,
            settings: PollerSettings {
                until_empty: true,
                ..PollerSettings::default()
            },
            ..Plan::default()
        };
        let mut world = World::start(plan, &["a".to_owned()]).await;
        let error = world.end().await.unwrap_err();
        assert!(matches!(error, PollerError::Start { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_poller_that_is_stopped_lets_invocations_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go on");
    let wait = body(json!({"wait_for": &file}), 1);
    let mut world = World::start(Plan::default(), &[wait]).await;
    world.until_invoked().await;
    world.controls.stop();
    std::fs::write(&file, "").unwrap();
    world.end().await.unwrap();
    assert_eq!(world.deleted(), ["m-1"]);
}
