//! Moves terminal records to the dead-letter queue.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tracing::error;

use crate::disposition::{Cause, DeadLetters};
use crate::error::chain;
use crate::record::{CorrelationId, Message};
use crate::report::{Outcome, Report};

/// A terminal record, and why it is one.
pub(super) struct Terminal {
    pub(super) record: usize,
    pub(super) message: Arc<Message>,
    pub(super) cause: Cause,
}

pub(super) struct Moving<'a> {
    dead_letters: Option<&'a dyn DeadLetters>,
    limit: NonZeroUsize,
    waiting: VecDeque<Terminal>,
    moves: FuturesUnordered<BoxFuture<'a, (usize, Report)>>,
}

impl<'a> Moving<'a> {
    /// `limit` is how many moves run at once.
    pub(super) fn new(dead_letters: Option<&'a dyn DeadLetters>, limit: NonZeroUsize) -> Self {
        Self {
            dead_letters,
            limit,
            waiting: VecDeque::new(),
            moves: FuturesUnordered::new(),
        }
    }

    /// Whether the consumer has a dead-letter queue to move records to.
    pub(super) fn is_configured(&self) -> bool {
        self.dead_letters.is_some()
    }

    pub(super) fn push(&mut self, terminal: Terminal) {
        self.waiting.push_back(terminal);
        self.start();
    }

    /// Takes the records whose move has not started.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Terminal> {
        std::mem::take(&mut self.waiting)
    }

    /// The next record whose move has ended. Pending for ever when no move runs.
    pub(super) async fn next(&mut self) -> (usize, Report) {
        let Some(moved) = self.moves.next().await else {
            return std::future::pending().await;
        };
        self.start();
        moved
    }

    fn start(&mut self) {
        let Some(dead_letters) = self.dead_letters else {
            return;
        };
        while self.moves.len() < self.limit.get() {
            let Some(terminal) = self.waiting.pop_front() else {
                return;
            };
            self.moves.push(Box::pin(moved(dead_letters, terminal)));
        }
    }
}

async fn moved(dead_letters: &dyn DeadLetters, terminal: Terminal) -> (usize, Report) {
    let Terminal {
        record,
        message,
        cause,
    } = terminal;
    let mut report = Report::new(Outcome::Terminal);
    match dead_letters.send(&message, &cause).await {
        Ok(()) => report.acknowledged = true,
        Err(error) => error!(
            target: "sqs_once::dead_letters",
            message_id = message.id(),
            correlation_id = message.correlation_id().map(CorrelationId::as_str),
            error = chain(&*error),
            "a terminal record could not be moved to the dead-letter queue"
        ),
    }
    (record, report.because(cause.chain))
}
