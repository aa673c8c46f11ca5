//! Group commit: settlements that come up while a write is under way travel together in the next.

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::idempotency::Idempotency;
use crate::store::{Settled, Settlement, StoreError};

/// How many settlements a write carries, and how many full writes may be under way at once.
const GROUP: usize = 25;
const IN_FLIGHT: usize = 8;

/// A settlement and its answer, with the record whose outcome depends on it.
pub(super) struct Answered {
    pub(super) record: Option<usize>,
    pub(super) answer: Result<Settled, StoreError>,
}

/// Sends settlements in groups.
pub(super) struct Settler<'a> {
    idempotency: &'a Idempotency,
    until: Instant,
    waiting: Vec<(Option<usize>, Settlement)>,
    under_way: FuturesUnordered<BoxFuture<'a, Vec<Answered>>>,
}

impl<'a> Settler<'a> {
    pub(super) fn new(idempotency: &'a Idempotency, until: Instant) -> Self {
        Self {
            idempotency,
            until,
            waiting: Vec::new(),
            under_way: FuturesUnordered::new(),
        }
    }

    /// Takes a settlement; `record` is the record that ends with its answer, if one does.
    pub(super) fn push(&mut self, record: Option<usize>, settlement: Settlement) {
        self.waiting.push((record, settlement));
        self.send_full_groups();
    }

    /// Sends what waits, if nothing is under way: a lone settlement goes at once, and those that come
    /// up meanwhile form the next group.
    pub(super) fn flush(&mut self) {
        if self.under_way.is_empty() && !self.waiting.is_empty() {
            let group = self.waiting.split_off(0);
            self.send(group);
        }
    }

    /// The answers of the next write that ends; pending for ever when none is under way.
    pub(super) async fn next(&mut self) -> Vec<Answered> {
        match self.under_way.next().await {
            Some(answered) => {
                self.send_full_groups();
                answered
            }
            None => std::future::pending().await,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    fn send_full_groups(&mut self) {
        while self.waiting.len() >= GROUP && self.under_way.len() < IN_FLIGHT {
            let rest = self.waiting.split_off(GROUP);
            let group = std::mem::replace(&mut self.waiting, rest);
            self.send(group);
        }
    }

    fn send(&mut self, group: Vec<(Option<usize>, Settlement)>) {
        let (idempotency, until) = (self.idempotency, self.until);
        self.under_way.push(Box::pin(async move {
            let (records, settlements): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            let answers = idempotency.settle(&settlements, until).await;
            let answered = records.into_iter().zip(answers);
            answered
                .map(|(record, answer)| Answered { record, answer })
                .collect()
        }));
    }
}
