//! Shared by the tests of consumers, in addition to `sqs_once::testing`: events of every kind, a record of each
//! request, and outcomes from the log.

pub(crate) mod database;
pub(crate) mod dynamodb;
pub(crate) mod envelope_bench;
mod log;
mod notes;
pub(crate) mod process;
pub(crate) mod s3;
pub(crate) mod sqs;
pub(crate) mod stores;

use std::ops::Deref;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsBatchResponse;
use lambda_runtime::{Context, LambdaEvent};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqs_once::body::{DecodeError, Envelope, Opened};
use sqs_once::consumer::{EventError, Keyed, Named, One, Runnable, Together};
use sqs_once::extract::Message;
use sqs_once::handler::{BatchHandlerFn, HandlerFn, RecordAfter};
use sqs_once::key::{ItemId, KeyExtractor, MessageKey, Namespace};
use sqs_once::store::{Item, MemoryStore, Owner, Status, Timestamp};
use sqs_once::testing::{self, Answer, Event, Record, TestClock};
use sqs_once::unstable::{Clock, Random};
use sqs_once::{
    Batch, BatchOutcome, BusinessKey, Consumer, Handler, HandlerError, Idempotency, ResultExt,
};
use tokio::sync::Notify;
use tokio::time::sleep;
use tower_service::Service;

use crate::no_secrets;

pub(crate) const STANDARD: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";
pub(crate) const FIFO: &str = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo";
pub(crate) const DLQ: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dlq";
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The payload of most tests.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) total: u64,
}

impl Order {
    /// Ends as the order's ID requests: `bad…` fail, `after-N` fail and request N seconds, `hopeless…` are terminal,
    /// `panic…` panic, `slow…` never end, and `brief…` take a second. The others succeed.
    pub(crate) async fn obey(&self) -> Result<(), HandlerError> {
        if let Some(secs) = self.id.strip_prefix("after-") {
            let delay = Duration::try_from_secs_f64(secs.parse()?);
            Err("no luck").retry_after(delay.unwrap_or(Duration::MAX))?;
        }
        match self.id.split(|c: char| !c.is_ascii_alphabetic()).next() {
            Some("bad") => Err("no luck")?,
            Some("hopeless") => Err("no use").terminal()?,
            Some("panic") => panic!("what a surprise"),
            Some("slow") => sleep(Duration::MAX).await,
            Some("brief") => sleep(SECOND).await,
            _ => {}
        }
        Ok(())
    }
}

/// Asserts that a text contains these parts.
macro_rules! assert_contains {
    ($text:expr, $($part:expr),+) => {{
        let text: &str = &$text;
        $(assert!(text.contains($part), "{text}");)+
    }};
}

/// Asserts that a text contains none of these parts.
macro_rules! assert_lacks {
    ($text:expr, $($part:expr),+) => {{
        let text: &str = &$text;
        $(assert!(!text.contains($part), "{text}");)+
    }};
}

pub(crate) use log::{Line, Log};
pub(crate) use network_for_tests::{self as wire, Turns};
pub(crate) use notes::{AtOnce, Counted, Noted, Notes, Seen};
pub(crate) use stores::TestStore;
pub(crate) use {assert_contains, assert_lacks};

/// `it` with this setting, or with its default.
pub(crate) fn set<S, V>(it: S, value: Option<V>, setter: fn(S, V) -> S) -> S {
    match value {
        Some(value) => setter(it, value),
        None => it,
    }
}

type Id<T, K> = fn(&T) -> K;

/// Starts a handler of orders by their ID.
pub(crate) fn orders() -> Keyed<Order, Id<Order, String>> {
    no_secrets::watch::everywhere();
    let id: Id<Order, String> = |order| order.id.clone();
    Handler::json().key(id)
}

/// Starts a handler of any JSON by its `id`.
pub(crate) fn values() -> Keyed<Value, Id<Value, Option<String>>> {
    no_secrets::watch::everywhere();
    let id: Id<Value, Option<String>> = |order| order["id"].as_str().map(str::to_owned);
    Handler::json().key(id)
}

/// Ends as the order's field `does` requests.
pub(crate) async fn pay(order: Value) -> Result<(), HandlerError> {
    match order["does"].as_str() {
        Some("fail") => Err("declined")?,
        Some("refuse") => Err("no such card").terminal()?,
        Some("panic") => panic!("a handler's own"),
        Some("call") => tracing::info_span!("call the bank").in_scope(|| {}),
        _ => {}
    }
    Ok(())
}

/// The IDs of this many orders.
pub(crate) fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|at| format!("k{at}"))
}

/// Starts a handler of any message by its ID.
pub(crate) fn messages() -> Keyed<IgnoredAny, MessageKey> {
    no_secrets::watch::everywhere();
    Handler::json().key(MessageKey::message_id())
}

/// An event with one record, whose body has only this `id`.
pub(crate) fn one(id: &str) -> Event {
    several([id])
}

/// An event with a record for each `id`, whose body has nothing else.
pub(crate) fn several(ids: impl IntoIterator<Item: Serialize>) -> Event {
    no_secrets::watch::everywhere();
    let records = ids.into_iter().map(|id| Record::json(&json!({ "id": id })));
    Event::new(records)
}

/// Its drop panics.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("not now");
    }
}

pub(crate) struct Fixed(pub(crate) u128);

impl Random for Fixed {
    fn bits(&self) -> u128 {
        self.0
    }
}

/// A handler of [`values`] that signals its start, and waits for a signal to continue.
pub(crate) fn held() -> (Handler, Arc<Notify>, Arc<Notify>) {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signals = (Arc::clone(&begun), Arc::clone(&go_on));
    let handler = values().call(move |_: Value| {
        signals.0.notify_one();
        let go_on = Arc::clone(&signals.1);
        async move { go_on.notified().await }
    });
    (handler, begun, go_on)
}

/// Blocking code, and the sender that ends it.
pub(crate) fn gate() -> (Sender<()>, impl Fn() + Clone + Send + Sync + 'static) {
    let (tell, told) = channel();
    let told = Arc::new(Mutex::new(told));
    (tell, move || {
        // Only a failing test waits so long.
        let _ = told.lock().unwrap().recv_timeout(60 * SECOND);
    })
}

pub(crate) struct OpenedBy(pub(crate) fn(&str) -> Result<Opened, DecodeError>);

impl Envelope for OpenedBy {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
        self.0(content)
    }
}

/// A clock that shows these milliseconds.
pub(crate) struct At(pub(crate) u64);

impl Clock for At {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0)
    }
}

pub(crate) fn handling<X: 'static>(handler: impl HandlerFn<Order, (), X>) -> Tested {
    Bench::new().on(orders().call(handler))
}

pub(crate) fn handling_batches<X: 'static>(
    handler: impl BatchHandlerFn<Order, (), X>,
) -> Tested<Together> {
    Bench::new().on(orders().call_batch(handler))
}

/// A consumer that notes its orders, and ends as they request.
pub(crate) fn noting() -> (Tested, Seen) {
    noting_in(Mode::ClaimFirst)
}

pub(crate) fn noting_in(mode: Mode) -> (Tested, Seen) {
    let (seen, notes) = Seen::pair();
    let handler = mode.call(orders(), obeying(notes));
    (Bench::new().on(handler), seen)
}

/// The modes of a handler whose effect does not commit with the completion of its key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    ClaimFirst,
    RecordAfter,
}

impl Mode {
    pub(crate) const BOTH: [Self; 2] = [Self::ClaimFirst, Self::RecordAfter];

    pub(crate) fn call<T, K, X>(
        self,
        keyed: Keyed<T, K>,
        function: impl HandlerFn<T, (), X>,
    ) -> Handler
    where
        T: Send + 'static,
        K: KeyExtractor<T>,
        X: 'static,
    {
        match self {
            Self::ClaimFirst => keyed.call(function),
            Self::RecordAfter => keyed.call(RecordAfter(function)),
        }
    }
}

/// A function that notes its orders, and ends as they request.
fn obeying(notes: Seen) -> impl HandlerFn<Order, (), ()> {
    move |order: Order| {
        notes.add(order.id.clone());
        async move { order.obey().await }
    }
}

/// The start and the orders of each call of a batch handler.
pub(crate) type Calls = Notes<(Duration, Vec<String>)>;

impl Calls {
    /// Removes and returns the orders of each call.
    pub(crate) fn ids(&self) -> Vec<Vec<String>> {
        self.take().into_iter().map(|(_, ids)| ids).collect()
    }
}

/// Ends each record as its order requests: `bad…` fail, `hopeless…` are terminal, and `unsaid…` are not reported. The
/// others succeed.
pub(crate) fn outcome(orders: &Batch<Order>) -> BatchOutcome {
    let mut outcome = orders.outcome();
    for record in orders {
        match record.payload().id.split('-').next() {
            Some("bad") => outcome.failed(record, "no luck"),
            Some("hopeless") => outcome.failed(record, HandlerError::terminal("no use")),
            Some("unsaid") => {}
            _ => outcome.succeeded(record),
        }
    }
    outcome
}

/// Delivers records of every end, and asserts that each ends as [`outcome`] says.
pub(crate) async fn assert_ends_as_said(bench: &Tested<Together>, success: &str) {
    let batch = ["a", "bad-1", "hopeless-1", "unsaid-1", "b"];
    assert_eq!(bench.run(batch).await, ["m-1", "m-2", "m-3"]);
    let expected = [
        (success, ""),
        ("failed", "no luck"),
        ("terminal", "no use"),
        ("failed", "the batch handler did not say that it succeeded"),
        (success, ""),
    ];
    assert_eq!(told(&ends(bench.lines())), expected);
}

pub(crate) fn ids(orders: &Batch<Order>) -> Vec<String> {
    orders.payloads().map(|order| order.id.clone()).collect()
}

/// A consumer whose batch handler notes its calls, each of which takes `time`, and ends each record as its order
/// requests.
pub(crate) fn noting_batches(time: Duration) -> (Tested<Together>, Calls) {
    let bench = Bench::new();
    let calls = Calls::default();
    let (notes, clock) = (calls.clone(), bench.clock.clone());
    let begun = clock.now();
    let consumer = orders().call_batch(move |orders: Batch<Order>| {
        notes.add((clock.now().since(begun), ids(&orders)));
        async move {
            if !time.is_zero() {
                sleep(time).await;
            }
            outcome(&orders)
        }
    });
    (bench.on(consumer), calls)
}

pub(crate) async fn refusal(runs: impl Runnable) -> String {
    let consumer = Consumer::new(runs).store(MemoryStore::new());
    consumer.init().await.unwrap_err().to_string()
}

/// A record whose order and message have this ID.
pub(crate) fn named(id: impl AsRef<str>) -> Record {
    let id = id.as_ref();
    Record::json(&json!({ "id": id })).message_id(id)
}

/// The item of a claim that has lapsed, of another worker or library.
pub(crate) fn lapsed(id: ItemId) -> Item {
    let mut item = Item::new(id, Status::InProgress);
    item.lease_until = Some(Timestamp::from_secs(1));
    item
}

/// Handles records by this key. The payload type has no fields, so only the message can contain the key.
pub(crate) async fn handled<R: Into<Record>>(
    key: impl KeyExtractor<IgnoredAny>,
    records: impl IntoIterator<Item = R>,
) -> Answer {
    no_secrets::watch::everywhere();
    let keyed = Handler::json().key(key).call(async |_: IgnoredAny| {});
    testing::Bench::new(keyed).run(Event::new(records)).await
}

/// The outcome in each record's line, and the code if it has one.
pub(crate) fn codes(lines: &[Line]) -> String {
    let ends = lines.iter().map(|line| match line.get("code") {
        Some(code) => format!("{}: {code}", line["outcome"]),
        None => line["outcome"].clone(),
    });
    ends.collect::<Vec<_>>().join(", ")
}

/// The outcome and the reason in each record's line.
pub(crate) fn ends(lines: Vec<Line>) -> Vec<(String, String)> {
    let ends = lines.into_iter().map(|mut line| {
        let reason = line.remove("reason").unwrap_or_default();
        (line.remove("outcome").unwrap(), reason)
    });
    ends.collect()
}

pub(crate) fn names(told: &[(String, String)]) -> Vec<&str> {
    told.iter().map(|(outcome, _)| outcome.as_str()).collect()
}

/// A result of [`ends`], to be compared.
pub(crate) fn told(ends: &[(String, String)]) -> Vec<(&str, &str)> {
    let told = ends.iter().map(|(outcome, reason)| (&**outcome, &**reason));
    told.collect()
}

/// A record, or the ID of an order.
fn record(record: impl Into<Value>) -> Value {
    match record.into() {
        Value::String(id) => order(&id),
        record => record,
    }
}

/// A record whose message ID is `m-` and its index in the batch.
pub(crate) fn order(id: &str) -> Value {
    json_body(&json!({ "id": id }))
}

pub(crate) fn body(body: &str) -> Value {
    json!({ "body": body })
}

pub(crate) fn json_body(body: &Value) -> Value {
    json!({ "body": body.to_string() })
}

pub(crate) fn grouped(group: &str, id: &str) -> Value {
    in_group(group, order(id))
}

/// Records of a FIFO queue, each as its group and its order's ID: `a/o-1`. The body of the ID `x` is not JSON.
pub(crate) fn in_groups(records: &str) -> Vec<Value> {
    let records = records.split(' ').map(|record| {
        let (group, id) = record.split_once('/').unwrap();
        in_group(group, if id == "x" { body("{") } else { order(id) })
    });
    records.collect()
}

/// The record in a group of a FIFO queue.
pub(crate) fn in_group(group: &str, record: Value) -> Value {
    let attributes = json!({ "MessageGroupId": group });
    let fields = json!({ "attributes": attributes, "eventSourceARN": FIFO });
    with(record, fields)
}

pub(crate) fn with(mut record: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else {
        panic!("{fields} are no fields")
    };
    record.as_object_mut().unwrap().extend(fields);
    record
}

pub(crate) fn with_attribute(mut record: Value, name: &str, value: &str) -> Value {
    record["messageAttributes"][name] = json!({ "dataType": "String", "stringValue": value });
    record
}

fn event(records: impl IntoIterator<Item: Into<Value>>) -> Value {
    let records = records.into_iter().enumerate().map(|(at, one)| {
        let defaults = json!({
            "messageId": format!("m-{at}"), "eventSourceARN": STANDARD, "receiptHandle": format!("receipt-handle-of-m-{at}"),
            "attributes": { "SentTimestamp": "1790000000000" },
        });
        with(defaults, record(one))
    });
    json!({ "Records": records.collect::<Vec<_>>() })
}

pub(crate) fn in_simulated_time<T>(run: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(run)
}

/// Runs this on two real threads, and waits for everything that still runs then.
pub(crate) fn on_two_threads<T>(run: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run)
}

pub(crate) fn until(deadline: Timestamp) -> Context {
    let mut context = Context::default();
    context.deadline = deadline.as_millis();
    context
}

/// Invokes a consumer as Lambda does, in real time. The default deadline is in 20 seconds.
pub(crate) async fn invoke(
    consumer: &Consumer,
    event: &Event,
    mut context: Context,
) -> SqsBatchResponse {
    if context.deadline == 0 {
        context.deadline = (Timestamp::now() + 20 * SECOND).as_millis();
    }
    let event = LambdaEvent::new(serde_json::from_str(event.as_json()).unwrap(), context);
    consumer.clone().call(event).await.unwrap()
}

pub(crate) async fn deliver_until(
    deadline: u64,
    consumer: &Consumer,
    records: impl IntoIterator<Item: Into<Value>>,
) -> Result<SqsBatchResponse, EventError> {
    let mut context = Context::default();
    context.deadline = deadline;
    let event = serde_json::from_value(event(records)).unwrap();
    let mut consumer = consumer.clone();
    let answer = consumer.call(LambdaEvent::new(event, context)).await;
    let shown = || "an invocation's answer".to_owned();
    no_secrets::watch::look_through(&format!("{answer:?}"), shown);
    answer
}

/// The surroundings of consumers under test, with their own clock.
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
            timeout: 30 * SECOND,
        }
    }

    pub(crate) fn with_timeout(timeout: Duration) -> Self {
        Self {
            timeout,
            ..Self::new()
        }
    }

    pub(crate) fn consumer<Kind: Named>(&self, handler: Handler<Kind>) -> Consumer
    where
        Handler<Kind>: Runnable,
    {
        Consumer::new(handler.namespace("test"))
            .store(self.store.clone())
            .clock(self.clock.clone())
    }

    pub(crate) fn idempotency(&self) -> Idempotency {
        Idempotency::new("test")
            .store(self.store.clone())
            .clock(self.clock.clone())
    }

    pub(crate) fn on<Kind: Named + Clone>(self, handler: Handler<Kind>) -> Tested<Kind>
    where
        Handler<Kind>: Runnable,
    {
        Tested {
            consumer: self.consumer(handler.clone()),
            bench: self,
            handler: Some(handler),
        }
    }

    pub(crate) fn handling<X: 'static>(&self, handler: impl HandlerFn<Order, (), X>) -> Consumer {
        self.consumer(orders().call(handler))
    }

    /// A consumer that notes its orders, and ends as they request.
    pub(crate) fn noting(&self) -> (Consumer, Seen) {
        let (seen, notes) = Seen::pair();
        (self.handling(obeying(notes)), seen)
    }

    /// Delivers a batch to a consumer. Returns the message IDs of the batch item failures.
    pub(crate) async fn deliver(
        &self,
        consumer: &Consumer,
        records: impl IntoIterator<Item: Into<Value>>,
    ) -> Vec<String> {
        let response = self.try_deliver(consumer, records).await;
        failures(&response.unwrap())
    }

    pub(crate) async fn try_deliver(
        &self,
        consumer: &Consumer,
        records: impl IntoIterator<Item: Into<Value>>,
    ) -> Result<SqsBatchResponse, EventError> {
        deliver_until(self.deadline().as_millis(), consumer, records).await
    }

    /// The deadline of an invocation that begins now.
    pub(crate) fn deadline(&self) -> Timestamp {
        self.clock.now() + self.timeout
    }

    /// The time since the first moment of the test.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().since(Timestamp::from_secs(1_790_000_000))
    }

    /// Removes and returns the line of each record of the last batches, in the batch's order.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut lines = self.log.take("sqs_once::record");
        lines.sort_by_key(|line| {
            let id = line["message_id"].clone();
            let number = id.strip_prefix("m-").and_then(|at| at.parse().ok());
            (number.unwrap_or(usize::MAX), id, line["outcome"].clone())
        });
        lines
    }

    /// Removes and returns the only line of a record.
    pub(crate) fn line(&self) -> Line {
        let [line] = self.lines().try_into().unwrap();
        line
    }

    /// Removes the only line of a record, which must have this outcome with its code, and this reason.
    #[track_caller]
    pub(crate) fn assert_ended(&self, end: &str, reason: &str) {
        let line = self.line();
        assert_eq!(line["reason"], reason);
        assert_eq!(codes(&[line]), end);
    }

    /// Removes and returns the outcome and the code in each line of the last batches, in the batch's order.
    pub(crate) fn codes(&self) -> String {
        codes(&self.lines())
    }

    /// Removes and returns the outcomes of the last batches, in the batch's order.
    pub(crate) fn outcomes(&self) -> String {
        let lines = self.lines();
        let outcomes = lines.iter().map(|line| line["outcome"].as_str());
        outcomes.collect::<Vec<_>>().join(" ")
    }

    /// Frees a key, as `cargo sqs-once key forget` does.
    pub(crate) fn forget(&self, id: &str) {
        self.store.change(id, |item| {
            item.status = Status::InProgress;
            item.lease_until = Some(Timestamp::default());
        });
    }

    /// Replaces a key's item with another worker's, whose lease ends after this time.
    pub(crate) fn foreign(&self, id: &str, status: Status, lease: Duration) {
        let mut item = Item::new(item_id(&BusinessKey::new(id).unwrap()), status);
        item.lease_until = Some(self.clock.now() + lease);
        item.expiration = Some(self.clock.now() + 3600 * SECOND);
        item.owner = Some(Owner::from_bits(7));
        self.store.inner.put(item);
    }
}

pub(crate) struct Tested<Kind = One> {
    pub(crate) bench: Bench,
    pub(crate) consumer: Consumer,
    /// The consumer's handler, until the consumer itself is changed.
    handler: Option<Handler<Kind>>,
}

impl<Kind> Deref for Tested<Kind> {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl<Kind: Named + Clone> Tested<Kind>
where
    Handler<Kind>: Runnable,
{
    /// Changes the handler's settings. Call it before [`with_consumer`](Self::with_consumer).
    #[track_caller]
    pub(crate) fn with(self, settings: impl FnOnce(Handler<Kind>) -> Handler<Kind>) -> Self {
        let handler = self
            .handler
            .expect("a handler whose consumer was not changed");
        self.bench.on(settings(handler))
    }

    pub(crate) fn with_consumer(self, settings: impl FnOnce(Consumer) -> Consumer) -> Self {
        Self {
            consumer: settings(self.consumer),
            handler: None,
            ..self
        }
    }

    /// Delivers a batch. Returns the message IDs of the batch item failures.
    pub(crate) async fn run(&self, records: impl IntoIterator<Item: Into<Value>>) -> Vec<String> {
        self.deliver(&self.consumer, records).await
    }
}

pub(crate) fn failures(response: &SqsBatchResponse) -> Vec<String> {
    let failures = response.batch_item_failures.iter();
    let ids = failures.map(|failure| failure.item_identifier.clone());
    ids.collect()
}

pub(crate) fn item_id(key: &BusinessKey) -> ItemId {
    Namespace::new("test").unwrap().item_id(key)
}
