//! The age of a key: what its fences promise, and what truly happened.

use super::super::decisions::Ending;
use super::super::fence::{First, Run, Young};
use super::super::request::Ask;
use super::super::state::{Delivery, End, Item, Stage, Worker};
use super::Step;

impl Step<'_> {
    /// Starts the handler, unless its token may be too old before the invocation ends.
    pub(super) fn run(&mut self, delivery: Delivery, run: Run, was_recorded: bool) {
        let key = self.config.key_of(delivery);
        let own = usize::from(self.item_of(delivery));
        let worker = self.worker_of(delivery);
        let (now, left) = (worker.role.skew, worker.left);
        let ends = now + left;
        // A worker starts no handler after its deadline.
        if left < 0 {
            self.send(delivery, Ask::Settle(Ending::Release), false);
            return self.end(delivery, End::Failed(0));
        }
        let is_old = |first: i8| Some(ends - first) > self.config.valid_for;
        let account = &mut self.world.accounts[key];
        let first = run.first.and_then(|first| first.at);
        let is_older = account.anew.is_some_and(|anew| first < Some(anew));
        self.world.seen.kept_age |= is_older && account.meanwhile & delivery.bit() == 0;
        if !run.is_first() && first.is_none_or(is_old) {
            self.send(delivery, Ask::Settle(Ending::Release), false);
            return self.end(delivery, End::Terminal);
        }
        self.world.seen.old_token |= match account.first {
            First::Never => false,
            First::At(first) => is_old(first),
            First::Unknown => true,
        };
        if account.first == First::Never {
            // A forgotten item may have a fence of a clock that is ahead.
            account.first = First::At(now.max(run.fence.at.unwrap_or(now)));
        }
        self.world.seen.fence_stood |= account.given >= Some(run.fence);
        account.given = account.given.max(Some(run.fence));
        if self.config.has_two_ids() {
            account.holder = Some(delivery);
        }
        self.world.seen.started_after_record |= was_recorded;
        self.worker_of(delivery).stage = Stage::Running;
        if !run.over {
            self.tells_age(own);
        }
    }

    /// The fence of this item tells the age of its key from now on.
    pub(super) fn tells_age(&mut self, item: usize) {
        if let Some(item) = &mut self.world.items[item] {
            item.young = None;
        }
    }

    /// Notes that an operator forgot an item. The key is forgotten once all of its items are.
    pub(super) fn start_anew(&mut self, item: usize) {
        let key = self.config.key_of_item(item);
        if let Some(item) = &mut self.world.items[item] {
            // The clock of an earlier worker may be ahead of the operator's.
            let fence = item.fence.and_then(|fence| fence.at);
            item.young = Some(Young {
                since: fence.unwrap_or(0).max(0),
                is_forgotten: true,
            });
        }
        let items = self.world.items.iter().enumerate();
        let items = items.filter(|(item, _)| self.config.key_of_item(*item) == key);
        let items = items.filter_map(|(_, item)| *item);
        let young: Option<Vec<Young>> = items.map(|item: Item| item.young).collect();
        let since = young.iter().flatten().map(|young| young.since).min();
        let are_forgotten = young.is_some_and(|all| all.iter().all(|young| young.is_forgotten));
        let workers = self.world.workers.iter();
        let asking = workers.filter(|worker| worker.stage == Stage::Asking);
        let asking = asking.filter_map(Worker::current);
        let account = &mut self.world.accounts[key];
        match (account.first, since) {
            _ if are_forgotten => {
                account.first = First::Never;
                account.anew = since.map(|since| since.min(0));
                account.meanwhile = asking.fold(0, |all, one| all | one.bit());
            }
            // No item tells the age any more.
            (First::At(first), Some(since)) => account.first = First::At(first.max(since)),
            (First::Unknown, Some(since)) => account.first = First::At(since),
            _ => {}
        }
    }

    /// A claim created an item. Its sender may have read the clock before an operator forgot the key.
    pub(super) fn counts_from(&mut self, key: usize, now: i8) {
        let account = &mut self.world.accounts[key];
        account.anew = account.anew.map(|anew| anew.min(now));
    }

    /// A fence was carried over from the other item. If that one did not tell the age, neither does this one from now on.
    pub(super) fn carried(&mut self, item: usize) {
        let key = self.config.key_of_item(item);
        let since = self.world.items[1 - item].and_then(|item| item.young);
        let since = since.map(|young| young.since);
        let account = &mut self.world.accounts[key];
        if let (First::At(first), Some(since)) = (account.first, since) {
            account.first = First::At(first.max(since));
        }
        self.tells_age(item);
        let items = self.world.items.iter().flatten();
        let fences: Option<Vec<i8>> = items.map(|item| item.fence?.at).collect();
        // None of them tells the age any more, although no worker stopped on the way.
        if let (First::At(first), Some(fences)) = (self.world.accounts[key].first, fences) {
            self.world.seen.old_token |= fences.iter().all(|at| *at > first);
        }
    }
}
