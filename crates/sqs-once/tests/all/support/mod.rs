//! Shared by the tests of consumers, in addition to `sqs_once::testing`: events of every kind, a record of each
//! request, and outcomes from the log.

pub(crate) mod database;
pub(crate) mod dynamodb;
pub(crate) mod envelope_bench;
pub(crate) mod process;
pub(crate) mod sqs;
pub(crate) mod wire;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use futures_util::future::BoxFuture;
use lambda_runtime::{Context, LambdaEvent};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sqs_once::key::ItemId;
use sqs_once::key::KeyExtractor;
use sqs_once::store::Store;
use sqs_once::store::{
    AtomicWrites, Claim, Claimed, Committed, Item, Settled, Settlement, StoreError, StoreErrorKind,
    StoreFuture,
};
use sqs_once::testing::TestSettings;
use sqs_once::testing::{self, Operation, TestClock};
use sqs_once::time::Clock;
use sqs_once::{Consumer, EventError, MemoryStore, Writes, consumer};
use tower_service::Service;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;

pub(crate) const STANDARD: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";
pub(crate) const FIFO: &str = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo";

/// The payload of most tests.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) total: u64,
}

/// The orders that a handler received.
pub(crate) type Seen = Arc<Mutex<Vec<String>>>;

/// A consumer that records its orders.
pub(crate) fn noting(bench: &Bench) -> (Consumer, Seen) {
    let seen = Seen::default();
    let noting = {
        let seen = Arc::clone(&seen);
        sqs_once::consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |order: Order| {
                seen.lock().unwrap().push(order.id);
                async {}
            })
    };
    (bench.consumer(noting), seen)
}

/// The outcome and the reason of each record, in the batch's order. The payload type has no fields, so only the message
/// can contain the key.
pub(crate) async fn handled(
    key: impl KeyExtractor<IgnoredAny>,
    records: impl IntoIterator<Item = Value>,
) -> Vec<(String, String)> {
    let bench = Bench::new();
    let keyed = consumer::<IgnoredAny>()
        .key(key)
        .handler(async |_: IgnoredAny| {});
    bench.invoke(&bench.consumer(keyed), event(records)).await;
    let mut lines = bench.log.take("sqs_once::record");
    lines.sort_by_key(|line| line["message_id"][2..].parse::<usize>().unwrap());
    let told = lines.into_iter().map(|mut line| {
        let reason = line.remove("reason").unwrap_or_default();
        (line.remove("outcome").unwrap(), reason)
    });
    told.collect()
}

/// The outcomes in a result of [`handled`].
pub(crate) fn names(told: &[(String, String)]) -> Vec<&str> {
    told.iter().map(|(outcome, _)| outcome.as_str()).collect()
}

/// A record whose message ID is `m-` and its index in the batch.
pub(crate) fn order(id: &str) -> Value {
    body(&json!({ "id": id }).to_string())
}

pub(crate) fn body(body: &str) -> Value {
    json!({ "body": body })
}

/// A record of a FIFO queue.
pub(crate) fn grouped(group: &str, id: &str) -> Value {
    let mut record = order(id);
    record["attributes"] = json!({ "MessageGroupId": group });
    record["eventSourceARN"] = json!(FIFO);
    record
}

pub(crate) fn event(records: impl IntoIterator<Item = Value>) -> Value {
    let records = records.into_iter().enumerate().map(|(at, mut record)| {
        let fields = record.as_object_mut().unwrap();
        fields
            .entry("messageId")
            .or_insert(json!(format!("m-{at}")));
        fields.entry("eventSourceARN").or_insert(json!(STANDARD));
        fields.entry("receiptHandle").or_insert(json!("handle"));
        record
    });
    json!({ "Records": records.collect::<Vec<_>>() })
}

/// A consumer under test with its own clock.
pub(crate) struct Bench {
    pub(crate) store: TestStore,
    pub(crate) clock: TestClock,
    pub(crate) log: Log,
    pub(crate) timeout: Duration,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self {
            store: TestStore::default(),
            clock: TestClock::new(),
            log: Log::capture(),
            timeout: Duration::from_secs(30),
        }
    }

    /// Configures a consumer for this bench.
    pub(crate) fn consumer<P>(&self, consumer: Consumer<P>) -> Consumer<P> {
        consumer
            .namespace("test")
            .store(self.store.clone())
            .clock(self.clock.clone())
    }

    /// Invokes the consumer as Lambda does. Returns the message IDs of the batch item failures.
    pub(crate) async fn invoke(&self, consumer: &Consumer, event: Value) -> Vec<String> {
        failures(&self.try_invoke(consumer, event).await.unwrap())
    }

    pub(crate) async fn try_invoke(
        &self,
        consumer: &Consumer,
        event: Value,
    ) -> Result<SqsBatchResponse, EventError> {
        let event: SqsEvent = serde_json::from_value(event).unwrap();
        let mut context = Context::default();
        context.deadline = (self.clock.now() + self.timeout).as_millis();
        consumer
            .clone()
            .call(LambdaEvent::new(event, context))
            .await
    }

    /// Removes and returns the outcomes of the last batches, by message ID.
    pub(crate) fn outcomes(&self) -> Vec<(String, String)> {
        let lines = self.log.take("sqs_once::record");
        let pick = |line: &Line, name: &str| line.get(name).cloned().unwrap_or_default();
        let outcomes = lines.iter();
        let mut outcomes: Vec<_> = outcomes
            .map(|line| (pick(line, "message_id"), pick(line, "outcome")))
            .collect();
        outcomes.sort();
        outcomes
    }
}

pub(crate) fn failures(response: &SqsBatchResponse) -> Vec<String> {
    let failures = response.batch_item_failures.iter();
    failures
        .map(|failure| failure.item_identifier.clone())
        .collect()
}

pub(crate) fn outcomes<const N: usize>(expected: [(&str, &str); N]) -> Vec<(String, String)> {
    let expected = expected.map(|(id, outcome)| (id.to_owned(), outcome.to_owned()));
    expected.to_vec()
}

/// The test kit's store with a record of each request.
#[derive(Clone)]
pub(crate) struct TestStore {
    pub(crate) inner: MemoryStore,
    kit: testing::TestStore,
    calls: Arc<Mutex<Vec<(&'static str, usize)>>>,
    commits: Arc<Mutex<Vec<Settlement>>>,
}

impl Default for TestStore {
    fn default() -> Self {
        let kit = testing::TestStore::default();
        Self {
            inner: kit.memory().clone(),
            kit,
            calls: Arc::default(),
            commits: Arc::default(),
        }
    }
}

impl TestStore {
    /// Makes the next `times` calls of `claim`, `settle`, `commit` or `read` fail.
    pub(crate) fn fail(&self, call: &'static str, kind: StoreErrorKind, times: usize) {
        for operation in operations(call) {
            self.kit.fail(*operation, kind, times);
        }
    }

    /// Makes the next `times` calls lose their answer.
    pub(crate) fn lose_answer(&self, call: &'static str, times: usize) {
        for operation in operations(call) {
            self.kit.lose_answers(*operation, times);
        }
    }

    /// Makes the condition of this write fail in the next `times` commits.
    pub(crate) fn fail_condition(&self, write: usize, times: usize) {
        self.kit.fail_condition(write, times);
    }

    /// The tables of the committed writes, in order.
    pub(crate) fn written(&self) -> Vec<String> {
        let writes = self.kit.writes().into_iter();
        let tables = writes.map(|write| write.update().unwrap().table_name().to_owned());
        tables.collect()
    }

    /// The commits requested since the previous call.
    pub(crate) fn take_commits(&self) -> Vec<Settlement> {
        std::mem::take(&mut self.commits.lock().unwrap())
    }

    pub(crate) fn item(&self, id: &str) -> Option<Item> {
        let key = sqs_once::BusinessKey::new(id).unwrap();
        self.inner.get(&item_id(&key))
    }

    /// The requests since the previous call, as (call, entries).
    pub(crate) fn take_calls(&self) -> Vec<(&'static str, usize)> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    pub(crate) fn note(&self, call: &'static str, entries: usize) {
        self.calls.lock().unwrap().push((call, entries));
    }
}

fn operations(call: &str) -> &'static [Operation] {
    match call {
        "claim" => &[Operation::Claim],
        "settle" | "commit" => &[Operation::Complete, Operation::Release],
        "read" => &[Operation::Read],
        _ => panic!("the store has no call {call:?}"),
    }
}

pub(crate) fn item_id(key: &sqs_once::BusinessKey) -> ItemId {
    sqs_once::key::Namespace::new("test").unwrap().item_id(key)
}

impl Store for TestStore {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        self.note("claim", claims.len());
        self.kit.claim(claims)
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.note("settle", settlements.len());
        self.kit.settle(settlements)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.note("read", ids.len());
        self.kit.read(ids)
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
}

impl AtomicWrites for TestStore {
    fn commit<'a>(
        &'a self,
        settlement: &'a Settlement,
        writes: &'a Writes,
    ) -> BoxFuture<'a, Result<Committed, StoreError>> {
        self.note("commit", writes.len());
        self.commits.lock().unwrap().push(settlement.clone());
        AtomicWrites::commit(&self.kit, settlement, writes)
    }
}

pub(crate) type Line = HashMap<String, String>;

/// The log lines of this thread.
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    _guard: DefaultGuard,
}

impl Log {
    pub(crate) fn capture() -> Self {
        // With only one subscriber, the first thread that reaches a line decides for all threads whether the line is
        // enabled. A test without a log must not disable it.
        static EVERYWHERE: Once = Once::new();
        EVERYWHERE.call_once(|| {
            let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        });
        let lines = Arc::new(Mutex::new(Vec::new()));
        let layer = Capture(Arc::clone(&lines));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        Self {
            lines,
            _guard: guard,
        }
    }

    /// Removes and returns the lines of one target.
    pub(crate) fn take(&self, target: &str) -> Vec<Line> {
        let mut lines = self.lines.lock().unwrap();
        lines
            .extract_if(.., |line| line["target"] == target)
            .collect()
    }

    pub(crate) fn all(&self) -> String {
        format!("{:?}", self.lines.lock().unwrap())
    }
}

struct Capture(Arc<Mutex<Vec<Line>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let mut fields = Fields(Line::new());
        event.record(&mut fields);
        let mut line = fields.0;
        line.insert("target".to_owned(), event.metadata().target().to_owned());
        line.insert("level".to_owned(), event.metadata().level().to_string());
        self.0.lock().unwrap().push(line);
    }
}

struct Fields(Line);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
