//! Tests the injected faults.

use super::world::{FIFO, Plan, SEED, SHORT, World, body, text};
use serde_json::json;
use sqs_once_local::{Faults, NewMessage, Percent};
use std::collections::BTreeSet;

#[tokio::test]
async fn a_duplicate_is_delivered_twice_at_a_time_or_again_after_its_success() {
    let plan = Plan::until_empty().batches_of(1);
    let plan = plan.with(|plan| plan.faults.duplicate = Percent::ALL);
    let mut world = World::start(plan, &[""; 16]).await;
    world.end().await.unwrap();
    let batches = world.batches();
    for index in 1..=16 {
        let id = format!("m-{index}");
        let times = batches.iter().filter(|batch| batch[..] == [&id]).count();
        assert_eq!(times, 2, "{id}, seed {SEED}");
        let records = world.all("record").map(|event| &event["record"]);
        let its = records.filter(|record| record["message_id"] == *id);
        let mut counts: Vec<_> = its.map(|one| one["receive_count"].as_u64()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [Some(1), Some(2)], "{id}, seed {SEED}");
    }
    let faults = world.faults();
    let kinds: BTreeSet<_> = faults.iter().map(|(what, _)| *what).collect();
    let expected = [
        "delivered again after its success",
        "delivered twice at a time",
    ];
    assert_eq!(kinds, expected.into(), "seed {SEED}");
    assert_eq!((faults.len(), world.left()), (16, 0));
}

#[tokio::test]
async fn duplicates_keep_a_message_group_in_order() {
    let plan = Plan::until_empty().batches_of(1).at_once(3).with(|plan| {
        plan.queue = FIFO;
        plan.faults.duplicate = Percent::ALL;
    });
    let messages = ["a", "b", "c"].map(|id| NewMessage::new(id, "").in_group("g", id));
    let mut world = World::with(plan, messages).await;
    world.end().await.unwrap();
    let delivered = world.batches().concat();
    assert_eq!(delivered, ["a", "a", "b", "b", "c", "c"], "seed {SEED}");
    for (what, _) in world.faults() {
        assert_eq!(what, "delivered again after its success", "seed {SEED}");
    }
}

#[tokio::test]
async fn a_killed_process_returns_its_batch() {
    let plan = Plan::new().with(|plan| plan.faults.kill = Percent::ALL);
    let mut world = World::start(plan, &[body(json!("hang"), 9)]).await;
    assert_eq!(world.until_ended().await, "killed by --fault kill");
    assert_eq!(world.until_failed().await, "killed by --fault kill");
    world.stop().await;
    assert_eq!(world.faults(), [("its process was killed", vec!["m-1"])]);
    assert_eq!(world.left(), 1);
}

#[tokio::test]
async fn a_lost_answer_returns_the_batch_that_was_processed() {
    let plan = Plan::new().with(|plan| plan.faults.drop_response = Percent::ALL);
    let mut world = World::start(plan, &[""]).await;
    let reason = world.until_failed().await;
    assert_eq!(reason, "answer lost by --fault drop-response");
    world.stop().await;
    assert!(world.all("record").count() > 0);
    assert_eq!(world.faults(), [("its answer was lost", vec!["m-1"])]);
    assert_eq!((world.left(), world.deleted().len()), (1, 0));
}

#[tokio::test]
async fn a_process_that_outlives_its_timeout_answers_too_late_and_takes_another_event() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go on");
    let plan = Plan::new().visibility(SHORT * 2).with(|plan| {
        plan.settings.timeout = SHORT;
        plan.faults.outlive = Percent::ALL;
    });
    let wait = body(json!({"wait_for": &file}), 1);
    let mut world = World::start(plan, &[wait]).await;
    assert!(world.until_failed().await.contains("timed out"));
    // Another process handles the message while the first one still runs.
    world.until_deleted("m-1").await;
    std::fs::write(&file, "").unwrap();
    let refused = "the response: invocation timed out or response was stale";
    let is_refused = |event: &_| text(event, "line").contains(refused);
    world.until("logged", is_refused).await;
    let is_used_again = |world: &World| {
        let mut batches = world.all("invoked");
        batches.any(|event| event["environment"] == 1 && event["message_ids"] != json!(["m-1"]))
    };
    for number in 2..1000 {
        let id = format!("m-{number}");
        world.send(&id, "");
        world.until_deleted(&id).await;
        if is_used_again(&world) {
            break;
        }
    }
    assert!(is_used_again(&world), "{:#?}", world.seen);
    world.stop().await;
    let outlived = ("its process outlived its timeout", vec!["m-1"]);
    assert_eq!(world.faults()[0], outlived);
}

#[tokio::test]
async fn faults_can_be_switched_off_and_on_while_the_poller_runs() {
    let plan = Plan::new().with(|plan| plan.faults.drop_response = Percent::ALL);
    let mut world = World::start(plan, &[""]).await;
    assert!(world.until_failed().await.contains("lost"));
    world.faults.set(Faults::default());
    world.send("m-2", "");
    world.until_deleted("m-2").await;
    let lost = Faults {
        drop_response: Percent::ALL,
        ..Faults::default()
    };
    world.faults.set(lost);
    world.send("m-3", "");
    assert!(world.until_failed().await.contains("lost"));
    world.stop().await;
}

#[tokio::test]
async fn a_late_invocation_happens() {
    let plan = Plan::until_empty().with(|plan| plan.faults.slow = "100%".parse().unwrap());
    let mut world = World::start(plan, &[""]).await;
    world.end().await.unwrap();
    let (what, _) = world.faults()[0];
    let is_late = what.starts_with("started ") && what.ends_with("late");
    assert!(is_late, "{what}");
    assert_eq!(world.deleted(), ["m-1"]);
}

#[test]
fn a_share_is_written_with_its_sign() {
    for text in ["0%", "20%", "0.5%", "100%"] {
        assert_eq!(text.parse::<Percent>().unwrap().to_string(), text);
    }
    for text in ["20", "", "%", "-1%", "101%", "NaN%", "twenty%"] {
        let error = text.parse::<Percent>().unwrap_err();
        assert!(error.to_string().contains("such as 20%"), "{text}");
    }
}
