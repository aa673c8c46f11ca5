//! The settings of a queue whose messages the function receives.

use std::num::NonZeroU32;

use aws_sdk_sqs::Client;

use crate::config::{QUEUE_URL, is_url};
use crate::error::ConfigError;

use super::sqs::arn_parts;

/// A queue that the function receives messages from: where its terminal messages go, and how SQS is reached.
///
/// ```
/// use sqs_once::body::Text;
/// use sqs_once::key::MessageKey;
/// use sqs_once::consumer::Queue;
/// use sqs_once::{Consumer, Handler};
///
/// let handler = Handler::decode(Text)
///     .key(MessageKey::attribute("order-id"))
///     .call(async |order: String| {});
/// let dead_letters = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dlq";
/// let consumer = Consumer::new(handler).queue(Queue::any().dead_letter_queue(dead_letters));
/// ```
///
/// The consumer asks SQS for the visibility timeout, the redrive policy and the retention of each queue when it needs
/// them. The function's role already allows that: Lambda's poller needs `sqs:GetQueueAttributes`, too. Requests go to the
/// URL that follows from the queue's ARN, at `AWS_ENDPOINT_URL_SQS` or `AWS_ENDPOINT_URL` if one of them is set.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Queue {
    /// `None` for any queue.
    pub(super) arn: Option<String>,
    pub(super) dead_letter_queue: Option<String>,
    pub(super) client: Option<Client>,
    pub(super) keep_order: Option<NonZeroU32>,
}

impl Queue {
    /// Describes every queue that is not described by its ARN.
    pub fn any() -> Self {
        Self::default()
    }

    /// Describes the queue with this ARN. Settings that it leaves out are those of [`any`](Self::any). A text that is not
    /// the ARN of an SQS queue fails at [`init`](crate::Consumer::init).
    pub fn arn(arn: impl Into<String>) -> Self {
        Self {
            arn: Some(arn.into()),
            ..Self::default()
        }
    }

    /// Sends terminal messages to the queue at `url` at once, and acknowledges them after SQS has confirmed the copy.
    /// Default: `SQS_ONCE_DLQ_URL`; else terminal messages stay in their queue until its redrive policy moves them.
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
    /// SQS allows 10 attributes and 1 MiB per message. If the attributes do not all fit, the consumer first shortens reason
    /// and chain. Then it leaves out attributes from the table's end, the reason last. A message that already has 10
    /// attributes gets none of these; its log line has the reason. If the message with these attributes exceeds the queue's
    /// `MaximumMessageSize`, it is sent without them.
    ///
    /// The consumer refuses to move a message to the queue that it came from: the message fails, with the reason in the log.
    /// A queue [by its ARN](Self::arn) that names itself here fails at [`init`](crate::Consumer::init), as does a text that
    /// is not a URL.
    ///
    /// Characters that SQS refuses become `U+FFFD`. A message that returns from the dead-letter queue and fails again
    /// has only the attributes of its last move. A message whose body can't be read at all is not sent: only redrive
    /// can move it unchanged.
    pub fn dead_letter_queue(mut self, url: impl Into<String>) -> Self {
        self.dead_letter_queue = Some(url.into());
        self
    }

    /// Keeps the order of a FIFO queue's message groups behind a dead letter. A message is tried up to `deliveries` times.
    /// Then it goes to the dead-letter queue, and every later message of its group goes behind it, untried and in order.
    /// The group goes on when `dlq redrive` has brought them back and all have ended. Default: a group goes on
    /// behind a dead letter.
    ///
    /// The dead-letter queue must be a FIFO queue. The queue's own `maxReceiveCount` must be at least `deliveries` + 100, or
    /// absent: SQS also counts deliveries that reach no code, and moves a message at its limit without a word. Otherwise the
    /// queue's messages are returned, with an `ERROR` line.
    ///
    /// Each batch costs one read of the store more, beside its first claims. A batch handler refuses to start with this
    /// setting, and so does a consumer with `SQS_ONCE_DISABLED`.
    pub fn keep_order(mut self, deliveries: NonZeroU32) -> Self {
        self.keep_order = Some(deliveries);
        self
    }

    /// Sets the SQS client, for your own credentials or endpoints. Default: a client with timeouts and the SDK's
    /// settings from the environment, which the first request to SQS creates.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Takes the settings that this one leaves out from `any`.
    pub(super) fn or(self, any: &Self) -> Self {
        Self {
            arn: self.arn,
            dead_letter_queue: self
                .dead_letter_queue
                .or_else(|| any.dead_letter_queue.clone()),
            client: self.client.or_else(|| any.client.clone()),
            keep_order: self.keep_order.or(any.keep_order),
        }
    }

    /// Checks that dead letters keep their order, if they have to.
    pub(super) fn check_order(&self) -> Result<(), ConfigError> {
        let url = self.dead_letter_queue.as_deref();
        let is_fifo = url.is_some_and(|url| url.trim_end_matches('/').ends_with(".fifo"));
        match self.keep_order {
            Some(_) if !is_fifo => Err(ConfigError::conflicting(
                "the setting `keep_order`",
                match url {
                    Some(_) => "has a dead-letter queue that is no FIFO queue",
                    None => "has no dead-letter queue",
                },
                "the URL of a FIFO queue in SQS_ONCE_DLQ_URL or `dead_letter_queue`",
            )),
            _ => Ok(()),
        }
    }

    /// Checks values from the code by the same rules as values from the environment.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        const SETTING: &str = "the setting `dead_letter_queue`";
        if let Some(arn) = &self.arn
            && !matches!(arn_parts(arn), Some(["arn", _, "sqs", ..]))
        {
            let expected = "an ARN such as arn:aws:sqs:eu-central-1:123456789012:orders";
            let problem = format!("has the ARN {arn:?}");
            return Err(ConfigError::invalid(
                "the setting `queue`",
                problem,
                expected,
            ));
        }
        let Some(url) = &self.dead_letter_queue else {
            return Ok(());
        };
        if !is_url(url) {
            return Err(ConfigError::invalid(
                SETTING,
                format!("is {url:?}"),
                QUEUE_URL,
            ));
        }
        if self.arn.as_ref().is_some_and(|arn| names(url, arn)) {
            return Err(ConfigError::conflicting(
                SETTING,
                "is the queue itself, to which its terminal messages would come back for ever",
                "the URL of another queue",
            ));
        }
        Ok(())
    }
}

/// Returns whether a URL and an ARN name the same queue. Both end in its account and name.
pub(super) fn names(url: &str, arn: &str) -> bool {
    let url = url.trim_end_matches('/').rsplit('/');
    url.take(2).eq(arn.rsplit(':').take(2))
}
