//! One handler call, from its first poll to its end.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::breaker::Tried;
use crate::failed::Cause;
use crate::guarded::{Guarded, caught};
use crate::handler::{CallFuture, Running};
use crate::idempotency::Until;
use crate::report::{Code, Reason, Untried};

use super::error_rules::ErrorRules;

#[derive(Clone)]
pub(super) enum Failure {
    /// The handler was never polled, so it had no effect: the deadline came first, or its batch was dropped.
    Unstarted,
    /// The deadline came while the handler ran: its effect may be in flight.
    Deadline,
    /// The handler exceeded the attempt timeout: its effect may be in flight.
    Timeout(Duration),
    /// A layer dropped the handler while it ran: its effect may be in flight.
    Dropped,
    Retry {
        reason: Reason,
        /// The delay that the handler asked for, if any.
        delay: Option<Duration>,
        answered: Option<Arc<str>>,
        outcome_is_unknown: bool,
    },
    /// A dependency of the consumer is unavailable.
    Unavailable {
        dependency: Arc<str>,
        reason: String,
        outcome_is_unknown: bool,
    },
    Terminal {
        cause: Cause,
        /// The dependency whose answer the error is.
        answered: Option<Arc<str>>,
        outcome_is_unknown: bool,
    },
    Panic(String),
}

impl Failure {
    /// Returns what the end of a call tells about the dependencies of its handler, if it tells something.
    pub(super) fn tried<T>(result: &Result<T, Self>) -> Option<Tried<'_>> {
        match result {
            Ok(_) => Some(Tried::Succeeded),
            Err(Self::Unavailable { dependency, .. }) => Some(Tried::Unavailable(dependency)),
            Err(
                Self::Retry {
                    answered: Some(by), ..
                }
                | Self::Terminal {
                    answered: Some(by), ..
                },
            ) => Some(Tried::Answered(by)),
            Err(Self::Timeout(_)) => Some(Tried::Cancelled),
            Err(_) => None,
        }
    }

    /// Returns whether the end of a call tells something about a dependency even if the handler was not called.
    pub(super) fn names_dependency<T>(result: &Result<T, Self>) -> bool {
        let tried = Self::tried(result);
        matches!(tried, Some(Tried::Unavailable(_) | Tried::Answered(_)))
    }

    /// Returns whether a handler is not polled any more, although its effect may be in flight.
    pub(super) fn is_cancellation<T>(result: &Result<T, Self>) -> bool {
        matches!(
            result,
            Err(Self::Timeout(_) | Self::Deadline | Self::Dropped)
        )
    }

    /// Returns whether the handler may have had its effect.
    pub(super) fn leaves_unknown(&self) -> bool {
        match self {
            Self::Unstarted => false,
            Self::Deadline | Self::Timeout(_) | Self::Dropped | Self::Panic(_) => true,
            Self::Retry {
                outcome_is_unknown, ..
            }
            | Self::Unavailable {
                outcome_is_unknown, ..
            }
            | Self::Terminal {
                outcome_is_unknown, ..
            } => *outcome_is_unknown,
        }
    }

    /// Returns the failure of a record whose handler may have had its effect, whatever a layer made of that.
    pub(super) fn after_effect(mut self) -> Self {
        if let Self::Retry {
            outcome_is_unknown, ..
        }
        | Self::Unavailable {
            outcome_is_unknown, ..
        }
        | Self::Terminal {
            outcome_is_unknown, ..
        } = &mut self
        {
            *outcome_is_unknown = true;
        }
        self
    }
}

impl Failure {
    fn code(&self) -> Code {
        match self {
            Self::Unstarted => Code::NotStarted,
            Self::Deadline => Code::Deadline,
            Self::Timeout(_) => Code::AttemptTimeout,
            Self::Dropped => Code::HandlerDropped,
            Self::Retry { reason, .. } => reason.code,
            Self::Unavailable { .. } => Code::Unavailable,
            Self::Terminal { cause, .. } => cause.code,
            Self::Panic(_) => Code::HandlerPanicked,
        }
    }

    pub(super) fn reason(&self) -> Reason {
        self.code().because(self.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unstarted => f.write_str(Untried::NotStarted.as_str()),
            Self::Deadline => f.write_str("cancelled at the deadline while its handler ran"),
            Self::Timeout(limit) => {
                write!(f, "cancelled: its handler took longer than {limit:?}")
            }
            Self::Dropped => f.write_str("cancelled: a layer dropped its handler while it ran"),
            Self::Retry { reason, .. } => f.write_str(&reason.text),
            Self::Panic(reason) => f.write_str(reason),
            Self::Unavailable {
                dependency, reason, ..
            } => {
                write!(f, "unavailable: {dependency}: {reason}")
            }
            Self::Terminal { cause, .. } => f.write_str(&cause.chain),
        }
    }
}

/// A running handler or hook. It ends when its future and all blocking work that it started have ended.
///
/// It also ends after a panic, at the attempt timeout, and at the deadline. After the deadline the handler is not polled
/// again, even if other tasks delayed this poll.
pub(super) struct Handling<'a, C, T> {
    errors: &'a ErrorRules,
    call: Guarded<C>,
    future: Guarded<CallFuture<T>>,
    /// The result of the future, while blocking work still runs.
    result: Option<Result<T, Failure>>,
    running: Running,
    until: Until<'a>,
    limit: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a, C: FnOnce(Instant) -> CallFuture<T>, T> Handling<'a, C, T> {
    /// `call` receives the time at which its future is cancelled; `running` counts the blocking work of this call.
    pub(super) fn new(
        call: C,
        running: Running,
        until: Until<'a>,
        limit: Option<Duration>,
        errors: &'a ErrorRules,
    ) -> Self {
        Self {
            errors,
            call: Guarded::new(call),
            future: Guarded::empty(),
            result: None,
            running,
            until,
            limit,
            timer: None,
        }
    }

    /// Polls the handler. The first poll calls it.
    fn poll_handler(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        if let Some(call) = self.call.take() {
            let mut cancel_at = self.until.at;
            if let Some(limit) = self.limit {
                self.timer = Some(Box::pin(sleep(limit)));
                let ends_at = Instant::now().checked_add(limit);
                cancel_at = ends_at.map_or(cancel_at, |at| at.min(cancel_at));
            }
            self.future = Guarded::new(call(cancel_at));
        }
        let Some(future) = self.future.get() else {
            return Poll::Pending;
        };
        let result = ready!(future.as_mut().poll(context));
        Poll::Ready(result.map_err(|error| self.errors.failure(error)))
    }
}

impl<C: FnOnce(Instant) -> CallFuture<T> + Unpin, T: Unpin> Future for Handling<'_, C, T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Before it looks at the clock, because the process may be frozen in between.
        let _polled = this.running.polled();
        if this.until.has_come() {
            // A call may end before it has a future, while code that it started goes on.
            return Poll::Ready(Err(match (this.future.get(), &this.result) {
                (None, None) => Failure::Unstarted,
                _ => Failure::Deadline,
            }));
        }
        let result = this
            .result
            .take()
            .or_else(|| match caught(|| this.poll_handler(context)) {
                Ok(Poll::Ready(result)) => Some(result),
                Ok(Poll::Pending) => None,
                Err(panic) => Some(Err(Failure::Panic(panic))),
            });
        if let Some(result) = result {
            if this.running.poll_ended(context).is_ready() {
                return Poll::Ready(result);
            }
            this.result = Some(result);
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
