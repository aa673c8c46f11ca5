//! Tests visibility, redrive and message groups of the queues, on simulated time.

use crate::support::{DEAD, QUEUE, at, ids, queues as with_redrive, redrive};
use serde_json::{Value, json};
use sqs_once_local::{Event, LocalEvent, NewMessage, QueueError, QueueSettings, Queues, Received};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const FIFO: &str = "orders.fifo";

/// A queue, a FIFO queue, and a dead-letter queue for messages that were received twice from the first.
fn queues() -> Queues {
    let mut queues = with_redrive(2);
    create(&mut queues, FIFO, |_| {});
    queues
}

/// Creates a queue, or changes its settings.
fn create(queues: &mut Queues, queue: &str, change: impl FnOnce(&mut QueueSettings)) {
    let mut settings = QueueSettings::default();
    change(&mut settings);
    queues.create(queue, settings).unwrap();
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

fn delete(queues: &mut Queues, queue: &str, one: &Received, now: u64) -> Result<bool, QueueError> {
    queues.delete(queue, &one.receipt_handle, at(now))
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
fn the_messages_of_a_sample_event_can_be_hidden_without_effect() {
    let mut queues = with_messages(&["m-1"]);
    let change = |queues: &mut Queues, queue| queues.change_visibility(queue, "r-1", SECOND, at(1));
    let unknown = Err(QueueError::Handle(QUEUE.to_owned()));
    assert_eq!(change(&mut queues, QUEUE), unknown);
    let sample = r#"{"messageId": "m-2", "receiptHandle": "r-1", "body": "{}"}"#;
    queues.accept_receipts(&Event::parse(sample, "samples").unwrap());
    for queue in [QUEUE, "samples"] {
        assert_eq!(change(&mut queues, queue), Ok(()));
    }
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 1)), ["m-1"]);
    assert_eq!(queues.len("samples"), Ok(0));
}

#[test]
fn a_message_that_became_visible_can_be_deleted_until_it_is_received_again() {
    let mut queues = with_messages(&["m-1", "m-2"]);
    let first = receive(&mut queues, QUEUE, 2, 0);
    assert_eq!(delete(&mut queues, QUEUE, &first[0], 40), Ok(true));
    let again = receive(&mut queues, QUEUE, 2, 40);
    assert_eq!(ids(&again), ["m-2"]);
    assert_eq!(delete(&mut queues, QUEUE, &first[1], 41), Ok(false));
    assert_eq!(queues.len(QUEUE), Ok(1));
}

#[test]
fn two_copies_of_a_message_are_two_messages() {
    let mut queues = with_messages(&["m-1", "m-1"]);
    let both = receive(&mut queues, QUEUE, 10, 0);
    assert_eq!(ids(&both), ["m-1", "m-1"]);
    assert_eq!(delete(&mut queues, QUEUE, &both[0], 0), Ok(true));
    assert_eq!(queues.len(QUEUE), Ok(1));
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
fn a_dead_message_makes_room_in_its_batch_for_the_next() {
    let mut queues = with_messages(&["m-1"]);
    receive(&mut queues, QUEUE, 1, 0);
    receive(&mut queues, QUEUE, 1, 30);
    let next = NewMessage::new("m-2", "");
    queues.send(QUEUE, next, at(61)).unwrap();
    assert_eq!(ids(&receive(&mut queues, QUEUE, 1, 61)), ["m-2"]);
}

#[test]
fn a_redrive_leaves_what_is_in_flight() {
    let mut queues = with_messages(&["m-1"]);
    receive(&mut queues, QUEUE, 1, 0);
    let moved = queues.redrive(QUEUE, DEAD, || "m-9".to_owned(), at(29));
    assert_eq!(moved, Ok(0));
    assert_eq!(queues.len(QUEUE), Ok(1));
}

#[test]
fn a_message_group_comes_back_in_order_and_behind_nothing_that_is_still_in_flight() {
    let mut queues = with_groups(&["a1", "b1", "a2", "a3"]);
    let first = receive(&mut queues, FIFO, 3, 0);
    assert_eq!(ids(&first), ["a1", "b1", "a2"]);
    assert_eq!(delete(&mut queues, FIFO, &first[1], 0), Ok(true));
    let handle = &first[0].receipt_handle;
    let shown = queues.change_visibility(FIFO, handle, Duration::ZERO, at(1));
    assert_eq!(shown, Ok(()));
    assert_eq!(receive(&mut queues, FIFO, 10, 1), [], "a2 is in flight");
    assert_eq!(ids(&receive(&mut queues, FIFO, 10, 30)), ["a1", "a2", "a3"]);
}

#[test]
fn a_fifo_queue_deletes_only_what_is_in_flight() {
    let mut queues = with_groups(&["a1"]);
    let first = receive(&mut queues, FIFO, 1, 0);
    let late = delete(&mut queues, FIFO, &first[0], 30);
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
fn a_fifo_queue_makes_a_deduplication_id_of_the_body_unless_the_message_has_its_own() {
    let mut queues = queues();
    let by_content = |one: &mut QueueSettings| one.content_based_deduplication = true;
    create(&mut queues, FIFO, by_content);
    for (id, body, own) in [
        ("m-1", "hello", None),
        ("m-2", "other", None),
        ("m-3", "hello", None),
        ("m-4", "hello", Some("d".to_owned())),
    ] {
        let mut message = NewMessage::new(id, body).in_group("a", "");
        message.deduplication_id = own;
        queues.send(FIFO, message, at(0)).unwrap();
    }
    let received = receive(&mut queues, FIFO, 10, 0);
    assert_eq!(ids(&received), ["m-1", "m-2", "m-4"]);
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let mut queues = with_messages(&["m-1"]);
    let missing = queues.receive("nowhere", 1, at(0)).unwrap_err();
    assert_eq!(missing.code(), "QueueDoesNotExist");
    assert!(missing.to_string().contains("nowhere"), "{missing}");
    let of_another = receive(&mut queues, QUEUE, 1, 0).remove(0).receipt_handle;
    for handle in [of_another.as_str(), "orders-dead/x/1", "garbage"] {
        let refused = queues.delete(DEAD, handle, at(0)).unwrap_err();
        assert_eq!(refused.code(), "ReceiptHandleIsInvalid", "{handle}");
    }
    let refused = queues.create(FIFO, redrive(DEAD, 3));
    assert!(matches!(refused, Err(QueueError::OtherType { .. })));
}

/// Records the events that an observer receives in their JSON form, in order and each after its second.
fn observed(queues: &mut Queues) -> Arc<Mutex<Vec<Value>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&events);
    queues.observe(Arc::new(move |now, event: &LocalEvent| {
        let seconds = now.duration_since(at(0)).unwrap().as_secs();
        to.lock().unwrap().push(json!([seconds, event]));
    }));
    events
}

#[test]
fn every_observer_receives_every_change_in_order() {
    let mut queues = queues();
    let observers = [observed(&mut queues), observed(&mut queues)];
    let message = NewMessage {
        group_id: Some("tenant".to_owned()),
        ..NewMessage::new("m-1", "body")
    };
    queues.send(QUEUE, message, at(0)).unwrap();
    let first = receive(&mut queues, QUEUE, 1, 1).remove(0);
    let hidden = queues.change_visibility(QUEUE, &first.receipt_handle, SECOND, at(2));
    assert_eq!(hidden, Ok(()));
    receive(&mut queues, QUEUE, 1, 3);
    assert_eq!(receive(&mut queues, QUEUE, 1, 33), []);
    let moved = queues.redrive(DEAD, QUEUE, || "m-2".to_owned(), at(34));
    assert_eq!(moved, Ok(1));
    let again = receive(&mut queues, QUEUE, 1, 35).remove(0);
    assert_eq!(delete(&mut queues, QUEUE, &again, 36), Ok(true));
    queues.purge(DEAD, at(37)).unwrap();

    let ms = |seconds: u64| 1_000 * (1_000_000 + seconds);
    let expected = json!([
        [0, {"happened": "sent", "queue": QUEUE, "message_id": "m-1", "body": "body", "attributes": {},
            "group_id": "tenant", "visible_at": ms(0)}],
        [1, {"happened": "received", "queue": QUEUE, "message_id": "m-1", "receive_count": 1, "visible_at": ms(31)}],
        [2, {"happened": "visibility_changed", "queue": QUEUE, "message_id": "m-1", "visible_at": ms(3)}],
        [3, {"happened": "received", "queue": QUEUE, "message_id": "m-1", "receive_count": 2, "visible_at": ms(33)}],
        [33, {"happened": "dead_lettered", "queue": QUEUE, "to": DEAD, "message_id": "m-1"}],
        [34, {"happened": "redriven", "queue": DEAD, "to": QUEUE, "message_id": "m-1", "new_message_id": "m-2"}],
        [35, {"happened": "received", "queue": QUEUE, "message_id": "m-2", "receive_count": 1, "visible_at": ms(65)}],
        [36, {"happened": "deleted", "queue": QUEUE, "message_id": "m-2"}],
        [37, {"happened": "purged", "queue": DEAD}],
    ]);
    for events in observers {
        assert_eq!(json!(*events.lock().unwrap()), expected);
    }
}

#[test]
fn a_request_that_changes_nothing_has_no_event() {
    let mut queues = with_groups(&["a1"]);
    let events = observed(&mut queues);
    let duplicate = NewMessage::new("a2", "").in_group("a", "a1");
    queues.send(FIFO, duplicate, at(1)).unwrap();
    assert_eq!(receive(&mut queues, QUEUE, 1, 1), []);
    queues.delete(QUEUE, "garbage", at(1)).unwrap_err();
    assert!(!queues.delete(QUEUE, "orders/9/1", at(1)).unwrap());
    assert!(events.lock().unwrap().is_empty());
}

#[test]
fn a_message_that_is_not_hidden_comes_once_in_a_batch() {
    let mut queues = Queues::default();
    let visible = |one: &mut QueueSettings| one.visibility_timeout = Duration::ZERO;
    create(&mut queues, QUEUE, visible);
    let message = NewMessage::new("m-1", "");
    queues.send(QUEUE, message, at(0)).unwrap();
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 0)), ["m-1"]);
    assert_eq!(receive(&mut queues, QUEUE, 10, 0)[0].receive_count, 2);
}

#[test]
fn a_delayed_message_comes_when_its_delay_has_ended() {
    let mut queues = queues();
    create(&mut queues, QUEUE, |one| one.delay = 10 * SECOND);
    for (id, delay) in [
        ("queue's", None),
        ("own", Some(5 * SECOND)),
        ("none", Some(Duration::ZERO)),
    ] {
        let mut message = NewMessage::new(id, "");
        message.delay = delay;
        queues.send(QUEUE, message, at(0)).unwrap();
    }
    let counts = |queues: &Queues, now| {
        let counts = queues.counts(QUEUE, at(now)).unwrap();
        (counts.visible, counts.in_flight, counts.delayed)
    };
    assert_eq!(counts(&queues, 0), (1, 0, 2));
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 4)), ["none"]);
    assert_eq!(counts(&queues, 5), (1, 1, 1));
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 9)), ["own"]);
    assert_eq!(ids(&receive(&mut queues, QUEUE, 10, 10)), ["queue's"]);
}

#[test]
fn a_delayed_message_does_not_hold_up_those_before_it() {
    let mut queues = queues();
    create(&mut queues, FIFO, |one| one.delay = 10 * SECOND);
    for (id, now) in [("a1", 0), ("a2", 5)] {
        let message = NewMessage::new(id, "").in_group("a", id);
        queues.send(FIFO, message, at(now)).unwrap();
    }
    assert_eq!(ids(&receive(&mut queues, FIFO, 10, 10)), ["a1"]);
}

#[test]
fn a_message_is_kept_as_long_as_its_queue_says_and_no_longer() {
    let mut queues = queues();
    create(&mut queues, QUEUE, |one| one.retention = 60 * SECOND);
    let events = observed(&mut queues);
    for (id, now) in [("m-1", 0), ("m-2", 30)] {
        let message = NewMessage::new(id, "");
        queues.send(QUEUE, message, at(now)).unwrap();
    }
    let received = receive(&mut queues, QUEUE, 1, 59);
    assert_eq!(ids(&received), ["m-1"]);
    events.lock().unwrap().clear();
    assert_eq!(delete(&mut queues, QUEUE, &received[0], 60), Ok(false));
    let expired = json!([60, {"happened": "expired", "queue": QUEUE, "message_id": "m-1"}]);
    assert_eq!(*events.lock().unwrap(), [expired]);
    assert_eq!(queues.len(QUEUE), Ok(1));
    assert_eq!(receive(&mut queues, QUEUE, 10, 90), []);
    assert_eq!(queues.len(QUEUE), Ok(0));
}

/// Whether a dead letter survives when its total age reaches the retention period but its time in the dead-letter queue
/// does not.
fn survives_in(dead: &str, queue: &str) -> bool {
    let mut queues = Queues::default();
    let retention = 60 * SECOND;
    create(&mut queues, dead, |one| one.retention = retention);
    create(&mut queues, queue, |one| {
        *one = QueueSettings {
            retention,
            ..redrive(dead, 1)
        };
    });
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
