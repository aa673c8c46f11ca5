//! One record's handler, from its first poll to its end.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::disposition::Cause;
use crate::handler::{Done, HandlerFuture, RecordParts, Start};

use super::guarded::{Guarded, caught};

/// Why a handler did not succeed.
pub(super) enum Failure {
    /// The deadline came before its first poll: it had no effect.
    Unstarted,
    /// The deadline came while it ran: its effect may be on its way.
    Deadline,
    /// It took longer than a record may: its effect may be on its way.
    Timeout(Duration),
    Retry {
        reason: String,
        /// How long it should wait, where the handler said so.
        delay: Option<Duration>,
    },
    Terminal {
        cause: Cause,
    },
    Panic {
        reason: String,
    },
}

/// A handler at work. A panic is an end like any other, and so is the deadline: from then on the
/// handler is not polled once more, even when others held the thread until after it.
pub(super) struct Handling {
    start: Guarded<(Start<()>, RecordParts<()>)>,
    future: Guarded<HandlerFuture>,
    cancel_at: Instant,
    limit: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Handling {
    pub(super) fn new(
        start: Start<()>,
        parts: RecordParts<()>,
        cancel_at: Instant,
        limit: Option<Duration>,
    ) -> Self {
        Self {
            start: Guarded::new((start, parts)),
            future: Guarded::empty(),
            cancel_at,
            limit,
            timer: None,
        }
    }

    /// Calls the handler at the first poll, and not before.
    fn poll_handler(&mut self, context: &mut Context<'_>) -> Poll<Result<Done, Failure>> {
        if let Some((start, mut parts)) = self.start.take() {
            if let Some(limit) = self.limit {
                self.timer = Some(Box::pin(sleep(limit)));
                let ends_at = Instant::now().checked_add(limit);
                parts.cancelled_at = ends_at.map_or(self.cancel_at, |at| at.min(self.cancel_at));
            }
            self.future = Guarded::new(start(parts));
        }
        let Some(future) = self.future.get() else {
            return Poll::Pending;
        };
        let result = ready!(future.as_mut().poll(context));
        // The error's text is the user's code too.
        Poll::Ready(result.map_err(|error| {
            if error.is_terminal() {
                let cause = Cause::from(&error);
                return Failure::Terminal { cause };
            }
            Failure::Retry {
                reason: error.chain(),
                delay: error.retry_delay(),
            }
        }))
    }
}

impl Future for Handling {
    type Output = Result<Done, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if Instant::now() >= this.cancel_at {
            return Poll::Ready(Err(match this.future.get() {
                Some(_) => Failure::Deadline,
                None => Failure::Unstarted,
            }));
        }
        let polled = caught(|| this.poll_handler(context))
            .unwrap_or_else(|reason| Poll::Ready(Err(Failure::Panic { reason })));
        if polled.is_ready() {
            return polled;
        }
        match (&mut this.timer, this.limit) {
            (Some(timer), Some(limit)) => {
                ready!(timer.as_mut().poll(context));
                Poll::Ready(Err(Failure::Timeout(limit)))
            }
            _ => Poll::Pending,
        }
    }
}
