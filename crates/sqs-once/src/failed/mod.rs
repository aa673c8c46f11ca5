//! What happens to a message that did not succeed.

#[cfg(feature = "sqs")]
mod attributes;
mod backoff;
#[cfg(feature = "sqs")]
mod dead_letters;
#[cfg(all(feature = "sqs", feature = "testing"))]
mod isolated;
mod limits;
#[cfg(feature = "sqs")]
mod queue;
mod settings;
#[cfg(feature = "sqs")]
mod sqs;
#[cfg(feature = "sqs")]
mod visibility;

use std::error::Error;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::breaker::QueueLimits;
use crate::idempotency::block::Place;
use crate::key::ItemId;
use crate::record::Message;
use crate::report::{Code, Reason};

#[cfg(feature = "sqs")]
pub(crate) use attributes::{MAX_ATTRIBUTES, accepted};
pub(crate) use backoff::Backoff;
#[cfg(all(feature = "sqs", feature = "testing"))]
pub(crate) use isolated::Queues;
#[cfg(feature = "sqs")]
pub use queue::Queue;
pub(crate) use settings::{FailedRecords, FailedSettings, SILENT_DELIVERIES};

#[derive(Clone)]
pub(crate) struct Cause {
    pub(crate) code: Code,
    /// The error's own text, without its causes.
    #[cfg_attr(
        not(feature = "sqs"),
        expect(dead_code, reason = "only a dead letter tells it from its causes")
    )]
    pub(crate) reason: String,
    /// The error and its causes, in one line.
    pub(crate) chain: String,
    /// The id of the key's item in the table, if the message has a key.
    pub(crate) key: Option<ItemId>,
    /// Its place behind the dead letters of its message group, if its queue keeps order.
    pub(crate) place: Option<Place>,
}

/// Creates a cause from a reason without further causes.
impl From<Reason> for Cause {
    fn from(Reason { code, text }: Reason) -> Self {
        Self {
            code,
            chain: text.clone(),
            reason: text,
            key: None,
            place: None,
        }
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

pub(crate) type Sending<'a> = BoxFuture<'a, Result<(), BoxError>>;

/// The error of a request to SQS that was not answered before its batch had to end.
pub(crate) const UNANSWERED: &str = "SQS did not answer in time for the deadline";

pub(crate) trait DeadLetters: Send + Sync {
    /// Sends a copy of the message to the dead-letter queue, with the cause. The message may leave its own queue only after
    /// that.
    fn send<'a>(&'a self, message: &'a Message, cause: &'a Cause) -> Sending<'a>;
}

/// A queue that messages come from.
pub(crate) trait Visibility: Send + Sync {
    /// Hides each message of the queue for its time from now; `ran` is how long its batch ran. Logs failures, and a missing
    /// permission once: the messages of a failed request return when their queue's visibility timeout ends.
    fn hide<'a>(&'a self, waits: Vec<(&'a Message, Duration)>, ran: Duration) -> BoxFuture<'a, ()>;

    /// Returns the visibility timeout of the message's queue, if the queue can be asked.
    fn timeout<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Option<Duration>>;

    /// Asks the message's queue how often it delivers a message, and how long it keeps it. Logs why it does not answer
    /// until `by`.
    fn limits<'a>(
        &'a self,
        message: &'a Message,
        by: Instant,
    ) -> BoxFuture<'a, Option<QueueLimits>>;
}
