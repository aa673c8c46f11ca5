//! The path of a record, from its event to its report.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::Span;

use crate::failed::Cause;
use crate::guarded::{Guarded, caught};
use crate::handler::Work;
use crate::idempotency::Admission;
use crate::key::{BusinessKey, Fingerprint, ItemId, KeyError};
use crate::record::Message;
use crate::report::{Code, Reason, Report, Untried};
use crate::router::{NoRoute, RouteError};
use crate::store::{Fence, StoreError, StoreErrorKind};
use crate::time::Timestamp;

use super::call::{Admitted, Owned};
use super::claims::{Candidate, Places};
use super::ending::{Completion, Returns};
use super::engine::{MissingKey, Route};
use super::gate::{self, Way};
use super::leaders::{Leader, Place};
use super::order::NoTurn;
use super::prepare::{Unready, log_correlation};
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
    /// The completion of its key, if that is for another payload.
    pub(super) other_completion: Option<Completion>,
    /// Whether SQS delivers the message no further time. Known only of a FIFO queue's message that did not succeed.
    pub(super) is_last_delivery: bool,
    /// Whether another message of its group is before it in the batch.
    pub(super) follows: bool,
    /// When SQS received the message, or zero if its consumer has no cache.
    pub(super) sent_at: Timestamp,
    pub(super) taken_up: Option<Instant>,
    /// Its span, from the first use to its end.
    pub(super) span: Option<Span>,
    /// The completion's value, from this call of the handler or from the key's item.
    pub(super) data: Option<Arc<str>>,
    /// Warnings for its log line, however the record ends.
    pub(super) warnings: Vec<Reason>,
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
            other_completion: None,
            is_last_delivery: false,
            follows: false,
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

/// The records of a message group in their order, or one record of a queue without order.
pub(super) struct Lane {
    pub(super) first: Record,
    pub(super) rest: VecDeque<usize>,
}

/// A record's route, and whether it may be claimed.
pub(super) type Routed<'b> = Result<(usize, Way<Slot<'b>>), NoRoute>;

/// A record that has a key, and everything for its claim and its handler.
struct Keyed<'b> {
    slot: Slot<'b>,
    candidate: Candidate,
    work: Guarded<Work>,
}

impl<'a> Batch<'a> {
    pub(super) fn record(&self, at: usize) -> Record {
        // A consumer without a router has one route.
        Record::new(at, self.engine.router.is_none().then_some(0))
    }

    /// Runs the records of a message group one after the other. The first failure ends it.
    pub(super) async fn run_lane(&self, lane: Lane, start: Routed<'_>) {
        let (mut record, mut rest) = (lane.first, lane.rest);
        let mut start = Some(start);
        // The batch may have stopped while the record before it ran. Then all of its rest was returned.
        while self.take(record.at) {
            record.taken_up = Some(Instant::now());
            // The route and the place are this record's own, also if it does not use them.
            let own = start.take();
            let mut report = match self.is_behind(record.at) {
                true => {
                    drop(own);
                    Box::pin(self.end_without_turn(&record, NoTurn::Behind)).await
                }
                false => {
                    let report = self.attempt(&mut record, own).await;
                    report.unwrap_or_else(|early| early)
                }
            };
            if self.ledger.is_fifo && !report.is_acknowledged() {
                report = Box::pin(self.end_last_delivery(&mut record, report)).await;
            }
            if self.keeps_order(record.at) {
                report = Box::pin(self.note_turn(&record, report)).await;
            }
            if let Some(stopped) = self.end(record, report) {
                return self.return_group(rest, &stopped).await;
            }
            match rest.pop_front() {
                Some(at) => {
                    record = self.record(at);
                    record.follows = true;
                }
                None => return,
            }
        }
    }

    /// Returns the rest of a message group to the queue.
    async fn return_group(&self, rest: VecDeque<usize>, stopped: &Returns) {
        for at in rest {
            if self.take(at) {
                let mut record = self.record(at);
                let report = self.end_returned(&mut record, stopped.clone()).await;
                self.end(record, report);
            }
        }
    }

    /// Returns the place of a record's route.
    pub(super) fn choose_route(&self, record: &mut Record) -> Result<usize, NoRoute> {
        if let Some(route) = record.route {
            return Ok(route);
        }
        let Some(router) = &self.engine.router else {
            return Ok(0);
        };
        let message = &self.ledger.messages[record.at];
        let span = self.span(record);
        let chosen = span
            .in_scope(|| caught(|| router.choose(message)))
            .unwrap_or(Err(NoRoute::Terminal(RouteError::Panic)));
        log_correlation(message, span);
        let route = chosen?;
        span.record("route", self.engine.routes[route].name.as_deref());
        record.route = Some(route);
        Ok(route)
    }

    /// Runs a record until it has ended like its handler, or like an earlier record with its key. `Err` is the report of a
    /// record that needs no claim, or has none.
    async fn attempt<'b>(
        &'b self,
        record: &mut Record,
        start: Option<Routed<'b>>,
    ) -> Result<Report, Report> {
        let (route, mut slot) = self.start(record, start).await?;
        loop {
            let keyed = self.prepare_key(record, route, slot).await?;
            if let Some(together) = &self.together {
                self.keyed_in_order(together, record.at).await;
            }
            let id = keyed.candidate.claim.id.clone();
            let leader = match self.leaders.join(&id, record.at) {
                Place::Leads(leads) => {
                    record.leads = Some(leads);
                    return self.claim_and_handle(record, keyed).await;
                }
                Place::Follows(leader) => leader,
            };
            if let Some(together) = &self.together {
                together.follows(record.at, leader.record(), record.fingerprint.clone());
            }
            // It needs neither its payload nor a place while it waits.
            drop(keyed);
            self.drop_unread_body(record, route);
            let ended = leader.ended().await;
            if let Some(report) = self.end_like_leader(record, &ended).await {
                return Ok(report);
            }
            self.leaders.replace(&id, &leader);
            // It fetches its body again, and must not wait for memory that it holds itself.
            record.message = None;
            let way = self.gate.enter(route, &self.stop).await;
            slot = self.take_slot(record, way).await?;
        }
    }

    /// Chooses a record's route, and waits until it may be claimed.
    async fn start<'b>(
        &'b self,
        record: &mut Record,
        start: Option<Routed<'b>>,
    ) -> Result<(usize, Slot<'b>), Report> {
        let start = match start {
            Some(start) => start,
            None => match self.choose_route(record) {
                Ok(route) => Ok((route, self.gate.enter(route, &self.stop).await)),
                Err(why) => Err(why),
            },
        };
        match start {
            Ok((route, way)) => Ok((route, self.take_slot(record, way).await?)),
            Err(NoRoute::Ignored(reason)) => Err(Report::Ignored { reason }),
            Err(NoRoute::Terminal(error)) => {
                // The counts of the records that no route takes come last.
                let last = self.engine.routes.len();
                self.ledger.count(last, |tally| tally.undecodable += 1);
                Err(self
                    .end_terminal(record, Cause::from(Reason::of(&error)))
                    .await)
            }
            Err(NoRoute::Retry(error)) => Err(Report::failed(Reason::of(&error))),
        }
    }

    async fn take_slot<'b>(
        &'b self,
        record: &mut Record,
        way: Way<Slot<'b>>,
    ) -> Result<Slot<'b>, Report> {
        match way {
            Ok(slot) => Ok(slot),
            Err(why) => Err(self.end_untried(record, why).await),
        }
    }

    /// Prepares a record up to its claim. A record that has no claim ends here.
    async fn prepare_key<'b>(
        &'b self,
        record: &mut Record,
        route: usize,
        slot: Slot<'b>,
    ) -> Result<Keyed<'b>, Report> {
        let prepared = match self.prepare(record, route).await {
            Ok(prepared) => prepared,
            Err(unready) => {
                let _slot = self.gate.slot_until_ended(route, slot);
                return Err(match unready {
                    Unready::Ended(report) => report,
                    Unready::Terminal(cause) => self.end_terminal(record, cause).await,
                    Unready::Failed(failure) => self.end_failed(record, failure).await,
                });
            }
        };
        let work = Guarded::new(prepared.work);
        record.message = prepared.message;
        let key = match prepared.key {
            Ok(key) => key,
            Err(missing) => {
                return Err(self.without_key(record, route, slot, work, &missing).await);
            }
        };
        match self.candidate(record, route, key, prepared.fingerprint) {
            Ok(candidate) => Ok(Keyed {
                slot,
                candidate,
                work,
            }),
            Err(error) => {
                let _slot = self.gate.slot_until_ended(route, slot);
                Err(self
                    .end_terminal(record, Cause::from(Reason::of(&error)))
                    .await)
            }
        }
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
            let reason = Reason::of(missing);
            match settings.missing_key {
                MissingKey::Terminal => {
                    let _slot = self.gate.slot_until_ended(route, slot);
                    return self.end_terminal(record, Cause::from(reason)).await;
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
                Err(error) => {
                    return self
                        .end_terminal(record, Cause::from(Reason::of(&error)))
                        .await;
                }
            };
            if let Some(why) = self.waits_for_turn(record.at).await {
                let _slot = self.gate.slot_until_ended(route, slot);
                return self.end_without_turn(record, why).await;
            }
            let warning = Code::Unprotected.because(UNPROTECTED);
            record.warnings.push(warning);
            let now = settings.idempotency.driver.clock.now();
            let admitted = Admitted {
                item,
                key: Arc::new(key),
                owned: None,
                fence: Fence::first(now),
                first_attempt: Some(now),
                work,
            };
            let places = Places {
                slot: Some(slot),
                handler: None,
            };
            Box::pin(self.handle(record, route, places, admitted)).await
        })
    }

    /// Claims a record's key and handles the record.
    async fn claim_and_handle<'b>(
        &'b self,
        record: &mut Record,
        keyed: Keyed<'b>,
    ) -> Result<Report, Report> {
        let Keyed {
            slot,
            candidate,
            work,
        } = keyed;
        let route = candidate.route;
        let handler = match self.engine.routes[route].idempotency.counts_attempts() {
            true => Some(self.start_before_claim(record, route).await?),
            false => None,
        };
        // Its payload, or its handler's turn, may have been waited for.
        let begun = match &self.together {
            Some(together) if together.begins_once && together.has_asked() => {
                Some(Untried::CallMade)
            }
            _ => None,
        };
        if let Some(reason) = self.stop.claims_over().or(begun) {
            return Err(Report::untried(reason));
        }
        if let Some(together) = &self.together {
            together.claims(record.at);
        }
        let mut places = Places {
            slot: Some(slot),
            handler,
        };
        let (candidate, decided) = self.claim(candidate, &mut places).await;
        if !matches!(decided, Ok((Admission::Run { .. }, _))) {
            self.unblock_batch_call(record);
        }
        let follows_unknown = candidate.follows_unknown;
        if let Some(why) = self.waits_for_turn(record.at).await {
            match (&decided, why) {
                // A duplicate is one, however often it was delivered.
                (Ok((Admission::Refused(_), _)), NoTurn::UsedUp) => {}
                _ => return Err(self.give_up_claim(record, candidate, decided, why).await),
            }
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
                let slot = places.slot;
                let _slot = slot.and_then(|slot| self.gate.slot_until_ended(route, slot));
                drop(places.handler);
                return Ok(self.end_refused(record, refusal).await);
            }
            Err(error) => return Err(self.end_unclaimed(record, candidate, &error)),
        };
        let admitted = Admitted {
            key: candidate.key,
            item: candidate.claim.id.clone(),
            owned: Some(Owned {
                claim: candidate.claim,
                transaction,
                follows_unknown,
            }),
            fence,
            first_attempt,
            work,
        };
        Ok(self.handle(record, route, places, admitted).await)
    }

    /// Ends a record that has no turn in its message group, after its claim.
    fn give_up_claim<'b>(
        &'b self,
        record: &'b mut Record,
        candidate: Candidate,
        decided: Result<crate::idempotency::Admitted, StoreError>,
        why: NoTurn,
    ) -> BoxFuture<'b, Report> {
        Box::pin(async move {
            let route = candidate.route;
            match decided {
                Ok((Admission::Run { .. }, transaction)) => {
                    // The transaction rolls back before another request is made.
                    drop(transaction);
                    let owned = Owned {
                        claim: candidate.claim,
                        transaction: None,
                        follows_unknown: candidate.follows_unknown,
                    };
                    self.release_unstarted(route, Some(&owned));
                }
                Ok((Admission::Refused(_), _)) => {}
                Err(error) => {
                    let report = self.end_unclaimed(record, candidate, &error);
                    if why != NoTurn::Behind {
                        return report;
                    }
                }
            }
            self.end_without_turn(record, why).await
        })
    }

    /// Waits until the handler of a record whose key must not be claimed earlier may start. A key that is claimed ahead
    /// looks as if its handler had started.
    fn start_before_claim<'b>(
        &'b self,
        record: &'b mut Record,
        route: usize,
    ) -> BoxFuture<'b, Result<gate::Running, Report>> {
        Box::pin(async move {
            match self.start_handler(route).await {
                Ok(handler) => Ok(handler),
                Err(why) => Err(self.end_untried(record, why).await),
            }
        })
    }

    /// Ends a record whose claim the store has not decided on.
    fn end_unclaimed(&self, record: &Record, candidate: Candidate, error: &StoreError) -> Report {
        self.ledger.log_once(error);
        let reason = format!("its key could not be claimed: {}", error.kind());
        let report = Report::failed(Code::NotClaimed.because(reason));
        let route = candidate.route;
        // An earlier try may have written the claim, whatever the last error is.
        if self.engine.routes[route].idempotency.counts_attempts() {
            let owned = Owned {
                claim: candidate.claim,
                transaction: None,
                follows_unknown: candidate.follows_unknown,
            };
            self.release_unstarted(route, Some(&owned));
        }
        match error.kind() {
            // The store may have written the claim.
            StoreErrorKind::Unanswered => self.hide_while_claimed(record, route, report),
            _ => report,
        }
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

impl From<&RouteError> for Code {
    fn from(error: &RouteError) -> Self {
        match error {
            RouteError::Envelope(_) => Self::EnvelopeUnreadable,
            RouteError::Unnamed(_) | RouteError::Unknown(_) => Self::NoRoute,
            RouteError::Panic => Self::PreparationPanicked,
        }
    }
}
