//! What the store does with each request.

use super::super::decisions::{self, Ending, Verdict, Written};
use super::super::request::{Ask, Request, Saw};
use super::super::state::{Delivery, Item};
use super::Step;
use crate::simulation::Mutant;

impl Step<'_> {
    /// Carries a request out in the store, and hands the answer to its sender.
    pub(super) fn carry_out(&mut self, request: Request) {
        let (owner, ask, awaited) = (request.owner, request.ask, request.awaited);
        let (item, key) = (usize::from(request.item), self.config.key_of(owner));
        let standing = self.world.items[item];
        let was_recorded = self.is_recorded(key);
        let verdict = match ask {
            Ask::Claim { now, lease, seen } => self.claim(&request, (now, lease), seen),
            Ask::ReadOther { run } => self.decide(owner, run, standing),
            Ask::TakeOver { seen, run } => self.take_over(&request, (seen, run)),
            Ask::CarryOver {
                lease,
                claimed,
                follows,
                run,
            } => self.carry_over(&request, (lease, claimed, follows), run),
            Ask::GiveBack { ending, over } => self.give_back(&request, ending, over),
            Ask::Begin { now, lease } => {
                let times = (owner, now, lease);
                let written = decisions::claim(self.config, times, None, standing);
                if written.written {
                    self.world.open[item] = written.item;
                }
                self.look(&written, awaited, owner, standing)
            }
            Ask::Read { now } => decisions::found((owner, now), standing),
            Ask::Settle(ending) => {
                let verdict = self.settle(owner, item, ending);
                let is_renewed = matches!((ending, verdict), (Ending::Renew(_), Verdict::Run(_)));
                if awaited && is_renewed {
                    self.worker_of(owner).left += 1;
                }
                verdict
            }
            Ask::CommitTransaction => self.commit_transaction(owner, key),
        };
        if awaited {
            self.answered(owner, verdict, was_recorded);
        }
    }

    fn claim(&mut self, request: &Request, (now, lease): (i8, i8), seen: Saw) -> Verdict {
        let (owner, awaited) = (request.owner, request.awaited);
        let (item, key) = (usize::from(request.item), self.config.key_of(owner));
        let standing = self.world.items[item];
        let times = (owner, now, lease);
        let written = decisions::claim(self.config, times, Some(seen), standing);
        self.world.items[item] = written.item;
        if written.written {
            self.count_claim(request, owner);
            if standing.is_none() {
                self.counts_from(key, now);
            }
            self.world.accounts[key].forgotten &= !owner.bit();
        }
        if awaited && written.verdict == Verdict::Again {
            let seen = Saw::Current;
            self.send(owner, Ask::Claim { now, lease, seen }, true);
        }
        match self.look(&written, awaited, owner, standing) {
            Verdict::Run(run) if awaited && self.also_reads(owner) => self.read_other(owner, run),
            verdict => verdict,
        }
    }

    /// Notes a claim that was written.
    pub(super) fn count_claim(&mut self, request: &Request, claimant: Delivery) {
        let account = &mut self.world.accounts[self.config.key_of(claimant)];
        let is_spent = account.spent & claimant.bit() != 0;
        // A claim whose sender still waits may have lost the key meanwhile, and get it again.
        self.world.seen.claim_came_back |= is_spent && !request.awaited;
        account.spent |= claimant.bit();
        self.raise_fence(usize::from(request.item));
    }

    /// Claims in flight have now seen an outdated form of this item.
    pub(super) fn raise_fence(&mut self, item: usize) {
        if self.config.has(Mutant::FenceStays) {
            return;
        }
        for request in &mut self.world.requests {
            if let Ask::Claim { seen, .. } | Ask::TakeOver { seen, .. } = &mut request.ask
                && usize::from(request.item) == item
                && *seen == Saw::Current
            {
                *seen = Saw::Stale;
            }
        }
    }

    /// Notes a claim that its own copy refused, or that did not raise the fence.
    fn look(
        &mut self,
        claimed: &Written,
        awaited: bool,
        owner: Delivery,
        standing: Option<Item>,
    ) -> Verdict {
        let is_own = standing.is_some_and(|item| !item.completed && item.owner == owner);
        let is_refused = !matches!(claimed.verdict, Verdict::Run(_) | Verdict::Again);
        self.world.seen.refused_by_itself |= awaited && is_own && is_refused;
        self.world.seen.fence_stood |= claimed.fence_stood;
        claimed.verdict
    }

    pub(super) fn settle(&mut self, owner: Delivery, item: usize, ending: Ending) -> Verdict {
        let key = self.config.key_of(owner);
        let standing = self.world.items[item];
        let written = decisions::settle(self.config, owner, ending, standing);
        let is_others = standing.is_some_and(|item| item.owner != owner);
        let account = &self.world.accounts[key];
        // Another worker has taken the key over under the other id.
        let is_late = account.holder.is_some_and(|holder| holder != owner);
        let is_late = is_late && ending == Ending::Complete && !self.is_recorded(key);
        let is_stale = is_others || is_late || account.has_forgotten(owner);
        if !matches!(ending, Ending::Record(_) | Ending::Commit(_)) {
            self.world.seen.stale_write |= is_stale && written.item != standing;
        }
        if matches!(ending, Ending::Renew(_)) && written.written {
            let is_released = standing.is_some_and(|item| item.lease.is_none());
            self.world.seen.claim_came_back |= is_released;
        }
        self.world.items[item] = written.item;
        let follows = matches!(ending, Ending::CarryOver { .. }) && written.item != standing;
        self.world.seen.fence_stood |= follows && self.world.accounts[key].holder == Some(owner);
        let raises = !matches!(
            ending,
            Ending::Complete | Ending::Copy | Ending::Release | Ending::Renew(_)
        );
        if raises && written.written {
            self.raise_fence(item);
        }
        let is_apart = self.config.has(Mutant::EffectApart);
        if matches!(ending, Ending::Commit(_)) && written.written && !is_apart {
            self.effect(owner);
        }
        written.verdict
    }

    fn commit_transaction(&mut self, owner: Delivery, key: usize) -> Verdict {
        let Some(claimed) = self.world.open[key].filter(|open| open.owner == owner) else {
            return Verdict::Failed;
        };
        self.world.open[key] = None;
        let written = decisions::settle(self.config, owner, Ending::Complete, Some(claimed));
        if written.written {
            self.world.items[key] = written.item;
            self.raise_fence(key);
            if !self.config.has(Mutant::EffectApart) {
                self.effect(owner);
            }
        }
        written.verdict
    }
}
