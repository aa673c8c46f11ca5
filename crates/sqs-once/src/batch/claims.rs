//! The requests that claim the keys of records.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use tokio::time::Instant;
use tracing::{Instrument, debug_span};

use crate::idempotency::{
    Admission, Admitted, Asked, KeyRules, Mode, OtherId, Refusal, Retries, admit, answers_until,
};
use crate::key::BusinessKey;
use crate::store::{Claim, StoreError};
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;
use crate::time::Timestamp;

use super::batcher::{Answered, Batcher, Load, Requests};
use super::ending::Tail;
use super::gate;
use super::record::Counted;
use super::room::Slot;
use super::run::Batch;
use super::together::Together;

/// The most records that wait for other workers.
const WAITING: usize = 100;

pub(super) type Claims = Batcher<Candidate, (Candidate, Decision)>;

/// A record's claim before the store's decision.
pub(super) struct Candidate {
    /// The place of its route in the engine.
    pub(super) route: usize,
    pub(super) key: Arc<BusinessKey>,
    pub(super) claim: Claim,
    /// The other id under which the table may know the key.
    pub(super) other_id: Option<OtherId>,
    /// When SQS received the message, or zero if its consumer has no cache.
    pub(super) sent_at: Timestamp,
    /// Whether its claim replaces an attempt of unknown outcome that has to be asked about.
    pub(super) follows_unknown: bool,
    /// Whether its key is read before it is claimed.
    pub(super) reads_first: bool,
}

/// The places that a record has while it is claimed.
pub(super) struct Places<'b> {
    /// Its place among the records that claim ahead. A record that waited for another worker may have none.
    pub(super) slot: Option<Slot<'b>>,
    /// Its handler's place, if its key is claimed only when its handler may start.
    pub(super) handler: Option<gate::Running>,
}

/// `None` if the claim is sent again: it now replaces an item whose key is free, or its key was read and has no item.
pub(super) type Decision = Result<Option<Admitted>, StoreError>;

impl Batch<'_> {
    /// Claims a key. Keeps the places that the record still has.
    pub(super) async fn claim<'b>(
        &'b self,
        mut candidate: Candidate,
        places: &mut Places<'b>,
    ) -> (Candidate, Result<Admitted, StoreError>) {
        places.slot.iter_mut().for_each(|it| it.has_asked = true);
        let needs_handler = places.handler.is_some();
        let route = &self.engine.routes[candidate.route];
        if needs_handler {
            // It has waited for its turn.
            candidate.claim.now = route.idempotency.driver.clock.now();
        }
        let together = self.together.as_ref();
        let mut retries =
            Retries::new(together.map_or(self.deadline.cancel_at, |it| it.claims_until));
        // While it waits for the worker that has the key.
        let mut waits: Option<Counted<'_>> = None;
        loop {
            let Answered {
                answer: (entry, answer),
                bits,
            } = self.claims.ask(candidate).await;
            candidate = entry;
            self.ledger.tally().store_errors += u64::from(answer.is_err());
            let Some(answer) = retries.decided(answer) else {
                continue;
            };
            let pause = match (&answer, route.in_progress_wait) {
                _ if self.stop.reason().is_some() => None,
                // A retry would begin another transaction.
                _ if together.is_some_and(Together::has_transaction) => None,
                (Err(_), _) => retries.after_error(&answer),
                // A retry would open more transactions than handlers may run.
                (Ok((Admission::Refused(_), _)), _) if route.idempotency.opens_transactions() => {
                    None
                }
                (Ok((Admission::Refused(Refusal::InProgress { .. }), _)), longest)
                    if !longest.is_zero() =>
                {
                    if waits.is_none() {
                        waits = self.wait_for_worker();
                        retries.end_within(longest);
                    }
                    waits.as_ref().and_then(|_| retries.while_held())
                }
                _ => None,
            };
            let Some(pause) = pause else {
                return (candidate, answer);
            };
            // While it waits for another worker, others may enter in its place, unless it holds a fetched body. An error
            // keeps its place: otherwise all records would be claimed once the store answers again.
            if waits.is_some() {
                let slot = places.slot.take();
                *places = Places {
                    slot: slot.and_then(|slot| self.gate.slot_until_ended(candidate.route, slot)),
                    handler: None,
                };
            }
            pause.ends(bits).await;
            if needs_handler && places.handler.is_none() {
                match self.start_handler(candidate.route).await {
                    Ok(handler) => places.handler = Some(handler),
                    Err(_) => return (candidate, answer),
                }
            }
            // A claim that is written now could only be released.
            if self.stop.claims_over().is_some() {
                return (candidate, answer);
            }
            candidate.claim.now = route.idempotency.driver.clock.now();
        }
    }

    /// Counts a record that waits for another worker. Returns `None` if too many wait.
    fn wait_for_worker(&self) -> Option<Counted<'_>> {
        let counted = Counted::new(&self.counts.waiting);
        (self.counts.waiting.load(Ordering::Relaxed) <= WAITING).then_some(counted)
    }

    fn rules_of(&self, candidate: &Candidate) -> &KeyRules {
        &self.engine.routes[candidate.route].idempotency
    }
}

/// The claims of all routes share requests, unless some need a further request that the others would wait for.
pub(super) struct ClaimRequests<'b, 'a>(pub(super) &'b Batch<'a>);

impl ClaimRequests<'_, '_> {
    /// Returns whether the store is asked for a claim.
    fn asks(&self, candidate: &Candidate) -> bool {
        let rules = self.0.rules_of(candidate);
        rules.opens_transactions()
            || rules.asks(&candidate.claim, candidate.sent_at)
            || candidate.other_id.is_some()
    }
}

impl Requests for ClaimRequests<'_, '_> {
    type Entry = Candidate;
    type Answer = (Candidate, Decision);
    type Needs = (Mode, bool, bool);

    fn needs(&self, candidate: &Candidate) -> Self::Needs {
        let rules = self.0.rules_of(candidate);
        (
            rules.mode,
            candidate.other_id.is_some(),
            candidate.reads_first,
        )
    }

    fn full(&self, candidate: &Candidate) -> usize {
        match (
            &self.0.together,
            self.0.rules_of(candidate).opens_transactions(),
        ) {
            (Some(_), true) => usize::MAX,
            // A transaction waits for others on its key.
            (None, true) => 1,
            (_, false) => self.0.engine.requests.keys(),
        }
    }

    /// A record whose payload is fetched joins when it is.
    fn waits(&self, _: &Candidate, load: Load) -> bool {
        match &self.0.together {
            // One transaction contains all claims.
            Some(together) if together.begins_once => {
                together.undecided() > load.unanswered && self.0.stop.claims_over().is_none()
            }
            _ => load.is_answered_soon() && self.0.is_preparing(),
        }
    }

    async fn send(&self, mut candidates: Vec<Candidate>) -> Vec<(Candidate, Decision)> {
        if candidates.iter().any(|one| self.asks(one)) {
            self.0.ledger.tally().store_requests += 1;
        }
        // A claim without an answer is released if it would count as an attempt, which takes time.
        let counts = |one: &Candidate| self.0.rules_of(one).counts_attempts();
        let until = match candidates.iter().any(counts) {
            true => self.0.deadline.cancel_at,
            false => self.0.deadline.requests_by,
        };
        let (count, span) = (candidates.len(), debug_span!("claim"));
        #[cfg(feature = "opentelemetry")]
        spans::store_request(&span, count);
        let asked = async {
            if let Some(together) = self.0.together.as_ref().filter(|it| it.begins_once) {
                return self.begin_once(together, &candidates).await;
            }
            if self.0.rules_of(&candidates[0]).opens_transactions() {
                return join_all(candidates.iter().map(|one| self.begin(one))).await;
            }
            let mut asked: Vec<_> = candidates
                .iter_mut()
                .map(|candidate| Asked {
                    rules: &self.0.engine.routes[candidate.route].idempotency,
                    claim: &mut candidate.claim,
                    other_id: &candidate.other_id,
                    sent_at: candidate.sent_at,
                    follows_unknown: &mut candidate.follows_unknown,
                    reads_first: &mut candidate.reads_first,
                })
                .collect();
            let (answers, refused) = admit(&mut asked).await;
            for ending in refused {
                self.0.leave(Tail::Release(ending));
            }
            let alone = |admission| (admission, None);
            let answers = answers.into_iter().map(|answer| Ok(answer?.map(alone)));
            answers.collect()
        };
        let answers = answers_until(until, count, asked.instrument(span)).await;
        candidates.into_iter().zip(answers).collect()
    }

    fn bits(&self) -> u128 {
        self.0.engine.driver().random.bits()
    }

    fn may_pause((_, decision): &(Candidate, Decision)) -> bool {
        !matches!(decision, Ok(None | Some((Admission::Run { .. }, _))))
    }
}

impl ClaimRequests<'_, '_> {
    /// Opens the transaction of a batch handler.
    async fn begin_once(&self, together: &Together, candidates: &[Candidate]) -> Vec<Decision> {
        together.asks();
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let (patience, limit) = (left(together.claims_until), left(self.0.deadline.cancel_at));
        let claims = candidates.iter();
        let claims = claims.map(|one| (one.claim.clone(), one.sent_at)).collect();
        let rules = self.0.rules_of(&candidates[0]);
        let (answers, mut transaction) = match rules.begin_all(claims, patience, limit).await {
            Ok(begun) => begun,
            Err(error) => return candidates.iter().map(|_| Err(error.clone())).collect(),
        };
        if transaction.is_some() {
            together.opened();
        }
        let decided = answers.into_iter().map(|answer| {
            let admission = answer?;
            // The first record that runs brings it to the call.
            let brought = match admission {
                Admission::Run { .. } => transaction.take(),
                Admission::Refused(_) => None,
            };
            Ok(Some((admission, brought)))
        });
        decided.collect()
    }

    /// Opens a transaction that contains the claim. Waits until handlers are cancelled for other transactions on the key.
    async fn begin(&self, candidate: &Candidate) -> Decision {
        let until = self.0.deadline.cancel_at;
        let patience = until.saturating_duration_since(Instant::now());
        let rules = self.0.rules_of(candidate);
        let begun = rules
            .begin(candidate.claim.clone(), candidate.sent_at, patience)
            .await;
        begun.map(Some)
    }
}
