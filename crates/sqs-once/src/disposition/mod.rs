//! What happens to a record that did not succeed.

#[cfg(feature = "sqs")]
mod attributes;
#[cfg(feature = "sqs")]
mod backoff;
#[cfg(feature = "sqs")]
mod dead_letters;
#[cfg(all(feature = "sqs", feature = "testing"))]
mod isolated;
mod settings;
#[cfg(feature = "sqs")]
mod sqs;
#[cfg(feature = "sqs")]
mod visibility;

use std::error::Error;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::handler::HandlerError;
use crate::key::ItemId;
use crate::record::Message;

#[cfg(feature = "sqs")]
pub(crate) use attributes::{MAX_ATTRIBUTES, accepted};
#[cfg(feature = "sqs")]
pub use backoff::Backoff;
pub(crate) use settings::{DispositionSettings, FailedRecords};

/// Why a record is terminal.
#[derive(Clone)]
pub(crate) struct Cause {
    /// The error's own words.
    #[cfg_attr(
        not(feature = "sqs"),
        expect(dead_code, reason = "only a dead letter tells it from its causes")
    )]
    pub(crate) reason: String,
    /// The error and its causes, in one line.
    pub(crate) chain: String,
    /// Where the table keeps the record's key, if it has one.
    pub(crate) key: Option<ItemId>,
}

impl From<&HandlerError> for Cause {
    fn from(error: &HandlerError) -> Self {
        Self {
            reason: error.to_string(),
            chain: error.chain(),
            key: None,
        }
    }
}

/// A reason that has no causes.
impl From<String> for Cause {
    fn from(reason: String) -> Self {
        Self {
            chain: reason.clone(),
            reason,
            key: None,
        }
    }
}

/// What happens to the rest of a FIFO message group when a terminal record of it was moved to the
/// dead-letter queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterDeadLetter {
    /// It is returned to the queue unprocessed, as after any failure (the default): it comes back at the
    /// next delivery, without the record that was moved.
    #[default]
    Stop,
    /// It goes on at once.
    GoOn,
}

/// The dead-letter queue.
pub(crate) trait DeadLetters: Send + Sync {
    /// Sends a copy of the message there, with the cause; only after that may it leave its queue.
    fn send<'a>(
        &'a self,
        message: &'a Message,
        cause: &'a Cause,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>>;
}

/// The queue that messages come from.
pub(crate) trait Visibility: Send + Sync {
    /// How long a failed message stays hidden, if the consumer has a backoff.
    fn backoff(&self, message: &Message) -> Option<Duration>;

    /// Keeps messages away for so long from now. What goes wrong is logged: those messages come back
    /// when their queue's visibility timeout ends.
    fn postpone<'a>(&'a self, waits: Vec<(&'a Message, Duration)>) -> BoxFuture<'a, ()>;

    /// The visibility timeout of the message's queue, if the queue can be asked.
    fn timeout<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Option<Duration>>;
}
