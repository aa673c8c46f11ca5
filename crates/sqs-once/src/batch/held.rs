//! The claims whose handlers run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slab::Slab;

use crate::handler::Running;
use crate::key::ItemId;
use crate::store::{Claim, Owner};

/// The claims whose handlers run, and those of cancelled handlers whose code goes on. They outlive the batch, because a
/// handler may block its thread.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<Slab<Hold>>>);

struct Hold {
    id: ItemId,
    owner: Owner,
    code: Running,
}

/// Ends a hold when it is dropped, unless code goes on.
pub(super) struct Handled {
    held: Held,
    at: usize,
}

impl Held {
    /// Notes that the handler of a claim runs, whose code is counted.
    pub(super) fn enter(&self, claim: &Claim, code: &Running) -> Handled {
        let at = self.holds().insert(Hold {
            id: claim.id.clone(),
            owner: claim.owner,
            code: code.clone(),
        });
        let held = self.clone();
        Handled { held, at }
    }

    /// Returns the claims whose code runs.
    pub(super) fn running(&self) -> Vec<(ItemId, Owner)> {
        let holds = self.holds();
        let running = holds.iter().filter(|(_, one)| one.code.executes());
        running
            .map(|(_, one)| (one.id.clone(), one.owner))
            .collect()
    }

    /// Returns whether code of a claim runs.
    pub(super) fn is_running(&self) -> bool {
        self.holds().iter().any(|(_, one)| one.code.executes())
    }

    fn holds(&self) -> MutexGuard<'_, Slab<Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handled {
    /// Ends the hold of a claim whose handler was not called.
    pub(super) fn uncalled(self) {
        self.held.holds().try_remove(self.at);
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        let mut holds = self.held.holds();
        if holds.get(self.at).is_some_and(|hold| !hold.code.executes()) {
            holds.remove(self.at);
        }
    }
}
