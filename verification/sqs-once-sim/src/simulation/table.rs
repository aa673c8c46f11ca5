//! The service side of the `Store` trait: items that change by the library's own conditions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use sqs_once::key::ItemId;
use sqs_once::store::{Claim, Claimed, Committed, Fence, Item, Settled, Settlement, Settling};
use sqs_once::time::Timestamp;

use super::ids::{Ids, key_of, place_of, route_of};
use super::mutant::Mutant;
use super::process::Process;
use super::transaction::{Beginning, Session};
use super::world::World;

/// One item per id. Every write happens at one instant, and the witness sees it.
pub(crate) struct Table {
    items: Mutex<Vec<Option<Item>>>,
    sessions: Mutex<Vec<Option<Arc<Session>>>>,
    mutant: Option<Mutant>,
}

impl Table {
    pub(crate) fn new(keys: usize, mutant: Option<Mutant>) -> Self {
        Self {
            items: Mutex::new(vec![None; keys * Ids::ALL.len()]),
            sessions: Mutex::new(vec![None; keys]),
            mutant,
        }
    }

    /// The place of an item. Without namespaces, a key has one item for all routes.
    fn place(&self, id: &ItemId) -> usize {
        match self.mutant {
            Some(Mutant::RoutesShareNamespace) => {
                let key = key_of(id);
                place_of(Ids::of(id).id_of(key - route_of(key)))
            }
            _ => place_of(id),
        }
    }

    /// Applies a claim. `is_old` marks a process of the previous version, which does not compare the item that it has
    /// seen.
    pub(crate) fn claim(&self, world: &World, claim: &Claim, is_old: bool) -> Claimed {
        let (key, place) = (key_of(&claim.id), self.place(&claim.id));
        let mut items = self.items.lock();
        let before = items[place].take();
        let admits = |item: &Item| match self.mutant.and_then(|one| one.admits_claim(claim, item)) {
            Some(admits) => admits,
            None if is_old => claim.finds_free(item),
            None => claim.admitted_by(Some(item)),
        };
        if let Some(item) = before.as_ref().filter(|item| !admits(item)) {
            items[place].clone_from(&before);
            return Claimed::Refused(Box::new(item.clone()));
        }
        let mut after = claim.write(before.as_ref());
        if let (Some(Mutant::FenceStays), Some(item)) = (self.mutant, &before) {
            after.fence = item.fence;
        }
        let fence = after.fence.unwrap_or_default();
        let mut witness = world.witness();
        if is_old {
            witness.claims_as_before(claim.owner);
        }
        witness.changed(key, claim.owner, before.as_ref(), Some(&after), false);
        drop(witness);
        items[place] = Some(after);
        Claimed::Written { fence }
    }

    /// Applies a settlement together with the effect of its key: both or neither.
    pub(crate) fn commit(
        &self,
        world: &World,
        process: &Process,
        settlement: &Settlement,
    ) -> Option<Committed> {
        let key = key_of(&settlement.id);
        let message = world.witness().message_of(process, key);
        match self.settle(world, settlement, true) {
            Settled::Written => {
                world.judge_order(message);
                Some(Committed::Written)
            }
            Settled::Refused(item) => item.map(Committed::Refused),
        }
    }

    /// Applies a settlement. `commits` is whether the effect of its key is part of it.
    pub(crate) fn settle(&self, world: &World, settlement: &Settlement, commits: bool) -> Settled {
        let (key, place) = (key_of(&settlement.id), self.place(&settlement.id));
        let mut items = self.items.lock();
        let before = items[place].take();
        let without = |mutant: Mutant| mutant.admits_settlement(settlement, before.as_ref());
        let admits = self.mutant.and_then(without);
        if !admits.unwrap_or_else(|| settlement.admitted_by(before.as_ref())) {
            items[place].clone_from(&before);
            return Settled::Refused(before.map(Box::new));
        }
        let deletes = self.mutant.is_some_and(Mutant::deletes_released);
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
        items[place] = after;
        Settled::Written
    }

    pub(crate) fn read(&self, world: &World, process: &Process, id: &ItemId) -> Option<Item> {
        world.witness().looked_up(process, key_of(id));
        self.items.lock()[self.place(id)].clone()
    }

    /// The item that an operator sees.
    pub(crate) fn find(&self, id: &ItemId) -> Option<Item> {
        self.items.lock()[self.place(id)].clone()
    }

    /// An operator forgets a key, unless its item has changed or a transaction holds it.
    pub(crate) fn forget(&self, world: &World, seen: &Item, mut forgotten: Item, now: Timestamp) {
        if self.sessions.lock()[key_of(&seen.id)].is_some() {
            return;
        }
        let slot = &mut self.items.lock()[self.place(&seen.id)];
        if slot.as_ref() != Some(seen) {
            return;
        }
        if self.mutant == Some(Mutant::ForgetKeepsAge) {
            forgotten.fence = seen.fence.map(Fence::next);
        }
        let deletes = self.mutant == Some(Mutant::ForgetDeletes);
        let after = (!deletes).then_some(forgotten);
        world.witness().forgot(seen, after.as_ref(), now);
        *slot = after;
    }

    /// Begins a transaction that contains a claim, unless another transaction holds the key.
    pub(crate) fn begin(&self, session: &Arc<Session>) -> Beginning {
        let key = key_of(&session.claim.id);
        let item = self.items.lock()[self.place(&session.claim.id)].clone();
        let slot = &mut self.sessions.lock()[key];
        // A request that arrives after its connection has closed begins no transaction.
        if slot.is_some() || session.is_over.load(Ordering::Relaxed) {
            return Beginning::Waits;
        }
        if let Some(item) = item.as_ref().filter(|item| !session.claim.finds_free(item)) {
            return Beginning::Refused(Box::new(item.clone()));
        }
        *slot = Some(Arc::clone(session));
        Beginning::Open(session.claim.write(item.as_ref()))
    }

    /// Rolls a transaction back if it is still open.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        session.is_over.store(true, Ordering::Relaxed);
        let slot = &mut self.sessions.lock()[key_of(&session.claim.id)];
        if slot.as_ref().is_some_and(|one| Arc::ptr_eq(one, session)) {
            *slot = None;
        }
    }

    /// Commits a transaction that is still open: the claim, its settlement, and the handler's effect.
    pub(crate) fn commit_session(
        &self,
        world: &World,
        process: &Process,
        session: &Arc<Session>,
        settlement: &Settlement,
    ) -> bool {
        let (key, place) = (key_of(&settlement.id), self.place(&settlement.id));
        let open = self.sessions.lock()[key].clone();
        if !open.is_some_and(|one| Arc::ptr_eq(&one, session)) {
            return false;
        }
        self.end(session);
        let message = world.witness().message_of(process, key);
        let before = self.items.lock()[place].clone();
        let claimed = session.claim.write(before.as_ref());
        let after = settlement.write(Some(&claimed));
        let (owner, effect) = (settlement.owner, session.has_effect.load(Ordering::Relaxed));
        world
            .witness()
            .changed(key, owner, before.as_ref(), Some(&after), effect);
        self.items.lock()[place] = Some(after);
        world.judge_order(message);
        true
    }
}
