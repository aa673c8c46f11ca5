//! How many records of a route may be claimed ahead of free handlers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::engine::{Engine, Route};
use super::line::Line;

/// The most claimed records of a route that wait for a free handler.
const AHEAD: usize = 200;

/// The room of a route, or of all routes whose records open transactions.
pub(super) struct Room {
    /// The most records in it.
    limit: usize,
    /// The most records of each route. A room in which records stay is shared, and one route's dependency may be slow.
    of_route: Vec<usize>,
    /// How many records enter together, so that their claims fill a request although others leave one by one.
    group: Option<usize>,
    /// Whether a record stays until it has ended, because it holds a transaction or a fetched body.
    pub(super) until_ended: bool,
    state: Mutex<State>,
    pub(super) line: Line,
}

struct State {
    inside: usize,
    of_route: Vec<OfRoute>,
    /// How many of the group that enters are missing. `inside` and `entering` together are at most the limit.
    entering: usize,
}

/// The records of a route in a room.
#[derive(Clone, Copy, Default)]
struct OfRoute {
    inside: usize,
    /// Those whose handlers have not started. A breaker counts the others itself.
    ahead: usize,
}

/// A place in a room, until it is dropped.
pub(super) struct Slot<'a> {
    room: &'a Room,
    route: usize,
    is_ahead: bool,
    /// Whether its record has asked for a claim. Otherwise another record enters in its place.
    pub(super) has_asked: bool,
}

impl Room {
    pub(super) fn of(engine: &Engine, route: usize) -> Self {
        let concurrency = engine.concurrency.get();
        let keys = engine.requests.keys();
        let count = engine.routes.len();
        let route = &engine.routes[route];
        // An open transaction holds a connection, and other workers wait for its key. A fetched body may be large.
        let (limit, group) = match (
            route.idempotency.opens_transactions(),
            route.handler.waits(),
        ) {
            // A batch handler takes all records at once.
            _ if engine.batch_call().is_some() => (usize::MAX, Some(keys)),
            (true, _) => (concurrency, None),
            (false, true) => (2 * concurrency, None),
            (false, false) => (AHEAD.max(concurrency), Some(keys)),
        };
        let until_ended = group.is_none();
        let most = |route: &Route| {
            let in_flight = route
                .errors
                .dependencies
                .iter()
                .filter_map(|one| one.max_in_flight);
            let ahead = if route.idempotency.opens_transactions() {
                1
            } else {
                2
            };
            let most = in_flight.min().filter(|_| until_ended);
            most.map_or(usize::MAX, |most| most.saturating_mul(ahead))
        };
        Self {
            limit,
            of_route: engine.routes.iter().map(most).collect(),
            group,
            until_ended,
            state: Mutex::new(State {
                inside: 0,
                of_route: vec![OfRoute::default(); count],
                entering: 0,
            }),
            line: Line::new(count),
        }
    }

    /// Takes a place for a record of a route if there is one, and if fewer than `most` of its records wait for their
    /// handlers.
    pub(super) fn enter(&self, route: usize, most: Option<usize>) -> Option<Slot<'_>> {
        let mut state = self.state();
        let of_route = state.of_route[route];
        if of_route.inside >= self.of_route[route]
            || most.is_some_and(|most| of_route.ahead >= most)
        {
            return None;
        }
        if state.entering == 0 {
            let free = self.limit - state.inside;
            let group = self.group.unwrap_or(1).min(self.limit);
            if free == 0 || (state.inside > 0 && free < group) {
                return None;
            }
            state.entering = group;
        }
        state.entering -= 1;
        state.inside += 1;
        state.of_route[route].inside += 1;
        state.of_route[route].ahead += 1;
        Some(Slot {
            room: self,
            route,
            is_ahead: true,
            has_asked: false,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot<'_> {
    /// Notes that its record's handler has started.
    pub(super) fn starts(&mut self) {
        self.is_ahead = false;
        self.room.state().of_route[self.route].ahead -= 1;
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.inside -= 1;
        let of_route = &mut state.of_route[self.route];
        of_route.inside -= 1;
        of_route.ahead -= usize::from(self.is_ahead);
        state.entering += usize::from(!self.has_asked);
        drop(state);
        self.room.line.wake_first();
    }
}
