//! Records whose payload has to be waited for.

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use tracing::{Instrument, debug_span};

use crate::handler::{CallFuture, PrepareError, PrepareResult};
use crate::report::Report;

use super::super::claiming::Candidate;
use super::super::engine::Engine;
use super::super::handling::{Failure, Handling};
use super::{Run, whole_batch};

/// The end of a preparation.
pub(super) struct Waited {
    record: usize,
    /// The place of its route in the engine.
    route: usize,
    result: Result<PrepareResult<()>, Failure>,
}

pub(super) struct Preparations<'a> {
    engine: &'a Engine,
    waiting: FuturesUnordered<BoxFuture<'a, Waited>>,
    /// The number of waiting records of each route.
    of_route: Vec<usize>,
    /// Records that wait for others to share a request for claims.
    ready: Vec<Candidate>,
}

impl<'a> Preparations<'a> {
    pub(super) fn new(engine: &'a Engine) -> Self {
        Self {
            engine,
            waiting: FuturesUnordered::new(),
            of_route: vec![0; engine.routes.len()],
            ready: Vec::new(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.waiting.len() + self.ready.len()
    }

    pub(super) fn count_of(&self, route: usize) -> usize {
        let ready = self.ready.iter().filter(|one| one.route == route);
        self.of_route[route] + ready.count()
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < self.engine.concurrency.get()
    }

    /// Waits until a preparation ends. Returns all that have ended by then. Pending forever if none is waiting.
    pub(super) async fn next(&mut self) -> Vec<Waited> {
        let Some(waited) = self.waiting.next().await else {
            return std::future::pending().await;
        };
        let mut all = vec![waited];
        while let Some(Some(more)) = self.waiting.next().now_or_never() {
            all.push(more);
        }
        self.left(&all);
        all
    }

    /// Ends all preparations. Call it after the deadline only, so that no user code runs.
    pub(super) fn stop(&mut self) -> Vec<Waited> {
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let all: Vec<_> = waiting.filter_map(FutureExt::now_or_never).collect();
        self.left(&all);
        all
    }

    fn left(&mut self, waited: &[Waited]) {
        for one in waited {
            self.of_route[one.route] -= 1;
        }
    }

    /// Lets a record wait for others to share a request for claims.
    pub(super) fn keep(&mut self, candidate: Candidate) {
        self.ready.push(candidate);
    }

    /// Returns whether no payload is waited for.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn take_ready(&mut self) -> Vec<Candidate> {
        std::mem::take(&mut self.ready)
    }
}

impl<'a> Run<'a> {
    pub(super) fn prepare_later(
        &mut self,
        record: usize,
        route: usize,
        future: CallFuture<PrepareResult<()>>,
    ) {
        let settings = &self.engine.routes[route];
        let running = self.running.part();
        let handling = Handling::new(
            move |_: Instant| future,
            running.clone(),
            self.deadline.cancel_at,
            settings.record_timeout,
            &settings.dependencies,
        );
        let span = debug_span!(parent: &self.ledger.span(record), "prepare");
        let waiting = async move {
            let result = running.scope(handling).await;
            Waited {
                record,
                route,
                result,
            }
        };
        self.preparing.of_route[route] += 1;
        self.preparing
            .waiting
            .push(Box::pin(waiting.instrument(span)));
    }

    pub(super) fn waited(&mut self, waited: Vec<Waited>) {
        for one in waited {
            let (record, route) = (one.record, one.route);
            let result = match one.result {
                Ok(result) => result,
                Err(Failure::Panic(_)) => Err(PrepareError::Panic),
                Err(Failure::Deadline | Failure::Unstarted) => {
                    self.end(record, Report::untried(Failure::NOT_STARTED));
                    continue;
                }
                Err(failure) => {
                    match failure {
                        Failure::Unavailable { .. } => {
                            self.gate.ended(route, &Err::<(), _>(failure.clone()));
                        }
                        Failure::Terminal(_) => {
                            self.ledger.count(route, |tally| tally.undecodable += 1);
                        }
                        _ => {}
                    }
                    self.end_failed(record, failure);
                    continue;
                }
            };
            let span = self.ledger.span(record);
            let Some(candidate) = self.prepared(record, route, &span, result) else {
                continue;
            };
            self.preparing.keep(candidate);
        }
    }

    /// Claims the keys of prepared records. Those that become ready during a request form the next one.
    pub(super) fn claim_ready(&mut self) {
        let keys = self.engine.requests.keys();
        let claims_over = self.together.as_ref().is_some_and(|call| call.claims_over);
        let too_late = claims_over.then_some(whole_batch::TOO_LATE);
        if let Some(reason) = self.returning.or(too_late) {
            for candidate in self.preparing.take_ready() {
                self.end(candidate.record, Report::untried(reason));
            }
        }
        let ready = &mut self.preparing.ready;
        while !ready.is_empty()
            && self.claimer.has_room()
            && (ready.len() >= keys || !self.claimer.is_asking())
        {
            let group = ready.drain(..keys.min(ready.len())).collect();
            self.claimer.ask(group);
        }
    }
}
