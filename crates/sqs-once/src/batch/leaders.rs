//! Records of one batch with the same key: the first leads, and the others end as it does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::key::ItemId;

use super::ending::Ended;

pub(super) struct Leaders(Mutex<HashMap<ItemId, Leader>>);

/// A record that leads.
#[derive(Clone)]
pub(super) struct Leader(Arc<Leading>);

struct Leading {
    record: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: Option<Ended>,
    followers: Vec<Waker>,
}

pub(super) enum Place {
    Leads(Leader),
    Follows(Leader),
}

impl Leaders {
    /// Expects a batch of this many records.
    pub(super) fn of(records: usize) -> Self {
        Self(Mutex::new(HashMap::with_capacity(records)))
    }

    pub(super) fn join(&self, id: &ItemId, record: usize) -> Place {
        match self.leaders().entry(id.clone()) {
            Entry::Occupied(leader) => Place::Follows(leader.get().clone()),
            Entry::Vacant(place) => {
                let state = Mutex::default();
                let leader = Leader(Arc::new(Leading { record, state }));
                Place::Leads(place.insert(leader).clone())
            }
        }
    }

    /// Returns the record that leads.
    pub(super) fn get(&self, id: &ItemId) -> Option<Leader> {
        self.leaders().get(id).cloned()
    }

    /// Lets another record lead after this leader has ended. The first that joins does.
    pub(super) fn replace(&self, id: &ItemId, leader: &Leader) {
        let mut leaders = self.leaders();
        let now = leaders.get(id);
        if now.is_some_and(|now| Arc::ptr_eq(&now.0, &leader.0)) {
            leaders.remove(id);
        }
    }

    fn leaders(&self) -> MutexGuard<'_, HashMap<ItemId, Leader>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leader {
    pub(super) fn record(&self) -> usize {
        self.0.record
    }

    /// Tells the records with its key how it ended.
    pub(super) fn ends(&self, ended: Ended) {
        let mut state = self.state();
        state.ended = Some(ended);
        let followers = mem::take(&mut state.followers);
        drop(state);
        followers.into_iter().for_each(Waker::wake);
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) -> Ended {
        poll_fn(|context| {
            let mut state = self.state();
            match &state.ended {
                Some(ended) => Poll::Ready(ended.clone()),
                None => {
                    state.followers.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
