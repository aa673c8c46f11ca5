//! What a batch remembers of its records.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use tokio::time::Instant;

use crate::key::{BusinessKey, Fingerprint, ItemId};

/// The records that were taken up, by their position in the batch.
pub(super) struct Records {
    taken: Vec<Taken>,
    /// The first record of the batch with each key.
    pub(super) leaders: HashMap<ItemId, usize>,
}

/// What the batch remembers of a record that was taken up.
#[derive(Clone, Default)]
pub(super) struct Taken {
    pub(super) key: Option<Arc<BusinessKey>>,
    pub(super) item: Option<ItemId>,
    pub(super) fingerprint: Option<Fingerprint>,
    /// Whether its key was completed for another payload.
    pub(super) is_mismatched: bool,
    pub(super) taken_up: Option<Instant>,
    /// What its handler recorded, now or when its key was completed.
    pub(super) data: Option<Arc<str>>,
    /// What its line in the log should warn of, whatever its outcome.
    pub(super) warnings: Vec<String>,
    /// Records that end as this one does, because they have its key.
    pub(super) followers: Vec<usize>,
}

impl Records {
    pub(super) fn new(count: usize) -> Self {
        Self {
            taken: vec![Taken::default(); count],
            leaders: HashMap::new(),
        }
    }

    /// The record with whose end this one ends: itself, or an earlier one with the same key.
    pub(super) fn leader_of(&self, record: usize) -> usize {
        let item = self.taken[record].item.as_ref();
        let leader = item.and_then(|item| self.leaders.get(item));
        leader.copied().unwrap_or(record)
    }

    /// How many records wait for the end of another one with their key.
    pub(super) fn followers(&self) -> usize {
        self.taken.iter().map(|taken| taken.followers.len()).sum()
    }
}

impl Index<usize> for Records {
    type Output = Taken;

    fn index(&self, record: usize) -> &Taken {
        &self.taken[record]
    }
}

impl IndexMut<usize> for Records {
    fn index_mut(&mut self, record: usize) -> &mut Taken {
        &mut self.taken[record]
    }
}
