//! The end of a record: from what happened to it, to its report.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::timeout_at;
use tracing::error;

use crate::breaker::Hiding;
use crate::error::chain;
use crate::failed::{AfterDeadLetter, Cause, DeadLetters, UNANSWERED};
use crate::handler::IdempotencyToken;
use crate::idempotency::{PendingSettlement, Refusal, UNCOMPARED};
use crate::key::{Fingerprint, Payloads};
use crate::record::CorrelationId;
use crate::report::{Outcome, Report, RouteTally};
use crate::store::{StoreError, StoreErrorKind};
use crate::time::Timestamp;

use super::engine::{FifoFailure, PayloadMismatch};
use super::gate::OVERRUN;
use super::handling::Failure;
use super::hooks::{Hook, HookCall, RecordEnd};
use super::record::{NO_MEMORY, Record};
use super::run::Batch;
use super::together::BEGUN;

/// Why the rest of a FIFO message group returns to the queue.
pub(super) const AFTER_FAILED: &str = "an earlier record of its message group failed";
const COPY_FAILED: &str = "the record with the same key in this batch failed";
const IS_OPEN: &str = "its breaker is open";
/// The tools recognise such a dead letter by the text before the first colon.
const MISMATCHED: &str =
    "payload mismatch: its key was completed for another payload: two different messages share it";
const WAY_OUT: &str = "drop it if it only repeats the first; to run it too, forget its key (`key forget`) and redrive it; if \
                       the key does not name the event, correct the key and redrive it";

/// How a record ended, for the records with the same key.
#[derive(Clone)]
pub(super) struct Ended {
    record: usize,
    /// Whether its message group goes on.
    pub(super) goes_on: bool,
    fingerprint: Option<Fingerprint>,
    is_mismatched: bool,
    sent_at: Timestamp,
    data: Option<Arc<str>>,
}

/// How a record stopped its message group, whose rest returns to the queue.
#[derive(Clone)]
pub(super) struct Stopped {
    wait: Option<Duration>,
    /// The dependency that the record lacked.
    unavailable: Option<Arc<str>>,
}

/// Work that a record leaves, and that no report waits for.
pub(super) enum Tail<'a> {
    Release(PendingSettlement),
    /// The hook of a record that has failed.
    Hook(HookCall<'a>),
}

impl<'a> Batch<'a> {
    /// Enters a record's report, and ends the records that wait for it. Returns `None` if its message group goes on.
    pub(super) fn end(&self, mut record: Record, mut report: Report) -> Option<Stopped> {
        let at = record.at;
        report.key.clone_from(&record.item);
        report.route = self.route(&record).and_then(|route| route.name.clone());
        report.duration = record.taken_up.map(|taken_up| taken_up.elapsed());
        let warnings = std::mem::take(&mut record.warnings);
        if !warnings.is_empty() {
            let reason: Vec<_> = report.reason.take().into_iter().chain(warnings).collect();
            report = report.because(reason.join("; "));
        }
        if report.outcome == Outcome::Failed && !report.untried && report.wait.is_none() {
            report.wait = self.backoff(&record);
        }
        if report.untried && matches!(report.reason.as_deref(), Some(OVERRUN | NO_MEMORY)) {
            self.ledger.tally().no_room += 1;
        }
        let stopped = (!self.group_goes_on(&record, &report)).then(|| Stopped {
            wait: report.wait,
            unavailable: report.unavailable.clone(),
        });
        let hook = self.hook(&record, report.outcome);
        let hook = hook.filter(|_| report.has_failed());
        let call = hook.map(|hook| self.hook_call(&record, hook, report.clone()));
        drop(record.span.take());
        self.ledger.enter(at, report);
        if let Some(call) = call {
            self.leave(Tail::Hook(call));
        }
        if let Some(together) = &self.together {
            if let Some(stopped) = &stopped {
                together.stops(at, stopped.clone());
            }
            together.ended(at);
        }
        let goes_on = stopped.is_none();
        if let Some(leader) = record.leads {
            leader.ends(Ended {
                record: at,
                goes_on,
                fingerprint: record.fingerprint,
                is_mismatched: record.is_mismatched,
                sent_at: record.sent_at,
                data: record.data,
            });
        }
        if !goes_on {
            self.stop_strictly();
        }
        stopped
    }

    /// Ends a record behind one that has stopped its message group.
    pub(super) async fn behind(&self, record: &mut Record, stopped: &Stopped) -> Report {
        match &stopped.unavailable {
            Some(dependency) => {
                let (dependency, reason) = (Arc::clone(dependency), AFTER_FAILED.to_owned());
                self.unavailable(record, dependency, reason, false).await
            }
            // It gets the same delay, because SQS delivers none of the group while one message is hidden.
            None => Report::untried(AFTER_FAILED).wait(stopped.wait),
        }
    }

    /// Stops a FIFO queue's batch after a failure, if a failure stops more than its message group.
    pub(super) fn stop_strictly(&self) {
        if self.ledger.is_fifo && self.engine.fifo_failure == FifoFailure::ReturnBatch {
            self.stop
                .return_rest("an earlier record of the batch failed");
        }
    }

    /// Returns whether a FIFO message group continues after a record with this report.
    fn group_goes_on(&self, record: &Record, report: &Report) -> bool {
        match report.outcome {
            Outcome::Processed | Outcome::Duplicate | Outcome::Ignored => true,
            // No later delivery has an effect that the group could wait for.
            Outcome::Terminal if record.is_mismatched => true,
            Outcome::Terminal => {
                report.acknowledged && self.engine.failed.after_dead_letter == AfterDeadLetter::GoOn
            }
            Outcome::InProgress | Outcome::Failed => false,
        }
    }

    /// Finishes what a record has left.
    pub(super) fn tail(&self, tail: Tail<'a>) -> BoxFuture<'_, ()> {
        match tail {
            // It is sent at most twice, because its lease lapses anyway.
            Tail::Release(release) => Box::pin(self.settle(release, 2).map(drop)),
            Tail::Hook(call) => Box::pin(self.hooked(call).map(drop)),
        }
    }

    /// Decides for a record with the same key as an earlier record of the batch. Returns `None` if it must claim the key
    /// itself.
    pub(super) fn like<'b>(
        &'b self,
        record: &'b mut Record,
        leader: &'b Ended,
    ) -> BoxFuture<'b, Option<Report>> {
        Box::pin(async move {
            let own = record.fingerprint.as_ref();
            let payloads = Fingerprint::compare(own, leader.fingerprint.as_ref());
            let Some(report) = self.ledger.report(leader.record) else {
                return Some(Report::new(Outcome::Failed).because("its batch ended early"));
            };
            // The key may have been completed for this record's payload.
            let is_other = leader.is_mismatched && payloads != Payloads::Same;
            // The cache may have answered the leader, with a completion that is older than this message.
            let is_newer = record.sent_at > leader.sent_at;
            let is_answered = leader.is_mismatched || report.outcome == Outcome::Duplicate;
            if is_other || (is_newer && is_answered) {
                let together = self.together.as_ref();
                let begun = together.is_some_and(|together| !together.leads_again(record.at));
                let begun = begun.then_some(BEGUN);
                return self.stop.claims().or(begun).map(Report::untried);
            }
            // Each of them has its own deliveries.
            if let Some(dependency) = report.unavailable {
                let reason = COPY_FAILED.to_owned();
                return Some(self.unavailable(record, dependency, reason, false).await);
            }
            Some(match report.outcome {
                _ if leader.is_mismatched => self.mismatched(record).await,
                Outcome::Processed | Outcome::Duplicate if payloads != Payloads::Different => {
                    let duplicate = Refusal::Duplicate {
                        data: leader.data.clone(),
                        is_compared: payloads == Payloads::Same,
                    };
                    self.refused(record, duplicate).await
                }
                Outcome::Processed | Outcome::Duplicate => self.mismatched(record).await,
                Outcome::InProgress => Report {
                    reason: report.reason,
                    wait: report.wait,
                    ..Report::new(Outcome::InProgress)
                },
                Outcome::Failed if report.untried => report,
                // An ignored record has no key, so no other record waits for it.
                Outcome::Failed | Outcome::Terminal | Outcome::Ignored => {
                    Report::new(Outcome::Failed)
                        .because(COPY_FAILED)
                        .wait(report.wait)
                }
            })
        })
    }

    pub(super) async fn refused(&self, record: &mut Record, refusal: Refusal) -> Report {
        match refusal {
            Refusal::Duplicate { data, is_compared } => {
                record.data = data;
                if !is_compared {
                    record.warnings.push(UNCOMPARED.to_owned());
                }
                self.done(record, Report::new(Outcome::Duplicate)).await
            }
            Refusal::PayloadMismatch => self.mismatched(record).await,
            Refusal::InProgress { lease_until } => self.in_progress(record, lease_until),
            Refusal::UnknownStatus(status) => Report::new(Outcome::Failed).because(format!(
                "its key's item has the status {status:?}, which this version does not know"
            )),
        }
    }

    /// Ends a record whose key was completed for another payload.
    async fn mismatched(&self, record: &mut Record) -> Report {
        self.count(record, |tally| tally.payload_mismatches += 1);
        record.is_mismatched = true;
        let mismatch = self.route(record).map(|route| route.mismatch);
        let outcome = match mismatch.unwrap_or_default() {
            PayloadMismatch::Terminal => {
                let cause = Cause::from(format!("{MISMATCHED}; {WAY_OUT}"));
                return self.terminal(record, cause).await;
            }
            PayloadMismatch::Reject => Outcome::Failed,
            PayloadMismatch::Warn | PayloadMismatch::Ignore => Outcome::Duplicate,
        };
        Report::new(outcome).because(MISMATCHED)
    }

    fn in_progress(&self, record: &Record, lease_until: Option<Timestamp>) -> Report {
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

    /// Ends a record whose handler has failed.
    pub(super) async fn failed(&self, record: &mut Record, failure: Failure) -> Report {
        let report = Report::new(Outcome::Failed).because(failure.to_string());
        match failure {
            Failure::Terminal(cause) => self.terminal(record, cause).await,
            Failure::Unavailable { dependency, reason } => {
                self.unavailable(record, dependency, reason, true).await
            }
            Failure::Retry { delay, .. } => report.wait(delay),
            Failure::Panic(_) => report,
            Failure::Unstarted => Report::untried(Failure::NOT_STARTED),
            Failure::Timeout(_) => match self.open_dependency(record) {
                Some(dependency) => {
                    let reason = failure.to_string();
                    self.unavailable(record, dependency, reason, true).await
                }
                None => report,
            },
            Failure::Deadline | Failure::Dropped => report,
        }
    }

    /// Hides a record that returns to the queue until its own claim has lapsed.
    pub(super) fn after_lease(&self, record: &Record, report: Report) -> Report {
        if report.outcome != Outcome::Failed {
            return report;
        }
        let lease = self.time_until(self.deadline.lease_until);
        let wait = report.wait.or_else(|| self.backoff(record));
        report.wait(wait.map(|wait| wait.max(lease)))
    }

    /// Returns the first of a record's dependencies whose breaker is open.
    fn open_dependency(&self, record: &Record) -> Option<Arc<str>> {
        let on = self.route(record).map(|route| &route.breakers[..]);
        self.engine.breakers.open(on.unwrap_or_default())
    }

    /// Ends a record whose handler has succeeded, although that could not be recorded.
    pub(super) fn unrecorded(&self, error: &StoreError, commits_effect: bool) -> Report {
        let kind = error.kind();
        // An error that the store did not cause is shown in full, because it concerns only this record.
        let reason = match (commits_effect, kind) {
            (false, _) => {
                format!("the handler succeeded, but that could not be recorded: {kind}")
            }
            (true, StoreErrorKind::Unanswered) => {
                format!("{kind}, and its next delivery will find whether its effect committed")
            }
            (true, StoreErrorKind::Other) => format!("its effect did not commit: {error}"),
            (true, kind) => format!("its effect did not commit: {kind}"),
        };
        Report::new(Outcome::Failed).because(reason)
    }

    /// Ends a record whose handler was not called, because a breaker is open.
    pub(super) fn shut<'b>(&'b self, record: &'b mut Record) -> BoxFuture<'b, Report> {
        Box::pin(async move {
            match self.open_dependency(record) {
                Some(dependency) => {
                    self.unavailable(record, dependency, IS_OPEN.to_owned(), false)
                        .await
                }
                None => Report::untried(IS_OPEN),
            }
        })
    }

    /// Ends a record because a dependency is unavailable. Its remaining deliveries are spread over the outage. On its
    /// last delivery, or before it expires, it moves to the dead-letter queue with the reason: SQS would move it without,
    /// or delete it.
    pub(super) fn unavailable<'b>(
        &'b self,
        record: &'b mut Record,
        dependency: Arc<str>,
        reason: String,
        is_tried: bool,
    ) -> BoxFuture<'b, Report> {
        Box::pin(async move {
            let message = &self.ledger.messages[record.at];
            self.waits_for_no_claim(record);
            let hiding = self.gate.hiding(&dependency, message, &self.stop).await;
            self.count(record, |tally| tally.deferred += u64::from(!is_tried));
            let reason = format!("unavailable: {dependency}: {reason}");
            let wait = match hiding {
                Hiding::For(wait) => Some(wait),
                Hiding::AsUsual => self.backoff(record),
                Hiding::LastChance => {
                    let report = self.terminal(record, Cause::from(reason)).await;
                    return report.unavailable(dependency);
                }
            };
            let report = match is_tried {
                true => Report::new(Outcome::Failed).because(reason),
                false => Report::untried(reason),
            };
            report.unavailable(dependency).wait(wait)
        })
    }

    /// Moves a terminal record to the dead-letter queue, or without one leaves it to its queue's redrive policy.
    pub(super) async fn terminal(&self, record: &Record, mut cause: Cause) -> Report {
        self.waits_for_no_claim(record);
        cause.key.clone_from(&record.item);
        let acknowledged = match self.engine.failed.dead_letters.as_deref() {
            Some(dead_letters) => self.moved(record, dead_letters, &cause).await,
            None => false,
        };
        Report {
            acknowledged,
            ..Report::new(Outcome::Terminal).because(cause.chain)
        }
    }

    /// Returns whether a record is in the dead-letter queue.
    async fn moved(&self, record: &Record, to: &dyn DeadLetters, cause: &Cause) -> bool {
        let is_late = || self.stop.is_late().then_some(());
        let Ok(_turn) = self.turns.moves.take(is_late).await else {
            return false;
        };
        let message = &self.ledger.messages[record.at];
        let sent = timeout_at(self.deadline.requests_by, to.send(message, cause)).await;
        let sent = sent.unwrap_or_else(|_| Err(UNANSWERED.into()));
        if let Err(error) = &sent {
            error!(
                target: "sqs_once::dead_letters",
                message_id = message.id(),
                correlation_id = message.correlation_id().map(CorrelationId::as_str),
                error = chain(&**error),
                "a terminal record could not be moved to the dead-letter queue"
            );
        }
        sent.is_ok()
    }

    /// Ends a record whose effect is done, after its hook if there is one. If the hook fails it, its next delivery is a
    /// duplicate.
    pub(super) async fn done(&self, record: &mut Record, report: Report) -> Report {
        let Some(hook) = self.hook(record, report.outcome) else {
            return report;
        };
        let done = match report.outcome {
            Outcome::Duplicate => "a duplicate",
            _ => "processed",
        };
        let call = self.hook_call(record, hook, report.clone());
        let failure = match Box::pin(self.hooked(call)).await {
            Ok(()) => return report,
            Err(failure) => failure,
        };
        let (why, delay) = match failure {
            Failure::Terminal(cause) => return self.terminal(record, cause).await,
            Failure::Unavailable { .. } => (failure.to_string(), None),
            Failure::Retry { reason, delay } => (reason, delay),
            Failure::Panic(reason) => (reason, None),
            Failure::Unstarted | Failure::Deadline | Failure::Timeout(_) | Failure::Dropped => {
                ("the deadline came before it had ended".to_owned(), None)
            }
        };
        let reason = format!("{done}, but its hook failed: {why}");
        Report::new(Outcome::Failed).because(reason).wait(delay)
    }

    async fn hooked(&self, call: HookCall<'a>) -> Result<(), Failure> {
        let _turn = self.turns.hooks.take(|| None::<Failure>).await?;
        call.run(self.running.part(), self.deadline.hooks_by).await
    }

    /// Lets a batch handler's call no longer wait for a record, unless the record may stop its message group.
    pub(super) fn waits_for_no_claim(&self, record: &Record) {
        if let Some(together) = &self.together
            && !self.ledger.is_fifo
        {
            together.decided(record.at);
        }
    }

    fn hook(&self, record: &Record, outcome: Outcome) -> Option<&'a Hook> {
        let hooks = match self.route(record) {
            Some(route) => &route.hooks,
            None => &self.engine.hooks,
        };
        hooks.of(outcome)
    }

    fn hook_call(&self, record: &Record, hook: &'a Hook, report: Report) -> HookCall<'a> {
        let token = self.route(record).zip(record.key.as_ref());
        let token =
            token.map(|(route, key)| IdempotencyToken::of(&route.idempotency.namespace, key));
        // The store may not have recorded the value that the handler returned.
        let is_recorded = matches!(report.outcome, Outcome::Processed | Outcome::Duplicate);
        HookCall {
            hook,
            end: RecordEnd {
                message: self.message(record),
                token,
                report,
                data: record.data.clone().filter(|_| is_recorded),
            },
            span: self.ledger.span(record.at),
        }
    }

    pub(super) fn count(&self, record: &Record, change: impl FnOnce(&mut RouteTally)) {
        if let Some(route) = record.route {
            self.ledger.count(route, change);
        }
    }

    /// Returns how long the backoff hides a record that returns to the queue.
    fn backoff(&self, record: &Record) -> Option<Duration> {
        let backoff = match self.route(record) {
            Some(route) => route.backoff,
            None => self.engine.backoff,
        };
        let deliveries = self.ledger.messages[record.at].receive_count().unwrap_or(1);
        Some(backoff?.after(deliveries, self.engine.driver().random.bits()))
    }

    fn time_until(&self, moment: Timestamp) -> Duration {
        moment.since(self.engine.driver().clock.now())
    }
}
