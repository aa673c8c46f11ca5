//! Records of one batch with the same key: the first leads, and the others end as it does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use futures_util::future::{FutureExt, Shared};

use crate::key::ItemId;

use super::ending::Ended;

#[derive(Default)]
pub(super) struct Leaders(Mutex<HashMap<ItemId, (usize, Leader)>>);

/// Resolves to the end of a record that leads, for the records with its key.
pub(super) type Leader = Shared<oneshot::Receiver<Arc<Ended>>>;

pub(super) enum Place {
    Leads(oneshot::Sender<Arc<Ended>>),
    /// Behind this record.
    Follows(usize, Leader),
}

impl Leaders {
    pub(super) fn join(&self, id: &ItemId, record: usize) -> Place {
        let mut leaders = self.leaders();
        if let Some((at, leader)) = leaders.get(id) {
            return Place::Follows(*at, leader.clone());
        }
        let (ends, ended) = oneshot::channel();
        leaders.insert(id.clone(), (record, ended.shared()));
        Place::Leads(ends)
    }

    /// Returns the record that leads.
    pub(super) fn of(&self, id: &ItemId) -> Option<Leader> {
        self.leaders().get(id).map(|(_, leader)| leader.clone())
    }

    /// Lets another record lead after this leader has ended. The first that joins does.
    pub(super) fn replace(&self, id: &ItemId, leader: &Leader) {
        let mut leaders = self.leaders();
        if leaders.get(id).is_some_and(|(_, now)| now.ptr_eq(leader)) {
            leaders.remove(id);
        }
    }

    fn leaders(&self) -> MutexGuard<'_, HashMap<ItemId, (usize, Leader)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
