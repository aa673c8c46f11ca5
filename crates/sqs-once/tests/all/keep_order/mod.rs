//! Order behind dead letters: `Queue::keep_order`.

mod histories;
mod shape;
mod world;

use std::num::NonZeroU32;
use std::time::Duration;

use lambda_runtime::Context;
use serde_json::{Value, json};
use sqs_once::store::{MemoryStore, StoreErrorKind};
use sqs_once::testing::Event;
use sqs_once::unstable::block::Place;
use sqs_once::{Batch, Consumer};
use tokio::time::Instant;

use self::shape::{Shape, TERMINAL};
use self::world::{DELIVERIES, REQUEST, World};
use crate::router;
use crate::support::process::has;
use crate::support::sqs::{Sqs, Turn};
use crate::support::{
    Bench, DLQ, Mode, Notes, Order, assert_contains, codes, grouped, invoke, orders, with,
    with_attribute,
};

#[tokio::test(start_paused = true)]
async fn what_follows_a_dead_letter_goes_behind_it_untried_and_comes_back_in_order() {
    let mut world = World::new();
    world.breaks(1);
    world.send(4);
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["0"]);
    // The last delivery that counts.
    world.deliver(false).await;
    world.send(2);
    world.deliver(false).await;
    assert!(world.queue.is_empty());
    let lines = world.bench.lines();
    let behind = "terminal: behind-dead-letter";
    assert_eq!(codes(&lines[lines.len() - 2..]), [behind; 2].join(", "));
    assert!(world.bench.store.is_released("4"));
    let reasons = world.sqs.reasons();
    assert_contains!(reasons[0], "no luck");
    let behind = "behind a dead letter of its message group";
    assert_eq!(reasons[1..], [behind; 4]);
    assert!(world.is_blocked());

    world.mend();
    world.redrive(|at| at < 3, false);
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["1", "2", "3"]);
    assert!(world.is_blocked(), "two are still behind");
    world.redrive(|at| at < 2, false);
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["4", "5"]);
    assert!(!world.is_blocked());
    world.send(1);
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["6"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_back_and_fails_is_the_new_head_also_before_those_still_in_the_dead_letter_queue()
 {
    let mut world = World::new();
    world.breaks(0);
    world.send(4);
    world.deliver(false).await;
    world.deliver(false).await;
    world.mend();
    world.breaks(1);
    // 2 and 3 stay in front of the new head.
    world.redrive(|at| at < 2, false);
    world.deliver(false).await;
    world.deliver(false).await;
    assert_eq!(world.done.all(), ["0"]);
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_deliveries_reached_no_code_moves_untried_and_blocks() {
    let mut world = World::new();
    world.send(2);
    world.queue[0].receives = DELIVERIES;
    world.deliver(false).await;
    assert_eq!(world.done.len(), 0);
    let expected = "terminal: deliveries-used-up, terminal: behind-dead-letter";
    assert_eq!(codes(&world.bench.lines()), expected);
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_first_dead_letter_whose_move_failed_moves_with_its_own_reason() {
    let mut world = World::new();
    world.send(TERMINAL);
    world.deliver(false).await;
    world.send(2);
    world.breaks(TERMINAL);
    // The queue tells its settings, and the move fails.
    world.sqs.next(&Turn::Do, 1);
    world.sqs.next(&Turn::Refuse("AccessDenied"), 1);
    world.deliver(false).await;
    assert!(world.is_blocked() && world.dead.is_empty());
    world.deliver(false).await;
    let behind = "behind a dead letter of its message group";
    let expected = ["no luck at all", "no luck at all", behind];
    assert_eq!(world.sqs.reasons(), expected);
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_block_that_arrives_late_stops_no_group_whose_message_is_done_meanwhile() {
    let mut world = World::new();
    world.send(TERMINAL);
    world.deliver(false).await;
    world.send(1);
    world.breaks(TERMINAL);
    // The claim and its answer. The block is on its way.
    world.freeze(2 * REQUEST + Duration::from_millis(1));
    assert!(!world.is_blocked());
    world.mend();
    world.deliver(false).await;
    world.thaw(0, REQUEST);
    world.kill_frozen();
    assert!(!world.is_blocked());
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_environment_gives_no_place_to_a_message_that_is_done_meanwhile() {
    let mut world = World::new();
    world.send(3);
    world.breaks(1);
    world.freeze(Duration::from_millis(1));
    world.deliver(false).await;
    assert!(world.is_blocked());
    world.sqs.next(&Turn::Refuse("AccessDenied"), 9);
    world.thaw(0, Duration::MAX);
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_done_is_a_duplicate_however_often_it_was_delivered() {
    let mut world = World::new();
    world.send(2);
    for _ in 0..=DELIVERIES {
        world.deliver(true).await;
    }
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["0", "1"]);
    assert!(world.queue.is_empty() && world.dead.is_empty());
}

#[tokio::test]
async fn each_message_of_a_blocked_group_has_its_own_route() {
    let (done, notes) = Notes::pair();
    let sqs = Sqs::delivering(DELIVERIES + 100);
    let queue = sqs.queue().dead_letter_queue(format!("{DLQ}.fifo"));
    let queue = queue.keep_order(NonZeroU32::MIN);
    let consumer = Consumer::new(router::charges_and_refunds(&notes)).queue(queue);
    let consumer = consumer.store(MemoryStore::new()).concurrency(1);
    let deliver = async |records: Vec<Value>| {
        let event = Event::from_json(json!({ "Records": records }).to_string());
        invoke(&consumer, &event, Context::default()).await
    };
    let message = |kind: &str, group: &str, id: &str| {
        let record = grouped(group, id);
        with_attribute(with(record, json!({ "messageId": id })), "type", kind)
    };
    // A refund without an amount.
    deliver([message("refund", "g", "r-1")].to_vec()).await;
    let moved = sqs.asked("SendMessage")[0]["MessageDeduplicationId"].clone();
    let place = Place::from_deduplication_id(moved.as_str().unwrap()).unwrap();
    let mut back = message("refund", "g", "r-1");
    let id = place.deduplication_id("copy");
    back["attributes"]["MessageDeduplicationId"] = id.into();
    // The block is known when the last group begins.
    let names: Vec<_> = (0..300).map(|at| format!("o-{at}")).collect();
    let others: Vec<_> = names
        .iter()
        .map(|name| message("charge", name, name))
        .collect();
    let last = [message("charge", "g", "c-1"), back];
    deliver([&others[..], &last[..]].concat()).await;
    let charged: Vec<_> = names.iter().map(|id| format!("charge {id}")).collect();
    assert_eq!(done.take(), charged);
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_block_that_fails_is_repeated_and_costs_no_delivery() {
    for kind in [StoreErrorKind::Unanswered, StoreErrorKind::Throttled] {
        let mut world = World::new();
        world.send(2);
        world.bench.store.fail("read", kind, 3);
        world.deliver(false).await;
        assert_eq!(world.done.take(), ["0", "1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_about_its_block_a_group_returns_untried_and_unclaimed() {
    let mut world = World::new();
    world.send(2);
    let store = &world.bench.store;
    store.fail("read", StoreErrorKind::AccessDenied, 1);
    world.deliver(false).await;
    assert_eq!(world.done.len(), 0);
    let expected = "failed: order-unknown, failed: earlier-message";
    assert_eq!(codes(&world.bench.lines()), expected);
    assert!(world.bench.store.is_released("0"));
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_released_although_its_block_has_no_answer_until_the_deadline() {
    let mut world = World::new();
    world.send(1);
    world.bench.store.reads_take(|_| Duration::from_secs(3600));
    world.deliver(false).await;
    assert_eq!(codes(&world.bench.lines()), "failed: order-unknown");
    assert!(world.bench.store.is_released("0"));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_sqs_could_empty_in_silence_is_refused() {
    let sqs = Sqs::delivering(DELIVERIES + 99);
    let mut world = World::of(Shape::Handler(Mode::ClaimFirst), 1, sqs);
    world.send(1);
    world.deliver(false).await;
    assert_eq!(world.done.len(), 0);
    assert_contains!(world.bench.lines()[0]["reason"], "can't keep the order");
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_a_group_that_is_not_blocked_costs_one_read_more_and_no_time() {
    let mut world = World::new();
    world.send(1);
    let began = Instant::now();
    world.deliver(false).await;
    let calls = world.bench.store.take_calls();
    let reads = calls.iter().filter(|(call, _)| *call == "read").count();
    assert_eq!(reads, 1, "{calls:?}");
    // The claim and its answer, and the completion.
    assert_eq!(began.elapsed(), 3 * REQUEST);
    assert_eq!(world.done.take(), ["0"]);
}

#[tokio::test(start_paused = true)]
async fn the_off_switch_is_refused_because_blocks_are_in_the_store() {
    let is_off = has!(&[("SQS_ONCE_DISABLED", "true")]);
    let queue = Sqs::default().queue().keep_order(NonZeroU32::MIN);
    let queue = queue.dead_letter_queue(format!("{DLQ}.fifo"));
    let handler = orders().call(async |_: Order| {});
    let started = Bench::new().consumer(handler).queue(queue).init().await;
    match is_off {
        false => started.unwrap(),
        true => assert_contains!(
            started.err().unwrap().to_string(),
            "SQS_ONCE_DISABLED is set"
        ),
    }
}

#[tokio::test(start_paused = true)]
async fn it_needs_a_fifo_dead_letter_queue_and_single_messages() {
    let queue = || Sqs::default().queue().keep_order(NonZeroU32::MIN);
    let handler = || orders().call(async |_: Order| {});
    for (queue, problem) in [
        (queue(), "has no dead-letter queue"),
        (queue().dead_letter_queue(DLQ), "is no FIFO queue"),
    ] {
        let bench = Bench::new();
        let consumer = bench.consumer(handler()).queue(queue);
        let refused = consumer.init().await.err().unwrap();
        assert_contains!(refused.to_string(), problem);
    }
    let together = orders().call_batch(async |orders: Batch<Order>| orders.all_succeeded());
    let queue = queue().dead_letter_queue(format!("{DLQ}.fifo"));
    let consumer = Bench::new().consumer(together).queue(queue);
    let refused = consumer.init().await.err().unwrap();
    assert_contains!(refused.to_string(), "is of a batch handler");
}
