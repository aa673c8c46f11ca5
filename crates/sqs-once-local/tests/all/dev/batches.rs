//! Tests which messages the function gets in one batch, and how many batches run at the same time.

use super::world::{Plan, World, body, text};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_batch_has_no_more_messages_than_its_size_and_an_event_no_more_than_six_megabytes() {
    for (size, body, messages, sizes) in [
        (2, String::new(), 3, &[2, 1][..]),
        // SQS gives ten messages at once.
        (25, String::new(), 25, &[25]),
        (10, "x".repeat(1_000_000), 8, &[6, 2]),
    ] {
        let plan = Plan::until_empty().batches_of(size).at_once(1);
        let mut world = World::start(plan, &vec![body; messages]).await;
        world.end().await.unwrap();
        let batches = world.batches();
        let lengths: Vec<_> = batches.iter().map(Vec::len).collect();
        assert_eq!(lengths, sizes, "batches of {size}");
        let sent: Vec<_> = (1..=messages).map(|number| format!("m-{number}")).collect();
        assert_eq!(batches.concat(), sent, "batches of {size}");
    }
}

#[tokio::test]
async fn a_batch_that_is_not_full_waits_for_its_window() {
    let window = Duration::from_secs(3600);
    let plan = Plan::new().batches_of(3);
    let plan = plan.with(|plan| plan.settings.window = window);
    let mut world = World::start(plan, &["a", "b"]).await;
    world
        .until("received", |event| event["message_id"] == "m-2")
        .await;
    world.send("m-3", "c");
    assert_eq!(world.until_invoked().await, json!(["m-1", "m-2", "m-3"]));
    world.stop().await;
}

#[tokio::test]
async fn a_window_ends_also_when_the_batch_is_not_full() {
    let window = Duration::from_millis(50);
    let plan = Plan::until_empty().with(|plan| plan.settings.window = window);
    let mut world = World::start(plan, &["a"]).await;
    world.end().await.unwrap();
    assert_eq!(world.deleted(), ["m-1"]);
}

#[tokio::test]
async fn as_many_batches_run_at_a_time_as_there_may_be_environments() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go on");
    let plan = Plan::until_empty().batches_of(1).at_once(2);
    let wait = body(json!({"wait_for": &file}), 1);
    let mut world = World::start(plan, &vec![wait; 4]).await;
    world.until_invoked().await;
    world.until_invoked().await;
    std::fs::write(&file, "").unwrap();
    world.end().await.unwrap();
    let (mut running, mut most) = (0, 0);
    for event in &world.seen {
        match text(event, "happened") {
            "invoked" => running += 1,
            "answered" => running -= 1,
            _ => {}
        }
        most = most.max(running);
    }
    let environments = world.all("environment_started").count();
    assert_eq!((most, environments, world.left()), (2, 2, 0));
}
