//! One batch from its first claim to its last record.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{Instrument, error, info_span};

use crate::disposition::Cause;
use crate::error::chain;
use crate::handler::{PrepareError, RecordParts, Start};
use crate::idempotency::{Admission, Completion, Refusal, on_completed};
use crate::key::{BusinessKey, Fingerprint, ItemId, KeyError};
use crate::store::{Claim, Fence, StoreError, StoreErrorKind};
use crate::time::Timestamp;

use super::Deadline;
use super::claiming::{AHEAD, Admitted, CLAIMS, Candidate, Claimer};
use super::engine::{Engine, FifoFailure, MissingKey, PayloadMismatch};
use super::guarded::{Guarded, caught};
use super::handling::{Failure, Handling};
use super::lanes::Lanes;
use super::ledger::{Ledger, Outcome, Report};
use super::settling::{Answered, Settler};

const CANCELLED: &str = "cancelled at the deadline while its handler ran";
const NOT_STARTED: &str = "the deadline came before it was started";
const UNPROTECTED: &str = "without a business key: not protected against duplicates";

/// A record whose handler may start.
struct Startable {
    record: usize,
    key: BusinessKey,
    item: ItemId,
    /// None where the record runs without protection.
    claim: Option<Claim>,
    fence: Fence,
    start: Guarded<Start<()>>,
}

/// What the batch remembers of a record that was taken up.
#[derive(Clone, Default)]
struct Taken {
    item: Option<ItemId>,
    fingerprint: Option<Fingerprint>,
    taken_up: Option<Instant>,
    /// It has no key, and runs without a claim.
    unprotected: bool,
    /// Records that end as this one does, because they have its key.
    followers: Vec<usize>,
}

/// A handler's end. A panic is an end like any other.
struct Finished {
    record: usize,
    claim: Option<Claim>,
    result: Result<(), Failure>,
}

enum Event {
    Deadline,
    Finished(Finished),
    Moved(usize, Report),
    Admitted(Admitted),
    Settled(Vec<Answered>),
}

pub(super) struct Run<'a> {
    engine: &'a Engine,
    ledger: &'a Ledger,
    deadline: Deadline,
    lanes: Lanes,
    taken: Vec<Taken>,
    /// The record that stands for each key: the first of the batch that has it.
    leaders: HashMap<ItemId, usize>,
    claimer: Claimer<'a>,
    claimed: VecDeque<Startable>,
    running: FuturesUnordered<BoxFuture<'a, Finished>>,
    /// The records whose handlers `running` holds.
    handlers: HashSet<usize>,
    /// Terminal records, each with its cause, that wait to be moved to the dead-letter queue.
    to_move: VecDeque<(usize, Cause)>,
    /// Terminal records on their way there.
    moving: FuturesUnordered<BoxFuture<'a, (usize, Report)>>,
    settler: Settler<'a>,
    logged: HashSet<StoreErrorKind>,
    cancel: Pin<Box<Sleep>>,
    stopped: bool,
    /// Why nothing more is started, once that is so.
    returning: Option<&'static str>,
}

impl<'a> Run<'a> {
    pub(super) fn new(engine: &'a Engine, ledger: &'a Ledger, deadline: Deadline) -> Self {
        let messages = ledger.messages();
        Self {
            engine,
            ledger,
            deadline,
            lanes: Lanes::new(messages),
            taken: vec![Taken::default(); messages.len()],
            leaders: HashMap::new(),
            claimer: Claimer::new(&engine.idempotency, engine.in_progress, deadline.cancel_at),
            claimed: VecDeque::new(),
            running: FuturesUnordered::new(),
            handlers: HashSet::new(),
            to_move: VecDeque::new(),
            moving: FuturesUnordered::new(),
            settler: Settler::new(&engine.idempotency, deadline.answer_by),
            logged: HashSet::new(),
            cancel: Box::pin(sleep_until(deadline.cancel_at)),
            stopped: false,
            returning: None,
        }
    }

    /// Ends when every record has its outcome and every settlement was answered.
    pub(super) async fn run(mut self) {
        loop {
            if !self.stopped && Instant::now() >= self.deadline.cancel_at {
                self.stop();
            }
            self.claim();
            self.start_handlers();
            self.move_terminal();
            self.settler.flush_overdue();
            // All that is ready is taken first, so that what ends together is settled together.
            let event = match self.next_event().now_or_never() {
                Some(event) => event,
                None => {
                    self.settler.flush();
                    if self.settler.is_idle() && self.ledger.is_complete() {
                        return;
                    }
                    self.next_event().await
                }
            };
            match event {
                Event::Deadline => {}
                Event::Finished(finished) => self.finished(finished),
                Event::Moved(record, report) => self.end(record, report),
                Event::Admitted(admitted) => self.admitted(admitted),
                Event::Settled(answered) => self.settled(answered),
            }
        }
    }

    async fn next_event(&mut self) -> Event {
        tokio::select! {
            biased;
            () = &mut self.cancel, if !self.stopped => Event::Deadline,
            // Before the handlers: those that never wait would keep it from being polled.
            answered = self.settler.next() => Event::Settled(answered),
            Some(finished) = self.running.next() => Event::Finished(finished),
            Some((record, report)) = self.moving.next() => Event::Moved(record, report),
            admitted = self.claimer.next() => Event::Admitted(admitted),
        }
    }

    /// Claims ahead, in full requests where there are records enough.
    fn claim(&mut self) {
        let limit = AHEAD.max(self.engine.concurrency.get());
        while self.returning.is_none() && self.claimer.has_room() {
            let ahead = self.claimer.undecided() + self.claimed.len();
            if ahead > 0 && ahead + CLAIMS > limit {
                return;
            }
            let mut candidates = Vec::new();
            // A record without a key needs no claim, but room to wait.
            while candidates.len() < CLAIMS && self.claimed.len() < limit {
                let Some(record) = self.lanes.next() else {
                    break;
                };
                candidates.extend(self.take_up(record));
            }
            if candidates.is_empty() {
                return;
            }
            self.claimer.ask(candidates);
        }
    }

    /// Decodes a record and takes its key. Only the first record of a key goes on from here.
    fn take_up(&mut self, record: usize) -> Option<Candidate> {
        self.taken[record].taken_up = Some(Instant::now());
        let message = &self.ledger.messages()[record];
        let with_fingerprint = self.engine.mismatch != PayloadMismatch::Ignore;
        let prepared = caught(|| self.engine.handler.prepare(message, with_fingerprint))
            .unwrap_or_else(|_| Err(PrepareError::Panic));
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.end_terminal(record, Cause::from(error.to_string()));
                return None;
            }
        };
        let start = Guarded::new(prepared.start);
        let Some(key) = prepared.key else {
            self.without_key(record, start);
            return None;
        };
        let item = self.engine.idempotency.item_id(&key);
        let fingerprint = prepared.fingerprint;
        self.taken[record].item = Some(item.clone());
        self.taken[record].fingerprint.clone_from(&fingerprint);
        if let Some(&leader) = self.leaders.get(&item) {
            match self.ledger.outcome(leader) {
                Some(report) => self.end_like(record, leader, &report),
                None => self.taken[leader].followers.push(record),
            }
            return None;
        }
        self.leaders.insert(item.clone(), record);
        let idempotency = &self.engine.idempotency;
        Some(Candidate {
            record,
            key,
            claim: idempotency.new_claim(item, fingerprint, self.deadline.lease_until),
            start,
            pause: None,
            waits_until: None,
        })
    }

    /// What becomes of a record without a key, by policy.
    fn without_key(&mut self, record: usize, start: Guarded<Start<()>>) {
        let reason = KeyError::Missing.to_string();
        match self.engine.missing_key {
            MissingKey::Terminal => self.end_terminal(record, Cause::from(reason)),
            MissingKey::Retry => self.end(record, Report::new(Outcome::Failed).because(reason)),
            MissingKey::ProcessUnprotected => {
                let message_id = self.ledger.messages()[record].id();
                // The extractors see a key of the message's own; the store never does.
                let key = match BusinessKey::of(&("sqs-once message", message_id)) {
                    Ok(key) => key,
                    Err(error) => return self.end_terminal(record, Cause::from(error.to_string())),
                };
                self.taken[record].unprotected = true;
                self.claimed.push_back(Startable {
                    record,
                    item: self.engine.idempotency.item_id(&key),
                    key,
                    claim: None,
                    fence: Fence::first(self.engine.idempotency.clock.now()),
                    start,
                });
            }
        }
    }

    fn admitted(&mut self, admitted: Admitted) {
        for (candidate, admission) in admitted {
            match (admission, self.returning) {
                (Ok(Admission::Run { .. }), Some(reason)) => {
                    self.return_unstarted(candidate.record, Some(&candidate.claim), reason);
                }
                (Ok(Admission::Run { fence }), None) => self.claimed.push_back(Startable {
                    record: candidate.record,
                    key: candidate.key,
                    item: candidate.claim.id.clone(),
                    claim: Some(candidate.claim),
                    fence,
                    start: candidate.start,
                }),
                (Ok(Admission::Refused(refusal)), _) => self.refused(candidate.record, refusal),
                (Err(error), _) => {
                    self.log_once(&error);
                    let reason = format!("its key could not be claimed: {}", error.kind());
                    self.end(
                        candidate.record,
                        Report::new(Outcome::Failed).because(reason),
                    );
                }
            }
        }
    }

    fn refused(&mut self, record: usize, refusal: Refusal) {
        let report = match (refusal, self.engine.mismatch) {
            (Refusal::Duplicate { .. }, _) => Report::new(Outcome::Duplicate),
            (Refusal::PayloadMismatch, mismatch) => mismatched(mismatch),
            (Refusal::InProgress { lease_until }, _) => self.in_progress(record, lease_until),
            (Refusal::UnknownStatus(status), _) => Report::new(Outcome::Failed).because(format!(
                "its key's item has the status {status:?}, which this version does not know"
            )),
        };
        self.end(record, report);
    }

    fn in_progress(&self, record: usize, lease_until: Option<Timestamp>) -> Report {
        let left = lease_until.map(|until| self.time_until(until));
        let reason = match left {
            Some(left) => format!(
                "another worker has its key, for {} s at most",
                left.as_secs()
            ),
            None => "another worker has its key".to_owned(),
        };
        let backoff = self.backoff(record);
        Report::new(Outcome::InProgress)
            .because(reason)
            .wait(backoff.map(|backoff| left.unwrap_or(backoff)))
    }

    /// How long the consumer's backoff keeps a record away that goes back to the queue.
    fn backoff(&self, record: usize) -> Option<Duration> {
        let visibility = self.engine.visibility.as_deref()?;
        visibility.backoff(&self.ledger.messages()[record])
    }

    /// The same for a record whose own claim is left to lapse: before that it would only come back to
    /// be told that somebody has its key.
    fn backoff_past_lease(&self, record: usize) -> Option<Duration> {
        let lease = self.time_until(self.deadline.lease_until);
        self.backoff(record).map(|backoff| backoff.max(lease))
    }

    fn time_until(&self, moment: Timestamp) -> Duration {
        moment.since(self.engine.idempotency.clock.now())
    }

    fn start_handlers(&mut self) {
        while self.running.len() < self.engine.concurrency.get() {
            let Some(mut startable) = self.claimed.pop_front() else {
                return;
            };
            let Some(start) = startable.start.take() else {
                continue;
            };
            let Startable {
                record,
                key,
                item,
                claim,
                fence,
                ..
            } = startable;
            let message = Arc::clone(&self.ledger.messages()[record]);
            let span = info_span!("record", message_id = message.id(), key = item.short());
            let cancel_at = self.deadline.cancel_at;
            let parts = RecordParts {
                message,
                key: Arc::new(key),
                item,
                fence,
                cancelled_at: cancel_at,
                state: (),
            };
            self.handlers.insert(record);
            let handling = Handling::new(start, parts, cancel_at, self.engine.record_timeout);
            let handling = async move {
                Finished {
                    record,
                    claim,
                    result: handling.await,
                }
            };
            self.running.push(Box::pin(handling.instrument(span)));
        }
    }

    fn finished(&mut self, finished: Finished) {
        let Finished {
            record,
            claim,
            result,
        } = finished;
        self.handlers.remove(&record);
        let Err(failure) = result else {
            let Some(claim) = claim else {
                return self.end(record, Report::new(Outcome::Processed));
            };
            let completion = self.engine.idempotency.completion(&claim);
            return self.settler.push(Some(record), completion);
        };
        // A cancelled handler's effect may be on its way: its claim is left to lapse.
        let was_cancelled = matches!(failure, Failure::Timeout(_) | Failure::Deadline);
        if !was_cancelled {
            self.release(claim.as_ref());
        }
        let report = Report::new(Outcome::Failed);
        let report = match failure {
            Failure::Terminal { cause } => return self.end_terminal(record, cause),
            Failure::Retry { reason, delay } => report.because(reason).wait(delay),
            Failure::Panic { reason } => report.because(reason),
            Failure::Unstarted => report.because(NOT_STARTED),
            Failure::Timeout(limit) => {
                let reason = format!("cancelled: its handler took longer than {limit:?}");
                report.because(reason).wait(self.backoff_past_lease(record))
            }
            Failure::Deadline => report
                .because(CANCELLED)
                .wait(self.backoff_past_lease(record)),
        };
        self.end(record, report);
    }

    fn settled(&mut self, answered: Vec<Answered>) {
        for Answered { record, answer } in answered {
            if let Err(error) = &answer {
                self.log_once(error);
                // Effects that can't be recorded would happen again with every delivery.
                if error.is_permanent() && self.returning.is_none() {
                    self.return_rest("completions can't be recorded: it was not started");
                }
            }
            let Some(record) = record else { continue };
            let report = match answer.map(|settled| on_completed(&settled)) {
                Ok(Completion::Recorded) => Report::new(Outcome::Processed),
                Ok(Completion::LeaseLost) => Report::new(Outcome::Failed).because(
                    "the handler succeeded, but another worker had taken over its key meanwhile",
                ),
                Err(error) => Report::new(Outcome::Failed).because(format!(
                    "the handler succeeded, but that could not be recorded: {}",
                    error.kind()
                )),
            };
            self.end(record, report);
        }
    }

    /// The deadline is near: nothing starts any more, handlers are cancelled, and what is claimed but
    /// not started is given back. A cancelled handler's claim is left to lapse, since its effect may
    /// be on its way.
    fn stop(&mut self) {
        self.stopped = true;
        self.running = FuturesUnordered::new();
        for record in std::mem::take(&mut self.handlers) {
            let report = Report::new(Outcome::Failed)
                .because(CANCELLED)
                .wait(self.backoff_past_lease(record));
            self.end(record, report);
        }
        for (record, cause) in std::mem::take(&mut self.to_move) {
            self.end_terminal(record, cause);
        }
        self.return_rest(NOT_STARTED);
    }

    fn return_unstarted(&mut self, record: usize, claim: Option<&Claim>, reason: &str) {
        self.release(claim);
        self.end(record, Report::new(Outcome::Failed).because(reason));
    }

    fn release(&mut self, claim: Option<&Claim>) {
        if let Some(release) = claim.and_then(|claim| self.engine.idempotency.release(claim)) {
            self.settler.push(None, release);
        }
    }

    /// Ends a record that no retry can help: in the dead-letter queue at once where one is
    /// configured, by the queue's own redrive otherwise.
    fn end_terminal(&mut self, record: usize, cause: Cause) {
        if self.engine.dead_letters.is_some() && !self.stopped {
            return self.to_move.push_back((record, cause));
        }
        self.end(record, Report::new(Outcome::Terminal).because(cause.chain));
    }

    fn move_terminal(&mut self) {
        let Some(dead_letters) = self.engine.dead_letters.as_deref() else {
            return;
        };
        while self.moving.len() < self.engine.concurrency.get() {
            let Some((record, cause)) = self.to_move.pop_front() else {
                return;
            };
            let message = Arc::clone(&self.ledger.messages()[record]);
            self.moving.push(Box::pin(async move {
                let mut report = Report::new(Outcome::Terminal);
                match dead_letters.send(&message, &cause).await {
                    Ok(()) => report.acknowledged = true,
                    Err(error) => error!(
                        message_id = message.id(),
                        error = chain(&*error),
                        "a terminal record could not be moved to the dead-letter queue"
                    ),
                }
                (record, report.because(cause.chain))
            }));
        }
    }

    /// Enters a record's end, and whatever follows from it: the next of its group may run, or may
    /// not; those with the same key end with it.
    fn end(&mut self, record: usize, mut report: Report) {
        let taken = &mut self.taken[record];
        report.key = taken.item.clone();
        report.duration = taken.taken_up.map(|taken_up| taken_up.elapsed());
        if taken.unprotected {
            let reason = report.reason.iter().map(String::as_str);
            let reason: Vec<_> = reason.chain([UNPROTECTED]).collect();
            report.reason = Some(reason.join("; "));
        }
        let followers = std::mem::take(&mut taken.followers);
        if report.outcome == Outcome::Failed && report.wait.is_none() {
            report.wait = self.backoff(record);
        }
        let succeeded = matches!(report.outcome, Outcome::Processed | Outcome::Duplicate);
        self.ledger.enter(record, report.clone());
        for rest in self.lanes.finish(record, succeeded) {
            // Its group comes back together: SQS delivers none of it while one is away.
            let report = Report::new(Outcome::Failed)
                .because("an earlier record of its message group failed")
                .wait(report.wait);
            self.ledger.enter(rest, report);
        }
        for follower in followers {
            self.end_like(follower, record, &report);
        }
        let is_strict = self.engine.fifo_failure == FifoFailure::ReturnBatch;
        if !succeeded && is_strict && self.lanes.keep_order() && self.returning.is_none() {
            self.return_rest("an earlier record of the batch failed");
        }
    }

    /// Returns what was not started: the claimed are given back, the others were never claimed.
    fn return_rest(&mut self, reason: &'static str) {
        self.returning = Some(reason);
        self.claimer.stop();
        for startable in std::mem::take(&mut self.claimed) {
            self.return_unstarted(startable.record, startable.claim.as_ref(), reason);
        }
        for record in self.lanes.drain() {
            self.end(record, Report::new(Outcome::Failed).because(reason));
        }
    }

    /// Ends a record whose key an earlier record of the batch has.
    fn end_like(&mut self, record: usize, leader: usize, report: &Report) {
        let same_payload = self.taken[record].fingerprint == self.taken[leader].fingerprint;
        let report = match report.outcome {
            Outcome::Processed | Outcome::Duplicate if same_payload => {
                Report::new(Outcome::Duplicate)
            }
            Outcome::Processed | Outcome::Duplicate => mismatched(self.engine.mismatch),
            Outcome::InProgress => Report {
                reason: report.reason.clone(),
                wait: report.wait,
                ..Report::new(Outcome::InProgress)
            },
            Outcome::Failed | Outcome::Terminal => Report::new(Outcome::Failed)
                .because("the record with the same key in this batch failed")
                .wait(report.wait),
        };
        self.end(record, report);
    }

    /// A table that is missing fails every record of a batch, and is one line in the log.
    fn log_once(&mut self, error: &StoreError) {
        if self.logged.insert(error.kind()) {
            error!(target: "sqs_once::store", %error, "the store could not answer");
        }
    }
}

fn mismatched(mismatch: PayloadMismatch) -> Report {
    let outcome = match mismatch {
        PayloadMismatch::Warn | PayloadMismatch::Ignore => Outcome::Duplicate,
        PayloadMismatch::Reject => Outcome::Failed,
    };
    Report::new(outcome)
        .because("its key was processed for another payload: two different messages share it")
}
