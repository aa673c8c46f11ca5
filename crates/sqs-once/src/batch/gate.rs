//! Lets records start, or holds them back while a dependency is unavailable.

use std::future::pending;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use crate::breaker::{Breakers, Hiding, Next, Pass, Permit, Queue};
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
    /// The breakers were read.
    Read,
    /// What the message's queue said about its settings.
    Learned(Arc<Message>, Option<Queue>),
}

pub(super) struct Gate<'a> {
    engine: &'a Engine,
    ledger: &'a Ledger,
    requests: FuturesUnordered<BoxFuture<'a, Passed>>,
    /// `None` for a consumer without dependencies.
    changes: Option<watch::Receiver<()>>,
    /// Whether the breakers are being read. No handler that depends on one starts meanwhile.
    is_reading: bool,
    /// The records that wait for their queue's answer about its settings.
    postponed: Vec<Unavailable>,
}

impl<'a> Gate<'a> {
    pub(super) fn new(engine: &'a Engine, ledger: &'a Ledger) -> Self {
        let breakers = &engine.breakers;
        let mut gate = Self {
            engine,
            ledger,
            requests: FuturesUnordered::new(),
            changes: (!breakers.is_empty()).then(|| breakers.changes()),
            is_reading: false,
            postponed: Vec::new(),
        };
        gate.read_breakers();
        gate
    }

    /// Reads the breakers if it is time to. Claims go on meanwhile.
    fn read_breakers(&mut self) {
        let (breakers, driver) = (&self.engine.breakers, self.engine.driver());
        if self.is_reading || !breakers.is_read_due(driver.clock.now()) {
            return;
        }
        self.is_reading = true;
        self.ledger.tally().store_requests += 1;
        self.requests.push(started(async move {
            breakers.read(driver).await;
            Passed::Read
        }));
    }

    pub(super) fn breakers_are_read(&mut self) {
        self.is_reading = false;
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
        let on = &self.engine.routes[route].breakers;
        self.read_breakers();
        if self.is_reading && !on.is_empty() {
            return Err(Pass::Wait);
        }
        let now = self.engine.driver().clock.now();
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
        let (tried, unavailable) = Failure::tried(result);
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

    /// Decides how long the message of a record that ends stays hidden. Returns `None` if the record waits for the answer
    /// of its queue.
    pub(super) fn hiding(&mut self, ending: Unavailable) -> Option<(Unavailable, Hiding)> {
        let message = &self.ledger.messages[ending.record];
        let driver = self.engine.driver();
        let now = driver.clock.now();
        if let Some(queue) = self.engine.failed.visibility.as_deref()
            && self.breakers().asks_queue(arn(message), now)
        {
            let messages = &self.ledger.messages;
            let mut waiting = self.postponed.iter().map(|one| arn(&messages[one.record]));
            if !waiting.any(|other| other == arn(message)) {
                let message = Arc::clone(message);
                self.requests.push(started(async move {
                    let answer = queue.limits(&message).await;
                    Passed::Learned(message, answer)
                }));
            }
            self.postponed.push(ending);
            return None;
        }
        let breakers = self.breakers();
        let hiding = breakers.hiding(&ending.dependency, message, now, driver.random.bits());
        Some((ending, hiding))
    }

    /// Enters the answer of a message's queue, and returns the records that waited for it.
    pub(super) fn learned(&mut self, message: &Message, answer: Option<Queue>) -> Vec<Unavailable> {
        let now = self.engine.driver().clock.now();
        self.breakers().learn_queue(arn(message), answer, now);
        let messages = &self.ledger.messages;
        let is_of_queue = |one: &mut Unavailable| arn(&messages[one.record]) == arn(message);
        self.postponed.extract_if(.., is_of_queue).collect()
    }

    /// Stops waiting for the answers of queues. Returns the records that waited for one.
    pub(super) fn stop_waiting(&mut self) -> Vec<Unavailable> {
        let mut waited = Vec::new();
        while let Some(one) = self.postponed.first() {
            let message = Arc::clone(&self.ledger.messages[one.record]);
            waited.extend(self.learned(&message, None));
        }
        waited
    }
}

fn arn(message: &Message) -> &str {
    message.queue_arn().unwrap_or_default()
}
