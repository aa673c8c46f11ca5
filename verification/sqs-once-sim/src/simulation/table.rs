//! The service side of the `Store` trait: items that change by the library's own conditions.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, Claimed, Committed, Fence, Item, Settled, Settlement, Settling, Status, Timestamp,
};

use super::clock::true_time;
use super::ids::{Ids, key_of, place_of, route_of};
use super::mutant::Mutant;
use super::process::Process;
use super::transaction::Session;
use super::world::World;

/// For how long PostgreSQL keeps expired items, in seconds: a day, scaled down as retention is.
const LEFT: u64 = 10;

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

    /// Deletes expired items, unless a transaction holds them. DynamoDB does so at any later time. PostgreSQL leaves them for
    /// longer than clocks differ, and while their lease may be live.
    pub(crate) fn delete_expired(&self, world: &World) {
        let is_postgres = world.plan.is_postgres;
        let now = true_time(world.started).as_secs();
        let before = if is_postgres { now - LEFT } else { now };
        let is_over = |at: Option<Timestamp>| at.is_some_and(|at| at.as_secs() < before);
        let sessions = self.sessions.lock();
        let goes = |item: &mut Item| {
            let is_held = sessions[key_of(&item.id)].is_some();
            let may_be_live = is_postgres && item.status == Status::InProgress;
            is_over(item.expiration) && !is_held && (!may_be_live || is_over(item.lease_until))
        };
        for slot in self.items.lock().iter_mut() {
            if let Some(item) = slot.take_if(goes) {
                world.witness().deleted(&item);
            }
        }
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

    /// Begins a transaction that contains claims. If another transaction holds one of their keys, nothing begins, unless
    /// the claims no longer wait: that key then counts as in progress.
    pub(crate) fn begin(&self, session: &Arc<Session>, waits: bool) -> Option<Vec<Claimed>> {
        let (items, mut sessions) = (self.items.lock(), self.sessions.lock());
        let is_held = |claim: &Claim| sessions[key_of(&claim.id)].is_some();
        // A request that arrives after its connection has closed begins no transaction.
        let is_over = session.is_over.load(Ordering::Relaxed);
        if is_over || (waits && session.claims.iter().any(is_held)) {
            return None;
        }
        let answers = session.claims.iter().map(|claim| {
            let item = items[self.place(&claim.id)].as_ref();
            let slot = &mut sessions[key_of(&claim.id)];
            if slot.is_some() {
                let held = Item::new(claim.id.clone(), Status::InProgress);
                return Claimed::Refused(Box::new(held));
            }
            if let Some(item) = item.filter(|item| !claim.finds_free(item)) {
                return Claimed::Refused(Box::new(item.clone()));
            }
            *slot = Some(Arc::clone(session));
            let fence = claim.write(item).fence.unwrap_or_default();
            Claimed::Written { fence }
        });
        Some(answers.collect())
    }

    /// Rolls a transaction back if it is still open. Returns whether it was.
    pub(crate) fn end(&self, session: &Arc<Session>) -> bool {
        session.is_over.store(true, Ordering::Relaxed);
        let is_its = |one: &mut Arc<Session>| Arc::ptr_eq(one, session);
        let mut sessions = self.sessions.lock();
        let ended = sessions.iter_mut().filter_map(|slot| slot.take_if(is_its));
        ended.count() > 0
    }

    /// Commits a transaction that is still open: its claims, their settlements or releases, and the handler's effects.
    pub(crate) fn commit_session(
        &self,
        world: &World,
        process: &Process,
        session: &Arc<Session>,
        settlements: &[Settlement],
    ) -> bool {
        let is_held = |claim: &&Claim| {
            let slot = &self.sessions.lock()[key_of(&claim.id)];
            slot.as_ref().is_some_and(|one| Arc::ptr_eq(one, session))
        };
        let held: Vec<_> = session.claims.iter().filter(is_held).collect();
        let is_whole = |one: &Settlement| held.iter().any(|claim| claim.id == one.id);
        // A settlement of a claim that is not in the transaction rolls it back.
        if !self.end(session) || !settlements.iter().all(is_whole) {
            return false;
        }
        let mut messages = Vec::new();
        for claim in held {
            let (key, place) = (key_of(&claim.id), self.place(&claim.id));
            let (owner, mut items) = (claim.owner, self.items.lock());
            let before = items[place].take();
            let claimed = claim.write(before.as_ref());
            let settlement = settlements.iter().find(|one| one.id == claim.id);
            let mut witness = world.witness();
            let after = match settlement {
                Some(settlement) => {
                    let (after, effects) = (settlement.write(Some(&claimed)), &session.effects);
                    let commits = effects.lock().contains(&key);
                    witness.changed(key, owner, before.as_ref(), Some(&after), commits);
                    messages.push(witness.message_of(process, key));
                    after
                }
                None => {
                    witness.changed(key, owner, before.as_ref(), Some(&claimed), false);
                    let release = Settlement::new(claim.id.clone(), owner, Settling::Release);
                    let after = release.write(Some(&claimed));
                    witness.changed(key, owner, Some(&claimed), Some(&after), false);
                    after
                }
            };
            items[place] = Some(after);
        }
        messages
            .into_iter()
            .for_each(|message| world.judge_order(message));
        true
    }
}
