//! Tests which messages the function gets in one batch, and which batches run at the same time.

use super::world::{FIFO, Plan, World, body, number};
use serde_json::json;
use sqs_once_local::{LocalEvent, NewMessage, PollerSettings};
use std::collections::HashMap;
use std::time::Duration;

fn until_empty() -> PollerSettings {
    PollerSettings {
        until_empty: true,
        ..PollerSettings::default()
    }
}

#[tokio::test]
async fn a_batch_has_no_more_messages_than_its_size() {
    let settings = PollerSettings {
        batch_size: number(2),
        concurrency: number(1),
        ..until_empty()
    };
    let plan = Plan {
        settings,
        ..Plan::default()
    };
    let mut world = World::start(plan, &["a", "b", "c"].map(str::to_owned)).await;
    world.end().await.unwrap();
    assert_eq!(world.batches(), [&["m-1", "m-2"][..], &["m-3"]]);
}

#[tokio::test]
async fn a_batch_may_be_larger_than_what_sqs_gives_at_once() {
    let settings = PollerSettings {
        batch_size: number(25),
        ..until_empty()
    };
    let plan = Plan {
        settings,
        ..Plan::default()
    };
    let mut world = World::start(plan, &vec![String::new(); 25]).await;
    world.end().await.unwrap();
    assert_eq!(world.batches()[0].len(), 25);
}

#[tokio::test]
async fn a_batch_that_is_not_full_waits_for_its_window() {
    let settings = PollerSettings {
        batch_size: number(3),
        window: Duration::from_secs(3600),
        ..PollerSettings::default()
    };
    let plan = Plan {
        settings,
        ..Plan::default()
    };
    let mut world = World::start(plan, &["a", "b"].map(str::to_owned)).await;
    world
        .until(|happening| match happening {
            LocalEvent::Received { message_id, .. } if message_id == "m-2" => Some(()),
            _ => None,
        })
        .await;
    world.send("m-3", "c");
    assert_eq!(world.until_invoked().await, ["m-1", "m-2", "m-3"]);
    world.stop().await;
}

#[tokio::test]
async fn a_window_ends_also_when_the_batch_is_not_full() {
    let settings = PollerSettings {
        window: Duration::from_millis(50),
        ..until_empty()
    };
    let plan = Plan {
        settings,
        ..Plan::default()
    };
    let mut world = World::start(plan, &["a".to_owned()]).await;
    world.end().await.unwrap();
    assert_eq!(world.deleted(), ["m-1"]);
}

#[tokio::test]
async fn an_event_has_no_more_than_six_megabytes() {
    let plan = Plan {
        settings: until_empty(),
        ..Plan::default()
    };
    let bodies = vec!["x".repeat(1_000_000); 8];
    let mut world = World::start(plan, &bodies).await;
    world.end().await.unwrap();
    let sizes: Vec<_> = world.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [6, 2]);
}

#[tokio::test]
async fn as_many_batches_run_at_a_time_as_there_may_be_environments() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("go on");
    let settings = PollerSettings {
        batch_size: number(1),
        concurrency: number(2),
        ..until_empty()
    };
    let plan = Plan {
        settings,
        ..Plan::default()
    };
    let wait = body(json!({"wait_for": &file}), 1);
    let mut world = World::start(plan, &vec![wait; 4]).await;
    world.until_invoked().await;
    world.until_invoked().await;
    std::fs::write(&file, "").unwrap();
    world.end().await.unwrap();
    let (mut running, mut most) = (0, 0);
    for happening in &world.seen {
        match happening {
            LocalEvent::Invoked { .. } => running += 1,
            LocalEvent::Answered { .. } => running -= 1,
            _ => {}
        }
        most = most.max(running);
    }
    assert_eq!((most, world.environments(), world.left()), (2, 2, 0));
}

#[tokio::test]
async fn a_message_group_is_in_one_environment_at_a_time_and_in_order() {
    let settings = PollerSettings {
        batch_size: number(2),
        concurrency: number(3),
        ..until_empty()
    };
    let plan = Plan {
        queue: FIFO,
        settings,
        ..Plan::default()
    };
    let messages: Vec<_> = (0..24)
        .map(|index| {
            let (group, id) = (index % 3, format!("{}-{index:02}", index % 3));
            NewMessage::new(&id, "").in_group(group.to_string(), id)
        })
        .collect();
    let mut world = World::with(plan, messages).await;
    world.end().await.unwrap();

    let mut running: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut order: HashMap<&str, Vec<&str>> = HashMap::new();
    for happening in &world.seen {
        match happening {
            LocalEvent::Invoked {
                request_id,
                message_ids,
                ..
            } => {
                let groups: Vec<_> = message_ids.iter().map(|id| &id[..1]).collect();
                let elsewhere = running.values().flatten();
                for group in elsewhere {
                    assert!(!groups.contains(group), "{:#?}", world.seen);
                }
                for id in message_ids {
                    order.entry(&id[..1]).or_default().push(id);
                }
                running.insert(request_id, groups);
            }
            LocalEvent::Answered { request_id, .. } => {
                running.remove(request_id.as_str());
            }
            _ => {}
        }
    }
    assert_eq!(order.values().map(Vec::len).sum::<usize>(), 24);
    assert!(order.values().all(|ids| ids.is_sorted()), "{order:?}");
}
