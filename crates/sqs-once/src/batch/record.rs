//! The path of a record, from its event to its report.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::{Instrument, Span, debug_span};

use crate::failed::Cause;
use crate::guarded::{Guarded, caught};
use crate::handler::{PrepareError, PrepareResult, Prepared, Preparing, Waits, Work};
use crate::idempotency::Admission;
use crate::key::{BusinessKey, Fingerprint, ItemId, KeyError};
use crate::record::{BodyMemory, HeldMemory, Message, Reserved};
use crate::report::{Report, Untried};
use crate::store::Fence;
use crate::time::Timestamp;

use super::call::{Admitted, Owned};
use super::claims::Candidate;
use super::engine::{MissingKey, PayloadMismatch, Route};
use super::gate::Way;
use super::handling::{Failure, Handling};
use super::leaders::{Leader, Place};
use super::room::Slot;
use super::run::Batch;

const UNPROTECTED: &str = "without a business key: not protected against duplicates";

/// A record's state, for its report and for the records with the same key.
pub(super) struct Record {
    pub(super) at: usize,
    /// The place of its route in the engine, once it is chosen.
    pub(super) route: Option<usize>,
    pub(super) key: Option<Arc<BusinessKey>>,
    pub(super) item: Option<ItemId>,
    pub(super) fingerprint: Option<Fingerprint>,
    /// Whether its key was completed for another payload.
    pub(super) is_mismatched: bool,
    /// When SQS received the message, or zero if its consumer has no cache.
    pub(super) sent_at: Timestamp,
    pub(super) taken_up: Option<Instant>,
    /// Its span, from the first use to its end.
    pub(super) span: Option<Span>,
    /// The value that its handler recorded, now or when the key was completed.
    pub(super) data: Option<Arc<str>>,
    /// Warnings for its log line, regardless of its outcome.
    pub(super) warnings: Vec<String>,
    /// The message with its fetched body, until the record ends.
    pub(super) message: Option<Arc<Message>>,
    /// Tells the records with the same key how it ended.
    pub(super) leads: Option<Leader>,
}

/// Counts a record until it is dropped.
pub(super) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Record {
    pub(super) fn new(at: usize, route: Option<usize>) -> Self {
        Self {
            at,
            route,
            key: None,
            item: None,
            fingerprint: None,
            is_mismatched: false,
            sent_at: Timestamp::default(),
            taken_up: None,
            span: None,
            data: None,
            warnings: Vec::new(),
            message: None,
            leads: None,
        }
    }
}

/// Why a record's handler is not called. Its end may take long, and is not waited for in its room.
enum Unready {
    Ended(Report),
    Terminal(Cause),
    Failed(Failure),
}

impl<'a> Batch<'a> {
    /// Runs a record until it has ended like its handler, or like an earlier record with its key.
    pub(super) async fn attempt<'b>(
        &'b self,
        record: &mut Record,
        route: usize,
        slot: Slot<'b>,
    ) -> Report {
        let mut slot = slot;
        loop {
            let prepared = match self.prepare(record, route).await {
                Ok(prepared) => prepared,
                Err(unready) => {
                    let _slot = self.gate.kept(route, slot);
                    return match unready {
                        Unready::Ended(report) => report,
                        Unready::Terminal(cause) => self.terminal(record, cause).await,
                        Unready::Failed(failure) => self.failed(record, failure).await,
                    };
                }
            };
            let work = Guarded::new(prepared.work);
            record.message = prepared.message;
            let key = match prepared.key {
                Ok(key) => key,
                Err(missing) => {
                    return self.without_key(record, route, slot, work, &missing).await;
                }
            };
            let candidate = match self.candidate(record, route, key, prepared.fingerprint) {
                Ok(candidate) => candidate,
                Err(error) => {
                    let _slot = self.gate.kept(route, slot);
                    return self.terminal(record, Cause::from(error.to_string())).await;
                }
            };
            let leader = match self.leaders.join(&candidate.claim.id, record.at) {
                Place::Leads(leads) => {
                    record.leads = Some(leads);
                    return self.lead(record, route, slot, candidate, work).await;
                }
                Place::Follows(leader) => {
                    if let Some(together) = &self.together {
                        together.follows(record.at, leader.record(), record.fingerprint.clone());
                    }
                    leader
                }
            };
            // It needs neither its payload nor a place while it waits.
            drop((slot, work));
            self.drop_unread_body(record, route);
            let ended = leader.ended().await;
            if let Some(report) = self.like(record, &ended).await {
                return report;
            }
            self.leaders.replace(&candidate.claim.id, &leader);
            // It fetches its body again, and must not wait for memory that it holds itself.
            record.message = None;
            slot = match self.gate.enter(route, &self.stop).await {
                Way::In(slot) => slot,
                Way::Shut => return self.shut(record).await,
                Way::Returned(reason) => return Report::untried(reason),
            };
        }
    }

    /// Decodes a record and extracts its key.
    async fn prepare(&self, record: &mut Record, route: usize) -> Result<Prepared<Work>, Unready> {
        let settings = &self.engine.routes[route];
        let message = &self.ledger.messages[record.at];
        let with_fingerprint = settings.mismatch != PayloadMismatch::Ignore;
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
                self.ledger.count(route, |tally| tally.undecodable += 1);
                Err(Unready::Terminal(Cause::from(error.to_string())))
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
            let fetches = &self.turns.fetches;
            let overrun = || fetches.is_overrun().then_some(Untried::Overrun);
            let turn = fetches.take(|| self.stop.claims().or_else(overrun)).await;
            let untried = |reason| Unready::Ended(Report::untried(reason));
            let turn = turn.map_err(untried)?;
            let memory = match memory {
                Some(memory) => Some(self.memory(&memory).await.map_err(untried)?),
                None => None,
            };
            let _preparing = Counted::new(&self.counts.preparing);
            let settings = &self.engine.routes[route];
            let running = self.running.part();
            let handling = Handling::new(
                move |_: Instant| future,
                running.clone(),
                self.deadline.cancel_at,
                settings.record_timeout,
                &settings.dependencies,
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
                Failure::Panic(_) => return Ok(Err(PrepareError::Panic)),
                Failure::Deadline => return Err(Unready::Ended(Report::untried(Untried::Unread))),
                Failure::Unstarted => {
                    return Err(Unready::Ended(Report::untried(Untried::NotStarted)));
                }
                Failure::Unavailable { .. } => {
                    self.gate.ended(route, &Err::<(), _>(failure.clone()));
                }
                Failure::Terminal(_) => self.ledger.count(route, |tally| tally.undecodable += 1),
                Failure::Timeout(_) | Failure::Dropped | Failure::Retry { .. } => {}
            }
            Err(Unready::Failed(failure))
        })
    }

    /// Waits for memory for a body. The records that hold bodies go on without more, except those of a batch handler, which wait
    /// for each other: there a record returns if only they could make room.
    async fn memory(&self, memory: &Arc<BodyMemory>) -> Result<HeldMemory, Untried> {
        poll_fn(|context| {
            if let Some(reason) = self.stop.claims() {
                return Poll::Ready(Err(reason));
            }
            match memory.reserve(context.waker()) {
                Reserved::Now(held) => Poll::Ready(Ok(held)),
                Reserved::Full if self.together.is_some() => Poll::Ready(Err(Untried::NoMemory)),
                Reserved::Full | Reserved::MayCome => Poll::Pending,
            }
        })
        .await
    }

    /// Creates the claim of a record's key.
    fn candidate(
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
        Ok(Candidate {
            route,
            key,
            other_id,
            claim: idempotency.new_claim(self.next_owner(), item, fingerprint, lease_until),
            sent_at: record.sent_at,
        })
    }

    fn without_key<'b>(
        &'b self,
        record: &'b mut Record,
        route: usize,
        slot: Slot<'b>,
        work: Guarded<Work>,
        missing: &'b KeyError,
    ) -> BoxFuture<'b, Report> {
        Box::pin(async move {
            let settings = &self.engine.routes[route];
            let reason = missing.to_string();
            match settings.missing_key {
                MissingKey::Terminal => {
                    let _slot = self.gate.kept(route, slot);
                    return self.terminal(record, Cause::from(reason)).await;
                }
                MissingKey::Retry => return Report::failed(reason),
                MissingKey::ProcessUnprotected => {}
            }
            let message_id = self.ledger.messages[record.at].id();
            // The extractors need a key. This one is made from the message id and never reaches the store.
            let key = BusinessKey::new(&("sqs-once message", message_id));
            let codec = &settings.idempotency.codec;
            let item = key.and_then(|key| Ok((codec.item_id(&key)?, key)));
            let (item, key) = match item {
                Ok(item) => item,
                Err(error) => return self.terminal(record, Cause::from(error.to_string())).await,
            };
            record.warnings.push(UNPROTECTED.to_owned());
            let now = settings.idempotency.driver.clock.now();
            let admitted = Admitted {
                item,
                key: Arc::new(key),
                owned: None,
                fence: Fence::first(now),
                first_attempt: Some(now),
                work,
            };
            Box::pin(self.handle(record, route, Some(slot), admitted)).await
        })
    }

    /// Claims a record's key and handles the record.
    async fn lead<'b>(
        &'b self,
        record: &mut Record,
        route: usize,
        slot: Slot<'b>,
        candidate: Candidate,
        work: Guarded<Work>,
    ) -> Report {
        // Its payload may have been waited for.
        let begun = match &self.together {
            Some(together) if together.begins_once && together.has_asked() => {
                Some(Untried::CallMade)
            }
            _ => None,
        };
        if let Some(reason) = self.stop.claims().or(begun) {
            return Report::untried(reason);
        }
        if let Some(together) = &self.together {
            together.claims(record.at);
        }
        let (candidate, decided, slot) = self.claim(candidate, slot).await;
        if !matches!(decided, Ok((Admission::Run { .. }, _))) {
            self.waits_for_no_claim(record);
        }
        let (fence, first_attempt, transaction) = match decided {
            Ok((
                Admission::Run {
                    fence,
                    first_attempt,
                },
                transaction,
            )) => (fence, first_attempt, transaction),
            Ok((Admission::Refused(refusal), _)) => {
                let _slot = slot.and_then(|slot| self.gate.kept(route, slot));
                return self.refused(record, refusal).await;
            }
            Err(error) => {
                self.ledger.log_once(&error);
                let reason = format!("its key could not be claimed: {}", error.kind());
                return Report::failed(reason);
            }
        };
        let admitted = Admitted {
            key: candidate.key,
            item: candidate.claim.id.clone(),
            owned: Some(Owned {
                claim: candidate.claim,
                transaction,
            }),
            fence,
            first_attempt,
            work,
        };
        self.handle(record, route, slot, admitted).await
    }

    /// Returns the message of a record, with its fetched body if it has one.
    pub(super) fn message(&self, record: &Record) -> Arc<Message> {
        let original = &self.ledger.messages[record.at];
        Arc::clone(record.message.as_ref().unwrap_or(original))
    }

    /// Drops the body that was fetched for a record whose handler does not need it any more, unless a hook may read it.
    pub(super) fn drop_unread_body(&self, record: &mut Record, route: usize) {
        if self.engine.routes[route].hooks.is_empty() {
            record.message = None;
        }
    }

    /// Returns the span of a record, which contains its handler's log lines.
    pub(super) fn span<'b>(&self, record: &'b mut Record) -> &'b Span {
        let at = record.at;
        record.span.get_or_insert_with(|| self.ledger.span(at))
    }

    pub(super) fn route(&self, record: &Record) -> Option<&'a Route> {
        Some(&self.engine.routes[record.route?])
    }
}

pub(super) fn log_correlation(message: &Message, span: &Span) {
    if let Some(correlation_id) = message.correlation_id() {
        span.record("correlation_id", correlation_id.as_str());
    }
}
