//! Lets records be claimed and handlers start, or holds them back while a dependency is unavailable.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::breaker::{Breakers, Next, Pass, Permit};
use crate::handler;
use crate::report::Untried;
use crate::store::{OpenTransaction, Owner};
use crate::time::Timestamp;

use super::engine::Engine;
use super::handling::Failure;
use super::ledger::Ledger;
use super::line::{Limit, Turn};
use super::room::{Room, Slot};
use super::stop::Stop;

pub(super) struct Gate<'a> {
    engine: &'a Engine,
    ledger: &'a Ledger,
    /// When requests without an answer end.
    requests_by: Instant,
    /// The records that are claimed, or are about to be.
    rooms: Vec<Room>,
    /// The room of each route.
    room_of: Vec<usize>,
    /// The calls of handlers that run, and the claimed records that wait for one.
    pub(super) handlers: Arc<Limit>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the breakers are being read. No handler that depends on one starts meanwhile.
    is_reading: bool,
    /// The requests to make.
    requests: Vec<Request>,
    /// The number of requests that are made or to be made.
    unanswered: usize,
}

enum Request {
    Read,
    /// Ask the store whether a record may probe.
    Ask(usize),
    Open {
        breaker: usize,
        route: usize,
    },
    Close(usize, Owner),
}

/// A place, or why the record returns without one.
pub(super) type Way<T> = Result<T, Untried>;

impl<'a> Gate<'a> {
    pub(super) fn new(engine: &'a Engine, ledger: &'a Ledger, requests_by: Instant) -> Self {
        let routes = 0..engine.routes.len();
        let opens = |at: &usize| engine.routes[*at].idempotency.opens_transactions();
        // A transaction holds a connection, whatever its route.
        let first = routes.clone().find(opens);
        let room_of = |at: usize| first.filter(|_| opens(&at)).unwrap_or(at);
        let gate = Self {
            engine,
            ledger,
            requests_by,
            rooms: routes.clone().map(|at| Room::of(engine, at)).collect(),
            handlers: Limit::new(engine.concurrency, routes.len()),
            room_of: routes.map(room_of).collect(),
            state: Mutex::default(),
        };
        if !engine.breakers.is_empty() {
            gate.read_breakers(engine.driver().clock.now());
        }
        gate
    }

    fn room(&self, route: usize) -> &Room {
        &self.rooms[self.room_of[route]]
    }

    fn breakers(&self) -> &'a Arc<Breakers> {
        &self.engine.breakers
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state().unanswered == 0
    }

    /// Returns the place that a record keeps until it has ended, if it does.
    pub(super) fn slot_until_ended<'b>(&self, route: usize, slot: Slot<'b>) -> Option<Slot<'b>> {
        self.room(route).until_ended.then_some(slot)
    }

    /// Returns a place for a record of a route, or `None` if it has to wait. Nothing is claimed ahead of a probe, or of the
    /// records after it.
    pub(super) fn try_enter(&self, route: usize) -> Option<Way<Slot<'_>>> {
        match self.room(route).line.is_empty(route) {
            true => self.way_in(route),
            false => None,
        }
    }

    /// Waits for a place for a record of a route.
    pub(super) async fn enter(&self, route: usize, stop: &Stop) -> Way<Slot<'_>> {
        self.room(route)
            .line
            .wait(route, |is_first| match stop.claims_over() {
                Some(reason) => Some(Err(reason)),
                None if is_first => self.way_in(route),
                None => None,
            })
            .await
    }

    fn way_in(&self, route: usize) -> Option<Way<Slot<'_>>> {
        let most = match self.pass(route) {
            Pass::Free => None,
            Pass::Limited(most) => Some(most),
            Pass::Wait => return None,
            Pass::Shut => return Some(Err(Untried::BreakerOpen)),
            Pass::Overrun => return Some(Err(Untried::Overrun)),
        };
        let is_together = self.engine.batch_call().is_some();
        match self.room(route).enter(route, most) {
            // The only call of this batch is the probe.
            None if is_together && most.is_some() => Some(Err(Untried::BreakerOpen)),
            slot => slot.map(Ok),
        }
    }

    /// Decides whether records of a route may start. Asks the store if an open breaker's time is over.
    fn pass(&self, route: usize) -> Pass {
        if self.breakers().is_empty() {
            return Pass::Free;
        }
        let on = &self.engine.routes[route].breakers;
        let (pass, lapsed) = self.breakers().pass(on, &*self.engine.driver().clock);
        self.ask(lapsed);
        pass
    }

    /// Asks the store about breakers.
    fn ask(&self, lapsed: Vec<usize>) {
        for at in lapsed {
            self.ledger.tally().store_requests += 1;
            self.make(Request::Ask(at));
        }
    }

    fn make(&self, request: Request) {
        let mut state = self.state();
        state.requests.push(request);
        state.unanswered += 1;
    }

    /// Reads the breakers if it is time to. Claims go on meanwhile.
    fn read_breakers(&self, now: Timestamp) {
        if !self.state().is_reading && self.breakers().is_read_due(now) {
            self.state().is_reading = true;
            self.ledger.tally().store_requests += 1;
            self.make(Request::Read);
        }
    }

    /// Waits until a handler of a route may start. None starts while `is_held`.
    pub(super) async fn start(
        &self,
        route: usize,
        stop: &Stop,
        is_held: impl Fn() -> bool,
    ) -> Way<Running> {
        self.handlers
            .line
            .wait(route, |is_first| match stop.reason() {
                Some(reason) => Some(Err(reason)),
                None if is_first && !is_held() => self.try_start(route),
                None => None,
            })
            .await
    }

    fn try_start(&self, route: usize) -> Option<Way<Running>> {
        if !self.handlers.is_free() {
            return None;
        }
        let permit = match self.breakers().is_empty() {
            true => None,
            false => match self.begin(route) {
                Ok(permit) => Some(permit),
                Err(Pass::Shut) => return Some(Err(Untried::BreakerOpen)),
                Err(Pass::Overrun) => return Some(Err(Untried::Overrun)),
                Err(Pass::Free | Pass::Limited(_) | Pass::Wait) => return None,
            },
        };
        let turn = self.handlers.try_take()?;
        Some(Ok(Running { permit, turn }))
    }

    /// Counts a handler as in flight, if it may start.
    fn begin(&self, route: usize) -> Result<Permit, Pass> {
        let on = &self.engine.routes[route].breakers;
        let now = self.engine.driver().clock.now();
        self.read_breakers(now);
        if self.state().is_reading && !on.is_empty() {
            return Err(Pass::Wait);
        }
        self.breakers().begin(on, now).map_err(|(pass, lapsed)| {
            self.ask(lapsed);
            pass
        })
    }

    /// Enters the end of a call of a route's handler.
    pub(super) fn ended<T>(&self, route: usize, result: &Result<T, Failure>) {
        let Some(tried) = Failure::tried(result).filter(|_| !self.breakers().is_empty()) else {
            return;
        };
        let on = &self.engine.routes[route].breakers;
        for (breaker, next) in self.breakers().ended(on, tried) {
            let request = match next {
                Next::StaysOpen => {
                    self.ledger.count(route, |tally| tally.breakers_opened += 1);
                    continue;
                }
                Next::Open => Request::Open { breaker, route },
                Next::Close(owner) => Request::Close(breaker, owner),
            };
            self.ledger.tally().store_requests += 1;
            self.make(request);
        }
    }

    /// Makes the requests, and wakes the records that wait for a change. Never ends.
    pub(super) async fn drive(&self, changes: watch::Receiver<()>) -> Infallible {
        if self.breakers().is_empty() {
            return pending().await;
        }
        tokio::select! {
            biased;
            never = self.make_requests() => never,
            never = self.watch(changes) => never,
        }
    }

    async fn make_requests(&self) -> Infallible {
        let mut in_flight = FuturesUnordered::new();
        poll_fn(|context| {
            let mut is_answered = false;
            loop {
                let requests = std::mem::take(&mut self.state().requests);
                in_flight.extend(requests.into_iter().map(|one| self.send(one)));
                let Poll::Ready(Some(())) = in_flight.poll_next_unpin(context) else {
                    break;
                };
                self.state().unanswered -= 1;
                is_answered = true;
            }
            if is_answered {
                self.wake_waiting();
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }

    async fn watch(&self, mut changes: watch::Receiver<()>) -> Infallible {
        while changes.changed().await.is_ok() {
            self.wake_waiting();
            // Records that have not begun wait in no line.
            poll_fn(|context| {
                context.waker().wake_by_ref();
                Poll::Ready(())
            })
            .await;
        }
        pending().await
    }

    fn wake_waiting(&self) {
        self.rooms.iter().for_each(|room| room.line.wake_first());
        self.handlers.line.wake_first();
    }

    async fn send(&self, request: Request) {
        let (breakers, driver, by) = (self.breakers(), self.engine.driver(), self.requests_by);
        match request {
            Request::Read => {
                breakers.read(driver, by).await;
                self.state().is_reading = false;
            }
            Request::Ask(breaker) => breakers.ask(breaker, driver, by).await,
            Request::Open { breaker, route } => {
                let is_opener = breakers.open_in_store(breaker, driver, by).await;
                self.ledger.count(route, |tally| {
                    tally.breakers_opened += u64::from(is_opener);
                });
            }
            Request::Close(breaker, owner) => {
                breakers.close_in_store(breaker, owner, driver, by).await;
            }
        }
    }
}

/// A handler that runs, until it is dropped. Its dependencies' part is free before its turn, which wakes the next record.
pub(super) struct Running {
    permit: Option<Permit>,
    turn: Turn,
}

impl Running {
    /// Ends a call. If its blocking code goes on, its place and its transaction stay taken until the code has ended: other
    /// code and another delivery wait for them. Otherwise returns the transaction.
    pub(super) fn end(
        self,
        code: handler::Running,
        transaction: Option<Box<dyn OpenTransaction>>,
    ) -> Option<Box<dyn OpenTransaction>> {
        if code.count() == 0 {
            return transaction;
        }
        let mut permit = self.permit;
        if let Some(permit) = &mut permit {
            permit.overruns();
        }
        self.turn.keep(code, (transaction, permit));
        None
    }
}
