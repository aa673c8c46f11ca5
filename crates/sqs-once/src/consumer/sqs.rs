//! The settings that need SQS's client.

use crate::disposition::{AfterDeadLetter, Backoff};

use super::Consumer;

/// Settings of the feature `sqs`, in any phase. What is set here wins over the environment.
impl<Phase> Consumer<Phase> {
    /// Sends terminal records to the queue at `url` at once, and acknowledges them after SQS has confirmed the copy.
    /// Default: `SQS_ONCE_DLQ_URL`; else they stay in their queue until its redrive policy moves them.
    ///
    /// The function's role needs `sqs:SendMessage` on that queue. Body, attributes, message group and
    /// trace header are kept. A FIFO queue gets the message id as deduplication id, and as message group
    /// where the message has none; a standard queue may get a message twice when an answer of SQS is
    /// lost. These attributes are added, all of type `String`:
    ///
    /// | attribute | value |
    /// |---|---|
    /// | `sqs-once-reason` | the error's own words, at most 1 KiB |
    /// | `sqs-once-key` | the id of its key's item in the table, if it has a key |
    /// | `sqs-once-message-id` | the message's id in its own queue, as in the logs |
    /// | `sqs-once-receive-count` | how often SQS had delivered it |
    /// | `sqs-once-first-received` | when it first did: milliseconds since the Unix epoch |
    /// | `sqs-once-function` | the Lambda function's name |
    /// | `sqs-once-error-chain` | the error and its causes, at most 16 KiB; absent if it equals the reason |
    ///
    /// SQS takes 10 attributes and 1 MiB a message. If they do not all fit, reason and chain are shortened first; then
    /// attributes are left out from the table's end, the reason last. A message that has
    /// 10 attributes of its own gets none of these: the log line of its record has the reason. A queue whose
    /// `MaximumMessageSize` is too small for the message with these attributes gets it without them.
    ///
    /// The queue that a message came from is refused: the record fails, with the reason in the log, and the
    /// consumer does not start where `queue_url` or `SQS_ONCE_QUEUE_URL` names that same queue.
    ///
    /// Characters that SQS refuses become `U+FFFD`. A message that comes back from the dead-letter queue and fails again
    /// has these attributes of its last move only. A message whose body can't be read at all is not sent:
    /// only redrive can move it whole.
    /// A text that is not a URL fails at [`init`](Consumer::init).
    #[must_use]
    pub fn dead_letter_queue(self, url: &str) -> Self {
        self.set(|settings| settings.disposition.dead_letter_queue = Some(url.to_owned()))
    }

    /// Sets what happens to the rest of a FIFO message group after a terminal record was moved to the dead-letter queue.
    /// Default: [`AfterDeadLetter::Stop`].
    ///
    /// A terminal record that could not be moved always stops its group. So does one without a dead-letter queue.
    #[must_use]
    pub fn after_dead_letter(self, after: AfterDeadLetter) -> Self {
        self.set(|settings| settings.disposition.after_dead_letter = after)
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
    /// FIFO order holds: SQS delivers no message of a group while one of its messages is hidden. Times count from the end
    /// of the record, are rounded up to whole seconds, and stay within the 12 hours after receipt that SQS allows. The
    /// consumer sends the requests when the batch has ended, up to 10 records in each. If a request fails or is late, the
    /// log has one line, and its records return when the queue's visibility timeout ends. So do messages without a receipt
    /// handle or a queue ARN, which only a hand-made event has.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|settings| settings.disposition.backoff = Some(backoff))
    }

    /// Sets the URL of the queue that the messages come from, for the [`backoff`](Consumer::backoff). Default:
    /// `SQS_ONCE_QUEUE_URL`; else it follows from each message's queue ARN, at `AWS_ENDPOINT_URL_SQS` or `AWS_ENDPOINT_URL`
    /// if one of them is set. A text that is not a URL fails at [`init`](Consumer::init).
    #[must_use]
    pub fn queue_url(self, url: &str) -> Self {
        self.set(|settings| settings.disposition.queue = Some(url.to_owned()))
    }

    /// Sets the client of SQS, for credentials or endpoints of your own. Default: a client with timeouts and the SDK's
    /// settings from the environment.
    #[must_use]
    pub fn sqs_client(self, client: aws_sdk_sqs::Client) -> Self {
        self.set(|settings| settings.disposition.client = Some(client))
    }
}
