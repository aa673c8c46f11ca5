//! Group commit: settlements that arrive during a write share the next request.

use std::collections::VecDeque;
use std::future::ready;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, debug_span};

use crate::idempotency::{Conclusion, PendingSettlement, Retry};
use crate::store::{OpenTransaction, StoreError};
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

use super::engine::Engine;
use super::ledger::Ledger;

/// The longest time that a group waits while handlers end one after another.
const OVERDUE: Duration = Duration::from_millis(20);

/// The answer to a settlement, with the record whose outcome depends on it.
pub(super) type Concluded = (Option<usize>, Result<Conclusion, StoreError>);

struct Entry {
    record: Option<usize>,
    ending: PendingSettlement,
    retry: Option<Retry>,
}

type Replies = Vec<(Entry, Result<Conclusion, StoreError>)>;

/// Sends settlements in groups, and unanswered ones again in a request of their own, so that they do not delay the
/// others.
pub(super) struct Settler<'a> {
    engine: &'a Engine,
    ledger: &'a Ledger,
    until: Instant,
    waiting: Vec<Entry>,
    /// Settlements that commit together with work. Those of a batch handler share requests.
    commits: VecDeque<Entry>,
    commits_in_a_request: usize,
    /// The number of settlements that are not answered.
    unanswered: usize,
    waiting_since: Option<Instant>,
    in_flight: FuturesUnordered<BoxFuture<'a, Replies>>,
    postponed: FuturesUnordered<BoxFuture<'a, Vec<Entry>>>,
}

impl<'a> Settler<'a> {
    pub(super) fn new(engine: &'a Engine, ledger: &'a Ledger, until: Instant) -> Self {
        Self {
            engine,
            ledger,
            until,
            waiting: Vec::new(),
            commits: VecDeque::new(),
            commits_in_a_request: engine.traits.commits_in_a_request,
            unanswered: 0,
            waiting_since: None,
            in_flight: FuturesUnordered::new(),
            postponed: FuturesUnordered::new(),
        }
    }

    /// Queues a settlement. `record` is the record that ends with its answer, if any.
    pub(super) fn push(&mut self, record: Option<usize>, ending: PendingSettlement) {
        self.unanswered += 1;
        self.wait(Entry {
            record,
            ending,
            retry: None,
        });
        self.send_full_groups();
    }

    /// Sends the settlements that the transaction of a batch handler commits, in one request.
    pub(super) fn commit_batch(
        &mut self,
        transaction: Box<dyn OpenTransaction>,
        mut endings: Vec<(usize, PendingSettlement)>,
    ) {
        // Without any, dropping the transaction rolls it back.
        let Some((_, first)) = endings.first_mut() else {
            return;
        };
        first.commit_in(transaction);
        self.unanswered += endings.len();
        let entries = endings.into_iter().map(|(record, ending)| Entry {
            record: Some(record),
            ending,
            retry: None,
        });
        self.send(entries.collect());
    }

    fn wait(&mut self, entry: Entry) {
        if entry.ending.commits_work() {
            return self.commits.push_back(entry);
        }
        self.waiting_since.get_or_insert_with(Instant::now);
        self.waiting.push(entry);
    }

    /// Sends waiting settlements. Those that arrive during a write form the next group while `more_may_come`.
    pub(super) fn flush(&mut self, more_may_come: bool) {
        self.send_commits(1);
        let waits = more_may_come && !self.in_flight.is_empty();
        if !waits && !self.waiting.is_empty() && self.has_room() {
            let group = std::mem::take(&mut self.waiting);
            self.waiting_since = None;
            self.send(group);
        }
    }

    pub(super) fn flush_overdue(&mut self) {
        let is_overdue = |since: Instant| since.elapsed() >= OVERDUE;
        if self.waiting_since.is_some_and(is_overdue) {
            self.flush(true);
        }
    }

    /// Waits for the answers of the next write. Pending forever if no write is in flight.
    pub(super) async fn next(&mut self) -> Vec<Concluded> {
        tokio::select! {
            biased;
            Some(answers) = self.in_flight.next() => {
                let answered = self.take_answers(answers);
                self.send_full_groups();
                answered
            }
            Some(again) = self.postponed.next() => {
                again.into_iter().for_each(|entry| self.wait(entry));
                self.send_full_groups();
                Vec::new()
            }
            else => std::future::pending().await,
        }
    }

    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    pub(super) fn is_idle(&self) -> bool {
        self.unanswered == 0
    }

    /// Keeps the settlements to send again and returns the others. A release is sent at most twice, because its lease
    /// lapses anyway.
    fn take_answers(&mut self, answers: Replies) -> Vec<Concluded> {
        let mut answered = Vec::with_capacity(answers.len());
        let mut again = Vec::new();
        let mut longest = None;
        for (mut entry, answer) in answers {
            self.ledger.tally().store_errors += u64::from(answer.is_err());
            let is_worth_it =
                (entry.record.is_some() || entry.retry.is_none()) && entry.ending.is_repeatable();
            let retry = match &answer {
                Err(error) if is_worth_it => Retry::after_error(entry.retry, error, self.until),
                _ => None,
            };
            if retry.is_some() {
                longest = longest.max(retry);
                entry.retry = retry;
                again.push(entry);
            } else {
                answered.push((entry.record, answer));
            }
        }
        self.unanswered -= answered.len();
        if let Some(retry) = longest {
            let at = retry.at(self.engine.driver().random.bits());
            self.postponed.push(Box::pin(async move {
                sleep_until(at).await;
                again
            }));
        }
        answered
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < self.engine.traits.requests_in_flight
    }

    fn send_full_groups(&mut self) {
        self.send_commits(self.commits_in_a_request);
        let keys = self.engine.requests.keys();
        while self.waiting.len() >= keys && self.has_room() {
            let rest = self.waiting.split_off(keys);
            let group = std::mem::replace(&mut self.waiting, rest);
            self.send(group);
        }
        if self.waiting.is_empty() {
            self.waiting_since = None;
        }
    }

    /// Sends commits in groups of at least `fewest`.
    fn send_commits(&mut self, fewest: usize) {
        while self.commits.len() >= fewest && self.has_room() {
            let count = self.commits.len().min(self.commits_in_a_request);
            let group = self.commits.drain(..count).collect();
            self.send(group);
        }
    }

    fn send(&mut self, mut group: Vec<Entry>) {
        let idempotency = self.engine.driver();
        self.ledger.tally().store_requests += 1;
        let span = debug_span!("settle");
        #[cfg(feature = "opentelemetry")]
        spans::store_request(&span, group.len());
        let request = async move {
            let endings = group.iter_mut().map(|entry| &mut entry.ending).collect();
            let answers = idempotency.conclude(endings).await;
            group.into_iter().zip(answers).collect()
        };
        self.in_flight.push(started(request.instrument(span)));
    }
}

/// Polls a request once, so that it is in flight while the caller builds the next one. The caller polls it to its end.
pub(super) fn started<'a, T: Send + 'a>(
    request: impl Future<Output = T> + Send + 'a,
) -> BoxFuture<'a, T> {
    let mut request = request.boxed();
    match (&mut request).now_or_never() {
        Some(answer) => ready(answer).boxed(),
        None => request,
    }
}
