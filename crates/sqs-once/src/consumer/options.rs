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

    /// Sets the name of the service in log lines and metrics. Default:
    /// `SQS_ONCE_SERVICE`, else `POWERTOOLS_SERVICE_NAME`, else the namespace. A blank name fails at
    /// [`init`](Consumer::init).
    #[must_use]
    pub fn service(self, service: &str) -> Self {
        self.set(|settings| settings.service = Some(service.into()))
    }

    /// Sets where the metrics of each batch go. Default: the value of `SQS_ONCE_METRICS` (`emf`, `off`, or `opentelemetry`
    /// with that feature); else nowhere if `POWERTOOLS_METRICS_DISABLED` is set; else [`Metrics::Emf`] on Lambda, and
    /// nowhere elsewhere.
    ///
    /// Their namespace in CloudWatch is `SQS_ONCE_METRICS_NAMESPACE`, else `POWERTOOLS_METRICS_NAMESPACE`, else `sqs-once`.
    /// Their only dimension is the [`service`](Self::service).
    #[must_use]
    pub fn metrics(self, metrics: Metrics) -> Self {
        self.set(|settings| settings.metrics = Some(metrics))
    }

    /// Sets the log level of records that end with `outcome`. Default: `WARN` for [`Failed`](Outcome::Failed), `ERROR` for
    /// [`Terminal`](Outcome::Terminal), `INFO` for the others. A record that succeeds with a warning is logged at `WARN` at
    /// least.
    ///
    /// `SQS_ONCE_RECORD_LEVELS=processed=debug,duplicate=debug` sets the levels of several outcomes. One call of this method
    /// replaces the whole variable.
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

    /// Sets the visibility timeout of the queue, which events do not contain. Default: `SQS_ONCE_VISIBILITY_TIMEOUT`; else,
    /// on Lambda and with the feature `sqs`, the consumer asks the queue when a batch takes longer than half of its time.
    /// That needs `sqs:GetQueueAttributes`, which the role has for Lambda's poller.
    ///
    /// The timeout changes nothing but a warning in the log. The consumer warns when four fifths of it have passed since the
    /// first message of the batch was received and the batch still runs: SQS will soon deliver the messages again. SQS does
    /// not report when it redelivered a message; such a message counts from the beginning of the batch.
    #[must_use]
    pub fn visibility_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.visibility_timeout = Some(timeout))
    }

    /// Sets what else of a FIFO queue's batch returns to the queue when a record fails. Default:
    /// [`FifoFailure::ReturnGroup`].
    #[must_use]
    pub fn fifo(self, failure: FifoFailure) -> Self {
        self.set(|settings| settings.fifo_failure = failure)
    }

    /// Sets what happens to a record whose key another worker has claimed. Default:
    /// [`InProgress::ReturnToQueue`].
    #[must_use]
    pub fn in_progress(self, policy: InProgress) -> Self {
        self.set(|settings| settings.in_progress = policy)
    }

    /// Sets when the effect is recorded. Default: [`Mode::ClaimFirst`], and [`Mode::Transactional`] for handlers
    /// that return [`Writes`](crate::Writes) or take a transaction.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        self.set(|settings| settings.idempotency.mode = Some(mode))
    }

    /// Sets how many keys a request to the store carries. Default: [`Requests::Batched`]. It has no effect if the handler's
    /// effect commits with the record of its key, because each commit is a request of its own.
    #[must_use]
    pub fn requests(self, requests: Requests) -> Self {
        self.set(|settings| settings.requests = requests)
    }

    /// Sets what happens to a message whose key was completed for another payload. Default:
    /// [`PayloadMismatch::Warn`].
    #[must_use]
    pub fn payload_mismatch(self, mismatch: PayloadMismatch) -> Self {
        self.set(|settings| settings.mismatch = mismatch)
    }

    /// Sets what happens to a record without a business key. Default: [`MissingKey::Terminal`].
    #[must_use]
    pub fn missing_key(self, missing_key: MissingKey) -> Self {
        self.set(|settings| settings.missing_key = missing_key)
    }

    /// Sets what the services between producer and queue wrap around the payload: [`Sns`](crate::body::Sns),
    /// [`EventBridge`](crate::body::EventBridge), [`S3`](crate::body::S3), a tuple of these, outermost first,
    /// [`Auto`](crate::body::Auto), or an [`Envelope`] of your own. Default: none, the body is the payload.
    ///
    /// Payload, key and fingerprint are then taken from the content of the envelope. Handlers can take
    /// [`SnsMeta`](crate::extract::SnsMeta), [`EventBridgeMeta`](crate::extract::EventBridgeMeta) or
    /// [`S3Object`](crate::extract::S3Object) as arguments.
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

    /// Sets where a message's correlation id comes from. Default: the places that
    /// [`CorrelationId`](crate::extract::CorrelationId) lists. If the function returns `None` or panics, the message has no
    /// correlation id.
    ///
    /// The consumer calls the function after it opened the record's envelope. A record that returns to the queue before that
    /// has no correlation id in the log.
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

    /// Calls `hook` after a record's effect is recorded, before its message leaves the queue. The hook gets the value that
    /// the handler [recorded](crate::Recorded). Default: none.
    ///
    /// A hook that fails or panics fails its record, as a handler's error would. So does a hook that still runs half a
    /// deadline margin after the handlers were cancelled. The effect never repeats: the message's next delivery is a
    /// duplicate and calls [`on_duplicate`](Consumer::on_duplicate). Set both for a hook that must happen. It may be called
    /// more than once for an event.
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

    /// Calls `hook` for a record whose event was handled before, with the value that the handler recorded then. Default:
    /// none.
    ///
    /// It is also called if no value was recorded, and for duplicates inside a batch. It is not called for a message whose
    /// payload differs from the one that its key was completed for. A hook that fails fails its record; the next delivery is
    /// a duplicate again.
    #[must_use]
    pub fn on_duplicate<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set(|settings| settings.hooks.duplicate = Some(batch::hook(hook)))
    }

    /// Calls `hook` for a record that has ended as [`Failed`](crate::telemetry::Outcome::Failed) or
    /// [`Terminal`](crate::telemetry::Outcome::Terminal). Default: none.
    ///
    /// It is not called for records that return to the queue without an attempt: their key is in progress, an earlier
    /// record of their group failed, or the deadline came before they started. A hook that fails only adds a line to the
    /// log. The consumer cancels it after half the deadline margin. A process that is killed calls no hook.
    #[must_use]
    pub fn on_failure<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set(|settings| settings.hooks.failure = Some(batch::hook(hook)))
    }

    /// Sets whether the invocation fails if every record of its batch failed, so that Lambda's `Errors` metric shows it.
    /// Default: off, and the response names the failed records.
    ///
    /// All messages return to the queue either way. Records that were moved to the dead-letter queue do not count as failed
    /// here, and neither does a batch without an attempt, because other workers have its keys. Lambda polls a queue more
    /// slowly while its function's invocations fail.
    #[must_use]
    pub fn raise_on_total_failure(self, raise: bool) -> Self {
        self.set(|settings| settings.raise_on_total_failure = raise)
    }
}
