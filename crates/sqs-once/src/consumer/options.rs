//! The settings of a consumer.

use std::sync::Arc;
use std::time::Duration;

use crate::batch::{FifoFailure, Requests};
#[cfg(feature = "sqs")]
use crate::failed::AfterDeadLetter;
use crate::idempotency::{StoreSettings, shared_settings};
#[cfg(feature = "s3")]
use crate::large_messages::LargeMessages;
use crate::record::{Correlate, Message};
use crate::report::Outcome;
use crate::telemetry::Metrics;

use super::Consumer;
use super::handler_settings::set_function;
#[cfg(feature = "opentelemetry")]
use super::settings::AfterAnswer;

impl Consumer {
    shared_settings!();

    pub(crate) fn set_shared(self, change: impl FnOnce(&mut StoreSettings)) -> Self {
        self.set(|settings| change(&mut settings.store))
    }

    /// Sets the name of the service in log lines and metrics. Default:
    /// `SQS_ONCE_SERVICE`, else `POWERTOOLS_SERVICE_NAME`, else the namespace, or the function's name for a
    /// [`router`](crate::router). A blank name fails at [`init`](Consumer::init).
    pub fn service(self, service: &str) -> Self {
        self.set(|settings| settings.service = Some(service.into()))
    }

    /// Sets where the metrics of each batch go. Default: the value of `SQS_ONCE_METRICS` (`emf`, `off`, or `opentelemetry`
    /// with that feature); else nowhere if `POWERTOOLS_METRICS_DISABLED` is set; else [`Metrics::Emf`] on Lambda, and
    /// nowhere elsewhere.
    ///
    /// Their namespace in CloudWatch is `SQS_ONCE_METRICS_NAMESPACE`, else `POWERTOOLS_METRICS_NAMESPACE`, else `sqs-once`.
    /// Their dimension is the [`service`](Self::service), and in a router the route too.
    pub fn metrics(self, metrics: Metrics) -> Self {
        self.set(|settings| settings.metrics = Some(metrics))
    }

    /// Sets the log level of records that end with `outcome`. Default: `WARN` for [`Failed`](Outcome::Failed), `ERROR` for
    /// [`Terminal`](Outcome::Terminal), `INFO` for the others. A record that succeeds with a warning is logged at `WARN` at
    /// least.
    ///
    /// `SQS_ONCE_RECORD_LEVELS=processed=debug,duplicate=debug` sets the levels of several outcomes. One call of this method
    /// replaces the whole variable.
    pub fn record_level(self, outcome: Outcome, level: tracing::Level) -> Self {
        self.set(|settings| {
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
    /// [`BatchHandler`](super::BatchHandler) is called once, regardless of this setting.
    ///
    /// A handler that is cancelled while its [`spawn_blocking`](crate::spawn_blocking) code runs counts until the code has
    /// ended. While such code holds every place, further records return to the queue untried.
    pub fn concurrency(self, concurrency: usize) -> Self {
        self.set(|settings| settings.concurrency = Some(concurrency))
    }

    /// Sets the visibility timeout of the queue, which events do not contain. Default: `SQS_ONCE_VISIBILITY_TIMEOUT`;
    /// else, on Lambda and with the feature `sqs`, the consumer asks the queue when a batch takes longer than half of
    /// its time. That needs `sqs:GetQueueAttributes`, a permission that the role already has for Lambda's poller.
    ///
    /// The timeout only affects a warning in the log. The consumer warns when four fifths of it have passed since the
    /// first message of the batch was received and the batch still runs: SQS will soon deliver the messages again. SQS
    /// does not report when it redelivered a message; such a message counts from the beginning of the batch.
    pub fn visibility_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.visibility_timeout = Some(timeout))
    }

    /// Sets the `maxReceiveCount` of the redrive policy of the queue that [`queue_url`](Self::queue_url) names, for when
    /// that queue does not answer during an [outage](super::Handler::depends_on). It counts for no other queue: a function may have
    /// several. If no count is known, no message moves to the dead-letter queue because of the outage. Default:
    /// `SQS_ONCE_MAX_RECEIVE_COUNT`. Zero fails at [`init`](Consumer::init).
    pub fn max_receive_count(self, count: u32) -> Self {
        self.set(|settings| settings.max_receive_count = Some(count))
    }

    /// Sets what else of a FIFO queue's batch returns to the queue when a record fails. Default:
    /// [`FifoFailure::ReturnGroup`].
    pub fn fifo(self, failure: FifoFailure) -> Self {
        self.set(|settings| settings.fifo_failure = Some(failure))
    }

    /// Sets how many keys a request to the store carries. Default: [`Requests::Batched`]. Each commit of a
    /// handler of single records whose effect commits with its record is a separate request.
    pub fn requests(self, requests: Requests) -> Self {
        self.set(|settings| settings.requests = Some(requests))
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
    /// # #[sqs_once::handler(key = order.order_id, namespace = "charges")]
    /// # async fn charge(order: OrderPlaced) {}
    /// let consumer = charge::consumer()
    ///     .correlation_id(|message| message.attribute("request-id").map(str::to_owned));
    /// ```
    pub fn correlation_id<F>(self, correlate: F) -> Self
    where
        F: Fn(&Message) -> Option<String> + Send + Sync + 'static,
    {
        let correlate: Correlate = Arc::new(correlate);
        self.set(|settings| {
            let place = &mut settings.correlate;
            set_function(&mut settings.replaced, "correlation_id", place, correlate);
        })
    }

    /// Sets whether the invocation fails if every record of its batch failed, so that Lambda's `Errors` metric shows it.
    /// Default: off, and the response names the failed records.
    ///
    /// All messages return to the queue either way. Records that were moved to the dead-letter queue do not count as
    /// failed here, and neither does a batch without any attempt because other workers hold its keys. Lambda polls a
    /// queue more slowly while its function's invocations fail.
    pub fn raise_on_total_failure(self, raise: bool) -> Self {
        self.set(|settings| settings.raise_on_total_failure = raise)
    }
}

/// Settings of the feature `sqs`.
#[cfg(feature = "sqs")]
impl Consumer {
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
    pub fn dead_letter_queue(self, url: &str) -> Self {
        self.set(|settings| settings.failed.dead_letter_queue = Some(url.to_owned()))
    }

    /// Sets what happens to the rest of a FIFO message group after a terminal record was moved to the dead-letter queue.
    /// Default: [`AfterDeadLetter::Stop`].
    ///
    /// A terminal record that could not be moved always stops its group. So does one without a dead-letter queue.
    pub fn after_dead_letter(self, after: AfterDeadLetter) -> Self {
        self.set(|settings| settings.failed.after_dead_letter = after)
    }

    /// Sets the URL of the queue that the messages come from, for the [`backoff`](super::Handler::backoff). Default:
    /// `SQS_ONCE_QUEUE_URL`; else the URL that follows from each message's queue ARN, at `AWS_ENDPOINT_URL_SQS` or
    /// `AWS_ENDPOINT_URL` if one of them is set. A text that is not a URL fails at [`init`](Consumer::init).
    pub fn queue_url(self, url: &str) -> Self {
        self.set(|settings| settings.failed.queue = Some(url.to_owned()))
    }

    /// Sets the SQS client, for your own credentials or endpoints. Default: a client with timeouts and the SDK's
    /// settings from the environment.
    pub fn sqs_client(self, client: aws_sdk_sqs::Client) -> Self {
        self.set(|settings| settings.failed.client = Some(client))
    }
}

/// Settings of the feature `s3`.
#[cfg(feature = "s3")]
impl Consumer {
    /// Fetches bodies that producers have put into S3, because they are too large for SQS: see [`LargeMessages`]. Default:
    /// those that `SQS_ONCE_LARGE_MESSAGES` names; else none, and a pointer is an ordinary body. An invalid
    /// setting fails at [`init`](Consumer::init).
    pub fn large_messages(self, messages: LargeMessages) -> Self {
        self.set(|settings| settings.large_messages.code = Some(messages))
    }
}

/// Settings of the feature `opentelemetry`.
#[cfg(feature = "opentelemetry")]
impl Consumer {
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
    pub fn after_answer(self, flush: impl Fn() + Send + Sync + 'static) -> Self {
        let flush: AfterAnswer = Arc::new(flush);
        self.set(|settings| {
            let place = &mut settings.after_answer;
            set_function(&mut settings.replaced, "after_answer", place, flush);
        })
    }
}
