//! A row of the protocol, and how it is written.

use std::time::Duration;

use crate::key::{Fingerprint, ItemId};
use crate::store::{Claim, Item, Owner, Seen, Settlement, Settling, Status, UnclaimedCompletion};
use crate::time::Timestamp;

use super::Fixture;
use super::world::{Step, Verdict, Way, World, broken_promise, stranger};

/// The time at which histories begin: the first millisecond of the year 2100.
pub(super) const NOW: Timestamp = Timestamp::from_secs(4_102_444_800);
/// Durations in milliseconds.
pub(super) const LEASE: u64 = 63_000;
pub(super) const RETENTION: u64 = 28 * 24 * 3_600_000;

/// Steps on a new key, with the verdict on each.
pub(super) struct Row {
    promise: &'static str,
    id: ItemId,
    /// The owners that the workers use, by the worker's number.
    owners: [Owner; 6],
    steps: Vec<(Step, Option<Verdict>)>,
}

pub(super) fn row(promise: &'static str) -> Row {
    Row {
        promise,
        id: stranger().0,
        owners: [(); 6].map(|()| stranger().1),
        steps: Vec::new(),
    }
}

impl Row {
    fn step(mut self, step: Step, verdict: Option<Verdict>) -> Self {
        self.steps.push((step, verdict));
        self
    }

    fn new_claim(&self, worker: usize, now: u64) -> Claim {
        let [now, lease, retention] = [now, now + LEASE, now + RETENTION].map(at);
        let mut claim = Claim::new(self.id.clone(), self.owners[worker], now, lease, retention);
        claim.fingerprint = fingerprint("one");
        claim
    }

    /// A worker claims the key as consumers do: as a new key, and again over the item that refused it.
    pub(super) fn claim(self, worker: usize, now: u64, verdict: Verdict) -> Self {
        self.claim_with(worker, now, |_| (), verdict)
    }

    pub(super) fn claim_with(
        self,
        worker: usize,
        now: u64,
        with: impl FnOnce(&mut Claim),
        verdict: Verdict,
    ) -> Self {
        let mut claim = self.new_claim(worker, now);
        with(&mut claim);
        let over = Step::Over(vec![claim.clone()]);
        self.step(Step::Claim(vec![claim]), None)
            .step(over, Some(verdict))
    }

    /// A worker claims the key once, over an item that it believes to have seen.
    pub(super) fn claim_over(self, worker: usize, now: u64, seen: Seen, verdict: Verdict) -> Self {
        let mut claim = self.new_claim(worker, now);
        claim.seen = seen;
        self.step(Step::Claim(vec![claim]), Some(verdict))
    }

    pub(super) fn copy(self, worker: usize, verdict: Verdict) -> Self {
        let owner = self.owners[worker];
        self.step(Step::Copy(owner), Some(verdict))
    }

    pub(super) fn settle(self, worker: usize, settling: Settling, verdict: Verdict) -> Self {
        let settlement = Settlement::new(self.id.clone(), self.owners[worker], settling);
        self.step(Step::Settle(vec![settlement]), Some(verdict))
    }

    pub(super) fn release(self, worker: usize, verdict: Verdict) -> Self {
        self.settle(worker, Settling::Release, verdict)
    }

    /// Another program, which knows neither owners nor fences, writes the item. Both times are in milliseconds.
    pub(super) fn foreign(self, status: Status, lease: Option<u64>, expires: Option<u64>) -> Self {
        self.foreign_with((status, lease, expires), |_, _| ())
    }

    /// The same, with more attributes. The closure also gets the owner that worker 1 uses.
    pub(super) fn foreign_with(
        self,
        (status, lease, expires): (Status, Option<u64>, Option<u64>),
        with: impl FnOnce(&mut Item, Owner),
    ) -> Self {
        let mut item = Item::new(self.id.clone(), status);
        item.lease_until = lease.map(at);
        item.expiration = expires.map(at);
        with(&mut item, self.owners[1]);
        self.step(Step::Plant(item), None)
    }

    pub(super) fn delete(self) -> Self {
        let id = self.id.clone();
        self.step(Step::Delete(id), None)
    }

    /// # Panics
    /// At the first step whose answer, item or verdict is another.
    pub(super) async fn holds<F: Fixture>(&self, fixture: &F, way: Way) {
        let mut world = World::new(fixture, way);
        for (n, (step, verdict)) in self.steps.iter().enumerate() {
            let found = world.after(step).await.and_then(|found| match verdict {
                Some(expected) if found != Some(*expected) => {
                    Err(format!("the verdict is {found:?} instead of {expected:?}"))
                }
                _ => Ok(()),
            });
            if let Err(broken) = found {
                let steps = self.steps[..=n].iter().map(|(step, _)| step);
                broken_promise(self.promise, &format!("{way:?}"), &broken, steps)
            }
        }
    }
}

/// This many milliseconds after the beginning.
pub(super) fn at(millis: u64) -> Timestamp {
    NOW + Duration::from_millis(millis)
}

pub(super) fn fingerprint(body: &str) -> Option<Fingerprint> {
    Some(Fingerprint::from_body(body))
}

pub(super) fn completion(expires: u64, data: Option<&str>) -> Settling {
    Settling::complete(at(expires), data.map(Into::into))
}

/// The completion of a key that was not claimed.
pub(super) fn recording(now: u64, body: Option<&str>, data: Option<&str>) -> UnclaimedCompletion {
    let mut recording = UnclaimedCompletion::new(at(now), at(now + RETENTION));
    recording.fingerprint = body.and_then(fingerprint);
    recording.data = data.map(Into::into);
    recording
}
