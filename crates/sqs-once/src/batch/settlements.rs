//! The requests that end claims and complete keys. Those that are ready together share one.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{Instrument, debug_span};

use crate::idempotency::{Conclusion, PendingSettlement, Retries, Sent};
use crate::report::Untried;
use crate::store::{Claim, StoreError};
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

use super::batcher::{Answered, Batcher, Load, Requests};
use super::call::Owned;
use super::ending::Tail;
use super::run::Batch;
use super::together::Together;

/// How long a release may take that is sent after the time of its batch.
const LATE: Duration = Duration::from_secs(1);

pub(super) type Settlements = Batcher<PendingSettlement, Sent>;

impl Batch<'_> {
    /// Sends a settlement until it is answered, at most `tries` times.
    ///
    /// Leaves the release of a claim whose completion a condition has refused.
    ///
    /// Stops the batch if keys can't be completed, because further effects would repeat with every delivery. An error does
    /// not stop it if the effect was to commit with the completion of its key: the effect has not happened, and the error
    /// may concern this record alone.
    pub(super) async fn settle(
        &self,
        ending: PendingSettlement,
        tries: usize,
    ) -> Result<Conclusion, StoreError> {
        let mut routes = self.engine.routes.iter();
        let commits_effect = match ending.is_release() {
            true => routes.all(|route| route.idempotency.commits_effects()),
            false => ending.commits_work(),
        };
        let send = |ending| async {
            let Answered { answer: sent, bits } = self.settlements.ask(ending).await;
            self.ledger.tally().store_errors += u64::from(sent.answer.is_err());
            (sent, bits)
        };
        let retries = Retries::new(self.deadline.requests_by).at_most(tries);
        let Sent { answer, again } = retries.settle(ending, send).await;
        if matches!(answer, Ok(Conclusion::Conflict { .. }))
            && let Some(release) = again.and_then(PendingSettlement::into_release)
        {
            self.leave(Tail::Release(release));
        }
        if let Err(error) = &answer {
            self.ledger.log_once(error);
            if error.is_permanent() && !commits_effect {
                self.stop.return_rest(Untried::Unrecordable);
            }
        }
        answer
    }

    /// Releases a claim, if there is one. No report waits for it.
    pub(super) fn release(&self, route: usize, claim: Option<&Claim>) {
        let idempotency = &self.engine.routes[route].idempotency;
        if let Some(release) = claim.and_then(|claim| idempotency.release(claim)) {
            self.leave(Tail::Release(release));
        }
    }

    /// Releases the claim of a record whose handler never started, unless its key would forget an attempt that the claim
    /// replaced.
    pub(super) fn release_unstarted(&self, route: usize, owned: Option<&Owned>) {
        let owned = owned.filter(|owned| !owned.follows_unknown);
        self.release(route, owned.map(|owned| &owned.claim));
    }
}

pub(super) struct SettlementRequests<'b, 'a>(pub(super) &'b Batch<'a>);

impl Requests for SettlementRequests<'_, '_> {
    type Entry = PendingSettlement;
    type Answer = Sent;
    /// Whether it commits together with work.
    type Needs = bool;

    fn needs(&self, ending: &PendingSettlement) -> bool {
        ending.commits_work()
    }

    fn full(&self, ending: &PendingSettlement) -> usize {
        match (&self.0.together, ending.commits_work()) {
            // One transaction contains all.
            (Some(together), true) if together.begins_once => usize::MAX,
            (_, true) => self.0.engine.commits_in_a_request(),
            (_, false) => self.0.engine.requests.keys(),
        }
    }

    /// The completion of a handler that still runs joins when the handler has ended. All results of a batch handler are
    /// there at once.
    fn waits(&self, ending: &PendingSettlement, load: Load) -> bool {
        let together = self.0.together.as_ref();
        together.is_some_and(Together::is_settling)
            || (load.is_answered_soon() && !ending.commits_work() && self.0.may_still_settle())
    }

    /// Handlers wait while a request is due.
    fn sent(&self) {
        self.0.gate.handlers.line.wake_first();
    }

    async fn send(&self, endings: Vec<PendingSettlement>) -> Vec<Sent> {
        if Instant::now() >= self.0.deadline.requests_by {
            return self.release_late(endings);
        }
        self.0.ledger.tally().store_requests += 1;
        let span = debug_span!("settle");
        #[cfg(feature = "opentelemetry")]
        spans::store_request(&span, endings.len());
        let (driver, until) = (self.0.engine.driver(), self.0.deadline.requests_by);
        driver.conclude(endings, until).instrument(span).await
    }

    fn bits(&self) -> u128 {
        self.0.engine.driver().random.bits()
    }

    fn may_pause(sent: &Sent) -> bool {
        sent.answer.is_err()
    }
}

impl SettlementRequests<'_, '_> {
    /// Releases claims in a task of its own, when the time for requests is over. A handler that blocked its thread has used
    /// it up, and the claims of handlers that never started must not count as attempts.
    fn release_late(&self, mut endings: Vec<PendingSettlement>) -> Vec<Sent> {
        let sent = endings.iter().map(|_| Sent::too_late()).collect();
        endings.retain(PendingSettlement::is_release);
        if !endings.is_empty() {
            let driver = self.0.engine.driver().clone();
            let late = async move {
                driver.conclude(endings, Instant::now() + LATE).await;
            };
            tokio::spawn(late.in_current_span());
        }
        sent
    }
}
