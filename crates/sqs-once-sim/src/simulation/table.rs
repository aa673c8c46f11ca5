//! The store's far side at the `Store` trait: items that change by the library's own conditions.

use std::sync::{Mutex, PoisonError};

use sqs_once::store::{Claim, Claimed, Committed, Item, Settled, Settlement, Settling, Status};

use super::mutant::Mutant;
use super::process::Process;
use super::world::{World, key_of};

/// One item a key. Every write is one instant, and the witness sees it.
#[derive(Debug)]
pub(crate) struct Table {
    items: Mutex<Vec<Option<Item>>>,
    mutant: Option<Mutant>,
}

impl Table {
    pub(crate) fn new(keys: usize, mutant: Option<Mutant>) -> Self {
        Self {
            items: Mutex::new(vec![None; keys]),
            mutant,
        }
    }

    pub(crate) fn claim(&self, world: &World, claim: &Claim) -> Claimed {
        let key = key_of(&claim.id);
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let before = items[key].take();
        if let Some(item) = &before
            && !self.admits_claim(claim, item)
        {
            items[key].clone_from(&before);
            return Claimed::Refused(Box::new(item.clone()));
        }
        let mut after = claim.write(before.as_ref());
        if let (Some(Mutant::FenceStays), Some(item)) = (self.mutant, &before) {
            after.fence = item.fence;
        }
        let fence = after.fence.unwrap_or_default();
        world
            .witness()
            .changed(key, claim.owner, before.as_ref(), Some(&after), false);
        items[key] = Some(after);
        Claimed::Written { fence }
    }

    fn admits_claim(&self, claim: &Claim, item: &Item) -> bool {
        let has_lapsed = item.lease_until < Some(claim.now);
        match self.mutant {
            Some(Mutant::ClaimCompleted) => has_lapsed,
            Some(Mutant::ClaimLeased) => item.status == Status::InProgress,
            Some(Mutant::ClaimOwnLapsed) => item.status == Status::InProgress && has_lapsed,
            _ => claim.admitted_by(Some(item)),
        }
    }

    pub(crate) fn settle(&self, world: &World, settlement: &Settlement) -> Settled {
        self.write(world, settlement, false)
    }

    /// A settlement with the effect of its key, both or neither.
    pub(crate) fn commit(
        &self,
        world: &World,
        process: &Process,
        settlement: &Settlement,
    ) -> Option<Committed> {
        let key = key_of(&settlement.id);
        let message = world.witness().message_of(process, key);
        match self.write(world, settlement, true) {
            Settled::Written => {
                world.judge_order(message);
                Some(Committed::Written)
            }
            Settled::Refused(item) => item.map(Committed::Refused),
        }
    }

    fn write(&self, world: &World, settlement: &Settlement, commits: bool) -> Settled {
        let key = key_of(&settlement.id);
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let before = items[key].take();
        if !self.admits_settlement(settlement, before.as_ref()) {
            items[key].clone_from(&before);
            return Settled::Refused(before.map(Box::new));
        }
        let deletes = matches!(self.mutant, Some(Mutant::ReleaseDeletes | Mutant::Peers));
        let after = match settlement.settling {
            Settling::Release if deletes => None,
            _ => Some(settlement.write(before.as_ref())),
        };
        if before.is_some() || after.is_some() {
            let (owner, before) = (settlement.owner, before.as_ref());
            world
                .witness()
                .changed(key, owner, before, after.as_ref(), commits);
        }
        items[key] = after;
        Settled::Written
    }

    fn admits_settlement(&self, settlement: &Settlement, item: Option<&Item>) -> bool {
        let in_progress = item.is_some_and(|item| item.status == Status::InProgress);
        match (self.mutant, &settlement.settling) {
            (Some(Mutant::CompleteOthers), Settling::Complete { .. }) => item.is_some(),
            (Some(Mutant::ReleaseOthers), Settling::Release) => in_progress,
            (Some(Mutant::CommitTwice), Settling::Commit(_)) => {
                let is_mine = item.is_some_and(|item| item.owner == Some(settlement.owner));
                is_mine || settlement.admitted_by(item)
            }
            (Some(Mutant::CommitOverAll), Settling::Commit(_)) => true,
            (Some(Mutant::Peers), Settling::Complete { .. } | Settling::Release) => true,
            _ => settlement.admitted_by(item),
        }
    }

    pub(crate) fn read(&self, world: &World, process: &Process, key: usize) -> Option<Item> {
        world.witness().looked_up(process, key);
        let items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        items[key].clone()
    }
}
