//! Tests the injected faults.

use super::world::{FIFO, Plan, World, body, number};
use serde_json::json;
use sqs_once_local::{Faults, LocalEvent, NewMessage, Percent, PollerSettings};

const SEED: u64 = 7;

fn until_empty() -> PollerSettings {
    PollerSettings {
        until_empty: true,
        ..PollerSettings::default()
    }
}

#[tokio::test]
async fn a_duplicate_is_delivered_twice_at_a_time_or_again_after_its_success() {
    let plan = Plan {
        settings: PollerSettings {
            batch_size: number(1),
            ..until_empty()
        },
        faults: Faults {
            seed: SEED,
            duplicate: Percent::ALL,
            ..Faults::default()
        },
        ..Plan::default()
    };
    let mut world = World::start(plan, &vec![String::new(); 16]).await;
    world.end().await.unwrap();
    let batches = world.batches();
    for index in 1..=16 {
        let id = format!("m-{index}");
        let times = batches.iter().filter(|batch| batch[..] == [&id]).count();
        assert_eq!(times, 2, "{id}, seed {SEED}");
    }
    let faults = world.faults();
    for what in [
        "delivered twice at a time",
        "delivered again after its success",
    ] {
        assert!(
            faults.iter().any(|(done, _)| *done == what),
            "{what}, seed {SEED}"
        );
    }
    assert_eq!((faults.len(), world.left()), (16, 0));
}

#[tokio::test]
async fn the_second_delivery_counts_as_one() {
    let plan = Plan {
        settings: until_empty(),
        faults: Faults {
            seed: SEED,
            duplicate: Percent::ALL,
            ..Faults::default()
        },
        ..Plan::default()
    };
    let mut world = World::start(plan, &[String::new()]).await;
    world.end().await.unwrap();
    let count = |one: &LocalEvent| match one {
        LocalEvent::Record { record, .. } => record.receive_count,
        _ => None,
    };
    let mut counts: Vec<_> = world.seen.iter().filter_map(count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2], "seed {SEED}");
}

#[tokio::test]
async fn duplicates_keep_a_message_group_in_order() {
    let plan = Plan {
        queue: FIFO,
        settings: PollerSettings {
            batch_size: number(1),
            ..until_empty()
        },
        faults: Faults {
            seed: SEED,
            duplicate: Percent::ALL,
            ..Faults::default()
        },
        ..Plan::default()
    };
    let messages = ["a", "b", "c"].map(|id| NewMessage::new(id, "").in_group("g", id));
    let mut world = World::with(plan, messages.to_vec()).await;
    world.end().await.unwrap();
    assert_eq!(
        world.batches().concat(),
        ["a", "a", "b", "b", "c", "c"],
        "seed {SEED}"
    );
    for (what, _) in world.faults() {
        assert_eq!(what, "delivered again after its success", "seed {SEED}");
    }
}

#[tokio::test]
async fn a_killed_process_returns_its_batch() {
    let plan = Plan {
        faults: Faults {
            seed: SEED,
            kill: Percent::ALL,
            ..Faults::default()
        },
        ..Plan::default()
    };
    let mut world = World::start(plan, &[body(json!("hang"), 9)]).await;
    assert!(world.until_ended().await.contains("killed"));
    assert!(world.until_failed().await.contains("killed"));
    world.stop().await;
    assert_eq!(world.faults(), [("its process was killed", vec!["m-1"])]);
    assert_eq!(world.left(), 1);
}

#[tokio::test]
async fn a_lost_answer_returns_the_batch_that_was_processed() {
    let plan = Plan {
        faults: Faults {
            seed: SEED,
            drop_response: Percent::ALL,
            ..Faults::default()
        },
        ..Plan::default()
    };
    let mut world = World::start(plan, &[String::new()]).await;
    assert!(world.until_failed().await.contains("lost"));
    world.stop().await;
    let processed = |one: &LocalEvent| matches!(one, LocalEvent::Record { .. });
    assert!(world.seen.iter().any(processed));
    assert_eq!(world.faults(), [("its answer was lost", vec!["m-1"])]);
    assert_eq!((world.left(), world.deleted().len()), (1, 0));
}

#[tokio::test]
async fn a_late_invocation_happens() {
    let plan = Plan {
        settings: until_empty(),
        faults: Faults {
            seed: SEED,
            slow: "100%".parse().unwrap(),
            ..Faults::default()
        },
        ..Plan::default()
    };
    let mut world = World::start(plan, &[String::new()]).await;
    world.end().await.unwrap();
    let faults = world.faults();
    assert!(
        faults[0].0.starts_with("started ") && faults[0].0.ends_with("late"),
        "{faults:?}"
    );
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
