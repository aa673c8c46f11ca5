//! Paths of a message through a consumer. To add one, write a function and list it in the table.

use std::pin::Pin;
use std::time::Duration;

use sqs_once::policy::{Backoff, Cache, Dependency, FifoFailure, UnknownOutcome};
use sqs_once::telemetry::Outcome;
use sqs_once::{Batch, HandlerError, Recorded, Remaining, consumer};
use tokio::time::sleep;
use tracing::Level;

use crate::no_secrets::paths_dynamodb as dynamodb;
use crate::no_secrets::paths_input as input;
use crate::no_secrets::paths_large as large;
use crate::no_secrets::paths_once as once;
use crate::no_secrets::paths_store as store;
use crate::no_secrets::world::{Order, Unkept, World, id, own_words};
use crate::support::SECOND;
use crate::support::sqs::{Sqs, Turn};

pub(crate) type Walk = Pin<Box<dyn Future<Output = ()>>>;

macro_rules! table {
    ($($path:path: $words:literal,)*) => {
        /// The paths, each with text that its output must contain.
        pub(crate) fn expected() -> Vec<(&'static str, &'static str)> {
            vec![$((stringify!($path), $words)),*]
        }

        fn table() -> Vec<(&'static str, fn() -> Walk)> {
            vec![$((stringify!($path), || Box::pin($path()))),*]
        }
    };
}

table! {
    processed: "record processed",
    duplicate: "record duplicate",
    duplicate_in_the_batch: "record duplicate",
    duplicate_from_the_cache: "record duplicate",
    result_that_cannot_be_kept: "its result was not recorded",
    failed: "the handler's own words",
    failed_at_every_level: "the handler's own words",
    failed_for_a_while: "SQS answered",
    failed_while_sqs_does_not_answer: "were hidden",
    nearly_visible_again: "visibility timeout is nearly over",
    nobody_knows_when_visible_again: "does not say its visibility timeout",
    terminal: "dead letter: ",
    terminal_and_not_moved: "could not be moved",
    terminal_without_a_body: "only redrive can move it",
    panicked: "panicked: the handler's own words",
    panicked_when_dropped: "panicked while it was dropped",
    input::not_json: "the body is not JSON",
    input::another_shape: "does not fit the payload type",
    input::not_base64: "the body is not base64",
    input::unusable_envelopes: "envelope can't be opened",
    input::ignored: "record ignored",
    input::waited_for: "the decoder's own words",
    large::not_fetched: "is missing in the bucket",
    input::unrouted: "no route takes it",
    input::missing_key: "the business key is missing",
    input::unprotected: "record processed",
    input::unusable_keys: "the key extractor failed",
    input::mismatch: "two different messages share it",
    store::in_progress: "another worker has its key",
    store::lease_lost: "another worker had taken over its key",
    store::unknown_status: "does not know",
    store::store_fails: "the store could not answer",
    store::store_at_the_start: "the store did not answer at the start",
    deadline: "cancelled at the deadline",
    record_timeout: "took longer than",
    outcome_unknown: "outcome unknown: ",
    dependency_unavailable: "its breaker opens",
    hooks_fail: "a failure hook failed",
    fifo: "an earlier record of its message group failed",
    batch_handler: "no word of the handler",
    store::writes: "its condition was not met",
    store::writes_that_cannot_be: "the value is not an item",
    store::transaction: "its effect did not commit",
    store::recorded_after: "record processed",
    input::invalid_events: "has no messageId",
    cannot_start: "the function can't start",
    dynamodb::conditions: "record duplicate",
    dynamodb::unreadable_items: "the item is not readable",
    dynamodb::errors: "ValidationException",
    dynamodb::garbage: "the store did not answer",
    once::done: "work duplicate",
    once::failed: "work failed",
    once::outlived: "its leases are renewed",
    once::refused: "the key extractor failed",
    once::uncompared: "the payloads could not be compared",
    once::unrecorded: "could not be released",
    once::recorded_by_another: "may have happened twice",
    once::dynamodb_errors: "NotClaimed",
}

/// Runs every path.
pub(crate) async fn go() {
    // Rust's own hook prints the panic's message, for which the user is responsible. The panics here quote the message.
    std::panic::set_hook(Box::new(|panic| {
        println!("a panic at {:?}", panic.location())
    }));
    for (name, walk) in table() {
        println!("\n{}{name}", crate::no_secrets::PATH);
        walk().await;
    }
    let _ = std::panic::take_hook();
}

async fn processed() {
    let world = World::new();
    world.orders(&world.recording(), ["a", "b"]).await;
    let readable = world.recording().readable_keys(true);
    world.orders(&readable, ["a", "b"]).await;
}

async fn duplicate() {
    let world = World::new();
    for readable in [false, true] {
        let consumer = world.recording().readable_keys(readable);
        for _ in 0..2 {
            world.orders(&consumer, ["a", "b"]).await;
        }
    }
}

async fn duplicate_in_the_batch() {
    let world = World::new();
    world.orders(&world.recording(), ["a", "a"]).await;
}

async fn duplicate_from_the_cache() {
    let world = World::new();
    let consumer = world.recording().cache(Cache::new(10));
    for _ in 0..2 {
        world.orders(&consumer, ["a"]).await;
    }
    println!("{consumer:?}");
}

async fn result_that_cannot_be_kept() {
    let world = World::new();
    let unkept = async |_: Order| Recorded(Unkept);
    world.orders(&world.handling(unkept), ["a"]).await;
    let large = async |_: Order| Recorded("canary-data".repeat(30_000));
    world.orders(&world.handling(large), ["b"]).await;
}

async fn failed() {
    let world = World::new();
    world.orders(&world.failing(own_words), ["a"]).await;
    let consumer = world.failing(own_words).raise_on_total_failure(true);
    world.orders(&consumer, ["a"]).await;
}

async fn failed_at_every_level() {
    let world = World::new();
    for level in [
        Level::TRACE,
        Level::DEBUG,
        Level::INFO,
        Level::WARN,
        Level::ERROR,
    ] {
        let failing = world.failing(own_words);
        let consumer = failing.record_level(Outcome::Failed, level);
        world.orders(&consumer, ["a"]).await;
    }
}

async fn failed_for_a_while() {
    for turn in [
        Turn::Refuse("AccessDenied"),
        Turn::Refuse("ReceiptHandleIsInvalid"),
        Turn::Refuse("AWS.SimpleQueueService.NonExistentQueue"),
        Turn::RefuseEntries(&[0]),
        Turn::LoseAnswer,
    ] {
        let world = World::with(Sqs::always(turn));
        let later = || own_words().into_retry_after(7 * SECOND);
        let backoff = Backoff::exponential(SECOND, 9 * SECOND);
        let consumer = world.failing(later).backoff(backoff);
        world.orders(&consumer, ["a", "b"]).await;
    }
}

async fn failed_while_sqs_does_not_answer() {
    let mut world = World::with(Sqs::always(Turn::Hang));
    world.timeout = 3 * SECOND;
    let later = || own_words().into_retry_after(7 * SECOND);
    world.orders(&world.failing(later), ["a"]).await;
}

async fn slow(mut world: World) {
    world.timeout = 90 * SECOND;
    let a_minute = async |_: Order| sleep(60 * SECOND).await;
    world.orders(&world.handling(a_minute), ["a"]).await;
}

async fn nearly_visible_again() {
    slow(World::new()).await;
}

async fn nobody_knows_when_visible_again() {
    slow(World::with(Sqs::always(Turn::Refuse("AccessDenied")))).await;
}

fn no_use() -> HandlerError {
    own_words().into_terminal()
}

async fn terminal() {
    let world = World::new();
    world.orders(&world.failing(no_use), ["a"]).await;
    world.invoke(&world.recording(), ["canary"]).await;
}

async fn terminal_and_not_moved() {
    for turn in [
        Turn::Refuse("AccessDenied"),
        Turn::Refuse("InvalidMessageContents"),
        Turn::LoseAnswer,
    ] {
        let world = World::with(Sqs::always(turn));
        world.orders(&world.failing(no_use), ["a"]).await;
    }
}

async fn terminal_without_a_body() {
    let world = World::new();
    world.invoke(&world.recording(), [""]).await;
}

async fn panicked() {
    let world = World::new();
    let panics = async |_: Order| -> Result<(), HandlerError> { panic!("the handler's own words") };
    world.orders(&world.handling(panics), ["a"]).await;
}

struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("the handler's own words");
    }
}

async fn panicked_when_dropped() {
    let world = World::new();
    let endless = async |_: Order| {
        let _held = Fragile;
        sleep(Duration::MAX).await;
    };
    world.orders(&world.handling(endless), ["a"]).await;
}

async fn deadline() {
    let world = World::new();
    let slow = async |_: Order, remaining: Remaining| sleep(remaining.duration() * 2).await;
    let consumer = world.handling(slow).concurrency(1);
    world.orders(&consumer, ["a", "b"]).await;
}

async fn record_timeout() {
    let world = World::new();
    let slow = async |_: Order| sleep(20 * SECOND).await;
    let consumer = world.handling(slow).record_timeout(SECOND);
    world.orders(&consumer, ["a"]).await;
}

async fn outcome_unknown() {
    let policy = UnknownOutcome::dead_letter();
    for policy in [policy.clone(), policy.after(SECOND)] {
        let world = World::new();
        let unknown = world.failing(|| own_words().into_outcome_unknown());
        let consumer = unknown.unknown_outcome(policy);
        world.orders(&consumer, ["a"]).await;
        world.clock.advance(60 * SECOND);
        world.orders(&consumer, ["a"]).await;
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the handler's own words")]
struct Caused(#[source] std::fmt::Error);

async fn dependency_unavailable() {
    let world = World::with(Sqs::always(Turn::Refuse("AccessDenied")));
    let payments = Dependency::new("payments").failures(1);
    let payments = payments.unavailable_if(|_: &std::fmt::Error| true);
    let by_cause = world.failing(|| Caused(std::fmt::Error).into());
    let by_cause = by_cause.depends_on(payments.clone());
    world.orders(&by_cause, ["e"]).await;
    let down = || own_words().into_unavailable("payments");
    let consumer = world.failing(down).depends_on(payments);
    for name in ["a", "b", "c"] {
        world.orders(&consumer, [name, "d"]).await;
        world.clock.advance(31 * SECOND);
    }
}

async fn hooks_fail() {
    let mut world = World::new();
    world.hooks_fail = true;
    for consumer in [world.recording(), world.failing(own_words)] {
        world.orders(&consumer, ["a"]).await;
        world.orders(&consumer, ["a"]).await;
    }
}

async fn fifo() {
    for failure in [FifoFailure::ReturnGroup, FifoFailure::ReturnBatch] {
        let world = World {
            is_fifo: true,
            ..World::new()
        };
        let consumer = world.failing(own_words).fifo(failure);
        world.orders(&consumer, ["a", "b", "c"]).await;
    }
}

async fn batch_handler() {
    let world = World::new();
    let keyed = || consumer::<Order>().key(id);
    let mixed = async |orders: Batch<Order>| {
        let mut outcome = orders.outcome();
        for (at, record) in orders.iter().enumerate() {
            println!("{record:?}");
            match at {
                0 => outcome.succeeded(record),
                1 => outcome.failed(record, "no word of the handler holds it"),
                2 => outcome.ended(record, Recorded("canary-data")),
                _ => {}
            }
        }
        println!("{orders:?} {outcome:?}");
        outcome
    };
    let orders = ["a", "b", "c", "d", "a"];
    let mixed = world.consumer(keyed().batch_handler(mixed));
    world.orders(&mixed, orders).await;
    let failing = async |_: Batch<Order>| Err::<sqs_once::BatchOutcome, _>(own_words());
    let failing = world.consumer(keyed().batch_handler(failing));
    world.orders(&failing, orders).await;
}

async fn cannot_start() {
    let consumer = consumer::<Order>()
        .key(id)
        .handler(async |_: Order| {})
        .namespace("test");
    let error = sqs_once::run(consumer).await.unwrap_err();
    println!("{error} {error:?}");
}
