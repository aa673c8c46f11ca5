//! Attempts of unknown outcome, and what happens to their keys.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use crate::handler::{CallFuture, Done, HandlerError, IdempotencyToken};
use crate::idempotency::OnUnknown;
use crate::record::Message;
use crate::report::{Code, Reason};
use crate::time::{Clock, Timestamp};

use super::call::FirstAttempt;

/// The dead-letter queue's tools recognise such a message by the text before the first colon.
const REASON: &str = "outcome unknown";
const WAY_OUT: &str = "look it up under its idempotency token; if the effect has happened, complete its key (`key complete`), \
                       otherwise forget the key (`key forget`) and redrive it";

/// Why the next attempt does not run.
pub(super) const EARLIER: &str = "an earlier attempt may have had the effect";

type Reconcile = Arc<dyn Fn(EarlierAttempt) -> CallFuture<Reconciled> + Send + Sync>;

/// Chooses what happens to an event after an attempt of unknown outcome.
///
/// An attempt is of unknown outcome if it may have had its effect, and nothing tells whether it did: its process was killed
/// or stopped working, the handler was cancelled by its deadline, by [`attempt_timeout`](crate::Handler::attempt_timeout) or
/// by a layer, it panicked, its key could not be completed, or it failed with
/// [`outcome_unknown`](crate::ResultExt::outcome_unknown). After every other error the next attempt runs, with any setting.
///
/// ```
/// # #[derive(serde::Deserialize)] struct Withdrawal { id: String }
/// # mod bank { pub async fn withdraw(_: &str) -> std::io::Result<()> { Ok(()) } }
/// use sqs_once::policy::UnknownOutcome;
/// use sqs_once::{HandlerError, ResultExt};
///
/// let handler = sqs_once::Handler::json::<Withdrawal>()
///     .key(|withdrawal: &Withdrawal| withdrawal.id.clone())
///     .call(async |withdrawal: Withdrawal| {
///         // The request may have arrived, even if its answer did not.
///         bank::withdraw(&withdrawal.id).await.outcome_unknown()
///     })
///     .unknown_outcome(UnknownOutcome::dead_letter());
/// ```
#[derive(Clone, Default)]
pub struct UnknownOutcome {
    /// `None` repeats.
    rule: Option<Rule>,
    /// How long the service remembers the token of an earlier attempt.
    token_valid_for: Option<Duration>,
}

#[derive(Clone, Default)]
struct Rule {
    reconcile: Option<Reconcile>,
    has_warned: Arc<AtomicBool>,
}

impl UnknownOutcome {
    /// The handler runs again, with the same [`IdempotencyToken`](crate::IdempotencyToken) (the default).
    pub const fn repeat() -> Self {
        Self {
            rule: None,
            token_valid_for: None,
        }
    }

    fn with(rule: Rule) -> Self {
        Self {
            rule: Some(rule),
            token_valid_for: None,
        }
    }

    /// The handler does not run again. The message is terminal, with a reason that begins with `outcome unknown`. Its key
    /// keeps the attempt until an operator completes or forgets the key, or the table deletes its item, after the
    /// [`retention`](crate::Handler::retention).
    pub fn dead_letter() -> Self {
        Self::with(Rule::default())
    }

    /// Calls `hook` before the handler, to find out whether the attempt had its effect. A hook that fails fails the message
    /// as a handler would, and its next delivery asks again.
    ///
    /// ```
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # mod payments { pub async fn find(_: &str) -> std::io::Result<bool> { Ok(true) } }
    /// use sqs_once::HandlerError;
    /// use sqs_once::extract::EarlierAttempt;
    /// use sqs_once::policy::{Reconciled, UnknownOutcome};
    ///
    /// async fn look_up(attempt: EarlierAttempt) -> Result<Reconciled, HandlerError> {
    ///     Ok(match payments::find(attempt.token().as_str()).await? {
    ///         true => Reconciled::Done,
    ///         false => Reconciled::NotDone,
    ///     })
    /// }
    ///
    /// let handler = sqs_once::Handler::json::<OrderPlaced>()
    ///     .key(|order: &OrderPlaced| order.order_id.clone())
    ///     .call(async |order: OrderPlaced| {})
    ///     .unknown_outcome(UnknownOutcome::reconcile(look_up));
    /// ```
    pub fn reconcile<F, Fut>(hook: F) -> Self
    where
        F: Fn(EarlierAttempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reconciled, HandlerError>> + Send + 'static,
    {
        Self::with(Rule {
            reconcile: Some(Arc::new(move |attempt| Box::pin(hook(attempt)))),
            ..Rule::default()
        })
    }

    /// Repeats attempts, as [`repeat`](Self::repeat) does, while the service that the handler calls remembers the
    /// [`IdempotencyToken`](crate::IdempotencyToken). Only an attempt that may end later is a dead letter, or reconciled.
    /// Many payment providers forget tokens after 24 hours.
    ///
    /// The time begins with the key's first attempt. It ends with this one, at its deadline or
    /// [`attempt_timeout`](crate::Handler::attempt_timeout). Every earlier attempt counts, even one that failed, because a
    /// later failure does not tell what an earlier attempt did. An attempt of Powertools has an unknown age, as if it were
    /// too long ago. A first attempt always runs.
    ///
    /// Together with [`repeat`](Self::repeat), it fails at [`init`](crate::Consumer::init).
    #[must_use]
    pub fn token_valid_for(mut self, validity: Duration) -> Self {
        self.token_valid_for = Some(validity);
        self
    }

    /// Returns whether it has a validity that [`UnknownOutcome::repeat`] has no use for.
    pub(crate) fn is_contradictory(&self) -> bool {
        self.is_repeat() && self.token_valid_for.is_some()
    }

    pub(crate) fn is_repeat(&self) -> bool {
        self.rule.is_none()
    }

    /// Returns how long tokens are valid, if that decides.
    pub(crate) fn validity(&self) -> Option<Duration> {
        self.token_valid_for
    }

    /// Returns what a claim does that finds an attempt of unknown outcome.
    pub(crate) fn on_unknown(&self) -> OnUnknown {
        match (&self.rule, self.token_valid_for) {
            (Some(rule), None) => match rule.reconcile {
                Some(_) => OnUnknown::Ask,
                None => OnUnknown::Keep,
            },
            _ => OnUnknown::Repeat,
        }
    }

    /// Returns why an attempt that ends at `cancel_at` must not run without the hook, if there is a reason.
    pub(super) fn doubts(
        &self,
        attempt: FirstAttempt,
        clock: &dyn Clock,
        cancel_at: Instant,
    ) -> Option<Reason> {
        let rule = self.rule.as_ref()?;
        let Some(valid_for) = self.token_valid_for else {
            return attempt.is_unknown.then(|| reason(EARLIER));
        };
        let left = cancel_at.saturating_duration_since(Instant::now());
        if attempt.is_this {
            if left > valid_for && !rule.has_warned.swap(true, Ordering::Relaxed) {
                warn!(
                    token_valid_for_ms = valid_for.as_millis() as u64,
                    "a first attempt may take longer than its token is valid: set a shorter `attempt_timeout`"
                );
            }
            return None;
        }
        let now = clock.now();
        let ends_at = now + left;
        let begun = match attempt.at {
            Some(first) if ends_at.since(first) <= valid_for => return None,
            Some(first) => format!("{} h ago", now.since(first).as_secs() / 3600),
            None => "at an unknown time".to_owned(),
        };
        Some(reason(&format!(
            "it was first attempted {begun}, and this attempt may end after the {valid_for:?} for which its token is valid"
        )))
    }

    /// Asks the hook before the handler's call.
    pub(super) fn reconcile_before(
        &self,
        reason: Reason,
        attempt: EarlierAttempt,
        call: impl FnOnce() -> CallFuture<Done> + Send + 'static,
    ) -> CallFuture<Done> {
        let hook = self.rule.as_ref().and_then(|rule| rule.reconcile.as_ref());
        let asked = hook.map(|hook| hook(attempt));
        Box::pin(async move {
            let reconciled = match asked {
                Some(asked) => asked.await.map_err(HandlerError::into_outcome_unknown)?,
                None => Reconciled::Unknown,
            };
            match reconciled {
                Reconciled::Done => Ok(Done::default()),
                Reconciled::NotDone => call().await,
                Reconciled::Unknown => Err(HandlerError::terminal(reason).into_outcome_unknown()),
            }
        })
    }
}

impl fmt::Debug for UnknownOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule.as_ref();
        f.write_str(match rule.map(|rule| rule.reconcile.is_some()) {
            None => "repeat",
            Some(false) => "dead letter",
            Some(true) => "reconcile",
        })?;
        match self.token_valid_for {
            Some(valid_for) => write!(f, " after {valid_for:?}"),
            None => Ok(()),
        }
    }
}

/// Returns the reason of a dead letter whose effect may have happened.
pub(super) fn reason(why: &str) -> Reason {
    Code::OutcomeUnknown.because(format!("{REASON}: {why}; {WAY_OUT}"))
}

/// An earlier attempt of unknown outcome at an event: the argument of the hook [`reconcile`](UnknownOutcome::reconcile).
#[derive(Clone)]
pub struct EarlierAttempt {
    message: Arc<Message>,
    token: IdempotencyToken,
    first_attempted_at: Option<Timestamp>,
}

impl EarlierAttempt {
    pub(super) fn new(
        message: Arc<Message>,
        token: IdempotencyToken,
        first_attempted_at: Option<Timestamp>,
    ) -> Self {
        Self {
            message,
            token,
            first_attempted_at,
        }
    }

    /// Returns the message of this delivery.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the token that every attempt at this event receives.
    pub fn token(&self) -> &IdempotencyToken {
        &self.token
    }

    /// Returns when the event was attempted for the first time, to within a millisecond for each attempt since. `None` after
    /// an attempt of Powertools for AWS Lambda, which stores no time.
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

/// The result of the hook [`reconcile`](UnknownOutcome::reconcile): whether an earlier attempt had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reconciled {
    /// The effect has happened: the message is processed without calling the handler.
    Done,
    /// The effect has not happened: the handler runs.
    NotDone,
    /// It can't be found out: the message is terminal.
    Unknown,
}
