//! How many records of a route may be claimed ahead of free handlers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::engine::Engine;
use super::line::Line;

/// The most claimed records of a route that wait for a free handler.
const AHEAD: usize = 200;

/// The room of a route, or of all routes whose records open transactions.
pub(super) struct Room {
    /// The most records in it.
    limit: usize,
    /// How many records enter together, so that their claims fill a request although others leave one by one.
    group: Option<usize>,
    /// Whether a record stays until it has ended, because it holds a transaction or a fetched body.
    pub(super) until_ended: bool,
    state: Mutex<State>,
    pub(super) line: Line,
}

struct State {
    inside: usize,
    /// How many of the group that enters are missing. `inside` and `entering` together are at most the limit.
    entering: usize,
}

/// A place in a room, until it is dropped.
pub(super) struct Slot<'a> {
    room: &'a Room,
    /// Whether its record has asked for a claim. Otherwise another record enters in its place.
    pub(super) has_asked: bool,
}

impl Room {
    pub(super) fn of(engine: &Engine, route: usize) -> Self {
        let concurrency = engine.concurrency.get();
        let keys = engine.requests.keys();
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
        Self {
            limit,
            group,
            until_ended: group.is_none(),
            state: Mutex::new(State {
                inside: 0,
                entering: 0,
            }),
            line: Line::new(engine.routes.len()),
        }
    }

    /// Takes a place if there is one, and if fewer than `most` records are inside.
    pub(super) fn enter(&self, most: Option<usize>) -> Option<Slot<'_>> {
        let mut state = self.state();
        if most.is_some_and(|most| state.inside >= most) {
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
        Some(Slot {
            room: self,
            has_asked: false,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.inside -= 1;
        state.entering += usize::from(!self.has_asked);
        drop(state);
        self.room.line.wake_first();
    }
}
