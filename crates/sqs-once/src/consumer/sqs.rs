//! The settings that need SQS's client.

use crate::disposition::{AfterDeadLetter, Backoff};

use super::Consumer;

/// Settings of the feature `sqs`, in any phase. What is set here wins over the environment.
impl<Phase> Consumer<Phase> {
    /// Sends terminal records to the queue at `url` at once, and acknowledges them when SQS has
    /// confirmed that they are there. Default: `SQS_ONCE_DLQ_URL`; where that is not set either, they
    /// stay in their queue until its redrive policy moves them.
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
    /// | `sqs-once-error-chain` | the error and its causes, at most 16 KiB; absent when it says no more than the reason |
    ///
    /// SQS takes 10 attributes and 1 MiB a message. Where there is no room for all of them, they are left
    /// out from the table's end, the reason last; reason and chain are shortened first. A message that has
    /// 10 attributes of its own gets none of these: the log line of its record has the reason. A queue whose
    /// `MaximumMessageSize` is too small for the message with these attributes gets it without them.
    ///
    /// The queue that a message came from is refused: the record fails, with the reason in the log, and the
    /// consumer does not start where `queue_url` or `SQS_ONCE_QUEUE_URL` names that same queue.
    ///
    /// Characters that SQS refuses become `U+FFFD`. A message that comes back from the dead-letter queue and fails again
    /// has these attributes of its last move only. A message whose body can't be read at all is not sent:
    /// only redrive can move it whole.
    /// A text that is no URL fails at [`init`](Consumer::init).
    #[must_use]
    pub fn dead_letter_queue(self, url: &str) -> Self {
        self.set(|settings| settings.disposition.dead_letter_queue = Some(url.to_owned()))
    }

    /// What becomes of the rest of a FIFO message group when a terminal record of it was moved to the
    /// dead-letter queue. Default: [`AfterDeadLetter::Stop`].
    ///
    /// A record that could not be moved, or has no dead-letter queue to go to, always stops its group.
    #[must_use]
    pub fn after_dead_letter(self, after: AfterDeadLetter) -> Self {
        self.set(|settings| settings.disposition.after_dead_letter = after)
    }

    /// Keeps messages that go back to the queue away for a while, longer with every delivery, through
    /// `ChangeMessageVisibilityBatch`. Default: off, and they come back when the queue's visibility
    /// timeout ends. The function's role needs `sqs:ChangeMessageVisibility` on its queue.
    ///
    /// | record | stays away |
    /// |---|---|
    /// | failed | as long as the backoff says |
    /// | failed with [`retry_after`](crate::ResultExt::retry_after) | so long ¹ |
    /// | cancelled at the deadline | as long as the backoff says, and until its own lease has lapsed |
    /// | in progress elsewhere | until the other worker's lease has lapsed ¹ |
    /// | returned because an earlier record of its FIFO group did not succeed | as long as that record, so that the group comes back together |
    /// | not started before the deadline | until the queue's visibility timeout ends |
    /// | terminal, but not moved to a dead-letter queue | until the queue's visibility timeout ends |
    ///
    /// ¹ Even without a backoff: in Lambda, and where one of `queue_url` and `sqs_client` is set.
    ///
    /// Order is safe: SQS delivers nothing of a FIFO group while a record of it is away. Times count
    /// from the record's own end, are rounded up to whole seconds, and end before the 12 hours from the
    /// record's receipt are over that SQS allows. The requests go out when the batch has ended, up to 10
    /// records each. What is not changed in time, or refused, is one line in the log: its records are
    /// failures as they were, and come back when the queue's visibility timeout ends. So do messages
    /// without a receipt handle or a queue ARN, which only a hand-made event has.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|settings| settings.disposition.backoff = Some(backoff))
    }

    /// The URL of the queue that the messages come from, for records that stay away for a while
    /// ([`backoff`](Consumer::backoff)). Default: `SQS_ONCE_QUEUE_URL`; where that is not set either, it
    /// follows from each message's queue ARN, at `AWS_ENDPOINT_URL_SQS` or `AWS_ENDPOINT_URL` where one of
    /// them is set. A text that is no URL fails at [`init`](Consumer::init).
    #[must_use]
    pub fn queue_url(self, url: &str) -> Self {
        self.set(|settings| settings.disposition.queue = Some(url.to_owned()))
    }

    /// Talks to SQS through `client`, for credentials or endpoints of your own. Default: a client with the
    /// SDK's own settings from the environment, and timeouts.
    #[must_use]
    pub fn sqs_client(self, client: aws_sdk_sqs::Client) -> Self {
        self.set(|settings| settings.disposition.client = Some(client))
    }
}
