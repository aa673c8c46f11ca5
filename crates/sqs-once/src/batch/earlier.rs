//! Effects that are too old to repeat: a key whose first attempt was longer ago than its token is valid.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::handler::{CallFuture, Done, HandlerError, IdempotencyToken};
use crate::record::Message;
use crate::time::{Clock, Timestamp};

pub(crate) type Reconcile = Arc<dyn Fn(EarlierAttempt) -> CallFuture<Reconciled> + Send + Sync>;

/// How long the service that a handler calls remembers a token, and what happens to a later attempt.
#[derive(Clone, Default)]
pub(crate) struct TokenValidity {
    pub(crate) valid_for: Option<Duration>,
    pub(crate) reconcile: Option<Reconcile>,
}

/// An earlier attempt at an event, whose outcome is not known: the argument of the hook
/// [`reconcile`](crate::Consumer::reconcile).
#[derive(Clone)]
pub struct EarlierAttempt {
    message: Arc<Message>,
    token: IdempotencyToken,
    first_attempted_at: Option<Timestamp>,
}

impl EarlierAttempt {
    /// The message of this delivery.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The token that every attempt at this event receives.
    pub fn token(&self) -> &IdempotencyToken {
        &self.token
    }

    /// When the event was attempted for the first time, to within a millisecond for each attempt since. `None` after an
    /// attempt of Powertools for AWS Lambda, which records no time.
    pub fn first_attempted_at(&self) -> Option<Timestamp> {
        self.first_attempted_at
    }
}

impl fmt::Debug for EarlierAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlierAttempt")
            .field("message", &self.message)
            .field("token", &self.token)
            .field("first_attempted_at", &self.first_attempted_at)
            .finish()
    }
}

/// The result of the hook [`reconcile`](crate::Consumer::reconcile): the outcome of an earlier attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reconciled {
    /// The effect has happened: the record is processed without calling the handler.
    Done,
    /// The effect has not happened: the handler runs.
    NotDone,
    /// It can't be found out: the record is terminal.
    Unknown,
}

impl TokenValidity {
    /// Returns the settings of a route: its own, then those of its router.
    pub(crate) fn within(&self, router: &Self) -> Self {
        let reconcile = self.reconcile.clone();
        Self {
            valid_for: self.valid_for.or(router.valid_for),
            reconcile: reconcile.or_else(|| router.reconcile.clone()),
        }
    }

    /// Returns when the key was first attempted, and the time, if its token may expire before `cancel_at`, the end of this
    /// attempt.
    pub(super) fn expires(
        &self,
        first: Option<Timestamp>,
        clock: &dyn Clock,
        cancel_at: Instant,
    ) -> Option<(Option<Timestamp>, Timestamp)> {
        let valid_for = self.valid_for?;
        let now = clock.now();
        let ends_at = now + cancel_at.saturating_duration_since(Instant::now());
        let is_valid = first.is_some_and(|first| ends_at.since(first) <= valid_for);
        (!is_valid).then_some((first, now))
    }

    /// Asks the hook before the handler's call.
    pub(super) fn before(
        &self,
        (first, now): (Option<Timestamp>, Timestamp),
        message: Arc<Message>,
        token: IdempotencyToken,
        call: impl FnOnce() -> CallFuture<Done> + Send + 'static,
    ) -> CallFuture<Done> {
        let begun = match first {
            Some(first) => format!("{} h ago", now.since(first).as_secs() / 3600),
            None => "at an unknown time".to_owned(),
        };
        let reason = format!(
            "needs reconciliation: it was first attempted {begun}, when its token was new, and this attempt may end \
             after the {:?} for which the token is valid",
            self.valid_for.unwrap_or_default()
        );
        let attempt = EarlierAttempt {
            message,
            token,
            first_attempted_at: first,
        };
        let asked = self.reconcile.as_ref().map(|hook| hook(attempt));
        Box::pin(async move {
            let reconciled = match asked {
                Some(asked) => asked.await?,
                None => Reconciled::Unknown,
            };
            match reconciled {
                Reconciled::Done => Ok(Done::default()),
                Reconciled::NotDone => call().await,
                Reconciled::Unknown => Err(HandlerError::terminal(reason)),
            }
        })
    }
}

pub(crate) fn reconcile<F, Fut>(hook: F) -> Reconcile
where
    F: Fn(EarlierAttempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Reconciled, HandlerError>> + Send + 'static,
{
    Arc::new(move |attempt| Box::pin(hook(attempt)))
}
