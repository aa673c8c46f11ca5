//! One batch from its first claim to its last record.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, Sleep, sleep_until};
use tracing::{Instrument, error, info_span};

use crate::disposition::{AfterDeadLetter, Cause};
use crate::error::chain;
use crate::handler::{HandlerError, PrepareError, RecordParts, Start, panic_message};
use crate::idempotency::{Admission, Completion, Refusal, on_completed};
use crate::key::{BusinessKey, Fingerprint, ItemId};
use crate::store::{Claim, Fence, StoreError, StoreErrorKind};
use crate::time::Timestamp;

use super::Deadline;
use super::engine::{Engine, PayloadMismatch};
use super::lanes::Lanes;
use super::ledger::{Ledger, Outcome, Report};
use super::settling::{Answered, Settler};

/// How many claims a request carries, and how many such requests may be under way at once.
const CLAIMS: usize = 25;
const CLAIM_REQUESTS: usize = 4;
/// How many records may wait, claimed, for a handler to be free.
const CLAIMED_AHEAD: usize = CLAIMS * CLAIM_REQUESTS;

/// A record whose key is known, on its way to its handler.
struct Candidate {
    record: usize,
    key: BusinessKey,
    claim: Claim,
    start: Start<()>,
}

/// What the batch remembers of a record that was taken up.
#[derive(Clone, Default)]
struct Taken {
    item: Option<ItemId>,
    fingerprint: Option<Fingerprint>,
    taken_up: Option<Instant>,
    /// Records that end as this one does, because they have its key.
    followers: Vec<usize>,
}

/// A handler's end. A panic is an end like any other.
struct Finished {
    record: usize,
    claim: Claim,
    result: Result<(), Failure>,
}

enum Failure {
    Error(HandlerError),
    Panic(String),
}

type Admitted = Vec<(Candidate, Result<Admission, StoreError>)>;

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
    claiming: FuturesUnordered<BoxFuture<'a, Admitted>>,
    /// How many records `claiming` holds.
    claims: usize,
    claimed: VecDeque<(Candidate, Fence)>,
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
            claiming: FuturesUnordered::new(),
            claims: 0,
            claimed: VecDeque::new(),
            running: FuturesUnordered::new(),
            handlers: HashSet::new(),
            to_move: VecDeque::new(),
            moving: FuturesUnordered::new(),
            settler: Settler::new(&engine.idempotency, deadline.answer_by),
            logged: HashSet::new(),
            cancel: Box::pin(sleep_until(deadline.cancel_at)),
            stopped: false,
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
            Some(finished) = self.running.next() => Event::Finished(finished),
            Some((record, report)) = self.moving.next() => Event::Moved(record, report),
            Some(admitted) = self.claiming.next() => Event::Admitted(admitted),
            answered = self.settler.next() => Event::Settled(answered),
        }
    }

    /// Claims ahead, in full requests where there are records enough.
    fn claim(&mut self) {
        let limit = CLAIMED_AHEAD.max(self.engine.concurrency.get());
        while !self.stopped && self.claiming.len() < CLAIM_REQUESTS {
            let ahead = self.claims + self.claimed.len();
            if ahead > 0 && ahead + CLAIMS > limit {
                return;
            }
            let mut candidates = Vec::new();
            while candidates.len() < CLAIMS {
                let Some(record) = self.lanes.next() else {
                    break;
                };
                candidates.extend(self.take_up(record));
            }
            if candidates.is_empty() {
                return;
            }
            self.claims += candidates.len();
            let (idempotency, until) = (&self.engine.idempotency, self.deadline.answer_by);
            self.claiming.push(Box::pin(async move {
                let claims: Vec<_> = candidates.iter().map(|one| one.claim.clone()).collect();
                let admissions = idempotency.admit(&claims, until).await;
                candidates.into_iter().zip(admissions).collect()
            }));
        }
    }

    /// Decodes a record and takes its key. Only the first record of a key goes on from here.
    fn take_up(&mut self, record: usize) -> Option<Candidate> {
        self.taken[record].taken_up = Some(Instant::now());
        let message = &self.ledger.messages()[record];
        let prepared = match self.engine.handler.prepare(message) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.end_unusable(record, &error);
                return None;
            }
        };
        let item = self.engine.idempotency.item_id(&prepared.key);
        let fingerprint = message.body().map(Fingerprint::of_body);
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
        let lease_until = self.deadline.lease_until;
        Some(Candidate {
            record,
            key: prepared.key,
            claim: self
                .engine
                .idempotency
                .new_claim(item, fingerprint, lease_until),
            start: prepared.start,
        })
    }

    fn admitted(&mut self, admitted: Admitted) {
        self.claims -= admitted.len();
        for (candidate, admission) in admitted {
            match admission {
                Ok(Admission::Run { .. }) if self.stopped => self.return_unstarted(candidate),
                Ok(Admission::Run { fence }) => self.claimed.push_back((candidate, fence)),
                Ok(Admission::Refused(refusal)) => self.refused(candidate.record, refusal),
                Err(error) => {
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

    fn time_until(&self, moment: Timestamp) -> Duration {
        moment.since(self.engine.idempotency.clock.now())
    }

    fn start_handlers(&mut self) {
        while self.running.len() < self.engine.concurrency.get() {
            let Some((candidate, fence)) = self.claimed.pop_front() else {
                return;
            };
            let Candidate {
                record,
                key,
                claim,
                start,
            } = candidate;
            let message = Arc::clone(&self.ledger.messages()[record]);
            let span = info_span!("record", message_id = message.id(), key = claim.id.short());
            let parts = RecordParts {
                message,
                key: Arc::new(key),
                item: claim.id.clone(),
                fence,
                cancelled_at: self.deadline.cancel_at,
                state: (),
            };
            self.handlers.insert(record);
            // An `async` block runs nothing before its first poll, so that a panic in `start` is
            // caught as well.
            let handler = AssertUnwindSafe(async move { start(parts).await }).catch_unwind();
            self.running.push(Box::pin(
                async move {
                    let result = match handler.await {
                        Ok(result) => result.map_err(Failure::Error),
                        Err(panic) => Err(Failure::Panic(panic_message(&*panic))),
                    };
                    Finished {
                        record,
                        claim,
                        result,
                    }
                }
                .instrument(span),
            ));
        }
    }

    fn finished(
        &mut self,
        Finished {
            record,
            claim,
            result,
        }: Finished,
    ) {
        self.handlers.remove(&record);
        let Err(failure) = result else {
            let completion = self.engine.idempotency.completion(&claim);
            return self.settler.push(Some(record), completion);
        };
        if let Some(release) = self.engine.idempotency.release(&claim) {
            self.settler.push(None, release);
        }
        match failure {
            Failure::Error(error) if error.is_terminal() => {
                self.end_terminal(record, Cause::from(&error));
            }
            Failure::Error(error) => {
                let report = Report::new(Outcome::Failed).because(error.chain());
                self.end(record, report.wait(error.retry_delay()));
            }
            Failure::Panic(message) => {
                self.end(record, Report::new(Outcome::Failed).because(message));
            }
        }
    }

    fn settled(&mut self, answered: Vec<Answered>) {
        for Answered { record, answer } in answered {
            if let Err(error) = &answer {
                self.log_once(error);
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
        let running = std::mem::take(&mut self.running);
        if catch_unwind(AssertUnwindSafe(|| drop(running))).is_err() {
            error!("a handler panicked while it was cancelled");
        }
        for record in std::mem::take(&mut self.handlers) {
            // Before its lease lapses it would only come back to be told that somebody has its key.
            let lease = self.time_until(self.deadline.lease_until);
            let backoff = self.backoff(record);
            let report = Report::new(Outcome::Failed)
                .because("cancelled at the deadline while its handler ran")
                .wait(backoff.map(|backoff| backoff.max(lease)));
            self.end(record, report);
        }
        for (candidate, _) in std::mem::take(&mut self.claimed) {
            self.return_unstarted(candidate);
        }
        for (record, cause) in std::mem::take(&mut self.to_move) {
            self.end_terminal(record, cause);
        }
        for record in self.lanes.drain() {
            self.end(record, not_started());
        }
    }

    fn return_unstarted(&mut self, candidate: Candidate) {
        if let Some(release) = self.engine.idempotency.release(&candidate.claim) {
            self.settler.push(None, release);
        }
        self.end(candidate.record, not_started());
    }

    fn end_unusable(&mut self, record: usize, error: &PrepareError) {
        self.end_terminal(record, Cause::from(error.to_string()));
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
        let followers = std::mem::take(&mut taken.followers);
        if report.outcome == Outcome::Failed && report.wait.is_none() {
            report.wait = self.backoff(record);
        }
        let group_goes_on = match report.outcome {
            Outcome::Processed | Outcome::Duplicate => true,
            Outcome::Terminal => {
                report.acknowledged && self.engine.after_dead_letter == AfterDeadLetter::GoOn
            }
            Outcome::InProgress | Outcome::Failed => false,
        };
        self.ledger.enter(record, report.clone());
        for rest in self.lanes.finish(record, group_goes_on) {
            // Its group comes back together: SQS delivers none of it while one is away.
            let report = Report::new(Outcome::Failed)
                .because("an earlier record of its message group failed")
                .wait(report.wait);
            self.ledger.enter(rest, report);
        }
        for follower in followers {
            self.end_like(follower, record, &report);
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

fn not_started() -> Report {
    Report::new(Outcome::Failed).because("the deadline came before it was started")
}

fn mismatched(mismatch: PayloadMismatch) -> Report {
    let outcome = match mismatch {
        PayloadMismatch::Warn => Outcome::Duplicate,
        PayloadMismatch::Reject => Outcome::Failed,
    };
    Report::new(outcome)
        .because("its key was processed for another payload: two different messages share it")
}
