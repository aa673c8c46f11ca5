//! Claims in flight: sent, waiting to be sent again, or waiting for another worker. No claim delays another.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, debug_span};

use crate::guarded::Guarded;
use crate::handler::Work;
use crate::idempotency::{Admission, Driver, OtherId, Refusal, Retry};
use crate::key::BusinessKey;
use crate::store::{Claim, OpenTransaction, StoreError};
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

use super::eager::started;
use super::engine::{InProgress, Requests};
use super::ledger::Ledger;

/// How many claimed records may wait for a free handler.
pub(super) const AHEAD: usize = 200;
/// How many may wait for other workers.
const WAITING: usize = 100;

/// A record whose key is known, between its claim and its handler.
pub(super) struct Candidate {
    pub(super) record: usize,
    pub(super) key: Arc<BusinessKey>,
    pub(super) claim: Claim,
    /// The other id that may know its key.
    pub(super) other_id: Option<OtherId>,
    /// The transaction that the claim is in, once it is open, where there is one.
    pub(super) transaction: Option<Box<dyn OpenTransaction>>,
    pub(super) work: Guarded<Work<()>>,
    /// The retry that it waits for, or waited for last.
    pub(super) retry: Option<Retry>,
    /// Until when it waits for another worker to be done with its key, if it does.
    pub(super) waits_until: Option<Instant>,
}

pub(super) type Answers = Vec<(Candidate, Result<Admission, StoreError>)>;

pub(super) struct Claimer<'a> {
    idempotency: &'a Driver,
    ledger: &'a Ledger,
    policy: InProgress,
    requests: Requests,
    /// From here on no key is asked for again.
    until: Instant,
    asking: FuturesUnordered<BoxFuture<'a, Answers>>,
    postponed: FuturesUnordered<BoxFuture<'a, Answers>>,
    /// How many records are asked for and not decided, those that wait for another worker apart.
    undecided: usize,
    waiting: usize,
    stopped: bool,
}

impl<'a> Claimer<'a> {
    pub(super) fn new(
        idempotency: &'a Driver,
        ledger: &'a Ledger,
        policy: InProgress,
        requests: Requests,
        until: Instant,
    ) -> Self {
        Self {
            idempotency,
            ledger,
            policy,
            requests,
            until,
            asking: FuturesUnordered::new(),
            postponed: FuturesUnordered::new(),
            undecided: 0,
            waiting: 0,
            stopped: false,
        }
    }

    /// How many records are being claimed.
    pub(super) fn undecided(&self) -> usize {
        self.undecided
    }

    /// Whether every key that was asked for is decided.
    pub(super) fn is_idle(&self) -> bool {
        self.asking.is_empty() && self.postponed.is_empty()
    }

    /// Whether one more request may go out.
    pub(super) fn has_room(&self) -> bool {
        self.asking.len() < self.requests.under_way()
    }

    pub(super) fn ask(&mut self, candidates: Vec<Candidate>) {
        self.undecided += candidates.len();
        self.ledger.tally().store_requests += 1;
        self.asking
            .push(started(ask(self.idempotency, candidates, self.until)));
    }

    /// Refused and unanswered claims are not sent again.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// The next claims that are decided; pending forever when none is in flight.
    pub(super) async fn next(&mut self) -> Answers {
        loop {
            let answered = tokio::select! {
                biased;
                Some(answered) = self.asking.next() => answered,
                Some(answered) = self.postponed.next() => answered,
                else => std::future::pending().await,
            };
            self.ledger.tally().store_errors += unanswered(&answered);
            let (postponed, decided): (Answers, Answers) = answered
                .into_iter()
                .map(|(mut candidate, answer)| {
                    self.consider(&mut candidate, &answer);
                    (candidate, answer)
                })
                .partition(|(candidate, _)| candidate.retry.is_some());
            for (candidate, _) in &decided {
                match candidate.waits_until {
                    Some(_) => self.waiting -= 1,
                    None => self.undecided -= 1,
                }
            }
            self.postpone(
                postponed
                    .into_iter()
                    .map(|(candidate, _)| candidate)
                    .collect(),
            );
            if !decided.is_empty() {
                return decided;
            }
        }
    }

    /// Sets the retry of a candidate; none for one that is decided.
    fn consider(&mut self, candidate: &mut Candidate, answer: &Result<Admission, StoreError>) {
        let last = candidate.retry.take();
        let now = Instant::now();
        let until = match (answer, self.policy) {
            _ if self.stopped => return,
            (Err(error), _) => {
                candidate.retry = Retry::after_error(last, error, self.until);
                return;
            }
            // Asking again would open one more transaction than there are handlers to run.
            (Ok(Admission::Refused(_)), _) if self.idempotency.opens_transactions() => return,
            (Ok(Admission::Refused(Refusal::InProgress { .. })), InProgress::Wait(longest)) => {
                if candidate.waits_until.is_none() {
                    if self.waiting == WAITING {
                        return;
                    }
                    self.undecided -= 1;
                    self.waiting += 1;
                }
                *candidate.waits_until.get_or_insert_with(|| {
                    let until = now.checked_add(longest).unwrap_or(self.until);
                    until.min(self.until)
                })
            }
            _ => return,
        };
        if now < until {
            candidate.retry = Some(Retry::after(last));
        }
    }

    /// Asks again after the longest pause of the group. A claim that is sent twice changes nothing.
    fn postpone(&mut self, mut candidates: Vec<Candidate>) {
        let Some(retry) = candidates.iter().filter_map(|one| one.retry).max() else {
            return;
        };
        let limits = candidates.iter().filter_map(|one| one.waits_until);
        let until = limits.min().unwrap_or(self.until);
        let at = retry.at(self.idempotency).min(until);
        let (idempotency, ledger, until) = (self.idempotency, self.ledger, self.until);
        self.postponed.push(Box::pin(async move {
            sleep_until(at).await;
            ledger.tally().store_requests += 1;
            for candidate in &mut candidates {
                candidate.claim.now = idempotency.clock.now();
            }
            ask(idempotency, candidates, until).await
        }));
    }
}

fn unanswered(answers: &Answers) -> u64 {
    let errors = answers.iter().filter(|(_, answer)| answer.is_err());
    errors.count() as u64
}

/// A request in a span of its own.
async fn ask(idempotency: &Driver, candidates: Vec<Candidate>, until: Instant) -> Answers {
    let span = debug_span!("claim");
    #[cfg(feature = "opentelemetry")]
    spans::store_request(&span, candidates.len());
    let asked = request(idempotency, candidates, until);
    asked.instrument(span).await
}

/// A transaction on a key is waited for until `until`.
async fn request(idempotency: &Driver, mut candidates: Vec<Candidate>, until: Instant) -> Answers {
    if idempotency.opens_transactions() {
        return join_all(candidates.into_iter().map(async |mut candidate| {
            let patience = until.saturating_duration_since(Instant::now());
            let begun = idempotency.begin(&candidate.claim, patience).await;
            let answer = begun.map(|admitted| {
                candidate.transaction = admitted.transaction;
                admitted.admission
            });
            (candidate, answer)
        }))
        .await;
    }
    let mut claims: Vec<_> = candidates.iter().map(|one| one.claim.clone()).collect();
    let other_id: Vec<_> = candidates.iter().map(|one| one.other_id.clone()).collect();
    let answers = idempotency.admit(&mut claims, &other_id).await;
    for (candidate, claim) in candidates.iter_mut().zip(claims) {
        candidate.claim = claim;
    }
    candidates.into_iter().zip(answers).collect()
}
