//! Group commit: settlements that arrive while a write is in flight go together in the next one.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, debug_span};

use crate::idempotency::{Conclusion, Driver, Ending, Retry};
use crate::store::StoreError;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

use super::eager::started;
use super::engine::Requests;
use super::ledger::Ledger;

/// Handlers that end one after the other without a pause hold the group back no longer than this.
const OVERDUE: Duration = Duration::from_millis(20);

/// A settlement's answer, with the record whose outcome depends on it.
pub(super) struct Answered {
    pub(super) record: Option<usize>,
    pub(super) answer: Result<Conclusion, StoreError>,
}

struct Entry {
    record: Option<usize>,
    ending: Ending,
    /// The retry that it waits for, or waited for last.
    retry: Option<Retry>,
}

type Answers = Vec<(Entry, Result<Conclusion, StoreError>)>;

/// Sends settlements in groups. One that the store could not answer is sent again apart from the
/// others, which it does not hold up.
pub(super) struct Settler<'a> {
    idempotency: &'a Driver,
    ledger: &'a Ledger,
    requests: Requests,
    until: Instant,
    waiting: Vec<Entry>,
    waiting_since: Option<Instant>,
    under_way: FuturesUnordered<BoxFuture<'a, Answers>>,
    postponed: FuturesUnordered<BoxFuture<'a, Vec<Entry>>>,
}

impl<'a> Settler<'a> {
    pub(super) fn new(
        idempotency: &'a Driver,
        ledger: &'a Ledger,
        requests: Requests,
        until: Instant,
    ) -> Self {
        Self {
            idempotency,
            ledger,
            requests,
            until,
            waiting: Vec::new(),
            waiting_since: None,
            under_way: FuturesUnordered::new(),
            postponed: FuturesUnordered::new(),
        }
    }

    /// Takes a settlement; `record` is the record that ends with its answer, if one does.
    pub(super) fn push(&mut self, record: Option<usize>, ending: Ending) {
        self.waiting_since.get_or_insert_with(Instant::now);
        self.waiting.push(Entry {
            record,
            ending,
            retry: None,
        });
        self.send_full_groups();
    }

    /// Sends waiting settlements. A lone settlement goes at once. Settlements that arrive while a write is in flight form the
    /// next group, as long as `more_may_come`.
    pub(super) fn flush(&mut self, more_may_come: bool) {
        let waits = more_may_come && !self.under_way.is_empty();
        if !waits && !self.waiting.is_empty() && self.has_room() {
            let group = std::mem::take(&mut self.waiting);
            self.waiting_since = None;
            self.send(group);
        }
    }

    /// Sends what has waited too long.
    pub(super) fn flush_overdue(&mut self) {
        if self
            .waiting_since
            .is_some_and(|since| since.elapsed() >= OVERDUE)
        {
            self.flush(true);
        }
    }

    /// The answers of the next write that ends; pending forever when none is in flight.
    pub(super) async fn next(&mut self) -> Vec<Answered> {
        tokio::select! {
            biased;
            Some(answers) = self.under_way.next() => {
                let answered = self.take_answers(answers);
                self.send_full_groups();
                answered
            }
            Some(mut again) = self.postponed.next() => {
                self.waiting_since.get_or_insert_with(Instant::now);
                self.waiting.append(&mut again);
                self.send_full_groups();
                Vec::new()
            }
            else => std::future::pending().await,
        }
    }

    /// How many requests are in flight or waiting.
    pub(super) fn unanswered(&self) -> usize {
        self.waiting.len() + self.under_way.len() + self.postponed.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.unanswered() == 0
    }

    /// Keeps the settlements to send again and returns the others. A release is sent at most twice, because the lease lapses
    /// anyway.
    fn take_answers(&mut self, answers: Answers) -> Vec<Answered> {
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
                answered.push(Answered {
                    record: entry.record,
                    answer,
                });
            }
        }
        if let Some(retry) = longest {
            let at = retry.at(self.idempotency);
            self.postponed.push(Box::pin(async move {
                sleep_until(at).await;
                again
            }));
        }
        answered
    }

    fn has_room(&self) -> bool {
        self.under_way.len() < self.requests.under_way()
    }

    fn send_full_groups(&mut self) {
        let keys = self.requests.keys();
        while self.waiting.len() >= keys && self.has_room() {
            let rest = self.waiting.split_off(keys);
            let group = std::mem::replace(&mut self.waiting, rest);
            self.send(group);
        }
        if self.waiting.is_empty() {
            self.waiting_since = None;
        }
    }

    fn send(&mut self, mut group: Vec<Entry>) {
        let idempotency = self.idempotency;
        self.ledger.tally().store_requests += 1;
        let span = debug_span!("settle");
        #[cfg(feature = "opentelemetry")]
        spans::store_request(&span, group.len());
        let request = async move {
            let endings = group.iter_mut().map(|entry| &mut entry.ending).collect();
            let answers = idempotency.conclude(endings).await;
            group.into_iter().zip(answers).collect()
        };
        self.under_way.push(started(request.instrument(span)));
    }
}
