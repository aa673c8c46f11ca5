//! The call of a record's handler, and what follows from its result.

use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::{Instrument, debug_span};

use crate::error::Disposition;
use crate::guarded::Guarded;
use crate::handler::{Call, Done, HandlerError, IdempotencyToken, RecordParts, Running, Work};
use crate::idempotency::{CommitsWith, Completed, Conclusion, OnUnknown};
use crate::key::{BusinessKey, ItemId};
use crate::report::{Code, Report, Untried};
use crate::store::{Claim, Fence, OpenTransaction, Writes};
use crate::time::Timestamp;

use super::claims::Places;
use super::ending::Returns;
use super::engine::PayloadMismatch;
use super::handling::{Failure, Handling};
use super::held::Handled;
use super::record::Record;
use super::room::Slot;
use super::run::Batch;
use super::together::{Called, Joined, OUT_OF_ORDER, Together};
use super::unknown_outcome::EarlierAttempt;

const COMPLETED_BY_ANOTHER: &str =
    "another worker had taken over its key, and completed it: its effect may have happened twice";

/// A record whose handler may run.
pub(super) struct Admitted {
    pub(super) key: Arc<BusinessKey>,
    pub(super) item: ItemId,
    /// `None` if the record has no key and runs unprotected.
    pub(super) owned: Option<Owned>,
    pub(super) fence: Fence,
    pub(super) first_attempt: Option<Timestamp>,
    pub(super) work: Guarded<Work>,
}

/// The end of a handler's call.
struct Ran {
    owned: Option<Owned>,
    result: Result<Done, Failure>,
    was_called: bool,
    /// Whether its effect may still be in flight, because its future was dropped. Then its claim must lapse.
    is_in_flight: bool,
    /// Blocking code of a cancelled handler may go on.
    code: Running,
}

/// A claimed key while its handler runs.
pub(super) struct Owned {
    pub(super) claim: Claim,
    /// The transaction that contains the claim, if there is one. Dropping it rolls it back.
    pub(super) transaction: Option<Box<dyn OpenTransaction>>,
    /// Whether it replaces an attempt of unknown outcome that has to be asked about.
    pub(super) follows_unknown: bool,
}

impl Batch<'_> {
    /// Calls a record's handler as soon as one may start, and completes its key.
    pub(super) async fn handle<'b>(
        &'b self,
        record: &mut Record,
        route: usize,
        places: Places<'b>,
        admitted: Admitted,
    ) -> Report {
        if let Some(together) = &self.together {
            return self.join(together, record, route, admitted).await;
        }
        let Places { slot, handler } = places;
        let start = match (handler, self.stop.reason()) {
            (Some(_), Some(reason)) => Err(reason),
            (Some(handler), None) => Ok(handler),
            (None, _) => self.start_handler(route).await,
        };
        let handler = match start {
            Ok(handler) => handler,
            Err(why) => {
                self.release_unstarted(route, admitted.owned.as_ref());
                // Its transaction rolls back first.
                drop((admitted, slot));
                return self.end_untried(record, why).await;
            }
        };
        let mut slot = slot.and_then(|slot| self.gate.slot_until_ended(route, slot));
        slot.iter_mut().for_each(Slot::starts);
        let Ran {
            mut owned,
            result,
            was_called,
            is_in_flight,
            code,
        } = self.call(record, route, admitted).await;
        // Without the handler, the end of a call tells nothing about its dependencies, unless it names one.
        if was_called || Failure::names_dependency(&result) {
            self.gate.ended(route, &result);
        }
        let transaction = owned.as_mut().and_then(|owned| owned.transaction.take());
        let transaction = handler.end(code, transaction);
        if let Some(owned) = &mut owned {
            owned.transaction = transaction;
        }
        if self.gate.handlers.is_overrun() {
            self.stop.return_rest(Untried::Overrun);
        }
        self.after_call(record, route, owned, result, is_in_flight)
            .await
    }

    /// Calls a record's handler inside its layers.
    async fn call(&self, record: &mut Record, at: usize, admitted: Admitted) -> Ran {
        let route = &self.engine.routes[at];
        let mut parts = self.parts(record, at, &admitted);
        let attempt = FirstAttempt {
            is_this: admitted.is_first_attempt(),
            at: admitted.first_attempt,
            is_unknown: admitted.owned.as_ref().is_some_and(|it| it.follows_unknown),
        };
        let Admitted {
            owned, mut work, ..
        } = admitted;
        let Some(Work::Call(start)) = work.take() else {
            return Ran {
                owned,
                result: Err(Failure::Unstarted),
                was_called: false,
                is_in_flight: false,
                code: Running::default(),
            };
        };
        // A layer, or an earlier attempt, may end the record before its handler.
        let may_end_before = !route.layers.is_empty() || attempt.is_followed();
        let noted = may_end_before.then(Call::default);
        let start = match &noted {
            Some(noted) => route.layers.around(start, noted, route.errors.decide()),
            None => start,
        };
        let (policy, clock) = (&route.unknown_outcome, &route.idempotency.driver.clock);
        let until = self.until(self.deadline.cancel_at);
        let call = move |cancel_at| {
            parts.cancel_at = cancel_at;
            let Some(reason) = policy.doubts(attempt, &**clock, cancel_at) else {
                return start(parts);
            };
            let message = Arc::clone(&parts.message);
            let token = IdempotencyToken::of(&parts.namespace, &parts.key);
            let earlier = EarlierAttempt::new(message, token, attempt.at);
            policy.reconcile_before(reason, earlier, move || start(parts))
        };
        let running = self.running.part();
        let claim = owned.as_ref().map(|owned| &owned.claim);
        let _handled = self.holds(at, claim, &running);
        let (limit, errors) = (route.attempt_timeout, &route.errors);
        let handling = Handling::new(call, running.clone(), until, limit, errors);
        let span = self.span(record).clone();
        let call_span = debug_span!(parent: &span, "handler");
        let began = Instant::now();
        let handling = running.clone().scope(handling).instrument(call_span);
        let result = handling.instrument(span).await;
        let duration = began.elapsed();
        self.ledger
            .count(at, |tally| tally.handler_durations.push(duration));
        let was_called = noted.as_ref().is_none_or(Call::close);
        let is_dropped = noted.as_ref().is_some_and(Call::is_running);
        let may_have_effect = noted.as_ref().is_some_and(Call::may_have_effect);
        let result = match result {
            Ok(_) if is_dropped => Err(Failure::Dropped),
            Err(failure) if may_have_effect => Err(failure.after_effect()),
            result => result,
        };
        Ran {
            owned,
            is_in_flight: is_dropped || Failure::is_cancellation(&result),
            result,
            was_called,
            code: running,
        }
    }

    /// Notes that a claim is held while code runs, if it has a lease.
    fn holds(&self, route: usize, claim: Option<&Claim>, code: &Running) -> Option<Handled> {
        let claims_before = self.engine.routes[route].idempotency.claims_before();
        let claim = claim.filter(|_| claims_before)?;
        Some(self.ledger.held.enter(claim, code))
    }

    /// Returns what a record's handler may ask for.
    fn parts(&self, record: &Record, route: usize, admitted: &Admitted) -> RecordParts<()> {
        let owned = admitted.owned.as_ref();
        let transaction = owned.and_then(|owned| owned.transaction.as_ref());
        let route = &self.engine.routes[route];
        RecordParts {
            message: self.message(record),
            invocation: Arc::clone(&self.ledger.invocation),
            key: Arc::clone(&admitted.key),
            namespace: route.idempotency.namespace.clone(),
            item: admitted.item.clone(),
            fence: admitted.fence,
            cancel_at: self.deadline.cancel_at,
            route: route.name.clone(),
            transaction: transaction.map(|transaction| transaction.handle()),
            is_repeated: !(owned.is_some()
                && route.idempotency.claims_before()
                && admitted.is_first_attempt()),
            mismatch: match route.mismatch.unwrap_or_default() {
                PayloadMismatch::Terminal => Some(Disposition::Terminal),
                PayloadMismatch::Retry => Some(Disposition::Retry),
                PayloadMismatch::Acknowledge => None,
            },
            state: (),
        }
    }

    /// Joins the call of a batch handler.
    fn join<'b>(
        &'b self,
        together: &'b Together,
        record: &'b mut Record,
        route: usize,
        admitted: Admitted,
    ) -> BoxFuture<'b, Report> {
        Box::pin(async move {
            // A transaction is begun in time, and the call needs all its claims.
            let needs_no_claim = together.begins_once || admitted.owned.is_none();
            let stopped = match needs_no_claim {
                true => self.stop.reason(),
                false => self.stop.claims_over(),
            };
            let parts = self.parts(record, route, &admitted);
            let Admitted {
                mut owned,
                mut work,
                ..
            } = admitted;
            let (called, calls) = oneshot::channel();
            let Some(Work::Join(payload)) = work.take() else {
                return self.end_failed(record, Failure::Unstarted).await;
            };
            let transaction = owned.as_mut().and_then(|owned| owned.transaction.take());
            let joined = Joined {
                at: record.at,
                payload,
                parts,
                fingerprint: record.fingerprint.clone(),
                transaction,
                called,
            };
            let claim = owned.as_ref().map(|owned| &owned.claim);
            let called = match stopped {
                Some(why) => Ok(Called::Left(Returns::untried(why))),
                None if together.join(joined) => {
                    let handled = self.holds(route, claim, &together.code);
                    let called = calls.await;
                    if let (Some(handled), Ok(Called::Left(_))) = (handled, &called) {
                        handled.uncalled();
                    }
                    called
                }
                None => Ok(Called::Left(Returns::untried(Untried::CallMade))),
            };
            match called {
                Ok(called) => self.after_joined(record, route, owned, called).await,
                Err(_) => self.end_failed(record, Failure::Unstarted).await,
            }
        })
    }

    async fn after_joined(
        &self,
        record: &mut Record,
        route: usize,
        mut owned: Option<Owned>,
        called: Called,
    ) -> Report {
        match called {
            Called::Ended {
                result,
                transaction,
                behind,
            } => {
                if let Some(owned) = &mut owned {
                    owned.transaction = transaction;
                }
                let is_in_flight = Failure::is_cancellation(&result);
                let after = self.after_call(record, route, owned, result, is_in_flight);
                let report = after.await;
                for earlier in behind {
                    // After a last delivery its group went on in order.
                    if !self.is_last_delivery(earlier).await {
                        let warning = Code::EarlierMessage.because(OUT_OF_ORDER);
                        record.warnings.push(warning);
                        break;
                    }
                }
                report
            }
            Called::Left(returns) => {
                self.release(route, owned.as_ref().map(|owned| &owned.claim));
                self.end_returned(record, returns).await
            }
        }
    }

    /// Ends a record whose handler has ended, or is no longer polled although its effect may be in flight.
    async fn after_call(
        &self,
        record: &mut Record,
        route: usize,
        owned: Option<Owned>,
        result: Result<Done, Failure>,
        is_in_flight: bool,
    ) -> Report {
        let failure = match result {
            Ok(done) => return self.complete_key(record, route, owned, done).await,
            Err(failure) => failure,
        };
        let on_unknown = self.engine.routes[route].idempotency.on_unknown;
        let is_unknown = failure.leaves_unknown();
        let is_kept = is_unknown && on_unknown != OnUnknown::Repeat;
        let lapses = is_in_flight || is_kept;
        match failure {
            _ if lapses => {}
            Failure::Unstarted => self.release_unstarted(route, owned.as_ref()),
            _ => self.release(route, owned.as_ref().map(|owned| &owned.claim)),
        }
        // A transaction rolls back.
        drop(owned);
        let report = match is_kept && !is_in_flight && on_unknown == OnUnknown::Keep {
            true => self.end_unknown(record, &failure.to_string()).await,
            false => self.end_failed(record, failure).await,
        };
        if is_unknown && matches!(report, Report::Terminal { .. }) {
            self.count_unknown(record);
        }
        match lapses {
            true => self.hide_while_claimed(record, route, report),
            false => report,
        }
    }

    /// Completes the key of a record whose handler has succeeded.
    async fn complete_key(
        &self,
        record: &mut Record,
        route: usize,
        owned: Option<Owned>,
        done: Done,
    ) -> Report {
        if let Some(together) = &self.together {
            together.settles();
        }
        // The record may wait long for its completion.
        self.drop_unread_body(record, route);
        let left_out = done.left_out.map(|why| Code::ValueNotStored.because(why));
        record.warnings.extend(left_out);
        record.data.clone_from(&done.data);
        let Some(Owned {
            claim, transaction, ..
        }) = owned
        else {
            // The handler's type does not always reveal that it returns writes.
            return match done.writes {
                Some(_) => {
                    let error = HandlerError::terminal(Code::KeyMissing.because(
                        "its writes commit with the completion of a business key, and it has none",
                    ));
                    {
                        let failure = self.engine.routes[route].errors.failure(error);
                        self.end_failed(record, failure).await
                    }
                }
                None => self.end_done(record, Report::PROCESSED).await,
            };
        };
        let idempotency = &self.engine.routes[route].idempotency;
        // A layer may have ended the record without the handler's writes.
        let writes = done
            .writes
            .or_else(|| Writes::nothing().filter(|_| idempotency.mode.is_of_writes()));
        let work = match (&self.together, transaction) {
            (Some(together), None) if together.begins_once => CommitsWith::TransactionOfBatch,
            (_, transaction) => CommitsWith::new(writes, transaction),
        };
        let completion = idempotency.completion(&claim, done.data, work);
        let commits_effect = completion.commits_work();
        match self.settle(completion, usize::MAX).await {
            Ok(Conclusion::Completed(completion)) => self.end_completed(record, completion).await,
            Ok(Conclusion::Refused(refusal)) => self.end_refused(record, refusal).await,
            Ok(Conclusion::Conflict {
                disposition,
                reason,
            }) => {
                let error = HandlerError::new(disposition, Code::ConditionNotMet.because(reason));
                {
                    let failure = self.engine.routes[route].errors.failure(error);
                    self.end_failed(record, failure).await
                }
            }
            Err(error) => {
                let report = self.end_uncompleted(&error, commits_effect);
                self.hide_while_claimed(record, route, report)
            }
        }
    }

    async fn end_completed(&self, record: &mut Record, completion: Completed) -> Report {
        match completion {
            Completed::Confirmed => {}
            Completed::ByAnother => {
                self.count(record, |tally| tally.leases_lost += 1);
                let warning = Code::LeaseLost.because(COMPLETED_BY_ANOTHER);
                // It matters more than the others.
                record.warnings.insert(0, warning);
            }
            Completed::LeaseLost => {
                self.count(record, |tally| tally.leases_lost += 1);
                let reason = "the handler succeeded, but another worker had taken over its key";
                return Report::failed(Code::LeaseLost.because(reason));
            }
        }
        self.end_done(record, Report::PROCESSED).await
    }
}

/// What a record's claim tells about the attempts before it.
#[derive(Clone, Copy)]
pub(super) struct FirstAttempt {
    pub(super) is_this: bool,
    /// `None` if no item tells the time.
    pub(super) at: Option<Timestamp>,
    /// Whether the attempt before is of unknown outcome and has to be asked about.
    pub(super) is_unknown: bool,
}

impl FirstAttempt {
    fn is_followed(self) -> bool {
        self.is_unknown || !self.is_this
    }
}

impl Admitted {
    /// Returns whether its claim was the key's first, under either id.
    fn is_first_attempt(&self) -> bool {
        let first = self.first_attempt.map(Fence::first);
        let owned = self.owned.as_ref();
        owned.is_none_or(|owned| owned.claim.seen.is_first() && first == Some(self.fence))
    }
}
