//! One scenario of the suite: a key of its own, and what the store must answer for it.

use std::fmt::Debug;
use std::time::Duration;

use crate::idempotency::{self, Admission, Completion, Refusal, on_claimed, on_completed};
use crate::key::{Fingerprint, ItemId};
use crate::random::{OsRandom, Random};
use crate::store::{
    Claim, Claimed, Committed, Fence, Item, Owner, Recording, Seen, Settled, Settlement, Settling,
    Status, StoreError, Writes,
};
use crate::time::Timestamp;

use super::Fixture;

/// When the cases happen: the first millisecond of the year 2100.
pub(super) const NOW: Timestamp = Timestamp::from_secs(4_102_444_800);
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const LEASE: Duration = Duration::from_secs(63);
pub(super) const RETENTION: Duration = Duration::from_secs(28 * 24 * 3600);

/// How entries travel: a store may take another way with a lone entry than with several.
#[derive(Clone, Copy, Debug)]
pub(super) enum Grouping {
    /// A slice of one.
    Alone,
    /// A slice of two, behind an entry for a key of its own.
    Grouped,
    /// A slice of one, and commits in a transaction of which they are all.
    InTransaction,
}

pub(super) struct Scenario<'a, F> {
    fixture: &'a F,
    grouping: Grouping,
    promise: &'static str,
    pub(super) id: ItemId,
}

impl<'a, F: Fixture> Scenario<'a, F> {
    pub(super) fn new(fixture: &'a F, grouping: Grouping, promise: &'static str) -> Self {
        Self {
            fixture,
            grouping,
            promise,
            id: new_id(),
        }
    }

    /// A claim by a new owner.
    pub(super) fn claim(&self, now: Timestamp) -> Claim {
        claim_of(self.id.clone(), now)
    }

    pub(super) async fn plant(&self, item: Item) {
        self.fixture.plant(item).await;
    }

    pub(super) async fn delete(&self) {
        self.fixture.delete(&self.id).await;
    }

    /// The current item, which must equal the item that the store reads.
    pub(super) async fn item(&self) -> Option<Item> {
        let peeked = self.fixture.peek(&self.id).await;
        let read = self
            .fixture
            .store()
            .read(std::slice::from_ref(&self.id))
            .await;
        let read = self.only(read);
        self.same("a read shows the item as it stands", &read, &peeked);
        peeked
    }

    /// The claim's record must be allowed to run. Returns its fence.
    pub(super) async fn runs(&self, claim: &Claim) -> Fence {
        let claimed = self.send(claim).await;
        match on_claimed(claim, &claimed) {
            Admission::Run { fence } => {
                let item = self.item().await;
                let kept = item.as_ref().and_then(|item| item.fence);
                self.same("the claim's fence is the item's", &Some(fence), &kept);
                let owner = item.and_then(|item| item.owner);
                self.same("the claim owns the item", &owner, &Some(claim.owner));
                fence
            }
            Admission::Refused(refusal) => self.broken("a claim is refused", &refusal),
        }
    }

    /// The claim must be refused, shown the item that refuses it, and change nothing, although it has seen that item.
    pub(super) async fn is_refused(&self, claim: &Claim) -> Refusal {
        let over = Claim {
            seen: self.seen().await,
            ..claim.clone()
        };
        self.is_not_written(&over).await;
        self.is_not_written(claim).await
    }

    /// The key's item, as a claim sees it.
    pub(super) async fn seen(&self) -> Seen {
        let item = self.item().await;
        item.map_or(Seen::Nothing, |item| Seen::Item(item.fence))
    }

    /// This very request must be refused, shown the item that refuses it, and change nothing. The item may be free for
    /// others.
    pub(super) async fn is_not_written(&self, claim: &Claim) -> Refusal {
        let before = self.item().await;
        let claimed = self.send_once(claim).await;
        self.same(
            "a refused claim changes nothing",
            &self.item().await,
            &before,
        );
        let Admission::Refused(refusal) = on_claimed(claim, &claimed) else {
            self.broken("a claim is granted", &claimed)
        };
        if let Claimed::Refused(shown) = claimed {
            self.same("a refusal shows the item", &Some(*shown), &before);
        }
        refusal
    }

    /// The claim must be refused because another worker has the key.
    pub(super) async fn is_in_progress(&self, claim: &Claim) {
        let refusal = self.is_refused(claim).await;
        let lease_until = self.item().await.and_then(|item| item.lease_until);
        self.same(
            "in progress",
            &refusal,
            &Refusal::InProgress { lease_until },
        );
    }

    /// The claim must be refused as a duplicate of an effect that recorded `data`.
    pub(super) async fn is_duplicate(&self, claim: &Claim, data: Option<&str>) {
        let refusal = self.is_refused(claim).await;
        let data = data.map(Into::into);
        self.same("a duplicate", &refusal, &Refusal::Duplicate { data });
    }

    /// The settlement must be written, and leave the item of the reference.
    pub(super) async fn settles(&self, claim: &Claim, settling: Settling) {
        let before = self.item().await;
        let settlement = settlement_of(claim, settling);
        let settled = self.settle(&settlement).await;
        self.same("a settlement is written", &settled, &Settled::Written);
        let expected = Some(settlement.write(before.as_ref()));
        self.same("what a settlement leaves", &self.item().await, &expected);
    }

    /// The settlement must be refused with the existing item, and change nothing.
    pub(super) async fn does_not_settle(&self, claim: &Claim, settling: Settling) -> Completion {
        let before = self.item().await;
        let settled = self.settle(&settlement_of(claim, settling)).await;
        self.same(
            "a refused settlement changes nothing",
            &self.item().await,
            &before,
        );
        let expected = Settled::Refused(before.map(Box::new));
        self.same("a refusal shows the item", &settled, &expected);
        on_completed(&settled)
    }

    /// The settlement is a copy of one that was written before: it must change nothing, and still
    /// count as recorded.
    pub(super) async fn settles_again(&self, claim: &Claim, settling: Settling) {
        let before = self.item().await;
        let settled = self.settle(&settlement_of(claim, settling)).await;
        self.same(
            "a settlement sent twice changes nothing",
            &self.item().await,
            &before,
        );
        let completion = on_completed(&settled);
        self.same("it is still recorded", &completion, &Completion::Recorded);
    }

    pub(super) fn same<T: Debug + PartialEq>(&self, what: &str, found: &T, expected: &T) {
        if found != expected {
            self.broken(
                what,
                &format_args!("\n found:    {found:?}\n expected: {expected:?}"),
            );
        }
    }

    /// The claim replaces the existing item, with a larger fence, and leaves the item of the reference.
    pub(super) async fn takes_over(&self, claim: &Claim, earlier: Fence) {
        let left = self.item().await;
        let later = self.runs(claim).await;
        self.grows(earlier, later);
        let expected = Some(claim.write(left.as_ref()));
        self.same("the item", &self.item().await, &expected);
    }

    pub(super) fn grows(&self, earlier: Fence, later: Fence) {
        if later <= earlier {
            self.broken("the fence does not grow", &(earlier, later));
        }
    }

    /// Sends a claim, and once more over what refused it, as consumers do.
    pub(super) async fn send(&self, claim: &Claim) -> Claimed {
        let store = self.fixture.store();
        match self.grouping {
            Grouping::Alone | Grouping::InTransaction => {
                self.only(idempotency::claim(store, std::slice::from_ref(claim)).await)
            }
            Grouping::Grouped => {
                let company = claim_of(new_id(), claim.now);
                self.last(idempotency::claim(store, &[company, claim.clone()]).await)
            }
        }
    }

    /// Sends a claim as it is.
    pub(super) async fn send_once(&self, claim: &Claim) -> Claimed {
        let store = self.fixture.store();
        match self.grouping {
            Grouping::Alone | Grouping::InTransaction => {
                self.only(store.claim(std::slice::from_ref(claim)).await)
            }
            Grouping::Grouped => {
                let company = claim_of(new_id(), claim.now);
                self.last(store.claim(&[company, claim.clone()]).await)
            }
        }
    }

    async fn settle(&self, settlement: &Settlement) -> Settled {
        let store = self.fixture.store();
        match (self.grouping, store.atomic_writes()) {
            (Grouping::InTransaction, Some(atomic))
                if matches!(settlement.settling, Settling::Commit(_)) =>
            {
                match self.answered(atomic.commit(settlement, &Writes::new()).await) {
                    Committed::Written => Settled::Written,
                    Committed::Refused(item) => Settled::Refused(Some(item)),
                    Committed::Conflict(conflict) => {
                        self.broken("there are no writes but the record", &conflict)
                    }
                }
            }
            (Grouping::Alone | Grouping::InTransaction, _) => {
                self.only(store.settle(std::slice::from_ref(settlement)).await)
            }
            (Grouping::Grouped, _) => {
                let company = settlement_of(&claim_of(new_id(), NOW), Settling::Release);
                self.last(store.settle(&[company, settlement.clone()]).await)
            }
        }
    }

    fn only<T: Debug>(&self, answers: Vec<Result<T, StoreError>>) -> T {
        match <[_; 1]>::try_from(answers) {
            Ok([answer]) => self.answered(answer),
            Err(answers) => self.broken("a slice of one has one answer", &answers),
        }
    }

    fn last<T: Debug>(&self, answers: Vec<Result<T, StoreError>>) -> T {
        match <[_; 2]>::try_from(answers) {
            Ok([company, answer]) => {
                self.answered(company);
                self.answered(answer)
            }
            Err(answers) => self.broken("a slice of two has two answers", &answers),
        }
    }

    fn answered<T>(&self, answer: Result<T, StoreError>) -> T {
        answer.unwrap_or_else(|error| self.broken("the store does not answer", &error))
    }

    fn broken(&self, what: &str, found: &dyn Debug) -> ! {
        panic!(
            "promise broken: {} ({what}, entries sent {:?}): {found:?}",
            self.promise, self.grouping
        )
    }
}

pub(super) fn new_id() -> ItemId {
    ItemId::from_stored(format!("conformance#{:064x}", OsRandom.bits()))
}

pub(super) fn new_owner() -> Owner {
    Owner::from_bits(OsRandom.bits())
}

pub(super) fn claim_of(id: ItemId, now: Timestamp) -> Claim {
    Claim {
        id,
        owner: new_owner(),
        now,
        lease_until: now + LEASE,
        expiration: now + RETENTION,
        fingerprint: Some(fingerprint("one")),
        seen: Seen::Nothing,
    }
}

pub(super) fn settlement_of(claim: &Claim, settling: Settling) -> Settlement {
    Settlement {
        id: claim.id.clone(),
        owner: claim.owner,
        settling,
    }
}

/// A completion at `now` with nothing to record.
pub(super) fn completion(now: Timestamp) -> Settling {
    Settling::Complete {
        expiration: now + RETENTION,
        data: None,
    }
}

/// A recording at `now` of a claim that was never sent.
pub(super) fn recording(claim: &Claim) -> Settling {
    Settling::Record(Recording {
        now: claim.now,
        expiration: claim.expiration,
        fingerprint: claim.fingerprint.clone(),
        data: None,
    })
}

pub(super) fn fingerprint(body: &str) -> Fingerprint {
    Fingerprint::of_body(body)
}

/// An item as another program leaves it: without owner and fence.
pub(super) fn foreign_item(id: &ItemId, status: Status) -> Item {
    Item::new(id.clone(), status)
}
