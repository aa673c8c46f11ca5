//! The settings of a consumer.

#[cfg(feature = "sqs")]
use crate::failed::Queue;
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
    /// 200 messages, or this number if it is larger. It releases claims whose handlers have not started before the
    /// deadline. For a handler that takes a transaction, the consumer claims nothing ahead. Up to this number of
    /// transactions are open at once, each on its own connection, including transactions that wait for another one. A
    /// [`BatchHandler`](crate::BatchHandler) is called once, regardless of this setting.
    ///
    /// A handler that is cancelled while its [`spawn_blocking`](crate::spawn_blocking) code runs counts until the code has
    /// ended. While such code holds every place, further messages return to the queue untried.
    pub fn concurrency(self, concurrency: usize) -> Self {
        self.set(|settings| settings.concurrency = Some(concurrency))
    }

    /// Accepts the events of an EventBridge pipe from SQS whose **target** is this function. Such an event is a bare array
    /// of records. Default: only the events of an event source mapping; a bare array fails the invocation with
    /// [`EventError::NoRecords`](super::EventError::NoRecords).
    ///
    /// A pipe reads the function's batch item failures only from its target, and only with the invocation type
    /// `REQUEST_RESPONSE` (the default). **As the enrichment of a pipe, or with `FIRE_AND_FORGET`, each failed message is
    /// deleted.** A pipe's input template must leave the records as they are.
    pub fn pipe_target(self) -> Self {
        self.set(|settings| settings.is_pipe_target = true)
    }
}

#[cfg(feature = "unstable")]
impl Consumer {
    pub(crate) fn with_single_requests(self) -> Self {
        self.set(|settings| settings.requests = Some(crate::batch::Requests::Single))
    }
}

/// Settings of the feature `sqs`.
#[cfg(feature = "sqs")]
impl Consumer {
    /// Describes a queue that the function receives messages from: [`Queue::any`], or one [by its ARN](Queue::arn). Call
    /// it once for each queue that differs. The later description of the same queue holds.
    pub fn queue(self, queue: Queue) -> Self {
        self.set(|settings| settings.failed.add(queue))
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
