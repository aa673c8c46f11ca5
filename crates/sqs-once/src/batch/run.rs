//! Runs the records of a batch: which of them start, and how the batch ends.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};

use crate::handler::Running;
use crate::idempotency::{Deadline, Owners, Until};
use crate::report::Report;
use crate::store::Owner;

use super::claims::{ClaimRequests, Claims};
use super::ending::Tail;
use super::engine::Engine;
use super::gate::{self, Gate, Way};
use super::leaders::Leaders;
use super::ledger::Ledger;
use super::line::Limit;
use super::order::Order;
use super::record::{Lane, Routed};
use super::settlements::{SettlementRequests, Settlements};
use super::stop::Stop;
use super::together::Together;

/// The most records that are routed in a row. Routing runs user code, and requests are sent in between.
const ROUTED: usize = 200;

/// What the records of a batch share. A record's own state is where its future waits: see [`Batch::run_lane`].
pub(super) struct Batch<'a> {
    pub(super) engine: &'a Engine,
    pub(super) ledger: &'a Ledger,
    pub(super) deadline: Deadline,
    /// The code of handlers, hooks and decoders that runs.
    pub(super) running: Running,
    pub(super) stop: Stop,
    pub(super) gate: Gate<'a>,
    pub(super) leaders: Leaders,
    pub(super) claims: Claims,
    pub(super) settlements: Settlements,
    /// `None` for a handler of single records.
    pub(super) together: Option<Together>,
    /// `None` if no message is of a queue that keeps order.
    pub(super) order: Option<Order>,
    pub(super) turns: Turns,
    pub(super) counts: Counts,
    /// The records that run, or were returned before.
    taken: Mutex<Vec<bool>>,
    tails: Mutex<Vec<Tail<'a>>>,
    owners: Mutex<Owners>,
}

/// How many records do the same at once.
pub(super) struct Turns {
    pub(super) fetches: Arc<Limit>,
    pub(super) hooks: Arc<Limit>,
    pub(super) moves: Arc<Limit>,
    /// Asking a queue for its limits.
    pub(super) queues: Arc<Limit>,
}

#[derive(Default)]
pub(super) struct Counts {
    /// The records whose payload is waited for.
    pub(super) preparing: AtomicUsize,
    /// The records that wait for another worker.
    pub(super) waiting: AtomicUsize,
}

/// Runs a batch until every record has a report and every settlement an answer.
pub(super) async fn run(engine: &Engine, ledger: &Ledger, deadline: Deadline, running: Running) {
    let batch = Batch::new(engine, ledger, deadline, running);
    let (claims, settlements) = (ClaimRequests(&batch), SettlementRequests(&batch));
    // A handler that uses up the task's budget must not keep the answers of the store from being seen.
    let claims = unconstrained(batch.claims.drive(&claims));
    let settlements = unconstrained(batch.settlements.drive(&settlements));
    // It sees each change from here on.
    let gate = unconstrained(batch.gate.drive(engine.breakers.changes()));
    let blocks = unconstrained(async {
        batch.read_blocks().await;
        pending::<Infallible>().await
    });
    tokio::select! {
        // The records come first: those that are ready have asked before a request is built.
        biased;
        () = batch.records() => {}
        // A breaker opens or closes before the records that decided so are settled.
        never = gate => match never {},
        never = blocks => match never {},
        never = claims => match never {},
        never = settlements => match never {},
    }
    batch.count_blocks();
}

impl<'a> Batch<'a> {
    /// Waits until a handler of a route may start.
    pub(super) async fn start_handler(&self, route: usize) -> Way<gate::Running> {
        let keys = self.engine.requests.keys();
        let is_due = || self.settlements.is_due(keys);
        self.gate.start(route, &self.stop, is_due).await
    }

    fn new(engine: &'a Engine, ledger: &'a Ledger, deadline: Deadline, running: Running) -> Self {
        let in_flight = engine.requests_in_flight();
        // Only a batch handler ends several messages of a group at once. They move in their order.
        let moves = match ledger.is_fifo && engine.batch_call().is_some() {
            true => NonZeroUsize::MIN,
            false => engine.concurrency,
        };
        Self {
            engine,
            ledger,
            deadline,
            stop: Stop::default(),
            gate: Gate::new(engine, ledger, deadline.requests_by),
            leaders: Leaders::of(ledger.messages.len()),
            together: engine
                .batch_call()
                .is_some()
                .then(|| Together::of(engine, ledger, deadline, running.part())),
            order: Order::of(engine, ledger),
            claims: Claims::new(in_flight),
            settlements: Settlements::new(in_flight),
            turns: Turns {
                fetches: Limit::new(engine.concurrency, 1),
                hooks: Limit::new(engine.concurrency, 1),
                moves: Limit::new(moves, 1),
                queues: Limit::new(NonZeroUsize::MIN, 1),
            },
            counts: Counts::default(),
            taken: Mutex::new(vec![false; ledger.messages.len()]),
            tails: Mutex::default(),
            owners: Mutex::new(engine.driver().owners()),
            running,
        }
    }

    /// Returns whether a payload is waited for.
    pub(super) fn is_preparing(&self) -> bool {
        self.counts.preparing.load(Ordering::Relaxed) > 0
    }

    /// Returns whether a record may add a settlement to those that wait.
    pub(super) fn may_still_settle(&self) -> bool {
        let is_asking = || self.claims.is_asked() || self.is_preparing();
        !self.stop.is_late() && (self.gate.handlers.running() > 0 || is_asking())
    }

    /// Returns the end of the time for code that may run until `at`.
    pub(super) fn until(&self, at: Instant) -> Until<'a> {
        Until::new(at, &self.deadline, &*self.engine.driver().clock)
    }

    pub(super) fn next_owner(&self) -> Owner {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.next()
    }

    /// Takes a record, to run it or to return it. Returns `false` if it was taken before.
    pub(super) fn take(&self, record: usize) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        !std::mem::replace(&mut taken[record], true)
    }

    /// Leaves work that no report waits for.
    pub(super) fn leave(&self, tail: Tail<'a>) {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        tails.push(tail);
    }

    /// Returns whether a record has stopped the batch or left a tail.
    fn has_news(&self) -> bool {
        let tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.is_new() || !tails.is_empty()
    }

    fn take_tails(&self) -> Vec<Tail<'a>> {
        std::mem::take(&mut *self.tails.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs all records, and the tails that they leave.
    async fn records(&self) {
        let mut starting = Starting::new(self);
        let mut active: Active<'_> = FuturesUnordered::new();
        if let (Some(together), Some(call)) = (&self.together, self.engine.batch_call()) {
            active.push(self.call_together(together, call).boxed());
        }
        let mut cancel = pin!(sleep_until(self.deadline.cancel_at));
        poll_fn(|context| {
            if !self.stop.is_late() {
                let _ = cancel.as_mut().poll(context);
            }
            loop {
                // Checks the clocks, because the timer is late if a handler held the thread or the process was frozen.
                if !self.stop.is_late() && self.until(self.deadline.cancel_at).has_come() {
                    self.ledger.tally().deadline_hits = self.ledger.open() as u64;
                    self.stop.end_handlers();
                }
                if self.stop.take_new() {
                    // Every record looks again: a future that is added is polled. A cancelled record ends before the rest of
                    // its message group returns with its delay.
                    let all = std::mem::take(&mut active);
                    active.extend(all);
                    while let Poll::Ready(Some(())) = active.poll_next_unpin(context) {}
                    starting.return_all(&mut active, context);
                }
                let mut has_started = starting.start(&mut active, context);
                if std::mem::take(&mut starting.pauses) {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                for tail in self.take_tails() {
                    has_started = true;
                    active.push(self.finish_tail(tail));
                }
                match active.poll_next_unpin(context) {
                    Poll::Ready(Some(())) => {}
                    _ if has_started || self.has_news() => {}
                    Poll::Ready(None) if starting.is_over() && self.gate.is_idle() => {
                        return Poll::Ready(());
                    }
                    // A record that goes on may have left its room.
                    _ if starting.start(&mut active, context) => {}
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
    }
}

type Active<'b> = FuturesUnordered<BoxFuture<'b, ()>>;

/// The records that have not begun. They have no futures, because a batch may have 10,000.
struct Starting<'b, 'a> {
    batch: &'b Batch<'a>,
    lanes: Lanes,
    /// The lanes of each route that wait for a place.
    held: Vec<VecDeque<Lane>>,
    /// Whether so many were routed that requests are sent before the next one is.
    pauses: bool,
}

enum Lanes {
    Single(std::ops::Range<usize>),
    /// The records of each message group.
    Groups(std::vec::IntoIter<VecDeque<usize>>),
}

impl Lanes {
    fn of(batch: &Batch<'_>) -> Self {
        let ledger = batch.ledger;
        // A batch handler receives the records of a message group at once.
        if !ledger.is_fifo || batch.together.is_some() {
            return Self::Single(0..ledger.messages.len());
        }
        let mut groups: Vec<VecDeque<usize>> = Vec::new();
        let mut places = HashMap::new();
        for (record, message) in ledger.messages.iter().enumerate() {
            let place = *places.entry(message.group_id()).or_insert_with(|| {
                groups.push(VecDeque::new());
                groups.len() - 1
            });
            groups[place].push_back(record);
        }
        Self::Groups(groups.into_iter())
    }

    fn next(&mut self) -> Option<(usize, VecDeque<usize>)> {
        match self {
            Self::Single(records) => records.next().map(|record| (record, VecDeque::new())),
            Self::Groups(groups) => {
                let mut group = groups.next()?;
                group.pop_front().map(|first| (first, group))
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Single(records) => records.is_empty(),
            Self::Groups(groups) => groups.len() == 0,
        }
    }
}

impl<'b, 'a> Starting<'b, 'a> {
    fn new(batch: &'b Batch<'a>) -> Self {
        Self {
            batch,
            lanes: Lanes::of(batch),
            held: batch
                .engine
                .routes
                .iter()
                .map(|_| VecDeque::new())
                .collect(),
            pauses: false,
        }
    }

    fn is_over(&self) -> bool {
        self.lanes.is_empty() && self.held.iter().all(VecDeque::is_empty)
    }

    /// Starts records until a request for claims is full, no record has a place, or the requests in flight are enough.
    fn start(&mut self, active: &mut Active<'b>, context: &mut Context<'_>) -> bool {
        let batch = self.batch;
        let keys = match &batch.together {
            Some(together) if together.begins_once => usize::MAX,
            _ => batch.engine.requests.keys(),
        };
        if self.is_over() {
            return false;
        }
        let mut started = 0;
        // Decoding runs user code, which may be slow.
        while batch.stop.claims_over().is_none()
            && Instant::now() < batch.deadline.cancel_at
            && batch.claims.room(keys) > 0
        {
            if batch.claims.has(keys) {
                // The request goes out while the next one is prepared.
                context.waker().wake_by_ref();
                break;
            }
            // Records without a claim may already have ended.
            self.pauses = started == ROUTED;
            if self.pauses {
                break;
            }
            let Some((lane, start)) = self.next() else {
                break;
            };
            started += 1;
            active.push(batch.run_lane(lane, start).boxed());
            // Up to its claim, so that the request that it joins is known to be full.
            while let Poll::Ready(Some(())) = active.poll_next_unpin(context) {}
        }
        started > 0
    }

    /// Returns the next lane whose first record has a place, or may not start.
    fn next(&mut self) -> Option<(Lane, Routed<'b>)> {
        let batch = self.batch;
        for (route, held) in self.held.iter_mut().enumerate() {
            if !held.is_empty()
                && let Some(way) = batch.gate.try_enter(route)
            {
                return held.pop_front().map(|lane| (lane, Ok((route, way))));
            }
        }
        // Without a router, no record has a place if another of its route waits for one.
        if batch.engine.router.is_none() {
            if self.lanes.is_empty() {
                return None;
            }
            let way = batch.gate.try_enter(0)?;
            return self.next_lane().map(|lane| (lane, Ok((0, way))));
        }
        for _ in 0..ROUTED {
            if Instant::now() >= batch.deadline.cancel_at {
                return None;
            }
            let mut lane = self.next_lane()?;
            let route = match batch.choose_route(&mut lane.first) {
                Ok(route) => route,
                Err(why) => return Some((lane, Err(why))),
            };
            match batch.gate.try_enter(route) {
                Some(way) => return Some((lane, Ok((route, way)))),
                None => self.held[route].push_back(lane),
            }
        }
        self.pauses = true;
        None
    }

    fn next_lane(&mut self) -> Option<Lane> {
        let (first, rest) = self.lanes.next()?;
        let first = self.batch.record(first);
        Some(Lane { first, rest })
    }

    /// Returns all records that have not begun.
    fn return_all(&mut self, active: &mut Active<'b>, context: &mut Context<'_>) {
        let batch = self.batch;
        let Some(reason) = batch.stop.claims_over() else {
            return;
        };
        let is_shut = |route: usize| batch.open_dependency(route).is_some();
        // Records that wait for a dependency's probe return like all that lack it.
        for (route, held) in self
            .held
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| is_shut(*at))
        {
            let lanes = std::mem::take(held).into_iter();
            active.extend(lanes.map(|lane| batch.run_lane(lane, Ok((route, Err(reason)))).boxed()));
        }
        if batch.engine.router.is_none() && is_shut(0) {
            while let Some(lane) = self.next_lane() {
                active.push(batch.run_lane(lane, Ok((0, Err(reason)))).boxed());
            }
        }
        while let Poll::Ready(Some(())) = active.poll_next_unpin(context) {}
        for lane in self.held.iter_mut().flat_map(std::mem::take) {
            if batch.take(lane.first.at) {
                batch.end(lane.first, Report::untried(reason));
            }
        }
        while self.lanes.next().is_some() {}
        for at in 0..batch.ledger.messages.len() {
            if batch.take(at) {
                batch.end(batch.record(at), Report::untried(reason));
            }
        }
    }
}
