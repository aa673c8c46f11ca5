//! Why a batch starts no further records.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Set once the rest of a batch returns to the queue. It never starts again.
#[derive(Default)]
pub(super) struct Stop(Mutex<State>);

#[derive(Default)]
struct State {
    reason: Option<&'static str>,
    /// Why no further key is claimed, although handlers may start.
    claims_over: Option<&'static str>,
    is_late: bool,
    is_new: bool,
}

impl Stop {
    /// Returns why no further record may start, or `None` while records may start.
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.state().reason
    }

    /// Returns why no further key may be claimed, or `None` while keys may.
    pub(super) fn claims(&self) -> Option<&'static str> {
        let state = self.state();
        state.reason.or(state.claims_over)
    }

    /// Lets no further key be claimed.
    pub(super) fn end_claims(&self, reason: &'static str) {
        let mut state = self.state();
        state.claims_over = Some(reason);
        state.is_new = true;
    }

    /// Returns whether the time for handlers is over.
    pub(super) fn is_late(&self) -> bool {
        self.state().is_late
    }

    /// Lets no further record start. Those that run go on. A later reason changes nothing.
    pub(super) fn return_rest(&self, reason: &'static str) {
        let mut state = self.state();
        if state.reason.is_none() {
            state.reason = Some(reason);
            state.is_new = true;
        }
    }

    /// Ends the time for handlers.
    pub(super) fn end_handlers(&self, reason: &'static str) {
        let mut state = self.state();
        state.reason = Some(reason);
        state.is_late = true;
        state.is_new = true;
    }

    /// Returns whether [`take_new`](Self::take_new) would return `true`.
    pub(super) fn is_new(&self) -> bool {
        self.state().is_new
    }

    /// Returns whether something has changed since the last call, so that every record must look again.
    pub(super) fn take_new(&self) -> bool {
        std::mem::take(&mut self.state().is_new)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
