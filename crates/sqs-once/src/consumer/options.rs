//! The settings, in any phase.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{
    self, FifoFailure, InProgress, MissingKey, PayloadMismatch, RecordEnd, Requests,
};
use crate::handler::HandlerError;
use crate::idempotency::{Cache, Mode};
use crate::key::{KeyCodec, KeySecret, Namespace};
use crate::random::Random;
use crate::record::{Envelope, Message};
use crate::report::Outcome;
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::time::Clock;

use super::Consumer;

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

    /// Names the service that this consumer is a part of, in its log lines and metrics. Default:
    /// `SQS_ONCE_SERVICE`, else `POWERTOOLS_SERVICE_NAME`, else the namespace.
    ///
    /// # Panics
    /// If the name is empty.
    #[must_use]
    pub fn service(self, service: &str) -> Self {
        assert!(!service.trim().is_empty(), "a service needs a name");
        self.set(|settings| settings.service = Some(service.into()))
    }

    /// Sets where the metrics of each batch go. Default: `SQS_ONCE_METRICS`, `emf`, `off` or, with the feature of that
    /// name, `opentelemetry`; else nowhere if
    /// `POWERTOOLS_METRICS_DISABLED` is set; else [`Metrics::Emf`] on Lambda, and nowhere elsewhere.
    ///
    /// Their namespace in CloudWatch is `SQS_ONCE_METRICS_NAMESPACE`, else `POWERTOOLS_METRICS_NAMESPACE`, else `sqs-once`, and their only
    /// dimension is `service`: see [`service`](Self::service).
    #[must_use]
    pub fn metrics(self, metrics: Metrics) -> Self {
        self.set(|settings| settings.metrics = Some(metrics))
    }

    /// Sets at which level the line of a record that ends so is logged. Default: `INFO` for what needs nobody,
    /// `WARN` for [`Failed`](Outcome::Failed), `ERROR` for [`Terminal`](Outcome::Terminal). A record that
    /// succeeded with something to warn of is at `WARN` at least, whatever is set here.
    ///
    /// `SQS_ONCE_RECORD_LEVELS=processed=debug,duplicate=debug` does the same for each outcome that it names; what the
    /// code sets for any outcome wins over all of the variable.
    #[must_use]
    pub fn record_level(self, outcome: Outcome, level: tracing::Level) -> Self {
        self.set(|settings| {
            let levels = settings.record_levels.get_or_insert_default();
            levels.set(outcome, level);
        })
    }

    /// Keeps claims in `store` instead of the DynamoDB table that the environment names.
    #[must_use]
    pub fn store(self, store: impl Store) -> Self {
        self.set(|settings| settings.idempotency.store = Some(Arc::new(store)))
    }

    /// How many handlers of a batch run at once. Default: 10. In a FIFO queue each message group has
    /// one at a time. Up to two hundred records, or as many as this, are claimed ahead of their handlers; what
    /// is not started before the deadline is given back. A handler that takes a transaction has none ahead: as many
    /// transactions as this are open at once, those that wait for another's included, each on a connection of its own.
    /// It has no meaning for a [`BatchHandler`](crate::handler::BatchHandler), which is called once.
    ///
    /// # Panics
    /// If it is 0.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        let concurrency = NonZeroUsize::new(concurrency).expect("concurrency must be at least 1");
        self.set(|settings| settings.concurrency = Some(concurrency))
    }

    /// How long a completed key is recognised as a duplicate. Default: 28 days, as long as a message
    /// can live in a queue and its dead-letter queue together (14 days in each). Set more where messages stay
    /// that long and are redriven at the very end.
    ///
    /// # Panics
    /// If it is less than a second.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        self.set(|settings| settings.idempotency.set_retention(retention))
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
        self.set(|settings| settings.margins.set_deadline(margin))
    }

    /// How long one handler may run, or the one call of a [`BatchHandler`](crate::handler::BatchHandler). Default: until the
    /// invocation's deadline is near.
    ///
    /// A handler that takes longer is cancelled, and its record fails. As at the deadline, its claim is
    /// left to lapse, because its effect may be on its way. Nothing has happened of [`Writes`](crate::Writes) that were
    /// to commit, and a transaction is rolled back: then there is nothing to lapse, unless a claim came before the writes.
    ///
    /// # Panics
    /// If it is zero: every handler would be cancelled at once.
    #[must_use]
    pub fn record_timeout(self, timeout: Duration) -> Self {
        assert!(!timeout.is_zero(), "record_timeout can't be zero");
        self.set(|settings| settings.record_timeout = Some(timeout))
    }

    /// The visibility timeout of the queue, which no event tells. Default: `SQS_ONCE_VISIBILITY_TIMEOUT`; where that
    /// is not set either, the feature `sqs` asks the queue in Lambda (`sqs:GetQueueAttributes`, which the role has for
    /// Lambda's poller), once a batch takes longer than half of its time.
    ///
    /// It is for a warning in the log and changes nothing: when four fifths of it are over since the first of a
    /// batch's messages was received, and the batch is still at work, SQS is about to deliver all of them again. A message
    /// that was delivered before does not tell when it was received this time; it counts from the batch's beginning.
    #[must_use]
    pub fn visibility_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.visibility_timeout = Some(timeout))
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

    /// When the effect is recorded. Default: [`Mode::ClaimFirst`], and [`Mode::Transactional`] for handlers
    /// that return [`Writes`](crate::Writes) or take a transaction.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        self.set(|settings| settings.idempotency.mode = Some(mode))
    }

    /// How many keys a request to the store carries. Default: [`Requests::Batched`]. It has no meaning for a
    /// handler whose effect commits with the record of its key: each of these is a request of its own.
    #[must_use]
    pub fn requests(self, requests: Requests) -> Self {
        self.set(|settings| settings.requests = requests)
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

    /// What the services between producer and queue wrap around the payload: [`Sns`](crate::body::Sns),
    /// [`EventBridge`](crate::body::EventBridge), [`S3`](crate::body::S3), a tuple of these, outermost first,
    /// [`Auto`](crate::body::Auto), or an [`Envelope`] of your own. Default: none, the body is the payload.
    ///
    /// Payload, key and fingerprint are then taken from what is inside. Handlers that ask for
    /// [`SnsMeta`](crate::extract::SnsMeta), [`EventBridgeMeta`](crate::extract::EventBridgeMeta) or
    /// [`S3Object`](crate::extract::S3Object) get what the envelope says.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use sqs_once::body::{EventBridge, Sns};
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
    /// [`CorrelationId`](crate::extract::CorrelationId) lists. `None` leaves the message without one, and so does a
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
    /// use sqs_once::hook::RecordEnd;
    /// use sqs_once::{HandlerError, Recorded};
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

    /// Calls `hook` for a record that ended [`Failed`](crate::telemetry::Outcome::Failed) or
    /// [`Terminal`](crate::telemetry::Outcome::Terminal), once that is settled. Default: none.
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

    /// Where the table keeps each key. Default: under the [namespace](Self::namespace), by its hash.
    ///
    /// With a codec of Powertools for AWS Lambda this consumer shares its keys with a function that uses it on the same
    /// table, and never handles what that has handled, nor the other way round. The codec then says where keys are, and the
    /// namespace only what the [`IdempotencyToken`](crate::IdempotencyToken) is made of. No fingerprint is compared or kept:
    /// a payload that differs is a duplicate. A key that the codec has no id for makes its record terminal.
    ///
    /// Another codec knows nothing of the keys that the table holds: [`also_read`](Self::also_read).
    ///
    /// ```
    /// # #[cfg(feature = "powertools")] {
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use sqs_once::key::KeyCodec;
    ///
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .key_codec(KeyCodec::powertools_python("orders.app.process_order"))
    ///     .handler(async |order: OrderPlaced| {});
    /// # }
    /// ```
    #[must_use]
    pub fn key_codec(self, codec: KeyCodec) -> Self {
        self.set(|settings| settings.idempotency.codec = Some(codec))
    }

    /// Where else a key may be known: the codec or the namespace that this consumer had, or will have. Default: nowhere.
    ///
    /// A key is claimed first, under its own id, and then looked up under the other one. What is completed there is a
    /// duplicate here, for as long as it is there; whom another worker has it there goes back to the queue. It costs a
    /// read unit for every new key.
    ///
    /// So that no key runs twice, change in two deployments, each complete before the next: first the old codec that also
    /// reads the new one, then the new codec that also reads the old one. After the retention nothing needs it any more. If
    /// the first is left out, messages that both versions get during the deployment may run twice.
    /// The [`IdempotencyToken`](crate::IdempotencyToken) of an event stays the same under another codec, but not in another
    /// namespace.
    ///
    /// Not for handlers whose effect commits with the record of their key, which return [`Writes`](crate::Writes) or take a
    /// transaction: such a consumer refuses to start. In [`Mode::RecordAfter`] two versions at one time may both run, as in
    /// that mode they always may.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use sqs_once::key::Namespace;
    ///
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .namespace("payments")
    ///     .also_read(Namespace::new("billing")?)
    ///     .handler(async |order: OrderPlaced| {});
    /// # Ok::<(), sqs_once::Error>(())
    /// ```
    #[must_use]
    pub fn also_read(self, codec: impl Into<KeyCodec>) -> Self {
        self.set(|settings| settings.idempotency.also_read = Some(Some(codec.into())))
    }

    /// Looks for keys under their own ids only. This is the default, except with a [`key_secret`](Self::key_secret).
    #[must_use]
    pub fn also_read_nothing(self) -> Self {
        self.set(|settings| settings.idempotency.also_read = Some(None))
    }

    /// Hashes keys and fingerprints with a secret: HMAC-SHA-256 instead of SHA-256. Default: the secret that
    /// `SQS_ONCE_KEY_SECRET_ARN` names in AWS Secrets Manager (feature `secrets`), else none.
    ///
    /// Readers of the table, the logs and the dead-letter queue can guess keys that are easy to enumerate. With a secret
    /// they can't check a guess. The [`IdempotencyToken`](crate::IdempotencyToken) is made without it and stays the same.
    ///
    /// Another secret changes every id. So a consumer with a secret also looks for each key under the id without it,
    /// unless [`also_read`](Self::also_read), [`also_read_nothing`](Self::also_read_nothing) or
    /// `SQS_ONCE_ALSO_READ` says otherwise. That costs a read unit for each new key. `docs/schema-changes.md` in the
    /// repository shows how to introduce and rotate a secret so that no key runs twice.
    ///
    /// A consumer with [`readable_keys`](Self::readable_keys) or a [`key_codec`](Self::key_codec) refuses to start with
    /// a secret. So does one whose effect commits with the record of its key, unless it reads nothing else.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use sqs_once::key::KeySecret;
    ///
    /// # let random = [7; 32];
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .namespace("payments")
    ///     .key_secret(KeySecret::new(random)?)
    ///     .handler(async |order: OrderPlaced| {});
    /// # Ok::<(), sqs_once::Error>(())
    /// ```
    #[must_use]
    pub fn key_secret(self, secret: KeySecret) -> Self {
        self.set(|settings| settings.idempotency.key_secret = Some(secret))
    }

    /// Whether the invocation fails when every record of its batch failed, so that Lambda's `Errors`
    /// metric shows it. Default: off, and the answer names the records that failed.
    ///
    /// The messages fare no worse: all of them return to the queue either way. Records that were moved to
    /// the dead-letter queue did not fail in this sense, and a batch in which none was tried, because
    /// other workers have its keys, did not either. Mind that Lambda polls a queue more slowly while its
    /// function's invocations fail.
    #[must_use]
    pub fn raise_on_total_failure(self, raise: bool) -> Self {
        self.set(|settings| settings.raise_on_total_failure = raise)
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
}

fn checked(namespace: &str) -> Namespace {
    Namespace::new(namespace).unwrap_or_else(|error| panic!("{error}"))
}
