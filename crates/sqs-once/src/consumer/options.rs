//! The settings of a consumer.

use std::time::Duration;

use crate::batch::{Fifo, Requests};
use crate::idempotency::{StoreSettings, shared_settings};
#[cfg(feature = "s3")]
use crate::large_messages::LargeMessages;
use crate::telemetry::Telemetry;

use super::Consumer;

impl Consumer {
    shared_settings!();

    pub(crate) fn set_shared(self, change: impl FnOnce(&mut StoreSettings)) -> Self {
        self.set(|settings| change(&mut settings.store))
    }

    /// Sets the names, levels and destinations of logs, metrics and traces. Default: those of [`Telemetry`].
    pub fn telemetry(self, telemetry: Telemetry) -> Self {
        self.set(|settings| settings.telemetry = telemetry)
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

    /// Sets what else of a FIFO queue's batch returns to the queue when a record does not succeed. Default:
    /// [`Fifo::new`].
    pub fn fifo(self, fifo: Fifo) -> Self {
        self.set(|settings| settings.fifo = fifo)
    }

    /// Sets how many keys a request to the store carries. Default: [`Requests::Batched`]. Each commit of a
    /// handler of single records whose effect commits with its record is a separate request.
    pub fn requests(self, requests: Requests) -> Self {
        self.set(|settings| settings.requests = Some(requests))
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
