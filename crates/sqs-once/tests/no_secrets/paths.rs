//! The ways of a message through a consumer. To add one, write a function and name it in the table.

use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use sqs_once::aws_sdk_dynamodb::types::{AttributeValue, Update};
use sqs_once::store::{Item, Owner, Status, StoreErrorKind};
use sqs_once::{
    Auto, Backoff, Batch, Bytes, Cache, Clock, Consumer, Disposition, EventBridge, FifoFailure,
    HandlerError, InProgress, JmesPath, JsonPointer, KeyError, MessageAttribute, MissingKey, Mode,
    PayloadMismatch, Recorded, Remaining, ResultExt, S3, Sns, Writes, consumer, consumer_with,
};
use tokio::time::sleep;

use crate::paths_dynamodb as dynamodb;
use crate::paths_once as once;
use crate::support::database::{Database, Ledger};
use crate::support::item_id;
use crate::support::sqs::{Sqs, Turn};
use crate::world::{Order, World, id, order, record};

pub(crate) type Walk = Pin<Box<dyn Future<Output = ()>>>;

macro_rules! table {
    ($($path:path: $words:literal,)*) => {
        /// The paths, each with words that it must say.
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
    failed_for_a_while: "SQS answered",
    failed_while_sqs_does_not_answer: "was postponed",
    terminal: "dead letter: ",
    terminal_and_not_moved: "could not be moved",
    terminal_without_a_body: "only redrive can move it",
    panicked: "panicked: the handler's own words",
    panicked_when_dropped: "panicked while it was dropped",
    not_json: "the body is not JSON",
    another_shape: "does not fit the payload type",
    not_base64: "the body is not base64",
    unusable_envelopes: "envelope can't be opened",
    ignored: "record ignored",
    missing_key: "the business key is missing",
    unprotected: "record processed",
    unusable_keys: "the key extractor failed",
    mismatch: "two different messages share it",
    in_progress: "another worker has its key",
    lease_lost: "another worker had taken over its key",
    unknown_status: "does not know",
    store_fails: "the store could not answer",
    store_at_the_start: "the store did not answer at the start",
    deadline: "cancelled at the deadline",
    record_timeout: "took longer than",
    hooks_fail: "a failure hook failed",
    fifo: "an earlier record of its message group failed",
    batch_handler: "no word of the handler",
    writes: "its condition was not met",
    writes_that_cannot_be: "the value is not an item",
    transaction: "its effect did not commit",
    recorded_after: "record processed",
    invalid_events: "has no messageId",
    cannot_start: "the function can't start",
    dynamodb::conditions: "record duplicate",
    dynamodb::unreadable_items: "the item is not readable",
    dynamodb::errors: "ValidationException",
    dynamodb::garbage: "the store did not answer",
    once::done: "work duplicate",
    once::failed: "work failed",
    once::refused: "the key extractor failed",
    once::unrecorded: "could not be released",
    once::dynamodb_errors: "NotClaimed",
}

/// Goes every way.
pub(crate) async fn go() {
    // Rust's own hook prints what a panic says, which is the user's to answer for. Here the panics quote.
    std::panic::set_hook(Box::new(|panic| {
        println!("a panic at {:?}", panic.location())
    }));
    for (name, walk) in table() {
        println!("\n{}{name}", crate::PATH);
        walk().await;
    }
    let _ = std::panic::take_hook();
}

async fn processed() {
    let world = World::new();
    world
        .invoke(&world.recording(), [order("a"), order("b")])
        .await;
    world
        .invoke(
            &world.recording().readable_keys(true),
            [order("a"), order("b")],
        )
        .await;
}

async fn duplicate() {
    let world = World::new();
    for readable in [false, true] {
        let consumer = world.recording().readable_keys(readable);
        for _ in 0..2 {
            world.invoke(&consumer, [order("a"), order("b")]).await;
        }
    }
}

async fn duplicate_in_the_batch() {
    let world = World::new();
    world
        .invoke(&world.recording(), [order("a"), order("a")])
        .await;
}

async fn duplicate_from_the_cache() {
    let world = World::new();
    let consumer = world.recording().cache(Cache::of(10));
    for _ in 0..2 {
        world.invoke(&consumer, [order("a")]).await;
    }
    println!("{consumer:?}");
}

/// Its own words about why it is no JSON hold what it is.
struct Unkept;

impl Serialize for Unkept {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("canary-data"))
    }
}

async fn result_that_cannot_be_kept() {
    let world = World::new();
    let keyed = || consumer::<Order>().key(id);
    world
        .invoke(
            &world.consumer(keyed().handler(async |_: Order| Recorded(Unkept))),
            [order("a")],
        )
        .await;
    let large = async |_: Order| Recorded("canary-data".repeat(30_000));
    world
        .invoke(&world.consumer(keyed().handler(large)), [order("b")])
        .await;
}

fn own_words() -> HandlerError {
    std::io::Error::other("the handler's own words").into()
}

async fn failed() {
    let world = World::new();
    world.invoke(&world.failing(own_words), [order("a")]).await;
    let consumer = world.failing(own_words).raise_on_total_failure(true);
    world.invoke(&consumer, [order("a")]).await;
}

async fn failed_for_a_while() {
    let refused = [
        "AccessDenied",
        "ReceiptHandleIsInvalid",
        "AWS.SimpleQueueService.NonExistentQueue",
    ]
    .map(Turn::Refuse);
    for turn in refused
        .into_iter()
        .chain([Turn::RefuseEntries(&[0]), Turn::LoseAnswer])
    {
        let world = World::with(Sqs::always(turn));
        let later = || own_words().into_retry_after(Duration::from_secs(7));
        let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(9));
        let consumer = world.failing(later).backoff(backoff);
        world.invoke(&consumer, [order("a"), order("b")]).await;
    }
}

async fn failed_while_sqs_does_not_answer() {
    let world = World::with(Sqs::always(Turn::Hang));
    let later = || own_words().into_retry_after(Duration::from_secs(7));
    let event = json!({ "Records": [record(0, &order("a"))] });
    world
        .invoke_with(&world.failing(later), event, Duration::from_secs(3))
        .await;
}

async fn terminal() {
    let world = World::new();
    world
        .invoke(&world.failing(|| own_words().into_terminal()), [order("a")])
        .await;
    world.invoke(&world.recording(), ["canary"]).await;
}

async fn terminal_and_not_moved() {
    for turn in [
        Turn::Refuse("AccessDenied"),
        Turn::Refuse("InvalidMessageContents"),
        Turn::LoseAnswer,
    ] {
        let world = World::with(Sqs::always(turn));
        world
            .invoke(&world.failing(|| own_words().into_terminal()), [order("a")])
            .await;
    }
}

async fn terminal_without_a_body() {
    let world = World::new();
    world.invoke(&world.recording(), [""]).await;
}

async fn panicked() {
    let world = World::new();
    let panics = async |_: Order| -> Result<(), HandlerError> { panic!("the handler's own words") };
    let consumer = world.consumer(consumer::<Order>().key(id).handler(panics));
    world.invoke(&consumer, [order("a")]).await;
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
    let consumer = world.consumer(consumer::<Order>().key(id).handler(endless));
    world.invoke(&consumer, [order("a")]).await;
}

async fn not_json() {
    let world = World::new();
    world
        .invoke(
            &world.recording(),
            ["canary", "{\"id\": canary}", "{\"canary\": \"", "\"canary"],
        )
        .await;
}

/// A payload that quotes what it refuses.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Picky;

impl TryFrom<String> for Picky {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Err(format!("invalid value: {text}, expected another"))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum Strict {
    #[allow(dead_code, reason = "nothing is ever one")]
    Order { id: u64 },
}

async fn another_shape() {
    let world = World::new();
    let bodies = [
        "\"canary\"",
        "[\"canary\"]",
        "{\"id\": \"canary\"}",
        "{\"id\": {\"canary\": 1}, \"card\": 1}",
    ];
    world.invoke(&world.recording(), bodies).await;
    let picky = consumer::<Picky>()
        .key(|_: &Picky| 1)
        .handler(async |_: Picky| {});
    world.invoke(&world.consumer(picky), ["\"canary\""]).await;
    let strict = consumer::<Strict>()
        .key(|_: &Strict| 1)
        .handler(async |_: Strict| {});
    let bodies = [
        "{\"canary\": 1}",
        "{\"Order\": {\"canary\": 1}}",
        "{\"Order\": {\"id\": \"canary\"}}",
    ];
    world.invoke(&world.consumer(strict), bodies).await;
}

async fn not_base64() {
    let world = World::new();
    let bytes = consumer_with(Bytes)
        .key(MessageAttribute::new("card"))
        .handler(async |_: Vec<u8>| {});
    world
        .invoke(&world.consumer(bytes), ["canary!", "Y2FuYXJ5"])
        .await;
}

fn opening(world: &World) -> [Consumer; 4] {
    let keyed = || world.recording();
    [
        keyed().envelope(Sns),
        keyed().envelope(EventBridge),
        keyed().envelope(S3),
        keyed().envelope(Auto),
    ]
}

async fn unusable_envelopes() {
    let world = World::new();
    let topic = "arn:aws:sns:eu-central-1:123456789012:orders";
    let bodies = [
        json!({ "Type": "Notification", "TopicArn": topic, "Message": { "canary": 1 } }),
        json!({ "Type": "Notification", "TopicArn": topic, "Message": "canary", "Subject": "canary" }),
        json!({ "Type": "SubscriptionConfirmation", "TopicArn": topic, "SubscribeURL": "https://canary", "Token": "canary" }),
        json!({ "version": "0", "id": "e-1", "detail-type": "canary", "source": "canary", "detail": null }),
        json!({ "version": "0", "id": 7, "detail-type": "canary", "source": "canary", "detail": "canary" }),
        json!({ "Records": [{ "eventSource": "aws:s3", "eventName": "canary", "s3": "canary" }] }),
        json!({ "Records": [{ "eventSource": "aws:s3", "s3": { "bucket": { "name": "canary" }, "object": { "key": "%ff" } } }] }),
        json!({ "Records": [{ "eventSource": "aws:s3" }, { "eventSource": "aws:s3", "s3": "canary" }] }),
    ];
    for consumer in opening(&world) {
        world
            .invoke(&consumer, bodies.iter().map(ToString::to_string))
            .await;
    }
}

async fn ignored() {
    let world = World::new();
    let test = json!({ "Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "canary", "RequestId": "canary" });
    for consumer in opening(&world) {
        world.invoke(&consumer, [test.to_string()]).await;
    }
}

fn keyless(world: &World) -> Consumer {
    let none = |_: &Order| None::<String>;
    world.consumer(consumer::<Order>().key(none).handler(async |_: Order| {}))
}

async fn missing_key() {
    let world = World::new();
    for missing in [MissingKey::Terminal, MissingKey::Retry] {
        world
            .invoke(&keyless(&world).missing_key(missing), [order("a")])
            .await;
    }
}

async fn unprotected() {
    let world = World::new();
    let consumer = keyless(&world).missing_key(MissingKey::ProcessUnprotected);
    world.invoke(&consumer, [order("a")]).await;
}

async fn unusable_keys() {
    let world = World::new();
    let long = |_: &Order| "canary".repeat(1000);
    let failing = |order: &Order| Err::<String, _>(format!("no key in {order:?}"));
    let panicking = |order: &Order| -> String { panic!("no key in {order:?}") };
    let blank = |_: &Order| ("canary", " ");
    let keyed = || consumer::<Order>();
    for consumer in [
        keyed().key(long).handler(async |_: Order| {}),
        keyed().key(failing).handler(async |_: Order| {}),
        keyed().key(panicking).handler(async |_: Order| {}),
        keyed().key(blank).handler(async |_: Order| {}),
        keyed()
            .key(JsonPointer::new(""))
            .handler(async |_: Order| {}),
        keyed()
            .key(JmesPath::new("[id, card]"))
            .handler(async |_: Order| {}),
        keyed()
            .key(JmesPath::new("abs(id)"))
            .handler(async |_: Order| {}),
        keyed()
            .key(id)
            .fingerprint(|_: &Order| Err::<String, _>("canary-fingerprint"))
            .handler(async |_: Order| {}),
    ] {
        world.invoke(&world.consumer(consumer), [order("a")]).await;
    }
    crate::world::show(&KeyError::Extractor("canary".to_owned()));
}

async fn mismatch() {
    for mismatch in [PayloadMismatch::Warn, PayloadMismatch::Reject] {
        let world = World::new();
        let consumer = world.recording().payload_mismatch(mismatch);
        world.invoke(&consumer, [order("a")]).await;
        let other = order("a").replace("card\":\"canary-card", "card\":\"canary-other");
        world.invoke(&consumer, [&other, &order("a")]).await;
    }
}

/// An item of somebody else's.
fn foreign(world: &World, status: Status) {
    let key = sqs_once::BusinessKey::of("canary-key-a").unwrap();
    let now = world.clock.now();
    world.store.inner.put(Item {
        id: item_id(&key),
        status,
        lease_until: Some(now + Duration::from_secs(600)),
        expiration: Some(now + Duration::from_secs(600)),
        fingerprint: None,
        data: Some("canary-data".into()),
        owner: Some(Owner::from_bits(7)),
        fence: None,
    });
}

async fn in_progress() {
    let world = World::new();
    foreign(&world, Status::InProgress);
    world
        .invoke(&world.recording(), [order("a"), order("a")])
        .await;
    let waiting = world
        .recording()
        .in_progress(InProgress::Wait(Duration::from_secs(1)));
    world.invoke(&waiting, [order("a")]).await;
}

async fn lease_lost() {
    let world = World::new();
    let (store, clock) = (world.store.clone(), world.clock.clone());
    let losing = move |_: Order| {
        let world = World {
            store: store.clone(),
            clock: clock.clone(),
            ..World::new()
        };
        foreign(&world, Status::InProgress);
        async { Recorded("canary-data") }
    };
    let consumer = world.consumer(consumer::<Order>().key(id).handler(losing));
    world.invoke(&consumer, [order("a")]).await;
}

async fn unknown_status() {
    let world = World::new();
    foreign(&world, Status::Unknown("PAUSED\n".to_owned()));
    world.invoke(&world.recording(), [order("a")]).await;
}

const KINDS: [StoreErrorKind; 8] = [
    StoreErrorKind::AccessDenied,
    StoreErrorKind::NoCredentials,
    StoreErrorKind::TableNotFound,
    StoreErrorKind::KeySchema,
    StoreErrorKind::Throttled,
    StoreErrorKind::Unanswered,
    StoreErrorKind::BadItem,
    StoreErrorKind::Other,
];

async fn store_fails() {
    for kind in KINDS {
        for call in ["claim", "settle"] {
            let world = World::new();
            world.store.fail(call, kind, usize::MAX);
            world
                .invoke(&world.recording(), [order("a"), order("b")])
                .await;
            world.invoke(&world.failing(own_words), [order("c")]).await;
        }
    }
}

async fn store_at_the_start() {
    for kind in KINDS {
        let world = World::new();
        world.store.fail("read", kind, usize::MAX);
        world.recording().init().await.unwrap();
    }
}

async fn deadline() {
    let world = World::new();
    let slow = async |_: Order, remaining: Remaining| sleep(remaining.duration() * 2).await;
    let consumer = world
        .consumer(consumer::<Order>().key(id).handler(slow))
        .concurrency(1);
    world.invoke(&consumer, [order("a"), order("b")]).await;
}

async fn record_timeout() {
    let world = World::new();
    let slow = async |_: Order| sleep(Duration::from_secs(20)).await;
    let consumer = world.consumer(consumer::<Order>().key(id).handler(slow));
    world
        .invoke(
            &consumer.record_timeout(Duration::from_secs(1)),
            [order("a")],
        )
        .await;
}

async fn hooks_fail() {
    let world = World::new();
    let refuse = async |_| Err(own_words());
    for consumer in [world.recording(), world.failing(own_words)] {
        let consumer = consumer
            .on_success(refuse)
            .on_duplicate(refuse)
            .on_failure(refuse);
        world.invoke(&consumer, [order("a")]).await;
        world.invoke(&consumer, [order("a")]).await;
    }
}

async fn fifo() {
    for failure in [FifoFailure::ReturnGroup, FifoFailure::ReturnBatch] {
        let world = World {
            is_fifo: true,
            ..World::new()
        };
        let consumer = world.failing(own_words).fifo(failure);
        world
            .invoke(&consumer, [order("a"), order("b"), order("c")])
            .await;
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
    let bodies = || ["a", "b", "c", "d", "a"].map(order);
    world
        .invoke(&world.consumer(keyed().batch_handler(mixed)), bodies())
        .await;
    let failing = async |_: Batch<Order>| Err::<sqs_once::BatchOutcome, _>(own_words());
    world
        .invoke(&world.consumer(keyed().batch_handler(failing)), bodies())
        .await;
}

/// A write that holds secrets.
pub(crate) fn update() -> Update {
    let update = Update::builder()
        .table_name("stock")
        .key("article", AttributeValue::S("canary-article".to_owned()))
        .update_expression("SET card = :card")
        .expression_attribute_values(":card", AttributeValue::S("canary-card".to_owned()));
    update.build().unwrap()
}

async fn writes() {
    let world = World::new();
    for mode in [Mode::Transactional, Mode::ClaimFirst] {
        let rules: [fn() -> Disposition; 2] =
            [|| Disposition::Terminal, || panic!("the rule's own words")];
        for rule in rules {
            let writing = move |_: Order| async move {
                let writes = Writes::new()
                    .update(update())
                    .recording(&"canary-data")
                    .on_conflict(0, move |conflict| {
                        println!("{conflict:?}");
                        rule()
                    });
                println!("{writes:?}");
                writes
            };
            let consumer = world
                .consumer(consumer::<Order>().key(id).handler(writing))
                .mode(mode);
            world.store.fail_condition(0, 1);
            for _ in 0..3 {
                world.invoke(&consumer, [order("a"), order("a")]).await;
            }
        }
    }
}

async fn writes_that_cannot_be() {
    let world = World::new();
    let not_an_item = async |_: Order| -> Result<Writes, HandlerError> {
        Ok(Writes::new()
            .put("orders", &"canary-item")
            .inspect_err(crate::world::show)
            .terminal()?)
    };
    let twice = async |_: Order| Writes::new().update(update()).update(update());
    for consumer in [
        consumer::<Order>().key(id).handler(not_an_item),
        consumer::<Order>().key(id).handler(twice),
    ] {
        world.invoke(&world.consumer(consumer), [order("a")]).await;
    }
}

async fn transaction() {
    for kind in KINDS {
        let world = World::new();
        let database = Database::beside(&world.store);
        let turn = crate::support::database::Turn::Fail(kind);
        database.begins([turn.clone()]);
        database.commits([turn]);
        let working = async |_: Order, ledger: Ledger| ledger.write("canary-effect");
        let consumer = world
            .consumer(consumer::<Order>().key(id).handler(working))
            .store(database);
        for _ in 0..3 {
            world.invoke(&consumer, [order("a"), order("b")]).await;
        }
    }
}

async fn recorded_after() {
    let world = World::new();
    let consumer = world.recording().mode(Mode::RecordAfter);
    for _ in 0..2 {
        world.invoke(&consumer, [order("a")]).await;
    }
}

async fn invalid_events() {
    let world = World::new();
    let mut unnamed = record(0, &order("a"));
    unnamed["messageId"] = json!(null);
    let timeout = Duration::from_secs(30);
    world
        .invoke_with(&world.recording(), json!({ "Records": [unnamed] }), timeout)
        .await;
    let event = json!({ "Records": [record(0, &order("a"))] });
    world
        .invoke_with(&world.recording(), event, Duration::ZERO)
        .await;
}

async fn cannot_start() {
    let consumer = consumer::<Order>()
        .key(id)
        .handler(async |_: Order| {})
        .namespace("test");
    let error = sqs_once::run(consumer).await.unwrap_err();
    println!("{error} {error:?}");
}
