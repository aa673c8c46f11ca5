//! The preparation of a record: its payload, its key and its claim.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::{Instrument, Span, debug_span};

use crate::failed::Cause;
use crate::guarded::caught;
use crate::handler::{PrepareError, PrepareResult, Prepared, Preparing, Waits, Work};
use crate::idempotency::Mode;
use crate::key::{BusinessKey, Fingerprint, KeyError};
use crate::record::{BodyMemory, HeldMemory, Message, Reserved};
use crate::report::{Code, Reason, Report, Untried};

use super::claims::Candidate;
use super::handling::{Failure, Handling};
use super::record::{Counted, Record};
use super::run::Batch;

/// Why a record's handler is not called. Its end may take long, and is not waited for in its room.
pub(super) enum Unready {
    Ended(Report),
    Terminal(Cause),
    Failed(Failure),
}

impl Batch<'_> {
    /// Decodes a record and extracts its key.
    pub(super) async fn prepare(
        &self,
        record: &mut Record,
        route: usize,
    ) -> Result<Prepared<Work>, Unready> {
        let settings = &self.engine.routes[route];
        let message = &self.ledger.messages[record.at];
        let with_fingerprint = settings.mismatch.is_some();
        let prepare = || settings.handler.prepare(message, with_fingerprint);
        let span = self.span(record);
        let preparing = span
            .in_scope(|| caught(prepare))
            .unwrap_or_else(|_| Preparing::Ended(Err(PrepareError::Panic)));
        log_correlation(message, span);
        let prepared = match preparing {
            Preparing::Ended(prepared) => prepared,
            Preparing::Waits(waits) => self.fetch(record, route, waits).await?,
        };
        match prepared {
            Ok(prepared) => Ok(prepared),
            Err(PrepareError::Ignored(reason)) => Err(Unready::Ended(Report::Ignored { reason })),
            Err(error) => {
                let (rules, source) = (&settings.errors, error.of_extractor());
                let mut reason = Reason::of(&error);
                let chosen =
                    source.and_then(|it| rules.failure_of_extractor(it, reason.text.clone()));
                if let Some(note) = source.and_then(|it| rules.undeclared(it)) {
                    reason.text = format!("{note}; {}", reason.text);
                }
                // It may hold an error of the user's.
                let _ = caught(move || drop(error));
                if let Some(failure) = chosen {
                    return Err(self.unready(route, failure));
                }
                self.ledger.count(route, |tally| tally.undecodable += 1);
                Err(Unready::Terminal(Cause::from(reason)))
            }
        }
    }

    /// Waits for a record's payload.
    fn fetch<'b>(
        &'b self,
        record: &'b Record,
        route: usize,
        waits: Waits<Work>,
    ) -> BoxFuture<'b, Result<PrepareResult, Unready>> {
        Box::pin(async move {
            let Waits { future, memory } = waits;
            let untried = |reason| Unready::Ended(Report::untried(reason));
            // Memory comes first: the handlers of one route may hold all of it, and other routes fetch without any.
            let memory = match memory {
                Some(memory) => Some(self.memory(&memory).await.map_err(untried)?),
                None => None,
            };
            let fetches = &self.turns.fetches;
            let overrun = || fetches.is_overrun().then_some(Untried::Overrun);
            let turn = fetches
                .take(|| self.stop.claims_over().or_else(overrun))
                .await;
            let turn = turn.map_err(untried)?;
            let _preparing = Counted::new(&self.counts.preparing);
            let settings = &self.engine.routes[route];
            let running = self.running.part();
            let handling = Handling::new(
                move |_: Instant| future,
                running.clone(),
                self.until(self.deadline.cancel_at),
                settings.attempt_timeout,
                &settings.errors,
            );
            let span = debug_span!(parent: &self.ledger.span(record.at), "prepare");
            let prepared = running.clone().scope(handling).instrument(span).await;
            if running.count() > 0 {
                turn.keep(running, ());
            }
            let failure = match prepared {
                Ok(prepared) => {
                    let message = prepared.as_ref().ok().and_then(|it| it.message.as_ref());
                    if let (Some(message), Some(memory)) = (message, memory) {
                        message.hold(memory);
                    }
                    return Ok(prepared);
                }
                Err(failure) => failure,
            };
            match failure {
                Failure::Panic(_) => Ok(Err(PrepareError::Panic)),
                Failure::Deadline => Err(Unready::Ended(Report::untried(Untried::Unread))),
                Failure::Unstarted => Err(Unready::Ended(Report::untried(Untried::NotStarted))),
                Failure::Terminal { .. }
                | Failure::Timeout(_)
                | Failure::Dropped
                | Failure::Retry { .. }
                | Failure::Unavailable { .. } => Err(self.unready(route, failure)),
            }
        })
    }

    /// Returns the end of a record whose decoder or key extractor failed with an error that chose its meaning.
    fn unready(&self, route: usize, failure: Failure) -> Unready {
        if matches!(failure, Failure::Terminal { .. }) {
            self.ledger.count(route, |tally| tally.undecodable += 1);
        }
        let result = Err::<(), _>(failure.clone());
        if Failure::names_dependency(&result) {
            self.gate.ended(route, &result);
        }
        Unready::Failed(failure)
    }

    /// Waits for memory for a body. The records that hold bodies go on without more, except those of a batch handler, which
    /// wait for each other: there a record returns if only they could make room.
    async fn memory(&self, memory: &Arc<BodyMemory>) -> Result<HeldMemory, Untried> {
        let mut is_full = false;
        poll_fn(|context| {
            match self.stop.claims_over() {
                Some(Untried::NotStarted) if is_full => {
                    return Poll::Ready(Err(Untried::NoMemory));
                }
                Some(reason) => return Poll::Ready(Err(reason)),
                None => {}
            }
            match memory.reserve(context.waker()) {
                Reserved::Now(held) => return Poll::Ready(Ok(held)),
                Reserved::Full if self.together.is_some() => {
                    return Poll::Ready(Err(Untried::NoMemory));
                }
                Reserved::Full => is_full = true,
                Reserved::MayCome => is_full = false,
            }
            Poll::Pending
        })
        .await
    }

    /// Creates the claim of a record's key.
    pub(super) fn candidate(
        &self,
        record: &mut Record,
        route: usize,
        key: BusinessKey,
        fingerprint: Option<Fingerprint>,
    ) -> Result<Candidate, KeyError> {
        let idempotency = &self.engine.routes[route].idempotency;
        let item = idempotency.codec.item_id(&key)?;
        let other_id = idempotency.other_id(&key, &item, fingerprint.as_ref())?;
        let span = self.span(record);
        if !span.is_disabled() {
            span.record("key", item.short());
        }
        let key = Arc::new(key);
        record.key = Some(Arc::clone(&key));
        record.item = Some(item.clone());
        record.fingerprint.clone_from(&fingerprint);
        if let Some(completed) = &idempotency.completed {
            record.sent_at = completed.note(&self.ledger.messages[record.at]);
        }
        let lease_until = self.deadline.lease_until;
        let claims = matches!(idempotency.mode, Mode::ClaimFirst | Mode::ClaimedWrites);
        Ok(Candidate {
            route,
            key,
            other_id,
            claim: idempotency.new_claim(self.next_owner(), item, fingerprint, lease_until),
            sent_at: record.sent_at,
            follows_unknown: false,
            reads_first: claims && self.is_likely_known(record),
        })
    }

    /// Returns whether the key of a message probably has an item: the message was delivered before, and not returned
    /// untried then. A follower returns untried when the message before it fails, and any message while a breaker is open.
    fn is_likely_known(&self, record: &Record) -> bool {
        let deliveries = self.ledger.messages[record.at].receive_count();
        deliveries.is_some_and(|deliveries| deliveries > 1)
            && !record.follows
            && self.engine.breakers.are_closed()
    }
}

pub(super) fn log_correlation(message: &Message, span: &Span) {
    if let Some(correlation_id) = message.correlation_id() {
        span.record("correlation_id", correlation_id.as_str());
    }
}

impl From<&PrepareError> for Code {
    fn from(error: &PrepareError) -> Self {
        match error {
            PrepareError::Ignored(_) => Self::NoEvent,
            PrepareError::Envelope(_) => Self::EnvelopeUnreadable,
            PrepareError::NoBody(_) | PrepareError::Body(_) => Self::BodyUnreadable,
            PrepareError::Key(error) => Self::from(error),
            PrepareError::Fingerprint(_) => Self::ExtractorFailed,
            PrepareError::Panic => Self::PreparationPanicked,
        }
    }
}
