//! Undecided claims: in flight, waiting for a retry, or waiting for another worker. No claim delays another.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, debug_span};

use crate::guarded::Guarded;
use crate::handler::Work;
use crate::idempotency::{
    Admission, Asked, Driver, OtherId, Refusal, Retry, TRIES, admit, contended,
};
use crate::key::BusinessKey;
use crate::store::{Claim, OpenTransaction, StoreError};
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;
use crate::time::Timestamp;

use super::engine::{Engine, InProgress};
use super::ledger::Ledger;
use super::settling::started;

/// The most claimed records that wait for a free handler.
pub(super) const AHEAD: usize = 200;
/// The most records that wait for other workers.
const WAITING: usize = 100;

/// A record with a key whose claim is not decided yet.
pub(super) struct Candidate {
    pub(super) record: usize,
    /// The place of its route in the engine.
    pub(super) route: usize,
    pub(super) key: Arc<BusinessKey>,
    pub(super) claim: Claim,
    /// The other id under which the table may know the key.
    pub(super) other_id: Option<OtherId>,
    /// The transaction that contains the claim, once it is open. The first record that runs carries the transaction of a
    /// batch handler.
    pub(super) transaction: Option<Box<dyn OpenTransaction>>,
    pub(super) work: Guarded<Work<()>>,
    /// When SQS received the message, or zero if its consumer has no cache.
    pub(super) sent_at: Timestamp,
    /// How often its key was free again after it refused the claim, in a row.
    pub(super) tries: usize,
    pub(super) retry: Option<Retry>,
    /// When the record stops waiting for the worker that holds its key, if it waits.
    pub(super) waits_until: Option<Instant>,
}

pub(super) type Admissions = Vec<(Candidate, Result<Admission, StoreError>)>;
/// The answer is `None` if the claim now replaces an item whose key is free.
type Replies = Vec<(Candidate, Result<Option<Admission>, StoreError>)>;

pub(super) struct Claimer<'a> {
    engine: &'a Engine,
    ledger: &'a Ledger,
    /// When retries end.
    until: Instant,
    /// When handlers are cancelled.
    cancel_at: Instant,
    asking: FuturesUnordered<BoxFuture<'a, Replies>>,
    postponed: FuturesUnordered<BoxFuture<'a, Replies>>,
    /// The number of undecided claims of each route, not counting claims that wait for another worker.
    undecided: Vec<usize>,
    waiting: usize,
    pub(super) stopped: bool,
}

impl<'a> Claimer<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        ledger: &'a Ledger,
        until: Instant,
        cancel_at: Instant,
    ) -> Self {
        Self {
            engine,
            ledger,
            until,
            cancel_at,
            asking: FuturesUnordered::new(),
            postponed: FuturesUnordered::new(),
            undecided: vec![0; engine.routes.len()],
            waiting: 0,
            stopped: false,
        }
    }

    /// Returns the number of undecided claims, not counting claims that wait for another worker.
    pub(super) fn undecided(&self) -> usize {
        self.undecided.iter().sum()
    }

    pub(super) fn undecided_of(&self, route: usize) -> usize {
        self.undecided[route]
    }

    pub(super) fn is_idle(&self) -> bool {
        self.asking.is_empty() && self.postponed.is_empty()
    }

    /// Returns whether a request for new claims is in flight.
    pub(super) fn is_asking(&self) -> bool {
        !self.asking.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.asking.len() < self.engine.traits.requests_in_flight
    }

    /// Sends the claims of all routes together, unless some need a further request that others would wait for.
    pub(super) fn ask(&mut self, candidates: Vec<Candidate>) {
        let mut requests: Vec<(_, Vec<Candidate>)> = Vec::new();
        for candidate in candidates {
            self.undecided[candidate.route] += 1;
            let driver = &self.engine.routes[candidate.route].idempotency;
            let opens_transactions = driver.opens_transactions();
            let needs = (
                driver.mode,
                opens_transactions,
                candidate.other_id.is_some(),
            );
            let mut same = requests.iter_mut().filter(|(other, _)| *other == needs);
            match same.next() {
                // A record's transaction waits for other transactions on its key.
                Some((_, together)) if !opens_transactions || self.engine.traits.begins_once => {
                    together.push(candidate);
                }
                _ => requests.push((needs, vec![candidate])),
            }
        }
        for (_, candidates) in requests {
            self.send(candidates);
        }
    }

    fn send(&mut self, candidates: Vec<Candidate>) {
        self.ledger.tally().store_requests += 1;
        let request = ask(self.engine, candidates, self.until, self.cancel_at);
        self.asking.push(started(request));
    }

    /// Waits for the next decided claims. Pending forever if no claim is in flight.
    pub(super) async fn next(&mut self) -> Admissions {
        loop {
            let answered = tokio::select! {
                biased;
                Some(answered) = self.asking.next() => answered,
                Some(answered) = self.postponed.next() => answered,
                else => std::future::pending().await,
            };
            let (mut decided, mut postponed, mut over_items) = (Vec::new(), Vec::new(), Vec::new());
            let has_begun = answered.iter().any(|(one, _)| one.transaction.is_some());
            for (mut candidate, answer) in answered {
                self.ledger.tally().store_errors += u64::from(answer.is_err());
                let Some(answer) = self.answer(&mut candidate, answer) else {
                    over_items.push(candidate);
                    continue;
                };
                self.consider(&mut candidate, &answer, has_begun);
                if candidate.retry.is_some() {
                    postponed.push(candidate);
                    continue;
                }
                match candidate.waits_until {
                    Some(_) => self.waiting -= 1,
                    None => self.undecided[candidate.route] -= 1,
                }
                decided.push((candidate, answer));
            }
            self.postpone(postponed);
            // In a request of their own: the decided claims of this request do not wait for its answer.
            if !over_items.is_empty() {
                self.send(over_items);
            }
            if !decided.is_empty() {
                return decided;
            }
        }
    }

    /// Returns the answer to a claim, or `None` if the claim is sent again at once, over the item that refused it.
    fn answer(
        &self,
        candidate: &mut Candidate,
        answer: Result<Option<Admission>, StoreError>,
    ) -> Option<Result<Admission, StoreError>> {
        let decided = answer.transpose();
        candidate.tries = match decided {
            Some(_) => 0,
            None => candidate.tries + 1,
        };
        decided.or_else(|| (candidate.tries == TRIES).then(|| Err(contended())))
    }

    /// Sets the candidate's retry, or clears it if the claim is decided.
    fn consider(
        &mut self,
        candidate: &mut Candidate,
        answer: &Result<Admission, StoreError>,
        has_begun: bool,
    ) {
        let last = candidate.retry.take();
        let now = Instant::now();
        let route = &self.engine.routes[candidate.route];
        let until = match (answer, route.in_progress) {
            // A retry would begin another transaction.
            _ if self.stopped || has_begun => return,
            (Err(error), _) => {
                // A retry after that time would follow without a pause.
                let until = candidate.waits_until.unwrap_or(self.until);
                candidate.retry = Retry::after_error(last, error, until);
                return;
            }
            // A retry would open more transactions than handlers may run.
            (Ok(Admission::Refused(_)), _) if route.idempotency.opens_transactions() => {
                return;
            }
            (Ok(Admission::Refused(Refusal::InProgress { .. })), InProgress::Wait(longest)) => {
                if candidate.waits_until.is_none() {
                    if self.waiting == WAITING {
                        return;
                    }
                    self.undecided[candidate.route] -= 1;
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

    /// Sends a group of claims again after the longest pause in it. Sending a claim twice changes nothing.
    fn postpone(&mut self, mut candidates: Vec<Candidate>) {
        let Some(retry) = candidates.iter().filter_map(|one| one.retry).max() else {
            return;
        };
        let limits = candidates.iter().filter_map(|one| one.waits_until);
        let until = limits.min().unwrap_or(self.until);
        let (engine, ledger) = (self.engine, self.ledger);
        let at = retry.at(engine.driver().random.bits()).min(until);
        let (until, cancel_at) = (self.until, self.cancel_at);
        self.postponed.push(Box::pin(async move {
            sleep_until(at).await;
            ledger.tally().store_requests += 1;
            for candidate in &mut candidates {
                candidate.tries = 0;
                candidate.claim.now = engine.driver().clock.now();
            }
            ask(engine, candidates, until, cancel_at).await
        }));
    }
}

async fn ask(
    engine: &Engine,
    candidates: Vec<Candidate>,
    until: Instant,
    cancel_at: Instant,
) -> Replies {
    let span = debug_span!("claim");
    #[cfg(feature = "opentelemetry")]
    spans::store_request(&span, candidates.len());
    let asked = request(engine, candidates, until, cancel_at);
    asked.instrument(span).await
}

/// Sends a request. Waits until `until` for other transactions on the keys. A transaction ends at `cancel_at`.
async fn request(
    engine: &Engine,
    mut candidates: Vec<Candidate>,
    until: Instant,
    cancel_at: Instant,
) -> Replies {
    let patience = || until.saturating_duration_since(Instant::now());
    if engine.traits.begins_once {
        let limit = cancel_at.saturating_duration_since(Instant::now());
        return begin_once(engine.driver(), candidates, patience(), limit).await;
    }
    let driver_of = |candidate: &Candidate| &engine.routes[candidate.route].idempotency;
    // All candidates of a request need the same.
    if candidates
        .first()
        .is_some_and(|one| driver_of(one).opens_transactions())
    {
        return join_all(candidates.into_iter().map(async |mut candidate| {
            let claim = candidate.claim.clone();
            let begin = driver_of(&candidate).begin(claim, candidate.sent_at, patience());
            let begun = begin.await;
            let answer = begun.map(|(admission, transaction)| {
                candidate.transaction = transaction;
                Some(admission)
            });
            (candidate, answer)
        }))
        .await;
    }
    let mut asked: Vec<_> = candidates
        .iter_mut()
        .map(|candidate| Asked {
            driver: &engine.routes[candidate.route].idempotency,
            claim: &mut candidate.claim,
            other_id: &candidate.other_id,
            sent_at: candidate.sent_at,
        })
        .collect();
    let answers = admit(&mut asked).await;
    candidates.into_iter().zip(answers).collect()
}

/// Begins the transaction of a batch handler.
async fn begin_once(
    driver: &Driver,
    candidates: Vec<Candidate>,
    patience: Duration,
    limit: Duration,
) -> Replies {
    let claims = candidates.iter();
    let claims = claims.map(|one| (one.claim.clone(), one.sent_at)).collect();
    let (answers, mut transaction) = match driver.begin_all(claims, patience, limit).await {
        Ok(begun) => begun,
        Err(error) => (vec![Err(error); candidates.len()], None),
    };
    let mut replies = Vec::with_capacity(candidates.len());
    for (mut candidate, answer) in candidates.into_iter().zip(answers) {
        if matches!(answer, Ok(Admission::Run { .. })) {
            candidate.transaction = transaction.take();
        }
        replies.push((candidate, answer.map(Some)));
    }
    replies
}
