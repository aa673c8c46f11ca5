//! Cases, each with a new key and the answers that the store must give for it.

use std::fmt::Debug;
use std::time::Duration;

use crate::idempotency::{Admission, Completion, Refusal, on_claimed, on_completed};
use crate::key::{Fingerprint, ItemId};
use crate::random::{OsRandom, Random};
use crate::store::{
    Answers, Claim, Claimed, Committed, Fence, Item, Owner, Recording, Seen, Settled, Settlement,
    Settling, Status, StoreError, Writes,
};
use crate::time::Timestamp;

use super::Fixture;

/// The time of the cases: the first millisecond of the year 2100.
pub(super) const NOW: Timestamp = Timestamp::from_secs(4_102_444_800);
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const LEASE: Duration = Duration::from_secs(63);
pub(super) const RETENTION: Duration = Duration::from_secs(28 * 24 * 3600);

/// How entries are sent. A store may send a single entry in another way than several.
#[derive(Clone, Copy, Debug)]
pub(super) enum Grouping {
    /// A slice of one.
    Alone,
    /// A slice of two: first an entry for another key, then the entry of the case.
    Grouped,
    /// A slice of one, and each commit in a transaction without other writes.
    InTransaction,
    /// The same, between two commits of new keys.
    InSharedTransaction,
}

pub(super) struct Suite<'a, F> {
    pub(super) fixture: &'a F,
    pub(super) grouping: Grouping,
}

impl<F> Suite<'_, F> {
    pub(super) fn case(&self, promise: &'static str) -> Case<'_, F> {
        Case {
            suite: self,
            promise,
            id: new_id(),
        }
    }
}

pub(super) struct Case<'a, F> {
    suite: &'a Suite<'a, F>,
    promise: &'static str,
    pub(super) id: ItemId,
}

impl<F: Fixture> Case<'_, F> {
    pub(super) fn claim(&self, now: Timestamp) -> Claim {
        claim_of(self.id.clone(), now)
    }

    pub(super) fn claim_without_fingerprint(&self, now: Timestamp) -> Claim {
        let mut claim = self.claim(now);
        claim.fingerprint = None;
        claim
    }

    pub(super) fn claim_of_another_message(&self, now: Timestamp) -> Claim {
        let mut claim = self.claim(now);
        claim.fingerprint = Some(fingerprint("another"));
        claim
    }

    /// Creates an item as another program writes it: without owner and fence.
    pub(super) fn foreign_item(
        &self,
        status: Status,
        lease_until: Option<Timestamp>,
        expiration: Option<Timestamp>,
    ) -> Item {
        let mut item = Item::new(self.id.clone(), status);
        item.lease_until = lease_until;
        item.expiration = expiration;
        item
    }

    /// Sends a claim by a new owner, which must be granted.
    pub(super) async fn granted(&self, now: Timestamp) -> Claim {
        let claim = self.claim(now);
        self.runs(&claim).await;
        claim
    }

    pub(super) async fn fence(&self) -> Option<Fence> {
        self.item().await?.fence
    }

    pub(super) async fn plant(&self, item: Item) {
        self.suite.fixture.plant(item).await;
    }

    pub(super) async fn delete(&self) {
        self.suite.fixture.delete(&self.id).await;
    }

    /// Returns the current item, which must equal the item that the store reads.
    pub(super) async fn item(&self) -> Option<Item> {
        let (fixture, id) = (self.suite.fixture, &self.id);
        let peeked = fixture.peek(id).await;
        let mut read = fixture.store().read(std::slice::from_ref(id)).await;
        let read = read.pop().filter(|_| read.is_empty());
        let Some(read) = read else {
            self.broken("a slice of one has one answer", &read)
        };
        let read = self.answered(read);
        self.same("a read returns the current item", &read, &peeked);
        peeked
    }

    /// Sends a claim, which must be granted, and returns its fence.
    pub(super) async fn runs(&self, claim: &Claim) -> Fence {
        let claimed = self.send(claim).await;
        match on_claimed(claim, &claimed) {
            Admission::Run { .. } => {
                let item = self.item().await;
                let kept = item.as_ref().and_then(|item| item.fence);
                let fence = match claimed {
                    Claimed::Written { fence } => Some(fence),
                    Claimed::Refused(item) => item.fence,
                };
                self.same("the claim's fence is the item's", &fence, &kept);
                let owner = item.and_then(|item| item.owner);
                self.same("the claim owns the item", &owner, &Some(claim.owner));
                fence.unwrap_or_default()
            }
            Admission::Refused(refusal) => self.broken("a claim is refused", &refusal),
        }
    }

    /// Sends a claim that has seen the item. The store must refuse it, return the item, and change nothing.
    pub(super) async fn is_refused(&self, claim: &Claim) -> Refusal {
        self.is_not_written(&self.over(claim).await).await;
        self.is_not_written(claim).await
    }

    /// Returns a claim that has seen the item.
    pub(super) async fn over(&self, claim: &Claim) -> Claim {
        let mut over = claim.clone();
        let item = self.item().await;
        over.seen = item.as_ref().map_or(Seen::Nothing, Seen::of);
        over
    }

    /// Sends exactly this claim. The store must refuse it, return the item, and change nothing. The item may be free
    /// for other claims.
    pub(super) async fn is_not_written(&self, claim: &Claim) -> Refusal {
        let before = self.item().await;
        let claimed = self.send_once(claim).await;
        self.is_unchanged("a refused claim changes nothing", &before)
            .await;
        let Admission::Refused(refusal) = on_claimed(claim, &claimed) else {
            self.broken("a claim is granted", &claimed)
        };
        if let Claimed::Refused(shown) = claimed {
            self.same("a refusal returns the item", &Some(*shown), &before);
        }
        refusal
    }

    /// Sends a claim, which must be refused because another worker owns the key.
    pub(super) async fn is_in_progress(&self, claim: &Claim) {
        let refusal = self.is_refused(claim).await;
        let lease_until = self.item().await.and_then(|item| item.lease_until);
        let expected = Refusal::InProgress { lease_until };
        self.same("in progress", &refusal, &expected);
    }

    /// Sends a claim, which must be refused as a duplicate of an effect that recorded `data`.
    pub(super) async fn is_duplicate(&self, claim: &Claim, data: Option<&str>) {
        let refusal = self.is_refused(claim).await;
        self.same("a duplicate", &refusal, &duplicate(data));
    }

    /// Sends a settlement, which must be written and leave the item of the reference.
    pub(super) async fn settles(&self, claim: &Claim, settling: Settling) {
        let before = self.item().await;
        let settlement = settlement_of(claim, settling);
        let settled = self.settle(&settlement).await;
        self.same("a settlement is written", &settled, &Settled::Written);
        let expected = Some(settlement.write(before.as_ref()));
        self.same("the item afterwards", &self.item().await, &expected);
    }

    /// Sends a settlement, which must be refused with the existing item and change nothing.
    pub(super) async fn does_not_settle(&self, claim: &Claim, settling: Settling) -> Completion {
        let before = self.item().await;
        let settlement = settlement_of(claim, settling);
        let settled = self.settle(&settlement).await;
        self.is_unchanged("a refused settlement changes nothing", &before)
            .await;
        let expected = Settled::Refused(before.map(Box::new));
        self.same("a refusal returns the item", &settled, &expected);
        on_completed(&settlement, &settled)
    }

    /// Sends a copy of a settlement that was written before. It must change nothing, and still count as recorded.
    pub(super) async fn settles_again(&self, claim: &Claim, settling: Settling) {
        let before = self.item().await;
        let settlement = settlement_of(claim, settling);
        let settled = self.settle(&settlement).await;
        self.is_unchanged("a settlement sent twice changes nothing", &before)
            .await;
        let completion = on_completed(&settlement, &settled);
        self.same("it is still recorded", &completion, &Completion::Recorded);
    }

    async fn is_unchanged(&self, what: &str, before: &Option<Item>) {
        self.same(what, &self.item().await, before);
    }

    pub(super) fn same<T: Debug + PartialEq>(&self, what: &str, found: &T, expected: &T) {
        if found != expected {
            self.broken(
                what,
                &format_args!("\n found:    {found:?}\n expected: {expected:?}"),
            );
        }
    }

    /// Sends a claim, which must replace the existing item with the item of the reference and a larger fence.
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

    pub(super) async fn has_grown(&self, earlier: Fence) {
        self.grows(earlier, self.fence().await.unwrap_or_default());
    }

    /// Sends a claim, and again over the item that refused it, as consumers do.
    pub(super) async fn send(&self, claim: &Claim) -> Claimed {
        let claims = self.grouped(claim, || claim_of(new_id(), claim.now));
        self.last(super::claim(self.suite.fixture.store(), &claims).await)
    }

    async fn send_once(&self, claim: &Claim) -> Claimed {
        let claims = self.grouped(claim, || claim_of(new_id(), claim.now));
        self.last(self.suite.fixture.store().claim(&claims).await)
    }

    fn grouped<E: Clone>(&self, entry: &E, company: impl FnOnce() -> E) -> Vec<E> {
        match self.suite.grouping {
            Grouping::Alone | Grouping::InTransaction | Grouping::InSharedTransaction => {
                vec![entry.clone()]
            }
            Grouping::Grouped => vec![company(), entry.clone()],
        }
    }

    async fn settle(&self, settlement: &Settlement) -> Settled {
        let store = self.suite.fixture.store();
        if let (Settling::Commit(_), Some(atomic)) = (&settlement.settling, store.atomic_writes()) {
            let writes = Writes::new();
            match self.suite.grouping {
                Grouping::Alone | Grouping::Grouped => {}
                Grouping::InTransaction => {
                    let committed = atomic.commit(settlement, &writes).await;
                    return self.committed(committed);
                }
                Grouping::InSharedTransaction => {
                    let [before, after] = [(); 2].map(|()| claim_of(new_id(), NOW));
                    let [before, after] = [before, after].map(|claim| {
                        settlement_of(&claim, Settling::Commit(recording_of(&claim, None)))
                    });
                    let commits = [&before, settlement, &after].map(|one| (one, &writes));
                    let answers = atomic.commit_all(&commits).await.into_iter();
                    let answers: Vec<_> = answers.map(|answer| self.committed(answer)).collect();
                    let [first, answer, last] = answers.try_into().unwrap_or_else(|answers| {
                        self.broken("a slice of three has three answers", &answers)
                    });
                    let others = [first, last];
                    let written = [Settled::Written, Settled::Written];
                    self.same("the others commit", &others, &written);
                    return answer;
                }
            }
        }
        let company = || settlement_of(&claim_of(new_id(), NOW), Settling::Release);
        let settlements = self.grouped(settlement, company);
        self.last(store.settle(&settlements).await)
    }

    fn committed(&self, answer: Result<Committed, StoreError>) -> Settled {
        match self.answered(answer) {
            Committed::Written => Settled::Written,
            Committed::Refused(item) => Settled::Refused(Some(item)),
            Committed::Conflict(conflict) => {
                self.broken("a commit without writes conflicts", &conflict)
            }
        }
    }

    /// Returns the answer to the last entry of a slice. Every entry must have one.
    fn last<T: Debug>(&self, answers: Answers<T>) -> T {
        let (sent, promise) = match self.suite.grouping {
            Grouping::Alone | Grouping::InTransaction | Grouping::InSharedTransaction => {
                (1, "a slice of one has one answer")
            }
            Grouping::Grouped => (2, "a slice of two has two answers"),
        };
        if answers.len() != sent {
            self.broken(promise, &answers);
        }
        let answered = answers.into_iter().map(|answer| self.answered(answer));
        answered.last().expect("a slice has an entry")
    }

    fn answered<T>(&self, answer: Result<T, StoreError>) -> T {
        answer.unwrap_or_else(|error| self.broken("the store does not answer", &error))
    }

    pub(super) fn broken(&self, what: &str, found: &dyn Debug) -> ! {
        panic!(
            "promise broken: {} ({what}, entries sent {:?}): {found:?}",
            self.promise, self.suite.grouping
        )
    }
}

/// The refusal by a completion whose payload could be compared.
pub(super) fn duplicate(data: Option<&str>) -> Refusal {
    Refusal::Duplicate {
        data: data.map(Into::into),
        is_compared: true,
    }
}

pub(super) fn new_id() -> ItemId {
    ItemId::from_stored(format!("conformance#{:064x}", OsRandom.bits()))
}

/// Returns the id of the same key in a second namespace.
pub(super) fn in_another_namespace(id: &ItemId) -> ItemId {
    ItemId::from_stored(id.as_str().replace('#', "-2#"))
}

pub(super) fn claim_by_another(claim: Claim) -> Claim {
    Claim {
        owner: new_owner(),
        ..claim
    }
}

fn new_owner() -> Owner {
    Owner::from_bits(OsRandom.bits())
}

pub(super) fn claim_of(id: ItemId, now: Timestamp) -> Claim {
    let mut claim = Claim::new(id, new_owner(), now, now + LEASE, now + RETENTION);
    claim.fingerprint = Some(fingerprint("one"));
    claim
}

pub(super) fn settlement_of(claim: &Claim, settling: Settling) -> Settlement {
    Settlement::new(claim.id.clone(), claim.owner, settling)
}

pub(super) fn completion(now: Timestamp) -> Settling {
    Settling::complete(now + RETENTION, None)
}

/// Creates a recording for a claim that was never sent.
pub(super) fn recording(claim: &Claim) -> Settling {
    Settling::Record(recording_of(claim, None))
}

pub(super) fn recording_of(claim: &Claim, data: Option<&str>) -> Recording {
    Recording {
        now: claim.now,
        expiration: claim.expiration,
        fingerprint: claim.fingerprint.clone(),
        data: data.map(Into::into),
    }
}

pub(super) fn fingerprint(body: &str) -> Fingerprint {
    Fingerprint::from_body(body)
}
