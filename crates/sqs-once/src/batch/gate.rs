//! Lets records start, or holds them back while a dependency is unavailable.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use crate::breaker::{Breakers, Next, Pass, Permit, Queue, Tried};
use crate::record::Message;

use super::engine::Engine;
use super::handling::Failure;
use super::ledger::Ledger;
use super::settling::started;

/// The end of a record because a dependency is unavailable.
pub(super) struct Unavailable {
    pub(super) record: usize,
    pub(super) dependency: Arc<str>,
    pub(super) reason: String,
    /// Whether its handler was called.
    pub(super) is_tried: bool,
}

pub(super) enum Passed {
    /// Something has changed, so that records may start or must return.
    Changed,
    Learned(Queue),
}

pub(super) struct Gate<'a> {
    engine: &'a Engine,
    ledger: &'a Ledger,
    requests: FuturesUnordered<BoxFuture<'a, Passed>>,
    /// `None` for a consumer without dependencies.
    changes: Option<watch::Receiver<()>>,
    queue: Option<Queue>,
    /// The records that wait until the consumer knows the settings of the queue.
    pub(super) postponed: Vec<Unavailable>,
}

impl<'a> Gate<'a> {
    pub(super) fn new(engine: &'a Engine, ledger: &'a Ledger) -> Self {
        let breakers = &engine.breakers;
        Self {
            engine,
            ledger,
            requests: FuturesUnordered::new(),
            changes: (!breakers.is_empty()).then(|| breakers.changes()),
            queue: breakers.queue(),
            postponed: Vec::new(),
        }
    }

    fn breakers(&self) -> &'a Breakers {
        &self.engine.breakers
    }

    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Waits for the next answer or change. Pending forever for a consumer without dependencies.
    pub(super) async fn next(&mut self) -> Passed {
        let Some(changes) = &mut self.changes else {
            return pending().await;
        };
        tokio::select! {
            biased;
            Some(passed) = self.requests.next() => passed,
            Ok(()) = changes.changed() => Passed::Changed,
            else => pending().await,
        }
    }

    /// Decides whether records of a route may start. Asks the store if an open breaker's time is over.
    pub(super) fn pass(&mut self, route: usize) -> Pass {
        let Some(changes) = &mut self.changes else {
            return Pass::Free;
        };
        // Changes from here on wake the batch.
        changes.mark_unchanged();
        let on = &self.engine.routes[route].breakers;
        let (pass, lapsed) = self.breakers().pass(on, self.engine.driver().clock.now());
        self.ask(lapsed);
        pass
    }

    /// Asks the store about breakers.
    fn ask(&mut self, lapsed: Vec<usize>) {
        let driver = self.engine.driver();
        for at in lapsed {
            self.ledger.tally().store_requests += 1;
            let breakers = self.breakers();
            self.requests.push(started(async move {
                breakers.ask(at, driver).await;
                Passed::Changed
            }));
        }
    }

    /// Counts a handler as in flight, if it may start.
    pub(super) fn begin(&mut self, route: usize) -> Result<Option<Permit<'a>>, Pass> {
        let Some(changes) = &mut self.changes else {
            return Ok(None);
        };
        changes.mark_unchanged();
        let now = self.engine.driver().clock.now();
        let on = &self.engine.routes[route].breakers;
        let begun = self.engine.breakers.begin(on, now);
        begun.map(Some).map_err(|(pass, lapsed)| {
            self.ask(lapsed);
            pass
        })
    }

    /// Enters the end of a call of a route's handler.
    pub(super) fn ended<T>(&mut self, route: usize, result: &Result<T, Failure>) {
        if self.changes.is_none() {
            return;
        }
        let (tried, unavailable) = match result {
            Ok(_) => (Tried::Succeeded, None),
            Err(Failure::Unavailable { dependency, .. }) => {
                (Tried::Unavailable, Some(&**dependency))
            }
            Err(Failure::Retry { .. } | Failure::Terminal(_)) => (Tried::FailedOtherwise, None),
            Err(
                Failure::Deadline | Failure::Timeout(_) | Failure::Panic(_) | Failure::Unstarted,
            ) => (Tried::Unknown, None),
        };
        let (breakers, driver) = (self.breakers(), self.engine.driver());
        let on = &self.engine.routes[route].breakers;
        for (at, next) in breakers.ended(on, tried, unavailable) {
            let ledger = self.ledger;
            match next {
                Next::StaysOpen => ledger.count(route, |tally| tally.breakers_opened += 1),
                Next::Open => {
                    ledger.tally().store_requests += 1;
                    self.requests.push(started(async move {
                        let is_opener = breakers.open_in_store(at, driver).await;
                        ledger.count(route, |tally| tally.breakers_opened += u64::from(is_opener));
                        Passed::Changed
                    }));
                }
                Next::Close(owner) => {
                    ledger.tally().store_requests += 1;
                    self.requests.push(started(async move {
                        breakers.close_in_store(at, owner, driver).await;
                        Passed::Changed
                    }));
                }
            }
        }
    }

    /// Returns the queue's settings, if they are known. Otherwise asks the queue of `message`.
    pub(super) fn queue(&mut self, message: &Arc<Message>) -> Option<Queue> {
        if self.queue.is_some() {
            return self.queue;
        }
        let Some(queue) = self.engine.failed.visibility.as_deref() else {
            return Some(self.breakers().learn_queue(Queue::UNKNOWN));
        };
        if self.postponed.is_empty() {
            let message = Arc::clone(message);
            self.requests.push(started(async move {
                Passed::Learned(queue.limits(&message).await)
            }));
        }
        None
    }

    /// Enters the queue's answer, and returns the records that waited for it.
    pub(super) fn learned(&mut self, queue: Queue) -> Vec<Unavailable> {
        self.queue = Some(self.breakers().learn_queue(queue));
        std::mem::take(&mut self.postponed)
    }

    /// Returns how long a message stays hidden, or `None` if this was its last chance.
    pub(super) fn hidden_for(
        &self,
        dependency: &str,
        queue: Queue,
        message: &Message,
    ) -> Option<Duration> {
        let driver = self.engine.driver();
        let (now, bits) = (driver.clock.now(), driver.random.bits());
        let age = message.sent_at().map(|sent_at| now.since(sent_at));
        let left = queue.deliveries.left(message.receive_count().unwrap_or(1));
        let budget = (left, queue.keeps(age.unwrap_or_default()));
        self.breakers().hidden_for(dependency, budget, now, bits)
    }
}
