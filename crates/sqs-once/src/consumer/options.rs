//! The settings, in any phase.

use std::sync::Arc;
use std::time::Duration;

use crate::batch::{
    self, FifoFailure, InProgress, MissingKey, PayloadMismatch, RecordEnd, Requests,
};
use crate::handler::HandlerError;
use crate::idempotency::{Mode, shared_settings};
use crate::record::{Envelope, Message};
use crate::report::Outcome;
use crate::telemetry::Metrics;

use super::Consumer;

/// Settings, in any phase. What is set here wins over the environment.
impl<Phase> Consumer<Phase> {
    shared_settings!();

    /// Names the service that this consumer is a part of, in its log lines and metrics. Default:
    /// `SQS_ONCE_SERVICE`, else `POWERTOOLS_SERVICE_NAME`, else the namespace. A blank name fails at
    /// [`init`](Consumer::init).
    #[must_use]
    pub fn service(self, service: &str) -> Self {
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

    /// Sets how many handlers of a batch run at once. Default: `SQS_ONCE_CONCURRENCY`, else 10. Zero fails at
    /// [`init`](Consumer::init).
    ///
    /// In a FIFO queue, each message group has one handler at a time. The consumer claims up to 200 records, or as many as
    /// this, ahead of their handlers; it gives back those that have not started before the deadline. A handler that takes
    /// a transaction claims nothing ahead: as many transactions as this are open at once, each on a connection of its own,
    /// and those that wait for another transaction count. A [`BatchHandler`](crate::handler::BatchHandler) is called once,
    /// whatever is set here.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        self.set(|settings| settings.concurrency = Some(concurrency))
    }

    /// Sets how long one handler may run, or the one call of a [`BatchHandler`](crate::handler::BatchHandler). Default:
    /// until the invocation's deadline is near. Zero fails at [`init`](Consumer::init).
    ///
    /// A handler that takes longer is cancelled, and its record fails. As at the deadline, its claim is left to lapse,
    /// because its effect may be in flight. [`Writes`](crate::Writes) that it would have returned are not committed, and
    /// its transaction is rolled back: then no claim is left, unless the consumer claimed the key before the writes.
    #[must_use]
    pub fn record_timeout(self, timeout: Duration) -> Self {
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
}
