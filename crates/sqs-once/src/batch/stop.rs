//! Why a batch starts no further records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::report::Untried;

/// Set once the rest of a batch returns to the queue. The batch never starts again.
#[derive(Default)]
pub(super) struct Stop {
    /// Whether anything was set. Records look at every step.
    is_set: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reason: Option<Untried>,
    /// Why no further key is claimed, although handlers may start.
    claims_over: Option<Untried>,
    is_late: bool,
    is_new: bool,
}

impl Stop {
    /// Returns why no further record may start, or `None` while records may start.
    pub(super) fn reason(&self) -> Option<Untried> {
        self.seen()?.reason
    }

    /// Returns why no further key may be claimed, or `None` while keys may.
    pub(super) fn claims_over(&self) -> Option<Untried> {
        let state = self.seen()?;
        state.reason.or(state.claims_over)
    }

    /// Lets no further key be claimed.
    pub(super) fn end_claims(&self, reason: Untried) {
        let mut state = self.set();
        state.claims_over = Some(reason);
        state.is_new = true;
    }

    /// Returns whether the time for handlers is over.
    pub(super) fn is_late(&self) -> bool {
        self.seen().is_some_and(|state| state.is_late)
    }

    /// Lets no further record start. Those that run go on. A later reason changes nothing.
    pub(super) fn return_rest(&self, reason: Untried) {
        let mut state = self.set();
        if state.reason.is_none() {
            state.reason = Some(reason);
            state.is_new = true;
        }
    }

    /// Ends the time for handlers.
    pub(super) fn end_handlers(&self) {
        let mut state = self.set();
        state.reason = Some(Untried::NotStarted);
        state.is_late = true;
        state.is_new = true;
    }

    /// Returns whether [`take_new`](Self::take_new) would return `true`.
    pub(super) fn is_new(&self) -> bool {
        self.seen().is_some_and(|state| state.is_new)
    }

    /// Returns whether something has changed since the last call, so that every record must look again.
    pub(super) fn take_new(&self) -> bool {
        let state = self.seen();
        state.is_some_and(|mut state| std::mem::take(&mut state.is_new))
    }

    fn seen(&self) -> Option<MutexGuard<'_, State>> {
        self.is_set.load(Ordering::Relaxed).then(|| self.state())
    }

    fn set(&self) -> MutexGuard<'_, State> {
        self.is_set.store(true, Ordering::Relaxed);
        self.state()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
