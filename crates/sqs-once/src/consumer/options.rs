//! The settings, in any phase.

use std::sync::Arc;
use std::time::Duration;

use crate::batch::{
    self, FifoFailure, InProgress, MissingKey, PayloadMismatch, RecordEnd, Requests, UnknownOutcome,
};
use crate::breaker::Dependency;
#[cfg(feature = "sqs")]
use crate::failed::{AfterDeadLetter, Backoff};
use crate::handler::{Done, HandlerError, Next, RecordParts};
use crate::idempotency::{Mode, shared_settings};
#[cfg(feature = "s3")]
use crate::large_messages::LargeMessages;
use crate::record::{Correlate, Envelope, Message};
use crate::report::Outcome;
use crate::telemetry::Metrics;

use super::Consumer;
#[cfg(feature = "opentelemetry")]
use super::settings::AfterAnswer;

/// Settings, in any phase. They override the environment. The last call of a method counts. Two calls of one that takes
/// a function, such as [`on_success`](Consumer::on_success), fail at [`init`](Consumer::init).
impl<Phase> Consumer<Phase> {
    shared_settings!();

    /// Sets the name of the service in log lines and metrics. Default:
    /// `SQS_ONCE_SERVICE`, else `POWERTOOLS_SERVICE_NAME`, else the namespace, or the function's name for a
    /// [`router`](crate::router). A blank name fails at [`init`](Consumer::init).
    #[must_use]
    pub fn service(self, service: &str) -> Self {
        self.set_of_batch("service", |settings| {
            settings.service = Some(service.into())
        })
    }

    /// Sets where the metrics of each batch go. Default: the value of `SQS_ONCE_METRICS` (`emf`, `off`, or `opentelemetry`
    /// with that feature); else nowhere if `POWERTOOLS_METRICS_DISABLED` is set; else [`Metrics::Emf`] on Lambda, and
    /// nowhere elsewhere.
    ///
    /// Their namespace in CloudWatch is `SQS_ONCE_METRICS_NAMESPACE`, else `POWERTOOLS_METRICS_NAMESPACE`, else `sqs-once`.
    /// Their dimension is the [`service`](Self::service), and in a router the route too.
    #[must_use]
    pub fn metrics(self, metrics: Metrics) -> Self {
        self.set_of_batch("metrics", |settings| settings.metrics = Some(metrics))
    }

    /// Sets the log level of records that end with `outcome`. Default: `WARN` for [`Failed`](Outcome::Failed), `ERROR` for
    /// [`Terminal`](Outcome::Terminal), `INFO` for the others. A record that succeeds with a warning is logged at `WARN` at
    /// least.
    ///
    /// `SQS_ONCE_RECORD_LEVELS=processed=debug,duplicate=debug` sets the levels of several outcomes. One call of this method
    /// replaces the whole variable.
    #[must_use]
    pub fn record_level(self, outcome: Outcome, level: tracing::Level) -> Self {
        self.set_of_batch("record_level", |settings| {
            let levels = settings.record_levels.get_or_insert_default();
            levels.set(outcome, level);
        })
    }

    /// Sets how many handlers of a batch run at once. Default: `SQS_ONCE_CONCURRENCY`, else 10. Zero fails at
    /// [`init`](Consumer::init).
    ///
    /// In a FIFO queue, each message group has one handler at a time. The consumer claims keys ahead of their handlers:
    /// 200 records, or this number if it is larger. It releases claims whose handlers have not started before the
    /// deadline. For a handler that takes a transaction, the consumer claims nothing ahead. Up to this number of
    /// transactions are open at once, each on its own connection, including transactions that wait for another one. A
    /// [`BatchHandler`](crate::handler::BatchHandler) is called once, regardless of this setting.
    ///
    /// A handler that is cancelled while its [`spawn_blocking`](crate::spawn_blocking) code runs counts until the code has
    /// ended. While such code holds every place, further records return to the queue untried.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        self.set_of_batch("concurrency", |settings| {
            settings.concurrency = Some(concurrency)
        })
    }

    /// Sets how long one handler, or the single call of a [`BatchHandler`](crate::handler::BatchHandler), may run.
    /// Default: until the invocation's deadline is near. Zero fails at [`init`](Consumer::init).
    ///
    /// A handler that takes longer is cancelled, and its record fails. As at the deadline, its claim lapses instead of
    /// being released, because its effect may be in flight. [`Writes`](crate::Writes) that it would have returned are
    /// not committed, and its transaction is rolled back. No claim remains then, unless the consumer claimed the key
    /// before the writes. If the consumer depends on one [`Dependency`](crate::policy::Dependency), the handler counts as a
    /// failure of it.
    #[must_use]
    pub fn record_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.record_timeout = Some(timeout))
    }

    /// Sets the visibility timeout of the queue, which events do not contain. Default: `SQS_ONCE_VISIBILITY_TIMEOUT`;
    /// else, on Lambda and with the feature `sqs`, the consumer asks the queue when a batch takes longer than half of
    /// its time. That needs `sqs:GetQueueAttributes`, a permission that the role already has for Lambda's poller.
    ///
    /// The timeout only affects a warning in the log. The consumer warns when four fifths of it have passed since the
    /// first message of the batch was received and the batch still runs: SQS will soon deliver the messages again. SQS
    /// does not report when it redelivered a message; such a message counts from the beginning of the batch.
    #[must_use]
    pub fn visibility_timeout(self, timeout: Duration) -> Self {
        self.set_of_batch("visibility_timeout", |settings| {
            settings.visibility_timeout = Some(timeout)
        })
    }

    /// Declares a service that the handler calls. Several calls add up. Default: none.
    ///
    /// A handler's error can report the service as [`unavailable`](crate::ResultExt::unavailable), and
    /// [`Dependency::unavailable_if`] recognises errors by their type. After three such errors in a row the consumer opens
    /// a breaker: it returns records to the queue without claiming their keys or calling the handler. Every 30 s one
    /// record is tried, by one of all environments that share the table. After a success the consumer calls the handler
    /// again, with one record at first and one more for each success.
    ///
    /// Messages that return stay hidden for so long that their remaining deliveries outlast an outage of 24 h, as far as
    /// SQS allows. The consumer asks the queue for its retention and its `maxReceiveCount` for that, which needs
    /// `sqs:GetQueueAttributes`. A message on its last delivery moves to the dead-letter queue with a reason that begins
    /// with `unavailable`. [The guide](crate::guide::outages) has the details.
    ///
    /// Needs the feature `sqs`. Fails at [`init`](Consumer::init) without it, and if a name is invalid.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # async fn charge(_: &OrderPlaced) -> std::io::Result<()> { Ok(()) }
    /// use sqs_once::ResultExt;
    ///
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .depends_on("payments")
    ///     .handler(async |order: OrderPlaced| charge(&order).await.unavailable("payments"));
    /// ```
    #[must_use]
    pub fn depends_on(self, dependency: impl Into<Dependency>) -> Self {
        let dependency = dependency.into();
        self.set(|settings| settings.dependencies.push(dependency))
    }

    /// Sets the `maxReceiveCount` of the redrive policy of the queue that [`queue_url`](Self::queue_url) names, for when
    /// that queue does not answer during an [outage](Self::depends_on). It counts for no other queue: a function may have
    /// several. If no count is known, no message moves to the dead-letter queue because of the outage. Default:
    /// `SQS_ONCE_MAX_RECEIVE_COUNT`. Zero fails at [`init`](Consumer::init).
    #[must_use]
    pub fn max_receive_count(self, count: u32) -> Self {
        self.set_of_batch("max_receive_count", |settings| {
            settings.max_receive_count = Some(count)
        })
    }

    /// Sets what else of a FIFO queue's batch returns to the queue when a record fails. Default:
    /// [`FifoFailure::ReturnGroup`].
    #[must_use]
    pub fn fifo(self, failure: FifoFailure) -> Self {
        self.set_of_batch("fifo", |settings| settings.fifo_failure = Some(failure))
    }

    /// Sets what happens to a record whose key another worker has claimed. Default:
    /// [`InProgress::ReturnToQueue`].
    #[must_use]
    pub fn in_progress(self, policy: InProgress) -> Self {
        self.set(|settings| settings.in_progress = Some(policy))
    }

    /// Sets when the effect is recorded. Default: [`Mode::ClaimFirst`], and [`Mode::Transactional`] for handlers
    /// that return [`Writes`](crate::Writes) or take a transaction.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        self.set(|settings| settings.idempotency.mode = Some(mode))
    }

    /// Sets how many keys a request to the store carries. Default: [`Requests::Batched`]. Each commit of a
    /// handler of single records whose effect commits with its record is a separate request.
    #[must_use]
    pub fn requests(self, requests: Requests) -> Self {
        self.set_of_batch("requests", |settings| settings.requests = Some(requests))
    }

    /// Sets what happens to a message whose key was completed for another payload. Default:
    /// [`PayloadMismatch::Terminal`].
    #[must_use]
    pub fn payload_mismatch(self, mismatch: PayloadMismatch) -> Self {
        self.set(|settings| settings.mismatch = Some(mismatch))
    }

    /// Sets what happens to a record without a business key. Default: [`MissingKey::Terminal`].
    #[must_use]
    pub fn missing_key(self, missing_key: MissingKey) -> Self {
        self.set(|settings| settings.missing_key = Some(missing_key))
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
        let correlate: Correlate = Arc::new(correlate);
        self.set_of_batch("correlation_id", |settings| {
            settings.set_function("correlation_id", |it| &mut it.correlate, correlate);
        })
    }

    /// Adds a layer: a function around the handler of each record, inside the claim if the handler has one. Several calls add up; the first one is
    /// outermost. The layers of a [`router`](crate::router) are around those of its routes. Default: none.
    ///
    /// A layer sees the message, the key, the attempt and the route, and runs the rest with [`Next::run`]. It may end the
    /// record instead: an error fails it as a handler's error would, and `Ok(Done::default())` completes it without the
    /// handler, so that later deliveries are duplicates. If it drops the running handler, the record's claim lapses, because the
    /// effect may be in flight, and a success fails the record. Its time counts as the handler's time, and it is cancelled at
    /// the deadline. A duplicate calls no layer, unless the handler runs without a claim: with
    /// [`Mode::RecordAfter`](crate::policy::Mode::RecordAfter), and with [`Writes`](crate::Writes) in their default mode.
    ///
    /// Fails at [`init`](Consumer::init) for a batch handler.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use std::time::Instant;
    ///
    /// use sqs_once::HandlerError;
    /// use sqs_once::extract::RecordParts;
    /// use sqs_once::handler::{Done, Next};
    ///
    /// async fn timed(record: RecordParts, next: Next) -> Result<Done, HandlerError> {
    ///     let began = Instant::now();
    ///     let outcome = next.run().await;
    ///     let (message_id, failed) = (record.message().id(), outcome.is_err());
    ///     tracing::info!(message_id, failed, millis = began.elapsed().as_millis() as u64, "handled");
    ///     outcome
    /// }
    ///
    /// let consumer = sqs_once::consumer::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .layer(timed)
    ///     .handler(async |order: OrderPlaced| {});
    /// ```
    #[must_use]
    pub fn layer<F, Fut>(self, layer: F) -> Self
    where
        F: Fn(RecordParts, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Done, HandlerError>> + Send + 'static,
    {
        self.set(|settings| settings.layers.push(layer))
    }

    /// Calls `hook` after a record's effect is recorded, before its message leaves the queue. The hook gets the value that
    /// the handler [recorded](crate::Recorded). Default: none.
    ///
    /// A hook that fails or panics fails its record, as a handler's error would. So does a hook that still runs half a
    /// deadline margin after the handlers were cancelled. The effect never repeats: the message's next delivery is a
    /// duplicate and calls [`on_duplicate`](Consumer::on_duplicate). Set both hooks for an action that must happen.
    /// They may be called more than once for an event.
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
        self.set(|settings| {
            settings.set_function("on_success", |it| &mut it.hooks.success, batch::hook(hook))
        })
    }

    /// Sets what happens to an event after an attempt of unknown outcome. Default: [`UnknownOutcome::repeat`].
    ///
    /// With [`UnknownOutcome::dead_letter`] or [`UnknownOutcome::reconcile`], each key is claimed when its handler may start,
    /// so that only attempts that started count. Then a request carries the claims of handlers that start together, and each
    /// handler starts one request later. By default up to 200 records claim ahead. With
    /// [`after`](UnknownOutcome::after) claims are sent ahead, as by default.
    ///
    /// An attempt counts until its key is completed or forgotten (`cargo sqs-once key`), or the table deletes it after the
    /// [`retention`](Self::retention). With [`also_read`](Self::also_read) the attempts under either id count. An attempt
    /// whose process dies between its claim and its handler counts, too.
    ///
    /// A consumer fails at [`init`](Consumer::init) with any other setting than the default if it has a batch handler, does
    /// not claim keys before its handler, or has a shorter [`retention`](Self::retention) than
    /// [`after`](UnknownOutcome::after). Versions with different settings that run at the same time each apply their own.
    #[must_use]
    pub fn unknown_outcome(self, policy: UnknownOutcome) -> Self {
        self.set(|settings| settings.unknown_outcome = Some(policy))
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
        self.set(|settings| {
            settings.set_function(
                "on_duplicate",
                |it| &mut it.hooks.duplicate,
                batch::hook(hook),
            )
        })
    }

    /// Calls `hook` for a record that has ended as [`Failed`](crate::telemetry::Outcome::Failed) or
    /// [`Terminal`](crate::telemetry::Outcome::Terminal). Default: none.
    ///
    /// It is not called for records that return to the queue untried, although they count as failed: their key is in progress, an earlier
    /// record of their group failed, or the deadline came before they started. A hook that fails only adds a line to the
    /// log. The consumer cancels it after half the deadline margin. A process that is killed calls no hook.
    #[must_use]
    pub fn on_failure<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set(|settings| {
            settings.set_function("on_failure", |it| &mut it.hooks.failure, batch::hook(hook))
        })
    }

    /// Sets whether the invocation fails if every record of its batch failed, so that Lambda's `Errors` metric shows it.
    /// Default: off, and the response names the failed records.
    ///
    /// All messages return to the queue either way. Records that were moved to the dead-letter queue do not count as
    /// failed here, and neither does a batch without any attempt because other workers hold its keys. Lambda polls a
    /// queue more slowly while its function's invocations fail.
    #[must_use]
    pub fn raise_on_total_failure(self, raise: bool) -> Self {
        self.set_of_batch("raise_on_total_failure", |settings| {
            settings.raise_on_total_failure = raise
        })
    }
}

/// Settings of the feature `sqs`, in any phase. They override the environment.
#[cfg(feature = "sqs")]
impl<Phase> Consumer<Phase> {
    /// Sends terminal records to the queue at `url` at once, and acknowledges them after SQS has confirmed the copy.
    /// Default: `SQS_ONCE_DLQ_URL`; else terminal records stay in their queue until its redrive policy moves them.
    ///
    /// The function's role needs `sqs:SendMessage` on that queue. Body, attributes, message group and trace header are
    /// kept. A FIFO queue gets the message id as deduplication id, and also as message group if the message has no
    /// group. A standard queue may get a message twice if an answer from SQS is lost. These attributes are added, all
    /// of type `String`:
    ///
    /// | attribute | value |
    /// |---|---|
    /// | `sqs-once-reason` | the error's own words, at most 1 KiB |
    /// | `sqs-once-source-queue` | the ARN of the queue that it came from |
    /// | `sqs-once-key` | the id of its key's item in the table, if it has a key |
    /// | `sqs-once-message-id` | the message's id in its own queue, as in the logs |
    /// | `sqs-once-receive-count` | how often SQS had delivered it |
    /// | `sqs-once-first-received` | when it first did: milliseconds since the Unix epoch |
    /// | `sqs-once-function` | the Lambda function's name |
    /// | `sqs-once-error-chain` | the error and its causes, at most 16 KiB; absent if it equals the reason |
    ///
    /// SQS allows 10 attributes and 1 MiB per message. If the attributes do not all fit, the consumer first shortens
    /// reason and chain. Then it leaves out attributes from the table's end, the reason last. A message that already
    /// has 10 attributes gets none of these; the log line of its record has the reason. If the message with these
    /// attributes exceeds the queue's `MaximumMessageSize`, it is sent without them.
    ///
    /// The consumer refuses to move a message to the queue that it came from: the record fails, with the reason in the
    /// log. The consumer does not start if `queue_url` or `SQS_ONCE_QUEUE_URL` names that same queue.
    ///
    /// Characters that SQS refuses become `U+FFFD`. A message that returns from the dead-letter queue and fails again
    /// has only the attributes of its last move. A message whose body can't be read at all is not sent: only redrive
    /// can move it unchanged. A text that is not a URL fails at [`init`](Consumer::init).
    #[must_use]
    pub fn dead_letter_queue(self, url: &str) -> Self {
        self.set_of_batch("dead_letter_queue", |settings| {
            settings.failed.dead_letter_queue = Some(url.to_owned())
        })
    }

    /// Sets what happens to the rest of a FIFO message group after a terminal record was moved to the dead-letter queue.
    /// Default: [`AfterDeadLetter::Stop`].
    ///
    /// A terminal record that could not be moved always stops its group. So does one without a dead-letter queue.
    #[must_use]
    pub fn after_dead_letter(self, after: AfterDeadLetter) -> Self {
        self.set_of_batch("after_dead_letter", |settings| {
            settings.failed.after_dead_letter = after
        })
    }

    /// Hides messages that return to the queue for a while, longer with every delivery, through
    /// `ChangeMessageVisibilityBatch`. Default: off, and SQS delivers them again when the queue's visibility timeout ends.
    /// The function's role needs `sqs:ChangeMessageVisibility` on its queue.
    ///
    /// | record | hidden |
    /// |---|---|
    /// | failed | for the backoff |
    /// | failed with [`retry_after`](crate::ResultExt::retry_after) | for that time ¹ |
    /// | cancelled at the deadline | for the backoff, and until its own lease has lapsed |
    /// | in progress elsewhere | until the other worker's lease has lapsed ¹ |
    /// | returned because an earlier record of its FIFO group did not succeed | as long as that record, so that the group comes back together |
    /// | not started before the deadline | until the queue's visibility timeout ends |
    /// | terminal, but not moved to a dead-letter queue | until the queue's visibility timeout ends |
    ///
    /// ¹ Also without a backoff, on Lambda or if `queue_url` or `sqs_client` is set.
    ///
    /// FIFO order holds: SQS delivers no message of a group while one of its messages is hidden. Times count from the
    /// end of the record, are rounded up to whole seconds, and stay within the 12 hours after receipt that SQS allows.
    /// The consumer sends the requests when the batch has ended, up to 10 records in each. If a request fails or is
    /// late, the log has one line, and its records return when the queue's visibility timeout ends. So do messages
    /// without a receipt handle or a queue ARN, which occur only in hand-made events.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|settings| settings.backoff = Some(backoff))
    }

    /// Sets the URL of the queue that the messages come from, for the [`backoff`](Consumer::backoff). Default:
    /// `SQS_ONCE_QUEUE_URL`; else the URL that follows from each message's queue ARN, at `AWS_ENDPOINT_URL_SQS` or
    /// `AWS_ENDPOINT_URL` if one of them is set. A text that is not a URL fails at [`init`](Consumer::init).
    #[must_use]
    pub fn queue_url(self, url: &str) -> Self {
        self.set_of_batch("queue_url", |settings| {
            settings.failed.queue = Some(url.to_owned())
        })
    }

    /// Sets the SQS client, for your own credentials or endpoints. Default: a client with timeouts and the SDK's
    /// settings from the environment.
    #[must_use]
    pub fn sqs_client(self, client: aws_sdk_sqs::Client) -> Self {
        self.set_of_batch("sqs_client", |settings| {
            settings.failed.client = Some(client)
        })
    }
}

/// Settings of the feature `s3`, in any phase.
#[cfg(feature = "s3")]
impl<Phase> Consumer<Phase> {
    /// Fetches bodies that producers have put into S3, because they are too large for SQS: see [`LargeMessages`]. Default:
    /// those that `SQS_ONCE_LARGE_MESSAGES` names; else none, and a pointer is an ordinary body. An invalid
    /// setting fails at [`init`](Consumer::init).
    #[must_use]
    pub fn large_messages(self, messages: LargeMessages) -> Self {
        self.set_of_batch("large_messages", |settings| {
            settings.large_messages.code = Some(messages)
        })
    }
}

/// Settings of the feature `opentelemetry`, in any phase.
#[cfg(feature = "opentelemetry")]
impl<Phase> Consumer<Phase> {
    /// Calls `flush` after each answer to Lambda, under [`run`](crate::run). Default: nothing is called.
    ///
    /// Export spans and metrics here. Lambda freezes the process when it asks for the next event; data that was not
    /// exported waits for the next invocation, or is lost. The answer has been sent, so a slow or unreachable collector costs
    /// time and no message. The call runs on a thread that may block, and has the rest of the invocation's time. If it
    /// panics or takes longer, the log has a warning.
    ///
    /// ```no_run
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # #[sqs_once::handler(key = order.order_id, namespace = "charges")]
    /// # async fn charge(order: OrderPlaced) {}
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    ///
    /// # async fn example() -> Result<(), sqs_once::Error> {
    /// let tracer_provider = SdkTracerProvider::builder().build(); // with an exporter
    /// opentelemetry::global::set_tracer_provider(tracer_provider.clone());
    /// let consumer = charge::consumer().after_answer(move || {
    ///     let _ = tracer_provider.force_flush();
    /// });
    /// sqs_once::run(consumer).await
    /// # }
    /// ```
    #[must_use]
    pub fn after_answer(self, flush: impl Fn() + Send + Sync + 'static) -> Self {
        let flush: AfterAnswer = Arc::new(flush);
        self.set_of_batch("after_answer", |settings| {
            settings.set_function("after_answer", |it| &mut it.after_answer, flush);
        })
    }
}
