//! Ends records, and starts or returns the records that wait for them.

use std::sync::Arc;
use std::time::Duration;

use crate::breaker::Hiding;
use crate::failed::{AfterDeadLetter, Cause};
use crate::handler::{Done, HandlerError, IdempotencyToken};
use crate::idempotency::{CommitsWith, Completion, Conclusion, Refusal, UNCOMPARED};
use crate::key::{Fingerprint, Payloads};
use crate::report::{Outcome, Report, RouteTally};
use crate::store::{Claim, StoreError, StoreErrorKind, Writes};
use crate::time::Timestamp;

use super::super::engine::{FifoFailure, PayloadMismatch, Route};
use super::super::gate::{Passed, Unavailable};
use super::super::handling::Failure;
use super::super::hooks::{Hook, HookCall, Hooked, RecordEnd};
use super::super::moving::DeadLetterMove;
use super::super::settling::Concluded;
use super::whole_batch::{BEGUN, Together};
use super::{Finished, IS_OPEN, Owned, Run, Startable};

/// Why the rest of a FIFO message group returns to the queue.
pub(in crate::batch) const AFTER_FAILED: &str = "an earlier record of its message group failed";
/// The tools recognise such a dead letter by the text before the first colon.
pub(in crate::batch) const MISMATCHED: &str =
    "payload mismatch: its key was completed for another payload: two different messages share it";
pub(in crate::batch) const WAY_OUT: &str = "drop it if it only repeats the first; to run it too, forget its key (`key forget`) and redrive it; if \
                       the key does not name the event, correct the key and redrive it";
pub(in crate::batch) const COMPLETED_BY_ANOTHER: &str =
    "another worker had taken over its key, and completed it: its effect may have happened twice";

impl<'a> Run<'a> {
    pub(super) fn refused(&mut self, record: usize, refusal: Refusal) {
        let report = match refusal {
            Refusal::Duplicate { data, is_compared } => {
                self.records[record].data = data;
                if !is_compared {
                    self.records[record].warnings.push(UNCOMPARED.to_owned());
                }
                return self.end_done(record, Report::new(Outcome::Duplicate));
            }
            Refusal::PayloadMismatch => return self.end_mismatched(record),
            Refusal::InProgress { lease_until } => self.in_progress(record, lease_until),
            Refusal::UnknownStatus(status) => Report::new(Outcome::Failed).because(format!(
                "its key's item has the status {status:?}, which this version does not know"
            )),
        };
        self.end(record, report);
    }

    /// Ends a record whose key was completed for another payload.
    fn end_mismatched(&mut self, record: usize) {
        self.count(record, |tally| tally.payload_mismatches += 1);
        self.records[record].is_mismatched = true;
        let mismatch = self.route(record).map(|route| route.mismatch);
        let outcome = match mismatch.unwrap_or_default() {
            PayloadMismatch::Terminal => {
                return self.end_terminal(record, Cause::from(format!("{MISMATCHED}; {WAY_OUT}")));
            }
            PayloadMismatch::Reject => Outcome::Failed,
            PayloadMismatch::Warn | PayloadMismatch::Ignore => Outcome::Duplicate,
        };
        self.end(record, Report::new(outcome).because(MISMATCHED));
    }

    /// Returns the place of a record's route, once it is chosen. Without a router there is only one.
    fn place(&self, record: usize) -> Option<usize> {
        let chosen = self.records[record].route;
        chosen.or_else(|| self.engine.router.is_none().then_some(0))
    }

    fn route(&self, record: usize) -> Option<&'a Route> {
        Some(&self.engine.routes[self.place(record)?])
    }

    fn count(&self, record: usize, change: impl FnOnce(&mut RouteTally)) {
        if let Some(place) = self.place(record) {
            self.ledger.count(place, change);
        }
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
        // A delivery before the lease lapses would be refused again.
        Report::new(Outcome::InProgress)
            .because(reason)
            .wait(left.or_else(|| self.backoff(record)))
    }

    /// Returns how long the backoff hides a record that returns to the queue.
    fn backoff(&self, record: usize) -> Option<Duration> {
        let backoff = match self.route(record) {
            Some(route) => route.backoff,
            None => self.engine.backoff,
        };
        let deliveries = self.ledger.messages[record].receive_count().unwrap_or(1);
        Some(backoff?.after(deliveries, self.engine.driver().random.bits()))
    }

    fn time_until(&self, moment: Timestamp) -> Duration {
        moment.since(self.engine.driver().clock.now())
    }

    pub(super) fn finished(&mut self, finished: Finished) {
        let (record, owned) = (finished.record, finished.owned);
        self.gate.ended(finished.route, &finished.result);
        let failure = match finished.result {
            Ok(done) => return self.succeeded(record, finished.route, owned, done),
            Err(failure) => failure,
        };
        // A cancelled handler's effect may be in flight, so its claim lapses. A transaction rolls back.
        let was_cancelled = matches!(failure, Failure::Timeout(_) | Failure::Deadline);
        if !was_cancelled {
            self.release(record, owned.as_ref().map(|owned| &owned.claim));
        }
        self.end_failed(record, failure);
    }

    pub(super) fn end_failed(&mut self, record: usize, failure: Failure) {
        let report = Report::new(Outcome::Failed).because(failure.to_string());
        let claims_before = |route: &Route| route.idempotency.claims_before();
        let report = match failure {
            Failure::Terminal(cause) => return self.end_terminal(record, cause),
            Failure::Unavailable { dependency, reason } => {
                return self.end_unavailable(Unavailable {
                    record,
                    dependency,
                    reason,
                    is_tried: true,
                });
            }
            Failure::Retry { delay, .. } => report.wait(delay),
            Failure::Panic(_) => report,
            Failure::Unstarted => Report::untried(Failure::NOT_STARTED),
            // Its own claim must lapse first.
            Failure::Timeout(_) | Failure::Deadline
                if self.route(record).is_some_and(claims_before) =>
            {
                let lease = self.time_until(self.deadline.lease_until);
                report.wait(self.backoff(record).map(|backoff| backoff.max(lease)))
            }
            Failure::Timeout(_) | Failure::Deadline => report,
        };
        self.end(record, report);
    }

    fn succeeded(&mut self, record: usize, route: usize, owned: Option<Owned>, done: Done) {
        // The record may wait long for its completion.
        self.drop_unread_body(record, route);
        self.records[record].warnings.extend(done.left_out);
        self.records[record].data.clone_from(&done.data);
        match owned {
            Some(Owned { claim, transaction }) => {
                let driver = &self.engine.routes[route].idempotency;
                // A layer may have ended the record without the handler's writes.
                let writes = done
                    .writes
                    .or_else(|| Writes::nothing().filter(|_| driver.effect.writes));
                let work = match self.engine.traits.begins_once {
                    true => CommitsWith::TransactionOfBatch,
                    false => CommitsWith::new(writes, transaction),
                };
                self.records[record].commits_effect = !matches!(work, CommitsWith::Nothing);
                let completion = driver.completion(&claim, done.data, work);
                match self.completions() {
                    Some(completions) => completions.push((record, completion)),
                    None => self.settler.push(Some(record), completion),
                }
            }
            // The handler's type does not always reveal that it returns writes.
            None if done.writes.is_some() => {
                let error = HandlerError::terminal(
                    "its writes commit with the record of a business key, and it has none",
                );
                self.end_failed(record, Failure::of(&error, &[]));
            }
            None => self.end_done(record, Report::new(Outcome::Processed)),
        }
    }

    pub(super) fn settled(&mut self, answered: Vec<Concluded>) {
        for (record, answer) in answered {
            if let Err(error) = &answer {
                self.ledger.log_once(error);
                // An effect that can't be recorded would repeat with every delivery, so no further handler starts. An
                // effect that commits with its record has not happened, and the refusal may concern this record alone.
                let commits_effect = match record {
                    Some(record) => self.records[record].commits_effect,
                    None => {
                        let mut routes = self.engine.routes.iter();
                        routes.all(|route| route.idempotency.commits_effects())
                    }
                };
                if error.is_permanent() && !commits_effect && self.returning.is_none() {
                    self.return_rest("completions can't be recorded: it was not started");
                }
            }
            let Some(record) = record else { continue };
            let is_done = matches!(
                answer,
                Ok(Conclusion::Completed(_) | Conclusion::Refused(_))
            );
            match answer {
                Ok(Conclusion::Completed(Completion::Recorded)) => {
                    self.end_done(record, Report::new(Outcome::Processed))
                }
                Ok(Conclusion::Refused(refusal)) => self.refused(record, refusal),
                Ok(Conclusion::Conflict {
                    disposition,
                    reason,
                    release,
                }) => {
                    if let Some(release) = release {
                        self.settler.push(None, release);
                    }
                    let error = HandlerError::new(disposition, reason);
                    self.end_failed(record, Failure::of(&error, &[]));
                }
                Ok(Conclusion::Completed(Completion::RecordedByAnother)) => {
                    self.count(record, |tally| tally.leases_lost += 1);
                    self.records[record]
                        .warnings
                        .push(COMPLETED_BY_ANOTHER.to_owned());
                    self.end_done(record, Report::new(Outcome::Processed));
                }
                Ok(Conclusion::Completed(Completion::LeaseLost)) => {
                    self.count(record, |tally| tally.leases_lost += 1);
                    let reason = "the handler succeeded, but another worker had taken over its key";
                    self.end(record, Report::new(Outcome::Failed).because(reason));
                }
                Err(error) => {
                    let reason = match self.records[record].commits_effect {
                        true => uncommitted(&error),
                        false => format!(
                            "the handler succeeded, but that could not be recorded: {}",
                            error.kind()
                        ),
                    };
                    self.end(record, Report::new(Outcome::Failed).because(reason));
                }
            }
            self.committed(record, is_done);
        }
    }

    pub(super) fn return_claimed(
        &mut self,
        claimed: impl IntoIterator<Item = Startable>,
        reason: &str,
    ) {
        for one in claimed {
            let claim = one.owned.as_ref().map(|owned| &owned.claim);
            self.return_unstarted(one.record, claim, reason);
        }
    }

    pub(super) fn return_unstarted(&mut self, record: usize, claim: Option<&Claim>, reason: &str) {
        self.release(record, claim);
        self.end(record, Report::untried(reason));
    }

    /// Returns a record whose handler was not called, because a breaker is open.
    pub(super) fn end_shut(&mut self, record: usize) {
        let on = self.route(record).map(|route| &route.breakers[..]);
        match self.engine.breakers.open(on.unwrap_or_default()) {
            Some(dependency) => self.end_unavailable(Unavailable {
                record,
                dependency,
                reason: IS_OPEN.to_owned(),
                is_tried: false,
            }),
            None => self.end(record, Report::untried(IS_OPEN)),
        }
    }

    pub(super) fn passed(&mut self, passed: Passed) {
        match passed {
            Passed::Changed => {}
            Passed::Read => self.gate.breakers_are_read(),
            Passed::Learned(message, answer) => {
                for postponed in self.gate.learned(&message, answer) {
                    self.end_unavailable(postponed);
                }
            }
        }
    }

    /// Ends a record because a dependency is unavailable. Its remaining deliveries are spread over the outage. On its
    /// last delivery, or before it expires, it moves to the dead-letter queue with the reason: SQS would move it without,
    /// or delete it.
    pub(super) fn end_unavailable(&mut self, ending: Unavailable) {
        let Some((ending, hiding)) = self.gate.hiding(ending) else {
            return;
        };
        let Unavailable {
            record,
            dependency,
            reason,
            is_tried,
        } = ending;
        self.count(record, |tally| tally.deferred += u64::from(!is_tried));
        let reason = format!("unavailable: {dependency}: {reason}");
        let wait = match hiding {
            Hiding::For(wait) => Some(wait),
            Hiding::AsUsual => self.backoff(record),
            Hiding::LastChance => return self.end_terminal(record, Cause::from(reason)),
        };
        let report = match is_tried {
            true => Report::new(Outcome::Failed).because(reason),
            false => Report::untried(reason),
        };
        self.end(record, report.unavailable(dependency).wait(wait));
    }

    pub(super) fn release(&mut self, record: usize, claim: Option<&Claim>) {
        if let (Some(route), Some(claim)) = (self.route(record), claim)
            && let Some(release) = route.idempotency.release(claim)
        {
            self.settler.push(None, release);
        }
    }

    fn hook(&self, record: usize, outcome: Outcome) -> Option<&'a Hook> {
        let hooks = match self.route(record) {
            Some(route) => &route.hooks,
            None => &self.engine.hooks,
        };
        hooks.of(outcome)
    }

    /// Moves a terminal record to the dead-letter queue, or without one leaves it to its queue's redrive policy.
    pub(super) fn end_terminal(&mut self, record: usize, mut cause: Cause) {
        cause.key.clone_from(&self.records[record].item);
        if let (Some(dead_letters), false) =
            (self.engine.failed.dead_letters.as_deref(), self.stopped)
        {
            let message = Arc::clone(&self.ledger.messages[record]);
            return self.moving.push(DeadLetterMove {
                dead_letters,
                record,
                message,
                cause,
            });
        }
        self.end(record, Report::new(Outcome::Terminal).because(cause.chain));
    }

    /// Ends a record whose effect is done, after its hook if there is one.
    fn end_done(&mut self, record: usize, report: Report) {
        match self.hook(record, report.outcome) {
            Some(hook) => self.hooks.push(self.hook_call(record, hook, report)),
            None => self.end(record, report),
        }
    }

    fn hook_call(&self, record: usize, hook: &'a Hook, report: Report) -> HookCall<'a> {
        let message = self.message(record);
        let taken = &self.records[record];
        let token = self.route(record).zip(taken.key.as_ref());
        let token =
            token.map(|(route, key)| IdempotencyToken::of(&route.idempotency.namespace, key));
        // The store may not have recorded the value that the handler returned.
        let is_recorded = matches!(report.outcome, Outcome::Processed | Outcome::Duplicate);
        let data = taken.data.clone().filter(|_| is_recorded);
        HookCall {
            record,
            hook,
            end: RecordEnd {
                message,
                token,
                report,
                data,
            },
            span: self.ledger.span(record),
        }
    }

    /// Ends a record after its hook. If the hook fails it, its next delivery is a duplicate.
    pub(super) fn hooked(&mut self, hooked: Hooked) {
        let (record, report) = (hooked.record, hooked.report);
        let failure = match hooked.result {
            // The record has ended before its hook.
            _ if report.has_failed() => return,
            Ok(()) => return self.end(record, report),
            Err(failure) => failure,
        };
        let done = match report.outcome {
            Outcome::Duplicate => "a duplicate",
            _ => "processed",
        };
        let (why, delay) = match failure {
            Failure::Terminal(cause) => return self.end_terminal(record, cause),
            Failure::Unavailable { .. } => (failure.to_string(), None),
            Failure::Retry { reason, delay } => (reason, delay),
            Failure::Panic(reason) => (reason, None),
            Failure::Unstarted | Failure::Deadline | Failure::Timeout(_) => {
                ("the deadline came before it had ended".to_owned(), None)
            }
        };
        let reason = format!("{done}, but its hook failed: {why}");
        let report = Report::new(Outcome::Failed).because(reason);
        self.end(record, report.wait(delay));
    }

    /// Enters a record's report. Ends the records with the same key, and continues or stops its FIFO group.
    pub(super) fn end(&mut self, record: usize, mut report: Report) {
        let taken = &mut self.records[record];
        report.key = taken.item.clone();
        let route = taken.route.map(|at| &self.engine.routes[at]);
        report.route = route.and_then(|route| route.name.clone());
        report.duration = taken.taken_up.map(|taken_up| taken_up.elapsed());
        let warnings = std::mem::take(&mut taken.warnings);
        if !warnings.is_empty() {
            let reason: Vec<_> = report.reason.take().into_iter().chain(warnings).collect();
            report = report.because(reason.join("; "));
        }
        let followers = std::mem::take(&mut taken.followers);
        if report.outcome == Outcome::Failed && !report.untried && report.wait.is_none() {
            report.wait = self.backoff(record);
        }
        let group_goes_on = self.group_goes_on(record, &report);
        let hook = self.hook(record, report.outcome);
        let hook = hook.filter(|_| report.has_failed());
        let call = hook.map(|hook| self.hook_call(record, hook, report.clone()));
        self.records[record].message = None;
        self.ledger.enter(record, report.clone());
        if let Some(call) = call {
            self.hooks.push(call);
        }
        let wait = report.wait;
        for rest in self.lanes.finish(record, group_goes_on) {
            if let Some(dependency) = &report.unavailable {
                self.end_unavailable(Unavailable {
                    record: rest,
                    dependency: Arc::clone(dependency),
                    reason: AFTER_FAILED.to_owned(),
                    is_tried: false,
                });
                continue;
            }
            // The rest of the group gets the same delay, because SQS delivers none of it while one message is hidden.
            let report = Report::untried(AFTER_FAILED).wait(wait);
            self.ledger.enter(rest, report);
        }
        for follower in followers {
            self.end_like(follower, record, &report);
        }
        let is_strict = self.engine.fifo_failure == FifoFailure::ReturnBatch;
        if !group_goes_on && is_strict && self.ledger.is_fifo && self.returning.is_none() {
            self.return_rest("an earlier record of the batch failed");
        }
    }

    /// Returns whether a FIFO message group continues after a record with this report.
    pub(super) fn group_goes_on(&self, record: usize, report: &Report) -> bool {
        match report.outcome {
            Outcome::Processed | Outcome::Duplicate | Outcome::Ignored => true,
            // No later delivery has an effect that the group could wait for.
            Outcome::Terminal if self.records[record].is_mismatched => true,
            Outcome::Terminal => {
                report.acknowledged && self.engine.failed.after_dead_letter == AfterDeadLetter::GoOn
            }
            Outcome::InProgress | Outcome::Failed => false,
        }
    }

    /// Returns all records that have not started to the queue, and releases their claims.
    pub(super) fn return_rest(&mut self, reason: &'static str) {
        self.returning = Some(reason);
        self.claimer.stopped = true;
        let claimed = std::mem::take(&mut self.startable);
        self.return_claimed(claimed, reason);
        let held = self.held.iter_mut().flat_map(std::mem::take);
        let rest: Vec<_> = held.chain(self.lanes.drain()).collect();
        for record in rest {
            self.end(record, Report::untried(reason));
        }
    }

    /// Lets a record claim its key itself, if records may still start. Returns whether it will.
    fn take_up_again(&mut self, record: usize) -> bool {
        if self.together.as_ref().is_some_and(Together::has_begun) {
            return false;
        }
        let item = self.records[record].item.as_ref();
        let (Some(route), Some(item), None) = (self.place(record), item, self.returning) else {
            return false;
        };
        self.leaders.remove(item);
        self.held[route].push_front(record);
        true
    }

    pub(super) fn payloads(&self, record: usize, leader: usize) -> Payloads {
        let [one, other] = [record, leader].map(|at| self.records[at].fingerprint.as_ref());
        Fingerprint::compare(one, other)
    }

    /// Ends a record with the same key as an earlier record of the batch.
    pub(super) fn end_like(&mut self, record: usize, leader: usize, report: &Report) {
        let payloads = self.payloads(record, leader);
        let is_mismatched = self.records[leader].is_mismatched;
        // The key may have been completed for this record's payload.
        let is_other = is_mismatched && payloads != Payloads::Same;
        // The cache may have answered the leader, with a completion that is older than this message.
        let is_newer = self.records[record].sent_at > self.records[leader].sent_at;
        let is_answered = is_mismatched || report.outcome == Outcome::Duplicate;
        if is_other || (is_newer && is_answered) {
            if !self.take_up_again(record) {
                self.end(record, Report::untried(self.returning.unwrap_or(BEGUN)));
            }
            return;
        }
        let report = match report.outcome {
            _ if is_mismatched => return self.end_mismatched(record),
            Outcome::Processed | Outcome::Duplicate if payloads != Payloads::Different => {
                let data = self.records[leader].data.clone();
                let is_compared = payloads == Payloads::Same;
                return self.refused(record, Refusal::Duplicate { data, is_compared });
            }
            Outcome::Processed | Outcome::Duplicate => return self.end_mismatched(record),
            Outcome::InProgress => Report {
                reason: report.reason.clone(),
                wait: report.wait,
                ..Report::new(Outcome::InProgress)
            },
            Outcome::Failed if report.untried => report.clone(),
            // An ignored record has no key, so no other record waits for it.
            Outcome::Failed | Outcome::Terminal | Outcome::Ignored => Report::new(Outcome::Failed)
                .because("the record with the same key in this batch failed")
                .wait(report.wait),
        };
        self.end(record, report);
    }
}

/// Shows errors that the store did not cause in full, because they concern only this record.
pub(in crate::batch) fn uncommitted(error: &StoreError) -> String {
    match error.kind() {
        StoreErrorKind::Unanswered => format!(
            "{}, and its next delivery will find whether its effect committed",
            error.kind()
        ),
        StoreErrorKind::Other => format!("its effect did not commit: {error}"),
        kind => format!("its effect did not commit: {kind}"),
    }
}
