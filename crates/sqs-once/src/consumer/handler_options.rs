//! The settings of a handler.

#[cfg(feature = "sqs")]
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{self, Hook, Hooks, MissingKey, PayloadMismatch, RecordEnd, UnknownOutcome};
#[cfg(feature = "sqs")]
use crate::breaker::Dependency;
#[cfg(feature = "sqs")]
use crate::failed::Backoff;
use crate::handler::{Done, ErrorDisposition, ErrorTypes, HandlerError, Next, RecordParts};
use crate::key::{Ids, OwnIds};
use crate::record::Envelope;

use super::handler::{Defaults, Handler, Named, OfEachMessage, OfMessages};

/// Settings of one handler, which the [defaults](Handler::defaults) of a router lack.
impl<Kind> Handler<Kind> {
    /// Separates these keys from others in the same table. A [`Consumer`](crate::Consumer) and an
    /// [`Idempotency`](crate::Idempotency) with the same namespace share their keys. Default: `SQS_ONCE_NAMESPACE`, else
    /// the namespace of the attribute. Without any of them, it fails at [`init`](crate::Consumer::init).
    ///
    /// Another name forgets every key and changes every token: see [the guide](crate::guide::schema_changes) before
    /// such a change. A name has 1 to 255 bytes and no `#`. Other names fail at [`init`](crate::Consumer::init).
    pub fn namespace(self, namespace: &str) -> Self
    where
        Kind: Named,
    {
        self.set(|settings| settings.keys.namespace = Some(namespace.into()))
    }
}

impl<Kind: Named> Handler<Kind> {
    /// Sets how the table names this handler's keys. Default: [`Ids::hashed`].
    ///
    /// The ids of another library are a [`KeyCodec`](crate::key::KeyCodec). With one of Powertools for AWS Lambda, this
    /// function shares its keys with one that uses Powertools on the same table: neither handles an event that the other
    /// has handled. The namespace then affects only the [`IdempotencyToken`](crate::IdempotencyToken). No fingerprint is
    /// compared or stored: a message with another payload is a duplicate. A message whose key has no id in the codec is
    /// terminal.
    ///
    /// ```
    /// # #[cfg(feature = "powertools")] {
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # #[sqs_once::handler(key = order.order_id, namespace = "payments")]
    /// # async fn process_order(order: OrderPlaced) {}
    /// use sqs_once::key::KeyCodec;
    ///
    /// let python = KeyCodec::powertools_python("orders.app.process_order");
    /// let handler = process_order::handler().ids(python);
    /// # }
    /// ```
    pub fn ids(self, ids: impl Into<OwnIds>) -> Self {
        let OwnIds { form, also_read } = ids.into();
        self.set(|settings| {
            settings.keys.ids = Some(form);
            settings.keys.also_read = also_read;
        })
    }
}

impl Handler<Defaults> {
    /// Sets how the table names the keys of all handlers. Default: [`Ids::hashed`].
    pub fn ids(self, ids: Ids) -> Self {
        self.set(|settings| settings.keys.ids = Some(ids.0))
    }
}

/// How keys are kept.
impl<Kind> Handler<Kind> {
    /// Sets how long a completed key is recognised as a duplicate. Default: `SQS_ONCE_RETENTION`, else 28 days.
    ///
    /// A message can live for 28 days in a queue and its dead-letter queue together (14 days in each), and for another
    /// 14 after a redrive. Set a longer time if messages stay that long and are redriven at the very end. A time of less
    /// than one second fails at [`init`](crate::Consumer::init).
    pub fn retention(self, retention: Duration) -> Self {
        self.set(|settings| settings.keys.retention = Some(retention))
    }
}

/// What errors mean.
impl<Kind> Handler<Kind> {
    /// Declares an error type that [chooses](trait@ErrorDisposition) what happens to the message. Several calls add up. The
    /// attributes declare the type that their function returns. Default: none, and errors are retried unless the code
    /// chooses otherwise.
    ///
    /// An undeclared type is not asked. If another handler of the process declares it, the reason in the log says so, and a
    /// [`Bench`](crate::testing::Bench) fails its test.
    pub fn errors<E: ErrorDisposition>(self) -> Self {
        self.set(|settings| {
            let types = &mut settings.errors.types;
            *types = types.and(&ErrorTypes::of::<E>());
        })
    }
}

/// Settings of handlers, and of all handlers of a router.
impl<Kind: OfMessages> Handler<Kind> {
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
    /// let handler = sqs_once::Handler::json::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .call(async |order: OrderPlaced| {})
    ///     .envelope((Sns, EventBridge));
    /// ```
    pub fn envelope(self, envelope: impl Envelope) -> Self {
        self.set(|settings| settings.envelope = Some(Arc::new(envelope)))
    }

    /// Sets how long one handler, or the single call of a [`BatchHandler`](crate::BatchHandler), may run.
    /// Default: until the invocation's deadline is near. Zero fails at [`init`](crate::Consumer::init).
    ///
    /// A handler that takes longer is cancelled, and its message fails. As at the deadline, its claim lapses instead of
    /// being released, because its effect may be in flight. [`Writes`](crate::Writes) that it would have returned are
    /// not committed, and its transaction is rolled back. No claim remains then, unless the key was claimed before the
    /// writes. If the handler depends on one [`Dependency`](crate::policy::Dependency), this counts as a failure of it.
    pub fn attempt_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.attempt_timeout = Some(timeout))
    }

    /// Sets how long a message waits in the function if another worker has claimed its key. Default: zero, and the
    /// message returns to the queue at once.
    ///
    /// While it waits, the consumer tries to claim the key again, with growing pauses, until the other worker is done or
    /// its lease has lapsed. Each try costs as much as a duplicate. A waiting message does not count towards the
    /// concurrency. At most 100 messages of a batch wait; others return to the queue at once.
    ///
    /// A message that returns stays hidden until the other worker's lease has lapsed. Without the permission
    /// `sqs:ChangeMessageVisibility`, or without the feature `sqs`, it stays hidden until the queue's visibility timeout
    /// ends.
    ///
    /// For a handler that takes a transaction, a message returns to the queue at once if its key was claimed without a
    /// transaction. A transaction waits for an earlier one on its key until the deadline.
    pub fn in_progress_wait(self, longest: Duration) -> Self {
        self.set(|settings| settings.in_progress_wait = Some(longest))
    }

    /// Sets what happens to a message whose key was completed for another payload. Default:
    /// [`PayloadMismatch::Terminal`].
    pub fn payload_mismatch(self, mismatch: PayloadMismatch) -> Self {
        self.set(|settings| settings.mismatch = Some(mismatch))
    }

    /// Sets what happens to a message without a business key. Default: [`MissingKey::Terminal`].
    pub fn missing_key(self, missing_key: MissingKey) -> Self {
        self.set(|settings| settings.missing_key = Some(missing_key))
    }

    /// Calls `hook` for a message whose effect is done, before it leaves the queue: after a success, once its key is
    /// completed, and for every duplicate. The hook gets the value of the [completion](crate::Completion), and
    /// [`outcome`](RecordEnd::outcome) tells which of the two it is. Default: none.
    ///
    /// Use it for what must follow the effect, such as a reply. If the process dies before the hook has run, the next
    /// delivery is a duplicate, and runs it. So it may run more than once for an event. It is also called if the completion
    /// has no value, and for duplicates inside a batch. It is not called for a message whose payload differs from the one
    /// that its key was completed for.
    ///
    /// A hook that fails or panics fails its message, as a handler's error would. So does a hook that still runs half a
    /// deadline margin after the handlers were cancelled. The effect never repeats: the next delivery is a duplicate.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use sqs_once::extract::RecordEnd;
    /// use sqs_once::{HandlerError, Completion};
    ///
    /// async fn reply(end: RecordEnd) -> Result<(), HandlerError> {
    ///     let receipt: Option<String> = end.completion()?;
    ///     println!("{:?} for message {}", receipt, end.message().id());
    ///     Ok(())
    /// }
    ///
    /// let handler = sqs_once::Handler::json::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .call(async |order: OrderPlaced| Completion(format!("receipt for {}", order.order_id)))
    ///     .on_done(reply);
    /// ```
    pub fn on_done<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set_hook("on_done", |hooks| &mut hooks.done, hook)
    }

    /// Calls `hook` for a message that has ended as [`Failed`](crate::telemetry::Outcome::Failed) or
    /// [`Terminal`](crate::telemetry::Outcome::Terminal). Default: none.
    ///
    /// It is not called for messages that return to the queue untried, although they count as failed: their key is in
    /// progress, an earlier message of their group failed, or the deadline came before they started. A hook that fails only
    /// adds a line to the log. The consumer cancels it after half the deadline margin. A process that is killed calls no
    /// hook.
    pub fn on_failure<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set_hook("on_failure", |hooks| &mut hooks.failure, hook)
    }
}

impl<Kind: OfMessages> Handler<Kind> {
    fn set_hook<F, Fut>(
        self,
        name: &'static str,
        place: impl FnOnce(&mut Hooks) -> &mut Option<Hook>,
        hook: F,
    ) -> Self
    where
        F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.set(|settings| {
            let replaced = place(&mut settings.hooks).replace(batch::hook(hook));
            if replaced.is_some() {
                settings.replaced = Some(name);
            }
        })
    }
}

/// Settings of handlers that are called for each message.
impl<Kind> Handler<Kind> {
    /// Adds a layer: a function around the handler of each message, inside the claim if the handler has one. Several calls
    /// add up; the first one is outermost. The layers of a [router](crate::Router) are around those of its routes.
    /// Default: none.
    ///
    /// A layer sees the message, the key, the attempt and the route, and runs the rest with [`Next::run`]. It may end the
    /// message instead: an error fails it as a handler's error would, and `Ok(Done::default())` completes its key without
    /// the handler, so that later deliveries are duplicates. If it drops the running handler, the claim lapses, because the
    /// effect may be in flight, and a success fails the message. Its time counts as the handler's time, and it is cancelled
    /// at the deadline. A duplicate calls no layer, unless the handler runs without a claim: with
    /// [`RecordAfter`](crate::handler::RecordAfter), and with [`Writes`](crate::Writes) in their default mode.
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
    /// let handler = sqs_once::Handler::json::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .call(async |order: OrderPlaced| {})
    ///     .layer(timed);
    /// ```
    pub fn layer<F, Fut>(self, layer: F) -> Self
    where
        Kind: OfEachMessage,
        F: Fn(RecordParts, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Done, HandlerError>> + Send + 'static,
    {
        self.set(|settings| settings.layers.push(layer))
    }

    /// Sets what happens to an event after an attempt of unknown outcome. Default: [`UnknownOutcome::repeat`].
    ///
    /// With [`UnknownOutcome::dead_letter`] or [`UnknownOutcome::reconcile`], each key is claimed when its handler may
    /// start, so that only attempts that started count. Then a request carries the claims of handlers that start together,
    /// and each handler starts one request later. By default up to 200 messages claim ahead. With
    /// [`token_valid_for`](UnknownOutcome::token_valid_for) claims are sent ahead, as by default.
    ///
    /// An attempt counts until its key is completed or forgotten (`cargo sqs-once key`), or the table deletes it after the
    /// [`retention`](Self::retention). With [`also_read`](OwnIds::also_read) the attempts under either id count. An attempt
    /// whose process dies between its claim and its handler counts, too.
    ///
    /// With any other setting than the default, a consumer fails at [`init`](crate::Consumer::init) if the handler's keys
    /// are not claimed before it runs, or if its [`retention`](Self::retention) is shorter than
    /// [`token_valid_for`](UnknownOutcome::token_valid_for). Versions with different settings that run at the same time each apply their own.
    pub fn unknown_outcome(self, policy: UnknownOutcome) -> Self
    where
        Kind: OfEachMessage,
    {
        self.set(|settings| settings.unknown_outcome = Some(policy))
    }
}

/// Settings of the feature `sqs`.
#[cfg(feature = "sqs")]
impl<Kind: OfMessages> Handler<Kind> {
    /// Hides messages that return to the queue for a while, longer with every delivery, through
    /// `ChangeMessageVisibilityBatch`. Default: off, and SQS delivers them again when the queue's visibility timeout ends.
    /// The function's role needs `sqs:ChangeMessageVisibility` on its queue.
    ///
    /// `bounds` are a floor and a ceiling. After its *n*th delivery a message is hidden for a random time between
    /// `floor · 2ⁿ⁻¹` and twice that. If this exceeds the ceiling, the time is between half of the ceiling and the ceiling.
    /// The time is random so that messages that failed together don't return together. SQS allows 12 hours at most. A floor
    /// of zero, or above the ceiling, fails at [`init`](crate::Consumer::init).
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// use std::time::Duration;
    ///
    /// // 5 to 10 s after the first delivery, 10 to 20 s after the second, … 10 to 20 min in the end.
    /// let handler = sqs_once::Handler::json::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .call(async |order: OrderPlaced| {})
    ///     .backoff(Duration::from_secs(5)..=Duration::from_secs(20 * 60));
    /// ```
    ///
    /// | message | hidden |
    /// |---|---|
    /// | failed | for the backoff |
    /// | failed with [`retry_after`](crate::ResultExt::retry_after) | for that time ¹ |
    /// | cancelled at the deadline | for the backoff, and until its own lease has lapsed |
    /// | in progress elsewhere | until the other worker's lease has lapsed ¹ |
    /// | returned because an earlier message of its FIFO group did not succeed | as long as that message, so that the group comes back together |
    /// | not started before the deadline | until the queue's visibility timeout ends |
    /// | terminal, but not moved to a dead-letter queue | until the queue's visibility timeout ends |
    ///
    /// ¹ Also without a backoff, on Lambda or if the consumer has a [`Queue`](crate::consumer::Queue).
    ///
    /// FIFO order holds: SQS delivers no message of a group while one of its messages is hidden. Times count from when the
    /// message has ended, are rounded up to whole seconds, and stay within the 12 hours after receipt that SQS allows.
    /// The consumer sends the requests when the batch has ended, up to 10 messages in each. If a request fails or is
    /// late, the log has one line, and its messages return when the queue's visibility timeout ends. So do messages
    /// without a receipt handle or a queue ARN, which occur only in hand-made events.
    pub fn backoff(self, bounds: RangeInclusive<Duration>) -> Self {
        self.set(|settings| settings.backoff = Some(Backoff::new(bounds)))
    }

    /// Declares a service that the handler calls. Several calls add up. Default: none.
    ///
    /// A handler's error can report the service as [`unavailable`](crate::ResultExt::unavailable), and
    /// [`Dependency::unavailable_if`] recognises errors by their type. After three such errors in a row the consumer opens
    /// a breaker: it returns messages to the queue without claiming their keys or calling the handler. Every 30 s one
    /// message is tried, by one of all environments that share the table. After a success the consumer calls the handler
    /// again, with one message at first and one more for each success.
    ///
    /// Messages that return stay hidden for so long that their remaining deliveries outlast an outage of 24 h, as far as
    /// SQS allows. The consumer asks the queue for its retention and its `maxReceiveCount` for that, which needs
    /// `sqs:GetQueueAttributes`. A message on its last delivery moves to the dead-letter queue with a reason that begins
    /// with `unavailable`. [The guide](crate::guide::outages) has the details.
    ///
    /// Fails at [`init`](crate::Consumer::init) if a name is invalid.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # async fn charge(_: &OrderPlaced) -> std::io::Result<()> { Ok(()) }
    /// use sqs_once::ResultExt;
    ///
    /// let handler = sqs_once::Handler::json::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .call(async |order: OrderPlaced| charge(&order).await.unavailable("payments"))
    ///     .depends_on("payments");
    /// ```
    pub fn depends_on(self, dependency: impl Into<Dependency>) -> Self {
        let dependency = dependency.into();
        self.set(|settings| settings.errors.dependencies.push(dependency))
    }
}
