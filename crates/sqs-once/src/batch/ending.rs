//! The end of a record: from what happened to it, to its report.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::time::timeout_at;
use tracing::error;

use crate::breaker::{Hiding, QueueLimits};
use crate::error::chain;
use crate::failed::{Cause, DeadLetters, UNANSWERED};
use crate::handler::IdempotencyToken;
use crate::idempotency::{PendingSettlement, Refusal, UNCOMPARED};
use crate::key::{Fingerprint, Payloads};
use crate::record::{CorrelationId, Message};
use crate::report::{Code, Entry, Outcome, Report, RouteTally, Untried};
use crate::store::{StoreError, StoreErrorKind};
use crate::time::Timestamp;

use super::engine::PayloadMismatch;
use super::handling::Failure;
use super::hooks::{Hook, HookCall, RecordEnd};
use super::record::Record;
use super::run::Batch;
use super::unknown_outcome;

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
    /// The completion of its key, if the key is completed.
    completion: Completion,
    is_mismatched: bool,
    sent_at: Timestamp,
}

/// The payload for which a key was completed, and the value that the handler returned.
#[derive(Clone)]
pub(super) struct Completion {
    fingerprint: Option<Fingerprint>,
    data: Option<Arc<str>>,
}

/// How a record returns to the queue.
#[derive(Clone)]
pub(super) struct Returns {
    pub(super) report: Report,
    /// The dependency that it, or a record before it, lacked.
    pub(super) lacks: Option<Arc<str>>,
}

impl Returns {
    pub(super) fn untried(why: Untried) -> Self {
        Self {
            report: Report::untried(why),
            lacks: None,
        }
    }
}

/// Work that a record leaves, and that no report waits for.
pub(super) enum Tail<'a> {
    /// The end of a claim whose record has ended: a release, or what its key's other id requires.
    Release(PendingSettlement),
    /// The hook of a record that has failed.
    Hook(HookCall<'a>),
}

impl<'a> Batch<'a> {
    /// Enters a record's report, and ends the records that wait for it. Returns how the rest of its message group returns,
    /// if the group stops.
    pub(super) fn end(&self, mut record: Record, mut report: Report) -> Option<Returns> {
        let at = record.at;
        report = report.warned(std::mem::take(&mut record.warnings));
        match &mut report {
            Report::Failed(returned) => {
                returned.wait = returned.wait.or_else(|| self.backoff(&record));
            }
            Report::Untried(why, _) if why.has_no_room() => self.ledger.tally().no_room += 1,
            _ => {}
        }
        let stopped = (!self.group_goes_on(&record, &report)).then(|| Returns {
            // They get the same delay, because SQS delivers none of the group while one message is hidden.
            report: Report::untried(Untried::GroupStopped).hidden(report.wait()),
            // Where order is kept, none of them may move before this record.
            lacks: report
                .lacks()
                .filter(|_| !self.keeps_order(record.at))
                .cloned(),
        });
        let hook = self.hook(&record, report.outcome());
        let hook = hook.filter(|_| report.has_failed());
        let call = hook.map(|hook| self.hook_call(&record, hook, report.clone()));
        drop(record.span.take());
        let entry = Entry {
            key: record.item.clone(),
            route: self.route(&record).and_then(|route| route.name.clone()),
            duration: record.taken_up.map(|taken_up| taken_up.elapsed()),
            ..Entry::new(report)
        };
        self.ledger.enter(at, entry);
        if let Some(call) = call {
            self.leave(Tail::Hook(call));
        }
        if let Some(together) = &self.together {
            if let Some(stopped) = &stopped {
                together.stops(at, stopped.clone());
            }
            together.ended(at);
        }
        if let Some(leader) = record.leads {
            leader.ends(Ended {
                record: at,
                goes_on: stopped.is_none(),
                is_mismatched: record.other_completion.is_some(),
                completion: record.other_completion.unwrap_or(Completion {
                    fingerprint: record.fingerprint,
                    data: record.data,
                }),
                sent_at: record.sent_at,
            });
        }
        stopped
    }

    /// Moves a FIFO queue's message that did not succeed on its last delivery to the dead-letter queue, with the reason.
    /// SQS would move it without a reason, and the messages after it untried, because each has used up its receives.
    pub(super) async fn end_last_delivery(&self, record: &mut Record, report: Report) -> Report {
        record.is_last_delivery = self.is_last_delivery(record.at).await;
        match report {
            Report::Failed(_) | Report::InProgress { .. } if record.is_last_delivery => {
                let code = report.code().unwrap_or(Code::NoOutcome);
                let reason = code.because(report.reason().unwrap_or_default());
                self.end_terminal(record, Cause::from(reason)).await
            }
            report => report,
        }
    }

    /// Returns whether SQS delivers a message no further time, as far as its queue says so.
    pub(super) async fn is_last_delivery(&self, at: usize) -> bool {
        let message = &self.ledger.messages[at];
        let limits = self.queue_limits(message).await;
        limits
            .is_some_and(|limits| limits.deliveries.left(message.receive_count().unwrap_or(1)) == 0)
    }

    /// Returns what a message's queue says about its deliveries. Asks once for all records of the batch.
    pub(super) async fn queue_limits(&self, message: &Message) -> Option<QueueLimits> {
        let Ok(_turn) = self.turns.queues.take(|| None::<Infallible>).await;
        let now = self.engine.driver().clock.now();
        let by = self.deadline.requests_by;
        self.engine.failed.limits(message, now, by).await
    }

    /// Returns whether a FIFO message group continues after a record with this report.
    fn group_goes_on(&self, record: &Record, report: &Report) -> bool {
        // The messages after it would lack the same dependency. Where order is kept, they go behind it untried.
        if report.lacks().is_some() && !self.keeps_order(record.at) {
            return false;
        }
        match report {
            Report::Processed { .. } | Report::Duplicate { .. } | Report::Ignored { .. } => true,
            // No later delivery has an effect that the group could wait for.
            Report::Terminal { is_moved, .. } if *is_moved || record.other_completion.is_some() => {
                true
            }
            Report::Terminal { .. }
            | Report::InProgress { .. }
            | Report::Failed(_)
            | Report::Untried(..) => record.is_last_delivery && !self.keeps_order(record.at),
        }
    }

    /// Finishes what a record has left.
    pub(super) fn finish_tail(&self, tail: Tail<'a>) -> BoxFuture<'_, ()> {
        match tail {
            // It is sent at most twice: without it the lease lapses, and the next delivery decides again. If a lapsed claim
            // counts as an attempt, it is sent until it is answered.
            Tail::Release(release) => {
                let mut routes = self.engine.routes.iter();
                let tries = match routes.any(|route| route.idempotency.counts_attempts()) {
                    true => usize::MAX,
                    false => 2,
                };
                Box::pin(self.settle(release, tries).map(drop))
            }
            Tail::Hook(call) => Box::pin(self.run_hook(call).map(drop)),
        }
    }

    /// Decides for a record with the same key as an earlier record of the batch. Returns `None` if it must claim the key
    /// itself.
    pub(super) fn end_like_leader<'b>(
        &'b self,
        record: &'b mut Record,
        leader: &'b Ended,
    ) -> BoxFuture<'b, Option<Report>> {
        Box::pin(async move {
            let own = record.fingerprint.as_ref();
            let payloads = Fingerprint::compare(own, leader.completion.fingerprint.as_ref());
            let Some(report) = self.ledger.report(leader.record) else {
                let reason = Code::NoOutcome.because("its batch ended early");
                return Some(Report::failed(reason));
            };
            // The cache may have answered the leader, with a completion that is older than this message.
            let is_newer = record.sent_at > leader.sent_at;
            let is_answered = leader.is_mismatched || matches!(report, Report::Duplicate { .. });
            if is_newer && is_answered {
                let together = self.together.as_ref();
                let begun = together.is_some_and(|together| !together.leads_again(record.at));
                let begun = begun.then_some(Untried::CallMade);
                return self.stop.claims_over().or(begun).map(Report::untried);
            }
            // Each of them has its own deliveries.
            if let Some(dependency) = report.lacks() {
                let returns = Returns {
                    report: Report::untried(Untried::CopyFailed),
                    lacks: Some(Arc::clone(dependency)),
                };
                return Some(self.end_returned(record, returns).await);
            }
            let is_completed = leader.is_mismatched
                || matches!(report, Report::Processed { .. } | Report::Duplicate { .. });
            if is_completed {
                let Completion { fingerprint, data } = leader.completion.clone();
                let refusal = match (payloads, fingerprint) {
                    (Payloads::Different, Some(completed)) => {
                        Refusal::PayloadMismatch { completed, data }
                    }
                    (payloads, _) => Refusal::Duplicate {
                        data,
                        is_compared: payloads == Payloads::Same,
                    },
                };
                return Some(self.end_refused(record, refusal).await);
            }
            Some(match report {
                Report::InProgress { .. } | Report::Untried(..) => report,
                // An ignored record has no key, so no other record waits for it.
                _ => Report::failed(Untried::CopyFailed.reason()).hidden(report.wait()),
            })
        })
    }

    pub(super) async fn end_refused(&self, record: &mut Record, refusal: Refusal) -> Report {
        match refusal {
            Refusal::Duplicate { data, is_compared } => {
                record.data = data;
                if !is_compared {
                    let warning = Code::PayloadNotCompared.because(UNCOMPARED);
                    record.warnings.push(warning);
                }
                self.end_done(record, Report::DUPLICATE).await
            }
            Refusal::PayloadMismatch { completed, data } => {
                record.other_completion = Some(Completion {
                    fingerprint: Some(completed),
                    data,
                });
                self.end_mismatched(record).await
            }
            Refusal::OutcomeUnknown => {
                self.count_unknown(record);
                self.end_unknown(record, unknown_outcome::EARLIER).await
            }
            Refusal::InProgress { lease_until } => self.end_in_progress(record, lease_until),
            Refusal::UnknownStatus(status) => Report::failed(Code::UnknownStatus.because(format!(
                "its key's item has the status {status:?}, which this version does not know"
            ))),
        }
    }

    /// Ends a record whose key was completed for another payload.
    async fn end_mismatched(&self, record: &mut Record) -> Report {
        self.count(record, |tally| tally.payload_mismatches += 1);
        let mismatch = self.route(record).and_then(|route| route.mismatch);
        let reason = Code::PayloadMismatch.because(MISMATCHED);
        match mismatch.unwrap_or_default() {
            PayloadMismatch::Terminal => {
                let reason = reason.code.because(format!("{MISMATCHED}; {WAY_OUT}"));
                self.end_terminal(record, Cause::from(reason)).await
            }
            PayloadMismatch::Retry => Report::failed(reason),
            PayloadMismatch::Acknowledge => Report::Duplicate {
                warning: Some(reason),
            },
        }
    }

    /// Ends a record whose effect may have happened, and must not be repeated.
    pub(super) async fn end_unknown(&self, record: &Record, why: &str) -> Report {
        let cause = Cause::from(unknown_outcome::reason(why));
        self.end_terminal(record, cause).await
    }

    fn end_in_progress(&self, record: &Record, lease_until: Option<Timestamp>) -> Report {
        let left = lease_until.map(|until| self.time_until(until));
        let reason = match left {
            Some(left) => format!(
                "another worker has its key, for {} s at most",
                left.as_secs()
            ),
            None => "another worker has its key".to_owned(),
        };
        // A delivery before the lease lapses would be refused again.
        let wait = left.or_else(|| self.backoff(record));
        Report::InProgress { reason, wait }
    }

    /// Ends a record whose handler has failed.
    pub(super) async fn end_failed(&self, record: &mut Record, failure: Failure) -> Report {
        let code = match &failure {
            Failure::Terminal { cause, .. } => Some(cause.code),
            Failure::Retry { reason, .. } => Some(reason.code),
            _ => None,
        };
        // Its execution was started with another input.
        if code == Some(Code::PayloadMismatch) {
            self.count(record, |tally| tally.payload_mismatches += 1);
        }
        match failure {
            Failure::Terminal { cause, .. } => self.end_terminal(record, cause).await,
            Failure::Unavailable {
                dependency, reason, ..
            } => {
                let returns = Returns {
                    report: Report::failed(Code::Unavailable.because(reason)),
                    lacks: Some(dependency),
                };
                self.end_returned(record, returns).await
            }
            Failure::Retry { reason, delay, .. } => Report::failed(reason).hidden(delay),
            Failure::Unstarted => Report::untried(Untried::NotStarted),
            Failure::Timeout(_) => {
                let returns = Returns {
                    report: Report::failed(failure.reason()),
                    lacks: record.route.and_then(|route| self.open_dependency(route)),
                };
                self.end_returned(record, returns).await
            }
            Failure::Deadline | Failure::Dropped | Failure::Panic(_) => {
                Report::failed(failure.reason())
            }
        }
    }

    /// Hides a record whose claim is left to lapse at least until then, if it has a delay. A delivery before that would find
    /// the claim.
    pub(super) fn hide_while_claimed(
        &self,
        record: &Record,
        route: usize,
        report: Report,
    ) -> Report {
        if !self.engine.routes[route].idempotency.claims_before() {
            return report;
        }
        let lease = self.time_until(self.deadline.lease_until);
        let wait = report.wait().or_else(|| self.backoff(record));
        report.hidden(wait.map(|wait| wait.max(lease)))
    }

    /// Returns the first of a route's dependencies whose breaker is open.
    pub(super) fn open_dependency(&self, route: usize) -> Option<Arc<str>> {
        self.engine
            .breakers
            .open(&self.engine.routes[route].breakers)
    }

    /// Ends a record whose handler has succeeded, although its key could not be completed.
    pub(super) fn end_uncompleted(&self, error: &StoreError, commits_effect: bool) -> Report {
        let kind = error.kind();
        // An error that the store did not cause is shown in full, because it concerns only this record.
        let reason = match (commits_effect, kind) {
            (false, _) => Code::NotCompleted.because(format!(
                "the handler succeeded, but its key could not be completed: {kind}"
            )),
            (true, StoreErrorKind::Unanswered) => Code::CommitUnconfirmed.because(format!(
                "{kind}, and its next delivery will find whether its effect committed"
            )),
            (true, StoreErrorKind::Other) => {
                Code::NotCommitted.because(format!("its effect did not commit: {error}"))
            }
            (true, kind) => {
                Code::NotCommitted.because(format!("its effect did not commit: {kind}"))
            }
        };
        Report::failed(reason)
    }

    /// Returns a record without a call of its handler. While a breaker of its route is open, it would lack the dependency
    /// whatever the reason is.
    pub(super) fn untried(&self, route: Option<usize>, why: Untried) -> Returns {
        Returns {
            lacks: route.and_then(|route| self.open_dependency(route)),
            ..Returns::untried(why)
        }
    }

    /// Ends a record whose handler was not called.
    pub(super) fn end_untried<'b>(
        &'b self,
        record: &'b mut Record,
        why: Untried,
    ) -> BoxFuture<'b, Report> {
        let returns = self.untried(record.route, why);
        self.end_returned(record, returns)
    }

    /// Ends a record that returns, perhaps because a dependency is unavailable. Then its remaining deliveries are spread
    /// over the outage. On its last delivery, or before it expires, it moves to the dead-letter queue with the reason: SQS
    /// would move it without a reason, or delete it.
    pub(super) fn end_returned<'b>(
        &'b self,
        record: &'b mut Record,
        returns: Returns,
    ) -> BoxFuture<'b, Report> {
        Box::pin(async move {
            let Returns { report, lacks } = returns;
            let Some(dependency) = lacks else {
                return report;
            };
            let message = &self.ledger.messages[record.at];
            self.unblock_batch_call(record);
            let queue = self.queue_limits(message).await;
            let driver = self.engine.driver();
            let moment = (driver.clock.now(), driver.random.bits());
            let hiding = self
                .engine
                .breakers
                .plan_hiding(&dependency, message, queue, moment);
            let deferred = u64::from(!report.has_failed());
            self.count(record, |tally| tally.deferred += deferred);
            let report = report.lacking(&dependency);
            match hiding {
                Hiding::For(wait) => report.hidden(Some(wait)),
                Hiding::AsUsual => report.hidden(self.backoff(record)),
                Hiding::LastChance => {
                    let reason = report.reason().unwrap_or_default();
                    let cause = Cause::from(Code::Unavailable.because(reason));
                    let mut report = self.end_terminal(record, cause).await;
                    if let Report::Terminal { lacks, .. } = &mut report {
                        *lacks = Some(dependency);
                    }
                    report
                }
            }
        })
    }

    /// Moves a terminal record to the dead-letter queue, or without one leaves it to its queue's redrive policy.
    pub(super) async fn end_terminal(&self, record: &Record, mut cause: Cause) -> Report {
        self.unblock_batch_call(record);
        cause.key.clone_from(&record.item);
        let message = &self.ledger.messages[record.at];
        let is_moved = match &self.engine.failed.ways_for(message).dead_letters {
            Some(dead_letters) => match self.take_place(record, cause.code).await {
                Ok(place) => {
                    cause.place = place;
                    self.send_dead_letter(record, &**dead_letters, &cause).await
                }
                Err(()) => false,
            },
            None => false,
        };
        Report::Terminal {
            reason: cause.code.because(cause.chain),
            is_moved,
            lacks: None,
        }
    }

    /// Returns whether a record is in the dead-letter queue.
    async fn send_dead_letter(&self, record: &Record, to: &dyn DeadLetters, cause: &Cause) -> bool {
        let message = &self.ledger.messages[record.at];
        let send = async {
            let Ok(_turn) = self.turns.moves.take(|| None::<Infallible>).await;
            to.send(message, cause).await
        };
        let sent = timeout_at(self.deadline.requests_by, send).await;
        let sent = sent.unwrap_or_else(|_| Err(UNANSWERED.into()));
        if let Err(error) = &sent {
            error!(
                target: "sqs_once::dead_letters",
                message_id = message.id(),
                correlation_id = message.correlation_id().map(CorrelationId::as_str),
                error = chain(&**error),
                "a terminal message could not be moved to the dead-letter queue"
            );
        }
        sent.is_ok()
    }

    /// Ends a record whose effect is done, after its hook if there is one. If the hook fails it, its next delivery is a
    /// duplicate.
    pub(super) async fn end_done(&self, record: &mut Record, report: Report) -> Report {
        let Some(hook) = self.hook(record, report.outcome()) else {
            return report;
        };
        let done = match report {
            Report::Duplicate { .. } => "a duplicate",
            _ => "processed",
        };
        let call = self.hook_call(record, hook, report.clone());
        let failure = match Box::pin(self.run_hook(call)).await {
            Ok(()) => return report,
            Err(failure) => failure,
        };
        let (why, delay) = match failure {
            Failure::Terminal { mut cause, .. } => {
                cause.code = Code::HookFailed;
                return self.end_terminal(record, cause).await;
            }
            Failure::Unavailable { .. } => (failure.to_string(), None),
            Failure::Retry { reason, delay, .. } => (reason.text, delay),
            Failure::Panic(reason) => (reason, None),
            Failure::Unstarted | Failure::Deadline | Failure::Timeout(_) | Failure::Dropped => {
                ("the deadline came before it had ended".to_owned(), None)
            }
        };
        let reason = format!("{done}, but its hook failed: {why}");
        Report::failed(Code::HookFailed.because(reason)).hidden(delay)
    }

    async fn run_hook(&self, call: HookCall<'a>) -> Result<(), Failure> {
        let _turn = self.turns.hooks.take(|| None::<Failure>).await?;
        let until = self.until(self.deadline.hooks_by);
        call.run(self.running.part(), until).await
    }

    /// Lets a batch handler's call no longer wait for a record, unless the record may stop its message group.
    pub(super) fn unblock_batch_call(&self, record: &Record) {
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
        hooks.hook_for(outcome)
    }

    fn hook_call(&self, record: &Record, hook: &'a Hook, report: Report) -> HookCall<'a> {
        let token = self.route(record).zip(record.key.as_ref());
        let token =
            token.map(|(route, key)| IdempotencyToken::of(&route.idempotency.namespace, key));
        // The store may not have the value that the handler returned.
        let is_recorded = matches!(report, Report::Processed { .. } | Report::Duplicate { .. });
        HookCall {
            hook,
            end: RecordEnd {
                message: self.message(record),
                token,
                report,
                data: record.data.clone().filter(|_| is_recorded),
            },
            span: self.ledger.span(record.at),
            errors: self
                .route(record)
                .map_or(&self.engine.errors, |it| &it.errors),
        }
    }

    /// Counts a terminal record with an attempt of unknown outcome, unless its route repeats such attempts.
    pub(super) fn count_unknown(&self, record: &Record) {
        self.count(record, |tally| {
            tally.outcomes_unknown.iter_mut().for_each(|it| *it += 1);
        });
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
