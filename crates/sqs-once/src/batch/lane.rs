//! The records of a message group, one after the other.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::failed::Cause;
use crate::guarded::caught;
use crate::report::Report;
use crate::router::{NoRoute, RouteError};

use super::ending::Stopped;
use super::gate::Way;
use super::record::{Record, log_correlation};
use super::room::Slot;
use super::run::Batch;

/// The records of a message group in their order, or one record of a queue without order.
pub(super) struct Lane {
    pub(super) first: Record,
    pub(super) rest: VecDeque<usize>,
}

/// How the first record of a lane starts.
pub(super) enum Start<'b> {
    At(Way<Slot<'b>>),
    Unrouted(NoRoute),
}

impl Batch<'_> {
    pub(super) fn record(&self, at: usize) -> Record {
        // A consumer without a router has one route.
        Record::new(at, self.engine.router.is_none().then_some(0))
    }

    /// Runs the records of a message group one after the other. The first failure ends it.
    pub(super) async fn lane(&self, lane: Lane, start: Start<'_>) {
        let (mut record, mut rest) = (lane.first, lane.rest);
        let mut start = Some(start);
        // The batch may have stopped while the record before it ran. Then all of its rest was returned.
        while self.begins(record.at) {
            record.taken_up = Some(Instant::now());
            let started = self.start(&mut record, start.take()).await;
            let report = match started {
                Ok((route, slot)) => self.attempt(&mut record, route, slot).await,
                Err(report) => report,
            };
            if let Some(stopped) = self.end(record, report) {
                return self.return_group(rest, &stopped).await;
            }
            match rest.pop_front() {
                Some(at) => record = self.record(at),
                None => return,
            }
        }
    }

    /// Returns the rest of a message group to the queue.
    async fn return_group(&self, rest: VecDeque<usize>, stopped: &Stopped) {
        for at in rest {
            if self.begins(at) {
                let mut record = self.record(at);
                let report = self.behind(&mut record, stopped).await;
                self.end(record, report);
            }
        }
    }

    /// Chooses a record's route, and waits until it may be claimed.
    async fn start<'b>(
        &'b self,
        record: &mut Record,
        start: Option<Start<'b>>,
    ) -> Result<(usize, Slot<'b>), Report> {
        let way = match start {
            Some(Start::At(way)) => Ok(way),
            Some(Start::Unrouted(why)) => Err(why),
            None => match self.choose_route(record) {
                Ok(route) => Ok(self.gate.enter(route, &self.stop).await),
                Err(why) => Err(why),
            },
        };
        match (way, record.route) {
            (Ok(Way::In(slot)), Some(route)) => Ok((route, slot)),
            (Ok(Way::Returned(reason)), _) => Err(Report::untried(reason)),
            (Ok(Way::Shut | Way::In(_)), _) => Err(self.shut(record).await),
            (Err(NoRoute::Ignored(reason)), _) => Err(Report::Ignored { reason }),
            (Err(NoRoute::Terminal(error)), _) => {
                // The counts of the records that no route takes come last.
                let last = self.engine.routes.len();
                self.ledger.count(last, |tally| tally.undecodable += 1);
                Err(self.terminal(record, Cause::from(error.to_string())).await)
            }
            (Err(NoRoute::Retry(error)), _) => Err(Report::failed(error.to_string())),
        }
    }

    /// Returns the place of a record's route.
    pub(super) fn choose_route(&self, record: &mut Record) -> Result<usize, NoRoute> {
        if let Some(route) = record.route {
            return Ok(route);
        }
        let Some(router) = &self.engine.router else {
            return Ok(0);
        };
        let message = &self.ledger.messages[record.at];
        let span = self.span(record);
        let chosen = span
            .in_scope(|| caught(|| router.choose(message)))
            .unwrap_or_else(|_| Err(NoRoute::Terminal(RouteError::Panic)));
        log_correlation(message, span);
        let route = chosen?;
        span.record("route", self.engine.routes[route].name.as_deref());
        record.route = Some(route);
        Ok(route)
    }
}
