//! Building a consumer, phase by phase: a payload, a key, a handler, its state.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use crate::batch::{self, FifoFailure, InProgress, MissingKey, PayloadMismatch, RecordEnd, Report};
use crate::config::{ConfigError, SHORTEST_RETENTION};
use crate::handler::{
    BatchHandler, Bound, Handler, HandlerError, PrepareRecord, Reader, Stateful, Together,
};
use crate::idempotency::{Cache, Mode};
use crate::key::{Fingerprint, KeyError, KeyPart, Namespace};
use crate::random::Random;
use crate::record::{Decode, Envelope, Json, KeyExtractor, Message};
use crate::store::Store;
use crate::time::{Clock, Timestamp};

use super::settings::{Core, Settings};

/// A consumer that needs a key next: [`Consumer::key`].
pub struct Keyless<T>(Arc<dyn Decode<T>>);

impl<T> std::fmt::Debug for Keyless<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyless").finish_non_exhaustive()
    }
}

/// A consumer that needs its handler next: [`Consumer::handler`].
pub struct Keyed<T, K, S = ()> {
    reader: Reader<T, K>,
    state: S,
}

impl<T, K, S: std::fmt::Debug> std::fmt::Debug for Keyed<T, K, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyed")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// A consumer with its handler. It can run as soon as it needs no more state, that is, when `S` is
/// `()`; until then [`Consumer::state`] gives it.
pub struct Ready<S = ()> {
    handler: Arc<dyn PrepareRecord<S>>,
}

impl<S> Clone for Ready<S> {
    fn clone(&self) -> Self {
        Self {
            handler: Arc::clone(&self.handler),
        }
    }
}

impl<S> std::fmt::Debug for Ready<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ready").finish_non_exhaustive()
    }
}

/// An SQS consumer: gives every record a business key, claims it, runs the handler, records
/// completion, and answers Lambda with exactly the records to retry.
///
/// It is a `tower::Service` for Lambda's SQS events, and `Clone`: [`run`](crate::run) drives it, and so
/// does `lambda_runtime::run_concurrent`. What the code does not set comes from the environment,
/// which is read once, with the first event or by [`Consumer::init`]:
///
/// | setting | variable | default |
/// |---|---|---|
/// | [`store`](Consumer::store) | `SQS_ONCE_TABLE`, a DynamoDB table | none: required |
/// | [`namespace`](Consumer::namespace) | `SQS_ONCE_NAMESPACE` | the crate's name and the handler's, with `#[handler]`: renaming either forgets every key; otherwise none: required |
/// | [`concurrency`](Consumer::concurrency) | `SQS_ONCE_CONCURRENCY` | 10 |
/// | [`retention`](Consumer::retention) | `SQS_ONCE_RETENTION` | `28d` |
/// | [`lease_margin`](Consumer::lease_margin) | `SQS_ONCE_LEASE_MARGIN` | `3s` |
/// | [`deadline_margin`](Consumer::deadline_margin) | `SQS_ONCE_DEADLINE_MARGIN` | `1s`, at most a tenth of the time |
/// | [`mode`](Consumer::mode) | | [`Mode::ClaimFirst`] |
/// | [`cache`](Consumer::cache) | | none: every key is asked of the store |
/// | [`fingerprint`](Consumer::fingerprint) | | the whole body |
/// | [`payload_mismatch`](Consumer::payload_mismatch) | | [`PayloadMismatch::Warn`] |
/// | [`missing_key`](Consumer::missing_key) | | [`MissingKey::Terminal`] |
/// | [`envelope`](Consumer::envelope) | | none: the body is the payload |
/// | [`correlation_id`](Consumer::correlation_id) | | an attribute, else the envelope's id, else the trace: see [`CorrelationId`](crate::CorrelationId) |
/// | [`readable_keys`](Consumer::readable_keys) | | off: the table holds a hash of each key |
/// | `dead_letter_queue` (feature `sqs`) | `SQS_ONCE_DLQ_URL`: where terminal records are sent at once | none: they stay in the queue until its redrive policy moves them |
/// | `after_dead_letter` (feature `sqs`) | | the rest of a FIFO group stops |
/// | [`on_success`](Consumer::on_success), [`on_duplicate`](Consumer::on_duplicate), [`on_failure`](Consumer::on_failure) | | none |
/// | [`raise_on_total_failure`](Consumer::raise_on_total_failure) | | off |
/// | `backoff` (feature `sqs`) | | none: failed records come back when the queue's visibility timeout ends |
/// | `queue_url` (feature `sqs`) | `SQS_ONCE_QUEUE_URL`: the queue, for records that stay away | what the messages' queue ARN says |
/// | | `SQS_ONCE_DISABLED`: `true` bypasses the store, for tests; only duplicates inside a batch are still recognised | `false` |
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::{HandlerError, MemoryStore};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
///
/// let consumer = sqs_once::consumer::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .namespace("payments")
///     .store(MemoryStore::new())
///     .concurrency(16)
///     .handler(charge);
/// ```
#[derive(Clone)]
pub struct Consumer<Phase = Ready> {
    phase: Phase,
    settings: Settings,
    /// What phase and settings come to, once somebody asked; shared by clones, made anew by a change.
    core: Arc<OnceCell<Core>>,
}

/// Starts a consumer of messages whose body is a `T` in JSON.
pub fn consumer<T: DeserializeOwned + Send + 'static>() -> Consumer<Keyless<T>> {
    consumer_with(Json)
}

/// Starts a consumer of messages whose body is what `decoder` reads: [`Text`](crate::Text),
/// [`Bytes`](crate::Bytes), or a [`Decode`] of your own.
///
/// ```
/// use sqs_once::Bytes;
///
/// let consumer = sqs_once::consumer_with(Bytes)
///     .key(|image: &Vec<u8>| image.clone())
///     .handler(async |image: Vec<u8>| {});
/// ```
pub fn consumer_with<T: Send + 'static>(decoder: impl Decode<T>) -> Consumer<Keyless<T>> {
    Consumer {
        phase: Keyless(Arc::new(decoder)),
        settings: Settings::default(),
        core: Arc::default(),
    }
}

impl<T> Consumer<Keyless<T>> {
    /// Sets what makes two messages the same event: a function of the payload, or another
    /// [`KeyExtractor`].
    ///
    /// There is no default. The message id would be a wrong one: a message that is sent again, or
    /// comes back from a dead-letter queue, has a new one.
    pub fn key<K: KeyExtractor<T>>(self, key: K) -> Consumer<Keyed<T, K>> {
        self.into_phase(|Keyless(decoder)| Keyed {
            reader: Reader::new(decoder, key),
            state: (),
        })
    }
}

impl<T, K, S> Consumer<Keyed<T, K, S>>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    /// Sets which part of the payload tells two messages with one key apart: anything that can be a
    /// key, and `None` and empty text besides. Default: the whole body. What becomes of a message that
    /// differs is set by [`Consumer::payload_mismatch`]; a function that fails or panics makes its record
    /// terminal.
    ///
    /// For payloads with fields that change from one copy of an event to the next, such as the time of
    /// sending. Events that were completed under another choice differ from their duplicates until
    /// their retention ends.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)]
    /// # struct OrderPlaced { order_id: String, amount_cents: u64, currency: Option<String> }
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .fingerprint(|order: &OrderPlaced| (order.amount_cents, order.currency.clone()))
    ///     .handler(async |_order: OrderPlaced| {});
    /// ```
    #[must_use]
    pub fn fingerprint<F, P>(self, part: F) -> Self
    where
        F: Fn(&T) -> P + Send + Sync + 'static,
        P: KeyPart,
    {
        self.fingerprint_with(move |payload| Fingerprint::of(&part(payload)))
    }

    /// As [`fingerprint`](Self::fingerprint), for a part that borrows from its payload.
    #[doc(hidden)]
    #[must_use]
    pub fn fingerprint_with<F>(self, take: F) -> Self
    where
        F: Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync + 'static,
    {
        self.into_phase(|keyed| Keyed {
            reader: keyed.reader.with_fingerprint(take),
            ..keyed
        })
    }

    /// Gives the handler's [`State`](crate::State) extractor its value.
    pub fn state<S2>(self, state: S2) -> Consumer<Keyed<T, K, S2>> {
        self.into_phase(|keyed| Keyed {
            reader: keyed.reader,
            state,
        })
    }

    /// Sets the handler.
    pub fn handler<H, X>(self, handler: H) -> Consumer
    where
        S: Clone + Send + Sync + 'static,
        H: Handler<T, S, X>,
        X: 'static,
    {
        self.into_phase(|keyed| {
            let bound = Bound::<T, K, H, X>::new(keyed.reader, handler);
            ready(Arc::new(Stateful {
                inner: Arc::new(bound) as Arc<dyn PrepareRecord<S>>,
                state: keyed.state,
            }))
        })
    }

    /// Sets a handler whose state comes later.
    #[doc(hidden)]
    pub fn handler_with_state<S2, H, X>(self, handler: H) -> Consumer<Ready<S2>>
    where
        H: Handler<T, S2, X>,
        X: 'static,
    {
        self.into_phase(|keyed| {
            let bound = Bound::<T, K, H, X>::new(keyed.reader, handler);
            ready(Arc::new(bound))
        })
    }
}

/// A handler that gets all records of a batch in one call.
impl<T, K, S> Consumer<Keyed<T, K, S>>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    /// Sets a handler that gets all records of a batch in one call: see [`BatchHandler`].
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use sqs_once::Batch;
    ///
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .batch_handler(async |orders: Batch<OrderPlaced>| orders.all_succeeded());
    /// ```
    pub fn batch_handler<H, X>(self, handler: H) -> Consumer
    where
        S: Clone + Send + Sync + 'static,
        H: BatchHandler<T, S, X>,
        X: 'static,
    {
        self.into_phase(|keyed| {
            let bound = Bound::<T, K, H, X>::new(keyed.reader, handler);
            ready(Arc::new(Stateful {
                inner: Arc::new(Together(bound)) as Arc<dyn PrepareRecord<S>>,
                state: keyed.state,
            }))
        })
    }

    /// Sets a batch handler whose state comes later.
    #[doc(hidden)]
    pub fn batch_handler_with_state<S2, H, X>(self, handler: H) -> Consumer<Ready<S2>>
    where
        H: BatchHandler<T, S2, X>,
        S2: 'static,
        X: 'static,
    {
        self.into_phase(|keyed| {
            let bound = Bound::<T, K, H, X>::new(keyed.reader, handler);
            ready(Arc::new(Together(bound)))
        })
    }
}

fn ready<S>(handler: Arc<dyn PrepareRecord<S>>) -> Ready<S> {
    Ready { handler }
}

impl<S: Clone + Send + Sync + 'static> Consumer<Ready<S>> {
    /// Gives the handler's [`State`](crate::State) extractor its value.
    pub fn state(self, state: S) -> Consumer {
        self.into_phase(|Ready { handler, .. }| {
            ready(Arc::new(Stateful {
                inner: handler,
                state,
            }))
        })
    }
}

impl Consumer {
    /// Reads the environment and connects the store, unless that was done already.
    ///
    /// # Errors
    /// [`ConfigError`] when a setting is missing or malformed.
    pub async fn init(&self) -> Result<(), ConfigError> {
        self.core().await.map(|_| ())
    }

    /// Handles a batch; `ends_at` is when Lambda ends the invocation.
    pub(crate) async fn process(
        &self,
        messages: Vec<Message>,
        ends_at: Timestamp,
    ) -> Result<Vec<Report>, ConfigError> {
        let core = self.core().await?;
        if self.settings.envelope.is_none() && self.settings.correlate.is_none() {
            // So that records which are never taken up have it in their line as well.
            messages.iter().for_each(|message| message.correlate(None));
        }
        let deadline = core.deadline(ends_at);
        Ok(batch::run(Arc::clone(&core.engine), messages, deadline).await)
    }

    pub(super) async fn core(&self) -> Result<&Core, ConfigError> {
        let resolve = || self.settings.resolve(Arc::clone(&self.phase.handler));
        self.core.get_or_try_init(resolve).await
    }
}

/// Settings, in any phase. What is set here wins over the environment.
impl<Phase> Consumer<Phase> {
    /// Keeps this consumer's keys apart from others' in the same table.
    ///
    /// # Panics
    /// If the name is empty, longer than 255 bytes, or has a `#` in it.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.set(|settings| settings.idempotency.namespace = Some(checked(namespace)))
    }

    /// The namespace where nothing else names one.
    #[doc(hidden)]
    #[must_use]
    pub fn default_namespace(self, namespace: &str) -> Self {
        self.set(|settings| settings.idempotency.default_namespace = Some(checked(namespace)))
    }

    /// Keeps claims in `store` instead of the DynamoDB table that the environment names.
    #[must_use]
    pub fn store(self, store: impl Store) -> Self {
        self.set(|settings| settings.idempotency.store = Some(Arc::new(store)))
    }

    /// How many handlers of a batch run at once. Default: 10. In a FIFO queue each message group has
    /// one at a time. It has no meaning for a [`BatchHandler`], which is called once.
    ///
    /// # Panics
    /// If it is 0.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        let concurrency = NonZeroUsize::new(concurrency).expect("concurrency must be at least 1");
        self.set(|settings| settings.concurrency = Some(concurrency))
    }

    /// How long a completed key is recognised as a duplicate. Default: 28 days, longer than a message
    /// can live in a queue and its dead-letter queue together.
    ///
    /// # Panics
    /// If it is less than a second.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        assert!(
            retention >= SHORTEST_RETENTION,
            "retention must be at least {SHORTEST_RETENTION:?}"
        );
        self.set(|settings| settings.idempotency.retention = Some(retention))
    }

    /// How far the lease of a claim reaches beyond the invocation's deadline. Default: 3 s. It covers
    /// Lambda killing a little late, and clocks that differ.
    #[must_use]
    pub fn lease_margin(self, margin: Duration) -> Self {
        self.set(|settings| settings.margins.lease = Some(margin))
    }

    /// How long before the invocation's deadline handlers are cancelled, so that the answer goes out in
    /// time. Default: 1 s, or a tenth of the invocation's time where that is less; at most half of it.
    ///
    /// # Panics
    /// If it is zero: Lambda would end the function before its answer is out.
    #[must_use]
    pub fn deadline_margin(self, margin: Duration) -> Self {
        assert!(!margin.is_zero(), "deadline_margin can't be zero");
        self.set(|settings| settings.margins.deadline = Some(margin))
    }

    /// How long one handler may run, or the one call of a [`BatchHandler`]. Default: until the
    /// invocation's deadline is near.
    ///
    /// A handler that takes longer is cancelled, and its record fails. As at the deadline, its claim is
    /// left to lapse, because its effect may be on its way.
    ///
    /// # Panics
    /// If it is zero: every handler would be cancelled at once.
    #[must_use]
    pub fn record_timeout(self, timeout: Duration) -> Self {
        assert!(!timeout.is_zero(), "record_timeout can't be zero");
        self.set(|settings| settings.record_timeout = Some(timeout))
    }

    /// What else of a FIFO queue's batch is returned when a record fails. Default:
    /// [`FifoFailure::ReturnGroup`].
    #[must_use]
    pub fn fifo(self, failure: FifoFailure) -> Self {
        self.set(|settings| settings.fifo_failure = failure)
    }

    /// What becomes of a record whose key another worker has. Default:
    /// [`InProgress::ReturnToQueue`].
    #[must_use]
    pub fn in_progress(self, policy: InProgress) -> Self {
        self.set(|settings| settings.in_progress = policy)
    }

    /// When the effect is recorded. Default: [`Mode::ClaimFirst`].
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        self.set(|settings| settings.idempotency.mode = mode)
    }

    /// Remembers completed keys in this process, so that their duplicates cost no request. Default: no
    /// cache. Each consumer has its own, shared by its clones.
    #[must_use]
    pub fn cache(self, cache: Cache) -> Self {
        self.set(|settings| settings.idempotency.cache = Some(cache))
    }

    /// What becomes of a message whose key was completed for another payload. Default:
    /// [`PayloadMismatch::Warn`].
    #[must_use]
    pub fn payload_mismatch(self, mismatch: PayloadMismatch) -> Self {
        self.set(|settings| settings.mismatch = mismatch)
    }

    /// What becomes of a record without a business key. Default: [`MissingKey::Terminal`].
    #[must_use]
    pub fn missing_key(self, missing_key: MissingKey) -> Self {
        self.set(|settings| settings.missing_key = missing_key)
    }

    /// What the services between producer and queue wrap around the payload: [`Sns`](crate::Sns),
    /// [`EventBridge`](crate::EventBridge), [`S3`](crate::S3), a tuple of these, outermost first,
    /// [`Auto`](crate::Auto), or an [`Envelope`] of your own. Default: none, the body is the payload.
    ///
    /// Payload, key and fingerprint are then taken from what is inside. Handlers that ask for
    /// [`SnsMeta`](crate::SnsMeta), [`EventBridgeMeta`](crate::EventBridgeMeta) or
    /// [`S3Object`](crate::S3Object) get what the envelope says.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use sqs_once::{EventBridge, Sns};
    ///
    /// #[derive(Deserialize)]
    /// struct OrderPlaced { order_id: String }
    ///
    /// // EventBridge sends to a topic, and the queue subscribes to it.
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .envelope((Sns, EventBridge))
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .handler(async |order: OrderPlaced| {});
    /// ```
    #[must_use]
    pub fn envelope(self, envelope: impl Envelope) -> Self {
        self.set(|settings| settings.envelope = Some(Arc::new(envelope)))
    }

    /// Where a message's correlation id comes from. Default: the places that
    /// [`CorrelationId`](crate::CorrelationId) lists. `None` leaves the message without one, and so does a
    /// function that panics.
    ///
    /// It is called when a record is taken up, with its envelope opened. A record that goes back to the
    /// queue without having been taken up has none in the log then.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .correlation_id(|message| message.attribute("request-id").map(str::to_owned))
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .handler(async |order: OrderPlaced| {});
    /// ```
    #[must_use]
    pub fn correlation_id<F>(self, correlate: F) -> Self
    where
        F: Fn(&Message) -> Option<String> + Send + Sync + 'static,
    {
        self.set(|settings| settings.correlate = Some(Arc::new(correlate)))
    }

    /// Calls `hook` when a record's effect is done and on record, before its message leaves the queue,
    /// with what the handler [recorded](crate::Recorded). Default: none.
    ///
    /// A hook that fails, panics or is still running half a deadline margin after the handlers were
    /// cancelled fails its record, as a handler's error would, but never repeats the effect: when the
    /// message comes back it is a duplicate, and [`on_duplicate`](Consumer::on_duplicate) is called. A
    /// hook that must happen is therefore set for both. It may be called more than once for an event.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use sqs_once::{HandlerError, Recorded, RecordEnd};
    ///
    /// async fn reply(end: RecordEnd) -> Result<(), HandlerError> {
    ///     let receipt: Option<String> = end.recorded()?;
    ///     println!("{:?} for message {}", receipt, end.message().id());
    ///     Ok(())
    /// }
    ///
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .on_success(reply)
    ///     .on_duplicate(reply)
    ///     .handler(async |order: OrderPlaced| Recorded(format!("receipt for {}", order.order_id)));
    /// ```
    #[must_use]
    pub fn on_success<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set(|settings| settings.hooks.success = Some(batch::hook(hook)))
    }

    /// Calls `hook` for a record whose event was handled before, with what the handler recorded then.
    /// Default: none.
    ///
    /// It is called also when nothing was recorded, and for duplicates inside a batch; not for a message
    /// whose payload differs from the one that its key was completed for. A hook that fails fails its
    /// record, which comes back as a duplicate again.
    #[must_use]
    pub fn on_duplicate<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set(|settings| settings.hooks.duplicate = Some(batch::hook(hook)))
    }

    /// Calls `hook` for a record that ended [`Failed`](crate::Outcome::Failed) or
    /// [`Terminal`](crate::Outcome::Terminal), once that is settled. Default: none.
    ///
    /// It is not called for records that go back to the queue untried: in progress elsewhere, behind a
    /// failed record of their group, or not started before the deadline. A hook that fails changes
    /// nothing but a line in the log. It has until half the deadline margin is over; a process that is
    /// killed calls nothing.
    #[must_use]
    pub fn on_failure<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set(|settings| settings.hooks.failure = Some(batch::hook(hook)))
    }

    /// Whether the table shows keys as they are. Default: off, and it holds a hash of each.
    ///
    /// An item's id is then its namespace and its key's parts, each with its kind, such as
    /// `payments#s:tenant-7,i:42`: `s` for text, `i` for an integer, `b` for a boolean, `x` for bytes in
    /// hexadecimal digits. `%`, `,` and whatever is not visible ASCII are escaped as in a URL. Different
    /// keys have different ids, as with hashes. A key whose id would have more than 1024 bytes
    /// ([`ItemId::MAX_READABLE_LEN`](crate::key::ItemId::MAX_READABLE_LEN)) is hashed all the same.
    ///
    /// Switching it on or off changes every id, and so forgets every key, as renaming the namespace
    /// does. The [`IdempotencyToken`](crate::IdempotencyToken) of an event stays the same. Logs don't
    /// show keys in either case: their `key` ends in the first digits of the id's SHA-256.
    ///
    /// Mind that keys may name people, and that a table is read by more than its function: backups,
    /// exports and streams show them too.
    #[must_use]
    pub fn readable_keys(self, readable: bool) -> Self {
        self.set(|settings| settings.idempotency.readable_keys = readable)
    }

    /// Whether the invocation fails when every record of its batch failed, so that Lambda's `Errors`
    /// metric shows it. Default: off, and the answer names the records that failed.
    ///
    /// The messages fare no worse: all of them return to the queue either way. Records that were moved to
    /// the dead-letter queue did not fail in this sense. Mind that Lambda polls a queue more slowly while
    /// its function's invocations fail.
    #[must_use]
    pub fn raise_on_total_failure(self, raise: bool) -> Self {
        self.set(|settings| settings.raise_on_total_failure = raise)
    }

    pub(crate) fn raises_on_total_failure(&self) -> bool {
        self.settings.raise_on_total_failure
    }

    /// The clock that leases and expiry are compared with, for tests and simulators.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        self.set(|settings| settings.idempotency.clock = Some(Arc::new(clock)))
    }

    /// The source of owners and jitter, for tests and simulators.
    #[must_use]
    pub fn random(self, random: impl Random) -> Self {
        self.set(|settings| settings.idempotency.random = Some(Arc::new(random)))
    }

    fn into_phase<P2>(self, phase: impl FnOnce(Phase) -> P2) -> Consumer<P2> {
        Consumer {
            phase: phase(self.phase),
            settings: self.settings,
            core: Arc::default(),
        }
    }

    pub(super) fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self.core = Arc::default();
        self
    }
}

impl<Phase> std::fmt::Debug for Consumer<Phase> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}

fn checked(namespace: &str) -> Namespace {
    Namespace::new(namespace).unwrap_or_else(|error| panic!("{error}"))
}
