//! Tests visibility, redrive and message groups of the queues, on simulated time.

use sqs_once_local::{
    Counts, LocalEvent, NewMessage, QueueError, QueueSettings, Queues, Received, Redrive,
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SECOND: Duration = Duration::from_secs(1);
const DEAD: &str = "dead";
const QUEUE: &str = "orders";
const FIFO: &str = "orders.fifo";

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

/// A queue, a FIFO queue, and a dead-letter queue for messages that were received twice from the first.
fn queues() -> Queues {
    let mut queues = Queues::default();
    let to_dead = Redrive {
        to: DEAD.to_owned(),
        max_receive_count: 2,
    };
    let with_redrive = QueueSettings {
        redrive: Some(to_dead),
        ..QueueSettings::default()
    };
    queues.create(DEAD, QueueSettings::default()).unwrap();
    queues.create(QUEUE, with_redrive).unwrap();
    queues.create(FIFO, QueueSettings::default()).unwrap();
    queues
}

fn with_messages(ids: &[&str]) -> Queues {
    let mut queues = queues();
    for id in ids {
        let message = NewMessage::new(*id, format!("body of {id}"));
        assert_eq!(queues.send(QUEUE, message, at(0)).unwrap(), *id);
    }
    queues
}

/// A message's id consists of its group and a number, such as `a1`.
fn with_groups(ids: &[&str]) -> Queues {
    let mut queues = queues();
    for id in ids {
        let message = NewMessage::new(*id, "").in_group(&id[..1], *id);
        queues.send(FIFO, message, at(0)).unwrap();
    }
    queues
}

fn receive(queues: &mut Queues, queue: &str, most: usize, now: u64) -> Vec<Received> {
    queues.receive(queue, most, at(now)).unwrap()
}

fn ids(received: &[Received]) -> Vec<&str> {
    received.iter().map(|one| one.message.id.as_str()).collect()
}

#[test]
fn a_received_message_is_invisible_until_its_timeout_ends() {
    let mut queues = with_messages(&["m-1"]);
    let first = receive(&mut queues, QUEUE, 10, 5);
    assert_eq!(ids(&first), ["m-1"]);
    assert_eq!(queues.in_flight(QUEUE, at(34)).unwrap(), 1);
    assert_eq!(receive(&mut queues, QUEUE, 10, 34), []);
    assert_eq!(queues.in_flight(QUEUE, at(35)).unwrap(), 0);
    let second = receive(&mut queues, QUEUE, 10, 35);
    assert_eq!(second[0].receive_count, 2);
    assert_eq!(second[0].sent_at, at(0));
    assert_eq!(second[0].first_received_at, at(5));
    assert_ne!(second[0].receipt_handle, first[0].receipt_handle);
}

#[test]
fn what_is_deleted_never_comes_back() {
    let mut queues = with_messages(&["m-1", "m-2"]);
    let received = receive(&mut queues, QUEUE, 1, 0);
    let handle = &received[0].receipt_handle;
    assert!(queues.delete(QUEUE, handle, at(1)).unwrap());
    assert!(!queues.delete(QUEUE, handle, at(1)).unwrap(), "it is gone");
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 100)), ["m-2"]);
}

#[test]
fn a_message_that_became_visible_can_be_deleted_until_it_is_received_again() {
    let mut queues = with_messages(&["m-1", "m-2"]);
    let first = receive(&mut queues, QUEUE, 2, 0);
    assert!(
        queues
            .delete(QUEUE, &first[0].receipt_handle, at(40))
            .unwrap()
    );
    let again = receive(&mut queues, QUEUE, 2, 40);
    assert_eq!(ids(&again), ["m-2"]);
    assert!(
        !queues
            .delete(QUEUE, &first[1].receipt_handle, at(41))
            .unwrap()
    );
    assert_eq!(queues.len(QUEUE).unwrap(), 1);
}

#[test]
fn a_batch_is_no_larger_than_asked_for_and_no_message_comes_twice() {
    let mut queues = with_messages(&["m-1", "m-2", "m-3"]);
    assert_eq!(ids(&receive(&mut queues, QUEUE, 2, 0)), ["m-1", "m-2"]);
    assert_eq!(ids(&receive(&mut queues, QUEUE, 2, 0)), ["m-3"]);
    assert_eq!(receive(&mut queues, QUEUE, 2, 0), []);
}

#[test]
fn two_copies_of_a_message_are_two_messages() {
    let mut queues = with_messages(&["m-1", "m-1"]);
    let both = receive(&mut queues, QUEUE, 10, 0);
    assert_eq!(ids(&both), ["m-1", "m-1"]);
    assert!(
        queues
            .delete(QUEUE, &both[0].receipt_handle, at(0))
            .unwrap()
    );
    assert_eq!(queues.len(QUEUE).unwrap(), 1);
}

#[test]
fn a_changed_visibility_counts_from_the_change() {
    let mut queues = with_messages(&["m-1"]);
    let received = receive(&mut queues, QUEUE, 1, 0);
    let handle = &received[0].receipt_handle;
    let mut change = |timeout, now| queues.change_visibility(QUEUE, handle, timeout, at(now));
    change(10 * SECOND, 20).unwrap();
    change(Duration::ZERO, 29).unwrap();
    assert_eq!(change(SECOND, 29), Err(QueueError::NotInFlight));
    assert_eq!(receive(&mut queues, QUEUE, 1, 29)[0].receive_count, 2);
    let old = queues.change_visibility(QUEUE, handle, SECOND, at(29));
    assert_eq!(old, Err(QueueError::NotInFlight));
}

#[test]
fn nothing_is_invisible_for_more_than_twelve_hours_from_its_receipt() {
    let mut queues = with_messages(&["m-1"]);
    let received = receive(&mut queues, QUEUE, 1, 0);
    let handle = &received[0].receipt_handle;
    let hours = 60 * 60 * SECOND;
    let mut change = |timeout, now| queues.change_visibility(QUEUE, handle, timeout, at(now));
    assert_eq!(change(12 * hours, 1), Err(QueueError::TooLong));
    change(12 * hours - SECOND, 1).unwrap();
}

#[test]
fn a_message_that_was_received_too_often_goes_to_the_dead_letter_queue_under_its_own_id() {
    let mut queues = with_messages(&["m-1"]);
    for attempt in 0..2 {
        assert_eq!(ids(&receive(&mut queues, QUEUE, 1, attempt * 30)), ["m-1"]);
    }
    assert_eq!(
        queues.len(DEAD).unwrap(),
        0,
        "its last delivery is in flight"
    );
    assert_eq!(receive(&mut queues, QUEUE, 1, 60), []);
    assert_eq!(queues.len(QUEUE).unwrap(), 0);
    let dead = receive(&mut queues, DEAD, 1, 60);
    assert_eq!(ids(&dead), ["m-1"]);
    assert_eq!(dead[0].receive_count, 1);
    assert_eq!(dead[0].dead_letter_source.as_deref(), Some(QUEUE));
}

#[test]
fn a_dead_message_makes_room_in_its_batch_for_the_next() {
    let mut queues = with_messages(&["m-1"]);
    receive(&mut queues, QUEUE, 1, 0);
    receive(&mut queues, QUEUE, 1, 30);
    queues
        .send(QUEUE, NewMessage::new("m-2", ""), at(61))
        .unwrap();
    assert_eq!(ids(&receive(&mut queues, QUEUE, 1, 61)), ["m-2"]);
}

#[test]
fn what_is_redriven_is_a_new_message_with_a_new_id() {
    let mut queues = with_messages(&["m-1"]);
    for attempt in 0..3 {
        receive(&mut queues, QUEUE, 1, attempt * 30);
    }
    let moved = queues.redrive(DEAD, QUEUE, || "m-9".to_owned(), at(100));
    assert_eq!(moved, Ok(1));
    assert_eq!(queues.len(DEAD).unwrap(), 0);
    let received = receive(&mut queues, QUEUE, 1, 100);
    assert_eq!(ids(&received), ["m-9"]);
    assert_eq!(received[0].receive_count, 1);
    assert_eq!(received[0].message.body, "body of m-1");
    assert_eq!(received[0].dead_letter_source, None);
}

#[test]
fn a_redrive_leaves_what_is_in_flight() {
    let mut queues = with_messages(&["m-1"]);
    receive(&mut queues, QUEUE, 1, 0);
    let moved = queues.redrive(QUEUE, DEAD, || "m-9".to_owned(), at(29));
    assert_eq!(moved, Ok(0));
    assert_eq!(queues.len(QUEUE).unwrap(), 1);
}

#[test]
fn a_message_group_is_received_in_order_and_together() {
    let mut queues = with_groups(&["a1", "b1", "a2", "a3"]);
    assert_eq!(ids(&receive(&mut queues, FIFO, 3, 0)), ["a1", "b1", "a2"]);
}

#[test]
fn a_message_group_waits_for_what_it_has_in_flight() {
    let mut queues = with_groups(&["a1", "a2", "b1"]);
    let first = receive(&mut queues, FIFO, 1, 0);
    assert_eq!(ids(&first), ["a1"]);
    assert_eq!(ids(&receive(&mut queues, FIFO, 10, 0)), ["b1"]);
    assert_eq!(receive(&mut queues, FIFO, 10, 1), []);
    queues
        .delete(FIFO, &first[0].receipt_handle, at(1))
        .unwrap();
    assert_eq!(ids(&receive(&mut queues, FIFO, 10, 1)), ["a2"]);
}

#[test]
fn a_message_group_comes_back_in_order_and_behind_nothing_that_is_still_in_flight() {
    let mut queues = with_groups(&["a1", "a2", "a3"]);
    let first = receive(&mut queues, FIFO, 2, 0);
    assert_eq!(ids(&first), ["a1", "a2"]);
    let handle = &first[0].receipt_handle;
    queues
        .change_visibility(FIFO, handle, Duration::ZERO, at(1))
        .unwrap();
    assert_eq!(receive(&mut queues, FIFO, 10, 1), [], "a2 is in flight");
    assert_eq!(ids(&receive(&mut queues, FIFO, 10, 30)), ["a1", "a2", "a3"]);
}

#[test]
fn a_fifo_queue_deletes_only_what_is_in_flight() {
    let mut queues = with_groups(&["a1"]);
    let first = receive(&mut queues, FIFO, 1, 0);
    let late = queues.delete(FIFO, &first[0].receipt_handle, at(30));
    assert_eq!(late, Err(QueueError::Expired));
    assert_eq!(queues.len(FIFO).unwrap(), 1);
}

#[test]
fn a_fifo_queue_takes_a_deduplication_id_once_in_five_minutes() {
    let mut queues = queues();
    let mut send = |id: &str, now| {
        let message = NewMessage::new(id, "").in_group("a", "same");
        queues.send(FIFO, message, at(now)).unwrap()
    };
    assert_eq!(send("m-1", 0), "m-1");
    assert_eq!(send("m-2", 299), "m-1");
    assert_eq!(send("m-3", 300), "m-3");
    assert_eq!(queues.len(FIFO).unwrap(), 2);
}

#[test]
fn a_fifo_queue_takes_no_message_without_a_group_or_a_deduplication_id() {
    let mut queues = queues();
    let bare = NewMessage::new("m-1", "");
    let no_id = NewMessage {
        deduplication_id: None,
        ..bare.clone().in_group("a", "")
    };
    let refused = queues.send(FIFO, bare, at(0));
    assert_eq!(refused, Err(QueueError::Fifo("a message group")));
    let refused = queues.send(FIFO, no_id, at(0));
    assert_eq!(refused, Err(QueueError::NoDeduplication));
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let mut queues = with_messages(&["m-1"]);
    let missing = queues.receive("nowhere", 1, at(0)).unwrap_err();
    assert_eq!(missing.code(), "QueueDoesNotExist");
    assert!(missing.to_string().contains("nowhere"), "{missing}");
    let of_another = receive(&mut queues, QUEUE, 1, 0).remove(0).receipt_handle;
    for handle in [of_another.as_str(), "dead/x/1", "garbage"] {
        let refused = queues.delete(DEAD, handle, at(0)).unwrap_err();
        assert_eq!(refused.code(), "ReceiptHandleIsInvalid", "{handle}");
    }
    let settings = QueueSettings {
        redrive: Some(Redrive {
            to: DEAD.to_owned(),
            max_receive_count: 3,
        }),
        ..QueueSettings::default()
    };
    let refused = queues.create(FIFO, settings);
    assert!(matches!(refused, Err(QueueError::OtherType { .. })));
}

/// Records the events that an observer receives, in order.
fn told(queues: &mut Queues) -> Arc<Mutex<Vec<(SystemTime, LocalEvent)>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&told);
    queues.observe(Arc::new(move |now, happening: &LocalEvent| {
        to.lock().unwrap().push((now, happening.clone()));
    }));
    told
}

#[test]
fn every_observer_is_told_every_change_in_order() {
    let mut queues = queues();
    let (told, also_told) = (told(&mut queues), told(&mut queues));
    let (queue, message_id) = (QUEUE.to_owned(), "m-1".to_owned());
    let message = NewMessage {
        group_id: Some("tenant".to_owned()),
        ..NewMessage::new("m-1", "body")
    };
    queues.send(QUEUE, message, at(0)).unwrap();
    let first = receive(&mut queues, QUEUE, 1, 1).remove(0);
    let handle = &first.receipt_handle;
    queues
        .change_visibility(QUEUE, handle, SECOND, at(2))
        .unwrap();
    receive(&mut queues, QUEUE, 1, 3);
    assert_eq!(receive(&mut queues, QUEUE, 1, 33), []);
    queues
        .redrive(DEAD, QUEUE, || "m-2".to_owned(), at(34))
        .unwrap();
    let again = receive(&mut queues, QUEUE, 1, 35).remove(0);
    queues.delete(QUEUE, &again.receipt_handle, at(36)).unwrap();
    queues.purge(DEAD, at(37)).unwrap();

    let received = |message_id: &str, receive_count, visible_at| LocalEvent::Received {
        queue: QUEUE.to_owned(),
        message_id: message_id.to_owned(),
        receive_count,
        visible_at: at(visible_at),
    };
    let expected = [
        (
            at(0),
            LocalEvent::Sent {
                queue: queue.clone(),
                message_id: message_id.clone(),
                body: "body".to_owned(),
                attributes: serde_json::Map::new(),
                group_id: Some("tenant".to_owned()),
                visible_at: at(0),
            },
        ),
        (at(1), received("m-1", 1, 31)),
        (
            at(2),
            LocalEvent::VisibilityChanged {
                queue: queue.clone(),
                message_id: message_id.clone(),
                visible_at: at(3),
            },
        ),
        (at(3), received("m-1", 2, 33)),
        (
            at(33),
            LocalEvent::DeadLettered {
                queue: queue.clone(),
                to: DEAD.to_owned(),
                message_id: message_id.clone(),
            },
        ),
        (
            at(34),
            LocalEvent::Redriven {
                queue: DEAD.to_owned(),
                to: queue.clone(),
                message_id,
                new_message_id: "m-2".to_owned(),
            },
        ),
        (at(35), received("m-2", 1, 65)),
        (
            at(36),
            LocalEvent::Deleted {
                queue,
                message_id: "m-2".to_owned(),
            },
        ),
        (
            at(37),
            LocalEvent::Purged {
                queue: DEAD.to_owned(),
            },
        ),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!(*also_told.lock().unwrap(), expected);
}

#[test]
fn what_changes_nothing_is_not_told() {
    let mut queues = with_groups(&["a1"]);
    let told = told(&mut queues);
    let duplicate = NewMessage::new("a2", "").in_group("a", "a1");
    queues.send(FIFO, duplicate, at(1)).unwrap();
    assert_eq!(receive(&mut queues, QUEUE, 1, 1), []);
    queues.delete(QUEUE, "garbage", at(1)).unwrap_err();
    assert!(!queues.delete(QUEUE, "orders/9/1", at(1)).unwrap());
    assert_eq!(*told.lock().unwrap(), []);
}

#[test]
fn a_message_that_is_not_hidden_comes_once_in_a_batch() {
    let mut queues = Queues::default();
    let settings = QueueSettings {
        visibility_timeout: Duration::ZERO,
        ..QueueSettings::default()
    };
    queues.create(QUEUE, settings).unwrap();
    queues
        .send(QUEUE, NewMessage::new("m-1", ""), at(0))
        .unwrap();
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 0)), ["m-1"]);
    assert_eq!(receive(&mut queues, QUEUE, 10, 0)[0].receive_count, 2);
}

#[test]
fn a_delayed_message_comes_when_its_delay_has_ended() {
    let mut queues = queues();
    let delayed = |id: &str, delay| NewMessage {
        delay,
        ..NewMessage::new(id, "")
    };
    let settings = QueueSettings {
        delay: 10 * SECOND,
        ..QueueSettings::default()
    };
    queues.create(QUEUE, settings).unwrap();
    for (id, delay) in [
        ("queue's", None),
        ("own", Some(5 * SECOND)),
        ("none", Some(Duration::ZERO)),
    ] {
        queues.send(QUEUE, delayed(id, delay), at(0)).unwrap();
    }
    let counts = Counts {
        visible: 1,
        in_flight: 0,
        delayed: 2,
    };
    assert_eq!(queues.counts(QUEUE, at(0)), Ok(counts));
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 4)), ["none"]);
    let counts = Counts {
        visible: 1,
        in_flight: 1,
        delayed: 1,
    };
    assert_eq!(queues.counts(QUEUE, at(5)), Ok(counts));
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 9)), ["own"]);
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 10)), ["queue's"]);
}

#[test]
fn a_delayed_message_does_not_hold_up_those_before_it() {
    let mut queues = queues();
    let settings = QueueSettings {
        delay: 10 * SECOND,
        ..QueueSettings::default()
    };
    queues.create(FIFO, settings).unwrap();
    for (id, now) in [("a1", 0), ("a2", 5)] {
        let message = NewMessage::new(id, "").in_group("a", id);
        queues.send(FIFO, message, at(now)).unwrap();
    }
    assert_eq!(ids(&receive(&mut queues, FIFO, 10, 10)), ["a1"]);
}

#[test]
fn a_message_is_kept_as_long_as_its_queue_says_and_no_longer() {
    let mut queues = queues();
    let settings = QueueSettings {
        retention: 60 * SECOND,
        ..QueueSettings::default()
    };
    queues.create(QUEUE, settings).unwrap();
    let told = told(&mut queues);
    for (id, now) in [("m-1", 0), ("m-2", 30)] {
        queues
            .send(QUEUE, NewMessage::new(id, ""), at(now))
            .unwrap();
    }
    let received = receive(&mut queues, QUEUE, 1, 59);
    assert_eq!(ids(&received), ["m-1"]);
    told.lock().unwrap().clear();
    let handle = &received[0].receipt_handle;
    assert_eq!(
        queues.delete(QUEUE, handle, at(60)),
        Ok(false),
        "it is gone"
    );
    let expired = LocalEvent::Expired {
        queue: QUEUE.to_owned(),
        message_id: "m-1".to_owned(),
    };
    assert_eq!(*told.lock().unwrap(), [(at(60), expired)]);
    assert_eq!(queues.len(QUEUE), Ok(1));
    assert_eq!(receive(&mut queues, QUEUE, 10, 90), []);
    assert_eq!(queues.len(QUEUE), Ok(0));
}

/// Whether a dead letter survives when its total age reaches the retention period but its time in the dead-letter queue
/// does not.
fn survives_in(dead: &str, queue: &str) -> bool {
    let mut queues = Queues::default();
    let retention = 60 * SECOND;
    let settings = QueueSettings {
        retention,
        ..QueueSettings::default()
    };
    queues.create(dead, settings.clone()).unwrap();
    let redrive = Redrive {
        to: dead.to_owned(),
        max_receive_count: 1,
    };
    let settings = QueueSettings {
        redrive: Some(redrive),
        ..settings
    };
    queues.create(queue, settings).unwrap();
    let message = NewMessage::new("m-1", "").in_group("a", "d-1");
    queues.send(queue, message, at(0)).unwrap();
    receive(&mut queues, queue, 1, 0);
    assert_eq!(receive(&mut queues, queue, 1, 30), []);
    assert_eq!(queues.len(dead), Ok(1));
    !receive(&mut queues, dead, 1, 60).is_empty()
}

#[test]
fn a_dead_letter_ages_from_when_it_was_sent_unless_its_queue_is_a_fifo_queue() {
    assert!(!survives_in(DEAD, QUEUE));
    assert!(survives_in("dead.fifo", FIFO));
}

#[test]
fn a_fifo_queue_makes_deduplication_ids_of_bodies_if_it_is_told_to() {
    let mut queues = queues();
    let settings = QueueSettings {
        content_based_deduplication: true,
        ..QueueSettings::default()
    };
    queues.create(FIFO, settings).unwrap();
    let mut send = |id: &str, body: &str, given: Option<&str>| {
        let message = NewMessage {
            group_id: Some("a".to_owned()),
            deduplication_id: given.map(str::to_owned),
            ..NewMessage::new(id, body)
        };
        queues.send(FIFO, message, at(0)).unwrap()
    };
    assert_eq!(send("m-1", "same", None), "m-1");
    assert_eq!(send("m-2", "same", None), "m-1");
    assert_eq!(send("m-3", "other", None), "m-3");
    assert_eq!(send("m-4", "same", Some("d")), "m-4");
}

#[test]
fn the_queues_are_known_by_their_names() {
    let queues = queues();
    assert_eq!(queues.names(), [DEAD, QUEUE, FIFO]);
    let redrive = queues.settings(QUEUE).unwrap().redrive.as_ref();
    assert_eq!(redrive.unwrap().to, DEAD);
}
