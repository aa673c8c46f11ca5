//! The main loop of a batch: claims keys, starts handlers, settles claims and ends records.

pub(super) mod ending;
mod preparing;
pub(super) mod whole_batch;

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{Instrument, Span, debug_span};

use crate::breaker::{Pass, Permit};
use crate::failed::Cause;
use crate::guarded::{Guarded, caught};
use crate::handler::{
    Done, IdempotencyToken, PrepareError, PrepareResult, Preparing, RecordParts, Running, Work,
};
use crate::idempotency::{Admission, Deadline, Owners};
use crate::key::{BusinessKey, Fingerprint, ItemId, KeyError};
use crate::record::Message;
use crate::report::{Outcome, Report};
use crate::router::{NoRoute, RouteError};
use crate::store::{Claim, Fence, OpenTransaction, Seen};
use crate::time::Timestamp;

use super::claiming::{AHEAD, Admissions, Candidate, Claimer};
use super::engine::{Engine, MissingKey, PayloadMismatch};
use super::gate::{Gate, Passed};
use super::handling::{Failure, Handling};
use super::hooks::{HookCall, Hooked};
use super::lanes::Lanes;
use super::ledger::Ledger;
use super::limited::Limited;
use super::moving::DeadLetterMove;
use super::settling::{Concluded, Settler};
use preparing::{Preparations, Waited};
use whole_batch::Together;

pub(super) const IS_OPEN: &str = "its breaker is open";
pub(super) const UNPROTECTED: &str = "without a business key: not protected against duplicates";

#[derive(Clone, Default)]
struct RecordState {
    /// The place of its route in the engine, once a router has chosen it.
    route: Option<usize>,
    key: Option<Arc<BusinessKey>>,
    item: Option<ItemId>,
    fingerprint: Option<Fingerprint>,
    /// Whether its key was completed for another payload.
    is_mismatched: bool,
    /// When SQS received the message, or zero if its consumer has no cache.
    sent_at: Timestamp,
    taken_up: Option<Instant>,
    /// The value that its handler recorded, now or when the key was completed.
    data: Option<Arc<str>>,
    /// Whether its handler's effect commits together with the record of its key.
    commits_effect: bool,
    /// Warnings for its log line, regardless of its outcome.
    warnings: Vec<String>,
    /// The message with its fetched body, until the record ends.
    message: Option<Arc<Message>>,
    /// Later records with the same key. They end like this record.
    followers: Vec<usize>,
}

struct Startable {
    record: usize,
    /// The place of its route in the engine.
    route: usize,
    key: Arc<BusinessKey>,
    item: ItemId,
    /// `None` if the record has no key and runs unprotected.
    owned: Option<Owned>,
    fence: Fence,
    first_attempt: Option<Timestamp>,
    work: Guarded<Work<()>>,
}

impl Startable {
    /// Returns whether its claim was the key's first, under either id.
    fn is_first_attempt(&self) -> bool {
        let owned = self.owned.as_ref();
        owned.is_none_or(|owned| owned.is_first_attempt(self.fence, self.first_attempt))
    }
}

/// A claimed key while its handler runs.
pub(super) struct Owned {
    pub(super) claim: Claim,
    /// The transaction that contains the claim, if there is one. Dropping it rolls it back.
    pub(super) transaction: Option<Box<dyn OpenTransaction>>,
}

impl Owned {
    /// Returns whether its claim was the key's first, under either id, if its record runs with this fence and this time of
    /// the first attempt.
    pub(super) fn is_first_attempt(&self, fence: Fence, first: Option<Timestamp>) -> bool {
        self.claim.seen == Seen::Nothing && first.map(Fence::first) == Some(fence)
    }

    pub(super) fn held_while(mut self, running: Running) -> Self {
        self.transaction = held_while(self.transaction, running);
        self
    }
}

/// Keeps a cancelled handler's transaction open while its blocking work runs, to make another delivery wait. Returns the
/// transaction if none runs.
pub(super) fn held_while(
    transaction: Option<Box<dyn OpenTransaction>>,
    running: Running,
) -> Option<Box<dyn OpenTransaction>> {
    if running.count() == 0 {
        return transaction;
    }
    if let Some(transaction) = transaction {
        tokio::spawn(async move {
            running.ended().await;
            drop(transaction);
        });
    }
    None
}

/// The result of a handler call. A panic counts as a failure.
struct Finished {
    record: usize,
    route: usize,
    owned: Option<Owned>,
    result: Result<Done, Failure>,
}

enum Event {
    Deadline,
    /// The records of handler calls that have ended.
    Finished(Vec<Finished>),
    Moved(usize, Report),
    Admitted(Admissions),
    Settled(Vec<Concluded>),
    Hooked(Hooked),
    Passed(Passed),
    /// Records that had to wait for their payload.
    Prepared(Vec<Waited>),
}

pub(super) struct Run<'a> {
    engine: &'a Engine,
    ledger: &'a Ledger,
    deadline: Deadline,
    lanes: Lanes,
    /// The records of each route that wait until a dependency lets them start, or that are taken up again.
    held: Vec<VecDeque<usize>>,
    /// The single call of a batch handler.
    together: Option<Together<'a>>,
    records: Vec<RecordState>,
    owners: Owners,
    /// The first record of the batch with each key.
    leaders: HashMap<ItemId, usize>,
    preparing: Preparations<'a>,
    claimer: Claimer<'a>,
    startable: VecDeque<Startable>,
    calls: FuturesUnordered<BoxFuture<'a, Vec<Finished>>>,
    /// Counts the batch's task and the blocking work of its handlers.
    running: Running,
    moving: Limited<'a, DeadLetterMove<'a>, (usize, Report)>,
    settler: Settler<'a>,
    hooks: Limited<'a, HookCall<'a>, Hooked>,
    gate: Gate<'a>,
    cancel: Pin<Box<Sleep>>,
    stopped: bool,
    /// Why no further record may start, or `None` while records may start.
    returning: Option<&'static str>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        ledger: &'a Ledger,
        deadline: Deadline,
        running: Running,
    ) -> Self {
        let messages = &ledger.messages;
        let together = engine.batch_call();
        let together = together.map(|call| Together::new(call, deadline.cancel_at));
        let claims_until = together.as_ref().map(|together| together.claims_until);
        Self {
            engine,
            ledger,
            deadline,
            lanes: match ledger.is_fifo && together.is_none() {
                true => Lanes::fifo(messages),
                false => Lanes::open(messages.len()),
            },
            together,
            records: vec![RecordState::default(); messages.len()],
            owners: engine.driver().owners(),
            held: vec![VecDeque::new(); engine.routes.len()],
            leaders: HashMap::new(),
            preparing: Preparations::new(engine),
            claimer: Claimer::new(
                engine,
                ledger,
                claims_until.unwrap_or(deadline.cancel_at),
                deadline.cancel_at,
            ),
            startable: VecDeque::new(),
            calls: FuturesUnordered::new(),
            moving: Limited::new(engine.concurrency, DeadLetterMove::carried_out),
            settler: Settler::new(engine, ledger, deadline.answer_by),
            hooks: Limited::new(engine.concurrency, {
                let running = running.clone();
                move |call: HookCall<'a>| call.run(running.part(), deadline.hooks_by)
            }),
            gate: Gate::new(engine, ledger),
            running,
            cancel: Box::pin(sleep_until(deadline.cancel_at)),
            stopped: false,
            returning: None,
        }
    }

    /// Returns when every record has an outcome and every settlement an answer.
    pub(super) async fn run(mut self) {
        loop {
            if !self.stopped && Instant::now() >= self.deadline.cancel_at {
                self.stop();
            }
            self.claim();
            self.start_handlers();
            self.settler.flush_overdue();
            // Takes all ready events first, so that records that end together share a settlement request.
            let event = match self.next_event().now_or_never() {
                Some(event) => event,
                None => {
                    let claims = !self.claimer.is_idle() || !self.preparing.is_idle();
                    let more_may_come = !self.stopped && (claims || !self.calls.is_empty());
                    self.settler.flush(more_may_come);
                    let is_idle =
                        self.settler.is_idle() && self.hooks.is_idle() && self.gate.is_idle();
                    if is_idle && self.ledger.open() == 0 {
                        return;
                    }
                    self.next_event().await
                }
            };
            match event {
                Event::Deadline => {}
                Event::Finished(finished) => self.finished_together(finished),
                Event::Moved(record, report) => self.end(record, report),
                Event::Admitted(admitted) => self.admitted(admitted),
                Event::Settled(answered) => self.settled(answered),
                Event::Hooked(hooked) => self.hooked(hooked),
                Event::Passed(passed) => self.passed(passed),
                Event::Prepared(waited) => self.waited(waited),
            }
        }
    }

    async fn next_event(&mut self) -> Event {
        let claims_until = self.together.as_ref().and_then(Together::claims_until);
        tokio::select! {
            biased;
            () = &mut self.cancel, if !self.stopped => Event::Deadline,
            // Polled before the handlers, because handlers that never wait would starve it.
            answered = self.settler.next() => Event::Settled(answered),
            Some(finished) = ended(&mut self.calls) => Event::Finished(finished),
            hooked = self.hooks.next() => Event::Hooked(hooked),
            passed = self.gate.next() => Event::Passed(passed),
            (record, report) = self.moving.next() => Event::Moved(record, report),
            admitted = self.claimer.next() => Event::Admitted(admitted),
            waited = self.preparing.next() => Event::Prepared(waited),
            () = sleep_until(claims_until.unwrap_or(self.deadline.cancel_at)), if claims_until.is_some() => Event::Deadline,
        }
    }

    /// Claims keys ahead of free handlers. Waits until a full request fits under the limit.
    fn claim(&mut self) {
        let mut limit = AHEAD.max(self.engine.concurrency.get());
        if self.together.is_some() {
            limit = usize::MAX;
            self.return_unclaimed();
        }
        // Decoding runs user code, which may be slow.
        let cancel_at = self.deadline.cancel_at;
        let in_time = || Instant::now() < cancel_at;
        if self.engine.traits.begins_once {
            return self.claim_at_once(in_time);
        }
        self.claim_ready();
        // An open transaction holds a connection, and other workers wait for its key.
        let is_open = self.engine.traits.opens_transactions;
        // A payload that was waited for may be large.
        let waits = self.engine.traits.waits_for_payloads;
        if (is_open || waits) && self.together.is_none() {
            limit = self.engine.concurrency.get();
        }
        while self.returning.is_none() && self.claimer.has_room() && in_time() {
            let mut keys = self.engine.requests.keys();
            let prepared = self.preparing.count();
            let mut ahead = self.claimer.undecided() + self.startable.len() + prepared;
            if is_open {
                ahead += self.calls.len();
            }
            if waits {
                // They keep their fetched bodies until they have ended.
                ahead += self.hooks.len() + self.moving.len();
            }
            if is_open || (waits && self.engine.traits.has_hooks) {
                ahead += self.settler.unanswered();
            }
            if is_open || waits {
                keys = keys.min(limit.saturating_sub(ahead));
            }
            if keys == 0 || (ahead > 0 && ahead + keys > limit) {
                return;
            }
            let mut candidates = Vec::new();
            // A record without a key needs no claim, but it waits in `startable` too.
            while candidates.len() + self.preparing.count() < keys + prepared
                && self.preparing.has_room()
                && self.startable.len() < limit
            {
                let Some((record, route)) = self.next_record(&candidates) else {
                    break;
                };
                candidates.extend(self.take_up(record, route));
            }
            if candidates.is_empty() {
                return;
            }
            self.claimer.ask(candidates);
        }
    }

    /// Returns the next record that may start, with its route. Holds records back that wait for a dependency. Records
    /// whose breaker is open return to the queue.
    fn next_record(&mut self, candidates: &[Candidate]) -> Option<(usize, usize)> {
        for route in 0..self.held.len() {
            while let Some(&record) = self.held[route].front() {
                match self.pass(route, candidates) {
                    Pass::Free | Pass::Limited(_) => {
                        self.held[route].pop_front();
                        return Some((record, route));
                    }
                    Pass::Wait => break,
                    Pass::Shut => {
                        self.held[route].pop_front();
                        self.end_shut(record);
                    }
                }
            }
        }
        while self.held.iter().map(VecDeque::len).sum::<usize>() < AHEAD {
            let record = self.lanes.next()?;
            let Some(route) = self.choose_route(record) else {
                continue;
            };
            match self.pass(route, candidates) {
                Pass::Free | Pass::Limited(_) => return Some((record, route)),
                Pass::Wait => self.held[route].push_back(record),
                Pass::Shut => self.end_shut(record),
            }
        }
        None
    }

    /// Decides whether another record of a route may be claimed. Nothing is claimed ahead of a probe, or of the records
    /// after it.
    fn pass(&mut self, route: usize, candidates: &[Candidate]) -> Pass {
        let pass = self.gate.pass(route);
        let Pass::Limited(room) = pass else {
            return pass;
        };
        let startable = self.startable.iter().filter(|one| one.route == route);
        let claimed = candidates.iter().filter(|one| one.route == route).count()
            + self.claimer.undecided_of(route)
            + self.preparing.count_of(route)
            + startable.count();
        match (claimed < room, self.together.is_some()) {
            (true, _) => pass,
            // The only call of this batch is the probe.
            (false, true) => Pass::Shut,
            (false, false) => Pass::Wait,
        }
    }

    /// Returns the place of a record's route, or ends a record that no route takes.
    fn choose_route(&mut self, record: usize) -> Option<usize> {
        let Some(router) = &self.engine.router else {
            return Some(0);
        };
        self.records[record].taken_up = Some(Instant::now());
        let message = &self.ledger.messages[record];
        let span = self.ledger.span(record);
        let chosen = span
            .in_scope(|| caught(|| router.choose(message)))
            .unwrap_or_else(|_| Err(NoRoute::Terminal(RouteError::Panic)));
        log_correlation(message, &span);
        match chosen {
            Ok(route) => {
                let name = self.engine.routes[route].name.as_deref();
                span.record("route", name);
                self.records[record].route = Some(route);
                return Some(route);
            }
            Err(NoRoute::Ignored(reason)) => {
                self.end(record, Report::new(Outcome::Ignored).because(reason));
            }
            Err(NoRoute::Terminal(error)) => {
                // The counts of the records that no route takes come last.
                let last = self.engine.routes.len();
                self.ledger.count(last, |tally| tally.undecodable += 1);
                self.end_terminal(record, Cause::from(error.to_string()));
            }
            Err(NoRoute::Retry(error)) => {
                let reason = error.to_string();
                self.end(record, Report::new(Outcome::Failed).because(reason));
            }
        }
        None
    }

    /// Decodes a record and extracts its key. Returns a candidate for the first record with each key only.
    fn take_up(&mut self, record: usize, at: usize) -> Option<Candidate> {
        let route = &self.engine.routes[at];
        self.records[record]
            .taken_up
            .get_or_insert_with(Instant::now);
        let message = &self.ledger.messages[record];
        let with_fingerprint = route.mismatch != PayloadMismatch::Ignore;
        let prepare = || route.handler.prepare(message, with_fingerprint);
        let span = self.ledger.span(record);
        let preparing = span
            .in_scope(|| caught(prepare))
            .unwrap_or_else(|_| Preparing::Ended(Err(PrepareError::Panic)));
        log_correlation(message, &span);
        match preparing {
            Preparing::Ended(result) => self.prepared(record, at, &span, result),
            Preparing::Waits(future) => {
                self.prepare_later(record, at, future);
                None
            }
        }
    }

    /// Returns a candidate for the first record with each key, and ends records that can't be read.
    fn prepared(
        &mut self,
        record: usize,
        at: usize,
        span: &Span,
        prepared: PrepareResult<()>,
    ) -> Option<Candidate> {
        let route = &self.engine.routes[at];
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(PrepareError::Ignored(reason)) => {
                self.end(record, Report::new(Outcome::Ignored).because(reason));
                return None;
            }
            Err(error) => {
                self.ledger.count(at, |tally| tally.undecodable += 1);
                self.end_terminal(record, Cause::from(error.to_string()));
                return None;
            }
        };
        let work = Guarded::new(prepared.work);
        self.records[record].message = prepared.message;
        let key = match prepared.key {
            Ok(key) => key,
            Err(missing) => {
                self.without_key(record, at, work, &missing);
                return None;
            }
        };
        let idempotency = &route.idempotency;
        let fingerprint = prepared.fingerprint;
        let ids = idempotency.codec.item_id(&key).and_then(|item| {
            let other_id = idempotency.other_id(&key, &item, fingerprint.as_ref())?;
            Ok((other_id, item))
        });
        let (other_id, item) = match ids {
            Ok(ids) => ids,
            Err(error) => {
                self.end_terminal(record, Cause::from(error.to_string()));
                return None;
            }
        };
        if !span.is_disabled() {
            span.record("key", item.short());
        }
        let key = Arc::new(key);
        self.records[record].key = Some(Arc::clone(&key));
        self.records[record].item = Some(item.clone());
        self.records[record].fingerprint.clone_from(&fingerprint);
        if let Some(completed) = &idempotency.completed {
            self.records[record].sent_at = completed.note(&self.ledger.messages[record]);
        }
        if let Some(&leader) = self.leaders.get(&item) {
            match self.ledger.report(leader) {
                Some(report) => self.end_like(record, leader, &report),
                None => {
                    self.drop_unread_body(record, at);
                    self.records[leader].followers.push(record);
                }
            }
            return None;
        }
        self.leaders.insert(item.clone(), record);
        Some(Candidate {
            record,
            route: at,
            key,
            other_id,
            claim: idempotency.new_claim(
                self.owners.next(),
                item,
                fingerprint,
                self.deadline.lease_until,
            ),
            work,
            sent_at: self.records[record].sent_at,
            transaction: None,
            tries: 0,
            retry: None,
            waits_until: None,
        })
    }

    fn without_key(
        &mut self,
        record: usize,
        at: usize,
        work: Guarded<Work<()>>,
        missing: &KeyError,
    ) {
        let route = &self.engine.routes[at];
        let reason = missing.to_string();
        match route.missing_key {
            MissingKey::Terminal => self.end_terminal(record, Cause::from(reason)),
            MissingKey::Retry => self.end(record, Report::new(Outcome::Failed).because(reason)),
            MissingKey::ProcessUnprotected => {
                // It may have waited for its payload until the batch was stopped.
                if let Some(reason) = self.returning {
                    return self.end(record, Report::untried(reason));
                }
                let message_id = self.ledger.messages[record].id();
                // The extractors need a key. This one is made from the message id and never reaches the store.
                let key = BusinessKey::new(&("sqs-once message", message_id));
                let codec = &route.idempotency.codec;
                let item = key.and_then(|key| Ok((codec.item_id(&key)?, key)));
                let (item, key) = match item {
                    Ok(item) => item,
                    Err(error) => return self.end_terminal(record, Cause::from(error.to_string())),
                };
                self.records[record].warnings.push(UNPROTECTED.to_owned());
                let now = route.idempotency.clock.now();
                self.startable.push_back(Startable {
                    record,
                    route: at,
                    item,
                    key: Arc::new(key),
                    owned: None,
                    fence: Fence::first(now),
                    first_attempt: Some(now),
                    work,
                });
            }
        }
    }

    fn admitted(&mut self, admitted: Admissions) {
        let claims_over = self.together.as_ref().is_some_and(|call| call.claims_over);
        // A transaction is begun in time, and the call needs all its claims.
        let is_late = claims_over && !self.engine.traits.begins_once;
        let too_late = is_late.then_some(whole_batch::TOO_LATE);
        for (candidate, admission) in admitted {
            // The record before may have stopped the batch.
            match (admission, self.returning.or(too_late)) {
                (Ok(Admission::Run { .. }), Some(reason)) => {
                    self.return_unstarted(candidate.record, Some(&candidate.claim), reason);
                }
                (
                    Ok(Admission::Run {
                        fence,
                        first_attempt,
                    }),
                    None,
                ) => self.startable.push_back(Startable {
                    record: candidate.record,
                    route: candidate.route,
                    key: candidate.key,
                    item: candidate.claim.id.clone(),
                    owned: Some(Owned {
                        claim: candidate.claim,
                        transaction: candidate.transaction,
                    }),
                    fence,
                    first_attempt,
                    work: candidate.work,
                }),
                (Ok(Admission::Refused(refusal)), _) => self.refused(candidate.record, refusal),
                (Err(error), _) => {
                    self.ledger.log_once(&error);
                    let reason = format!("its key could not be claimed: {}", error.kind());
                    let report = Report::new(Outcome::Failed).because(reason);
                    self.end(candidate.record, report);
                }
            }
        }
    }

    fn start_handlers(&mut self) {
        if self.together.is_some() {
            return self.start_together();
        }
        while self.calls.len() < self.engine.concurrency.get() {
            let Some((mut startable, permit)) = self.next_startable() else {
                return;
            };
            let at = startable.route;
            let route = &self.engine.routes[at];
            let Some(Work::Call(start)) = startable.work.take() else {
                continue;
            };
            let start = route.layers.around(start);
            let record = startable.record;
            let span = self.ledger.span(record);
            let (validity, clock) = (&route.token_validity, &route.idempotency.clock);
            // The token of a first attempt is new.
            let earlier = (!startable.is_first_attempt()).then_some(startable.first_attempt);
            let (owned, mut parts) = self.hand_over(startable);
            let call = move |cancel_at| {
                parts.cancel_at = cancel_at;
                let expires =
                    earlier.and_then(|first| validity.expires(first, &**clock, cancel_at));
                let Some(times) = expires else {
                    return start(parts);
                };
                let message = Arc::clone(&parts.message);
                let token = IdempotencyToken::of(&parts.namespace, &parts.key);
                validity.before(times, message, token, move || start(parts))
            };
            let cancel_at = self.deadline.cancel_at;
            let running = self.running.part();
            let (limit, dependencies) = (route.record_timeout, &route.dependencies);
            let handling = Handling::new(call, running.clone(), cancel_at, limit, dependencies);
            let ledger = self.ledger;
            let call_span = debug_span!(parent: &span, "handler");
            let handling = async move {
                let handling = running.clone().scope(handling);
                let result = timed(ledger, at, handling).instrument(call_span).await;
                drop(permit);
                vec![Finished {
                    record,
                    route: at,
                    owned: owned.map(|owned| owned.held_while(running)),
                    result,
                }]
            };
            self.calls.push(Box::pin(handling.instrument(span)));
        }
    }

    /// Takes the next record whose handler may start. Returns records whose breaker is open to the queue.
    fn next_startable(&mut self) -> Option<(Startable, Option<Permit<'a>>)> {
        let mut waiting = Vec::new();
        let mut at = 0;
        while at < self.startable.len() {
            let route = self.startable[at].route;
            if waiting.contains(&route) {
                at += 1;
                continue;
            }
            match self.gate.begin(route) {
                Ok(permit) => return Some((self.startable.remove(at)?, permit)),
                Err(Pass::Shut) => {
                    let startable = self.startable.remove(at)?;
                    let claim = startable.owned.as_ref().map(|owned| &owned.claim);
                    self.release(startable.record, claim);
                    self.end_shut(startable.record);
                }
                Err(_) => {
                    waiting.push(route);
                    at += 1;
                }
            }
        }
        None
    }

    /// Returns the message of a record, with its fetched body if it has one.
    fn message(&self, record: usize) -> Arc<Message> {
        let fetched = self.records[record].message.as_ref();
        Arc::clone(fetched.unwrap_or(&self.ledger.messages[record]))
    }

    /// Drops the body that was fetched for a record whose handler does not need it any more, unless a hook may read it.
    fn drop_unread_body(&mut self, record: usize, route: usize) {
        if self.engine.routes[route].hooks.is_empty() {
            self.records[record].message = None;
        }
    }

    fn hand_over(&mut self, startable: Startable) -> (Option<Owned>, RecordParts<()>) {
        let record = startable.record;
        let owned = startable.owned.as_ref();
        let transaction = owned.and_then(|owned| owned.transaction.as_ref());
        let parts = RecordParts {
            message: self.message(record),
            key: startable.key,
            namespace: self.engine.routes[startable.route]
                .idempotency
                .namespace
                .clone(),
            item: startable.item,
            fence: startable.fence,
            cancel_at: self.deadline.cancel_at,
            route: self.engine.routes[startable.route].name.clone(),
            transaction: transaction.map(|transaction| transaction.handle()),
            state: (),
        };
        (startable.owned, parts)
    }

    /// Stops the batch at the deadline: cancels handlers, and releases the claims of records that have not started. The
    /// claim of a cancelled handler lapses, because the handler's effect may be in flight.
    fn stop(&mut self) {
        self.stopped = true;
        self.ledger.tally().deadline_hits = self.ledger.open() as u64;
        for handling in std::mem::take(&mut self.calls) {
            // After the deadline, a poll returns the call's result without polling the handler.
            if let Some(finished) = handling.now_or_never() {
                self.finished_together(finished);
            }
        }
        let unprepared = self.preparing.stop();
        self.waited(unprepared);
        for postponed in self.gate.stop_waiting() {
            self.end_unavailable(postponed);
        }
        for terminal in self.moving.take_waiting() {
            self.end_terminal(terminal.record, terminal.cause);
        }
        self.return_rest(Failure::NOT_STARTED);
    }
}

pub(super) fn log_correlation(message: &Message, span: &Span) {
    if let Some(correlation_id) = message.correlation_id() {
        span.record("correlation_id", correlation_id.as_str());
    }
}

/// Waits until a call has ended. Returns the records of all calls that have ended by then, so that the loop does not turn
/// once for each of them.
async fn ended(
    calls: &mut FuturesUnordered<BoxFuture<'_, Vec<Finished>>>,
) -> Option<Vec<Finished>> {
    let mut finished = calls.next().await?;
    while let Some(Some(more)) = calls.next().now_or_never() {
        finished.extend(more);
    }
    Some(finished)
}

async fn timed<T>(ledger: &Ledger, route: usize, call: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let ended = call.await;
    let duration = began.elapsed();
    ledger.count(route, |tally| tally.handler_durations.push(duration));
    ended
}
