//! The queues of a test bench. Every request succeeds, and nothing leaves the process.

use std::time::Duration;

use futures_util::future::{self, BoxFuture};
use tokio::time::Instant;

use crate::breaker::{Deliveries, QueueLimits};
use crate::record::Message;

use super::dead_letters::body;
use super::{Cause, DeadLetters, Sending, Visibility};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues {
    pub(crate) deliveries: Deliveries,
}

impl DeadLetters for Queues {
    fn send<'a>(&'a self, message: &'a Message, _: &'a Cause) -> Sending<'a> {
        Box::pin(future::ready(body(message).map(drop).map_err(Into::into)))
    }
}

impl Visibility for Queues {
    fn hide<'a>(&'a self, _: Vec<(&'a Message, Duration)>, _: Duration) -> BoxFuture<'a, ()> {
        Box::pin(future::ready(()))
    }

    fn timeout<'a>(&'a self, _: &'a Message) -> BoxFuture<'a, Option<Duration>> {
        Box::pin(future::ready(None))
    }

    fn limits<'a>(&'a self, _: &'a Message, _: Instant) -> BoxFuture<'a, Option<QueueLimits>> {
        Box::pin(future::ready(Some(QueueLimits {
            deliveries: self.deliveries,
            // SQS's default.
            retention: Duration::from_secs(4 * 24 * 60 * 60),
        })))
    }
}
