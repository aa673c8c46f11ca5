//! Tests the suite itself: each mutant store breaks one promise, and the suite must detect it.

mod commits;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sqs_once::MemoryStore;
use sqs_once::conformance::{self, Fixture};
use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, Claimed, Fence, Item, Seen, Settled, Settlement, Settling, Status, Store, StoreFuture,
};
use sqs_once::time::Timestamp;

/// Each decision also gets the reference's decision.
type Admits = fn(&Claim, &Item, bool) -> bool;
type Claims = fn(&Claim, Option<&Item>, &mut Item);
type Kind = fn(&Settling) -> bool;
type Settles = fn(&Settlement, Option<&Item>, bool) -> bool;
/// Decides from the commit's time, whether the item is the commit's own, and the item.
type Commits = fn(Timestamp, bool, &Item, bool) -> bool;
type Leaves = fn(&Settlement, Option<&Item>, &mut Item);

const COMPLETE: Kind = |settling| matches!(settling, Settling::Complete { .. });
const RELEASE: Kind = |settling| matches!(settling, Settling::Release);
const RENEW: Kind = |settling| matches!(settling, Settling::Renew { .. });
const RECORD: Kind = |settling| matches!(settling, Settling::Record(_));
const COMMIT: Kind = |settling| matches!(settling, Settling::Commit(_));
const ANY: Kind = |_| true;

/// The lease of an item that is in progress.
fn lease(item: &Item) -> Option<Timestamp> {
    item.lease_until
        .filter(|_| item.status == Status::InProgress)
}

/// The reference store with one error.
#[derive(Default)]
struct Mutant {
    items: MemoryStore,
    /// Decides a claim instead of the reference.
    admits: Option<Admits>,
    /// Changes the item that a claim writes.
    claims: Option<Claims>,
    /// Decides settlements of a kind instead of the reference.
    settles: Option<(Kind, Settles)>,
    /// Decides a commit over an item instead of the reference.
    commits: Option<Commits>,
    /// Changes the item that a settlement of a kind writes.
    leaves: Option<(Kind, Leaves)>,
    /// Deletes the items of released claims.
    deletes: bool,
    /// Refuses settlements without returning the item.
    shows_nothing: bool,
    /// Returns answers in the wrong order.
    disorder: bool,
    /// Reads first and writes later, without a condition.
    racy: bool,
    /// Omits the answers for absent items.
    skips_absent: bool,
    /// Takes one key in two namespaces for one item.
    ignores_namespaces: bool,
}

/// The id of the same key in the first namespace of the suite.
fn first_namespaces(id: &ItemId) -> ItemId {
    ItemId::from_stored(id.as_str().replace("-2#", "#"))
}

impl Mutant {
    fn with(mutation: impl FnOnce(&mut Self)) -> Self {
        let mut mutant = Self::default();
        mutation(&mut mutant);
        mutant
    }

    fn get(&self, id: &ItemId) -> Option<Item> {
        let elsewhere = || self.items.get(&first_namespaces(id));
        let item = self.items.get(id);
        item.or_else(|| elsewhere().filter(|_| self.ignores_namespaces))
    }

    fn claim_one(&self, claim: &Claim, looked: Option<Item>) -> Claimed {
        let existing = looked.or_else(|| self.get(&claim.id).filter(|_| !self.racy));
        if let Some(item) = &existing {
            let reference = claim.admitted_by(Some(item));
            let mutated = |admits: Admits| admits(claim, item, reference);
            if !self.admits.map_or(reference, mutated) {
                return Claimed::Refused(Box::new(item.clone()));
            }
        }
        let mut item = claim.write(existing.as_ref());
        if let Some(claims) = self.claims {
            claims(claim, existing.as_ref(), &mut item);
        }
        let fence = item.fence.unwrap_or_default();
        self.items.put(item);
        Claimed::Written { fence }
    }

    fn settle_one(&self, settlement: &Settlement) -> Settled {
        let existing = self.get(&settlement.id);
        let reference = settlement.admitted_by(existing.as_ref());
        let is_admitted = match (&settlement.settling, self.settles, self.commits, &existing) {
            (settling, Some((kind, settles)), ..) if kind(settling) => {
                settles(settlement, existing.as_ref(), reference)
            }
            (Settling::Commit(recording), _, Some(commits), Some(item)) => {
                let is_own = item.owner == Some(settlement.owner);
                commits(recording.now, is_own, item, reference)
            }
            _ => reference,
        };
        if !is_admitted {
            let shown = existing.filter(|_| !self.shows_nothing);
            return Settled::Refused(shown.map(Box::new));
        }
        let mut item = settlement.write(existing.as_ref());
        if let Some((kind, leaves)) = self.leaves
            && kind(&settlement.settling)
        {
            leaves(settlement, existing.as_ref(), &mut item);
        }
        match self.deletes && settlement.settling == Settling::Release {
            true => self.items.remove(&settlement.id),
            false => self.items.put(item),
        }
        Settled::Written
    }

    fn ordered<T>(&self, mut answers: Vec<T>) -> Vec<T> {
        if self.disorder && answers.len() > 2 {
            answers.swap(0, 1);
        }
        answers
    }
}

impl Store for Mutant {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            let looked = claims.iter().map(|claim| self.get(&claim.id));
            let looked: Vec<_> = looked.collect();
            if self.racy {
                tokio::task::yield_now().await;
            }
            let claims = claims.iter().zip(looked);
            let answers = claims.map(|(claim, looked)| Ok(self.claim_one(claim, looked)));
            self.ordered(answers.collect())
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let answers = settlements.iter().map(|one| Ok(self.settle_one(one)));
            self.ordered(answers.collect())
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move {
            let answers = ids.iter().map(|id| Ok(self.get(id)));
            let answers =
                answers.filter(|answer| !self.skips_absent || !matches!(answer, Ok(None)));
            self.ordered(answers.collect())
        })
    }
}

impl Fixture for Mutant {
    fn store(&self) -> &dyn Store {
        self
    }

    async fn plant(&self, item: Item) {
        self.items.put(item);
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        self.items.get(id)
    }

    async fn delete(&self, id: &ItemId) {
        self.items.remove(id);
    }
}

async fn verdict(mutant: Mutant) -> Result<(), String> {
    let run = AssertUnwindSafe(conformance::run(&mutant)).catch_unwind();
    let run = run.await;
    run.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

async fn is_found_out(mutant: Mutant, promise: &str) {
    let broken = verdict(mutant).await.expect_err(promise);
    assert!(broken.starts_with("promise broken"), "{broken}");
    assert!(broken.contains(promise), "{broken}");
}

#[tokio::test]
async fn the_reference_itself_is_not_found_out() {
    assert_eq!(verdict(Mutant::default()).await, Ok(()));
}

const LEASE: &str = "up to the last millisecond of its lease";
const EXPIRATION: &str = "up to the last second of its expiration";

#[tokio::test]
async fn a_store_that_admits_the_wrong_claims_is_found_out() {
    const RELEASED: &str = "a late copy of a released claim";
    const RELEASED_BY_ANOTHER: &str =
        "a late copy of a released claim changes nothing once another has released";
    const UNFENCED: &str = "an item without a fence from one with a fence";
    const REPLACED: &str = "kept for its lease, and is then replaced";
    let mutants: [(&str, Admits); 14] = [
        (LEASE, |_, _, _| true),
        (LEASE, |claim, item, admitted| {
            lease(item).map_or(admitted, |at| at <= claim.now)
        }),
        // Stores leases in seconds.
        (LEASE, |claim, item, admitted| {
            let lapsed = lease(item).map(|at| at.as_secs() < claim.now.as_secs());
            lapsed.map_or(admitted, |lapsed| lapsed && item.owner != Some(claim.owner))
        }),
        (EXPIRATION, |claim, item, admitted| match item.status {
            Status::Completed => item.expiration.is_none_or(|at| at <= claim.now),
            _ => admitted,
        }),
        (EXPIRATION, |_, item, admitted| {
            item.status != Status::Completed && admitted
        }),
        (RELEASED, |claim, item, admitted| {
            lease(item).map_or(admitted, |at| at < claim.now)
        }),
        ("has seen no item", |claim, item, _| claim.finds_free(item)),
        (RELEASED_BY_ANOTHER, |claim, item, _| {
            claim.seen != Seen::Nothing && claim.finds_free(item)
        }),
        (LEASE, |claim, item, _| claim.seen == Seen::Item(item.fence)),
        (UNFENCED, |claim, item, admitted| {
            let unfenced = matches!(claim.seen, Seen::Item(None));
            (unfenced && claim.finds_free(item)) || admitted
        }),
        ("once its effect is completed", |claim, item, admitted| {
            item.status == Status::Completed && item.owner == Some(claim.owner) || admitted
        }),
        ("without an owner and a lease", |_, item, admitted| {
            item.status == Status::InProgress && item.lease_until.is_none() || admitted
        }),
        (REPLACED, |_, item, admitted| {
            item.owner.is_some() && admitted
        }),
        ("unknown status", |_, item, admitted| {
            matches!(item.status, Status::Unknown(_)) || admitted
        }),
    ];
    for (promise, admits) in mutants {
        let mutant = Mutant::with(|it| it.admits = Some(admits));
        is_found_out(mutant, promise).await;
    }
}

#[tokio::test]
async fn a_store_that_writes_claims_wrongly_is_found_out() {
    const AFRESH: &str = "starts afresh, with a larger fence";
    let mutants: [(&str, Claims); 9] = [
        ("passes to the next owner", |claim, _, item| {
            item.fence = Some(Fence::first(claim.now));
        }),
        ("a new key is claimed", |_, existing, item| {
            item.fence = Some(Fence::from_stored(existing.map_or(1, |_| 2)));
        }),
        ("passes to the next owner", |_, existing, item| {
            item.fence = existing.map_or(item.fence, |existing| existing.fence);
        }),
        (
            "is then replaced with the fence 1",
            |claim, existing, item| {
                if existing.is_some_and(|existing| existing.fence.is_none()) {
                    item.fence = Some(Fence::first(claim.now));
                }
            },
        ),
        (AFRESH, |_, existing, item| {
            item.fence = existing.map_or(item.fence, |it| it.fence.map(Fence::next));
        }),
        (AFRESH, |claim, existing, item| {
            if existing.is_some_and(|it| it.status == Status::Completed) {
                item.fence = Some(Fence::first(claim.now));
            }
        }),
        (AFRESH, |_, existing, item| {
            item.data = existing.and_then(|existing| existing.data.clone());
        }),
        ("or none if it has none", |claim, existing, item| {
            let left = existing.and_then(|existing| existing.fingerprint.clone());
            item.fingerprint = claim.fingerprint.clone().or(left);
        }),
        ("passes to the next owner", |claim, existing, item| {
            let own = Some(claim.expiration);
            item.expiration = existing.map_or(own, |existing| existing.expiration);
        }),
    ];
    for (promise, claims) in mutants {
        let mutant = Mutant::with(|it| it.claims = Some(claims));
        is_found_out(mutant, promise).await;
    }
}

async fn settling<const N: usize>(mutants: [(&str, Kind, Settles); N]) {
    for (promise, kind, settles) in mutants {
        let mutant = Mutant::with(|it| it.settles = Some((kind, settles)));
        is_found_out(mutant, promise).await;
    }
}

#[tokio::test]
async fn a_store_that_admits_the_wrong_settlements_is_found_out() {
    const AFTER_A_NEW_CLAIM: &str = "a completion that comes after a new claim";
    const COMPLETES_NOTHING: &str = "a completion of a key without an item";
    const RELEASES_NOTHING: &str = "a release of a key without an item";
    const OF_ANOTHER: &str = "a release that comes after a new claim";
    const OWN: &str = "a recording leaves its own fingerprint";
    settling([
        // Ignores owners: settles any existing item.
        (AFTER_A_NEW_CLAIM, ANY, |_, existing, _| existing.is_some()),
        (AFTER_A_NEW_CLAIM, COMPLETE, |_, _, _| true),
        (COMPLETES_NOTHING, COMPLETE, |_, item, admitted| {
            item.is_none() || admitted
        }),
        (OF_ANOTHER, RELEASE, |_, existing, _| {
            existing.is_some_and(|item| item.status == Status::InProgress)
        }),
        ("the claim's own completion", RELEASE, |one, existing, _| {
            existing.is_some_and(|item| item.owner == Some(one.owner))
        }),
        (RELEASES_NOTHING, RELEASE, |_, item, admitted| {
            item.is_none() || admitted
        }),
        // Decides as for the item's owner.
        ("only its owner renews", RENEW, |one, existing, _| {
            existing.is_some_and(|item| {
                let owner = item.owner.unwrap_or(one.owner);
                let theirs = Settlement::new(one.id.clone(), owner, one.settling.clone());
                theirs.admitted_by(Some(item))
            })
        }),
        ("does not shorten the lease", RENEW, |one, existing, _| {
            let mine = existing.filter(|item| item.owner == Some(one.owner));
            mine.is_some_and(|item| lease(item) > Some(Timestamp::default()))
        }),
        (
            "bring a released claim back",
            RENEW,
            |one, existing, admitted| {
                let mine = existing.filter(|item| item.owner == Some(one.owner));
                mine.is_some_and(|item| lease(item) == Some(Timestamp::default())) || admitted
            },
        ),
        (
            "after the claim's completion",
            RENEW,
            |one, existing, admitted| {
                let mine = existing.filter(|item| item.owner == Some(one.owner));
                mine.is_some_and(|item| item.status == Status::Completed) || admitted
            },
        ),
        (
            "a renewal of a key without an item",
            RENEW,
            |_, item, admitted| item.is_none() || admitted,
        ),
        // Decides as for a renewal that keeps the fence.
        ("does not lower a later one", RENEW, |one, existing, _| {
            let Settling::Renew { lease_until, .. } = one.settling else {
                return false;
            };
            let renewal = Settling::renew(lease_until);
            Settlement::new(one.id.clone(), one.owner, renewal).admitted_by(existing)
        }),
        // Carries over only a fence that is larger than the claim's.
        (
            "carries another fence over",
            RENEW,
            |one, existing, admitted| {
                let fence = existing.and_then(|item| item.fence);
                let lowers = matches!(one.settling, Settling::Renew { fence: Some(carried), .. }
                if Some(carried.follows) < fence);
                admitted && !lowers
            },
        ),
        ("a recording that is sent again", RECORD, |_, _, _| true),
        (OWN, RECORD, |_, existing, _| existing.is_none()),
        ("unknown status", ANY, |_, existing, admitted| {
            existing.is_some_and(|item| matches!(item.status, Status::Unknown(_))) || admitted
        }),
    ])
    .await;
    let blind = Mutant::with(|it| it.shows_nothing = true);
    is_found_out(blind, "is refused by the new owner's item").await;
}

async fn leaving<const N: usize>(mutants: [(&str, Kind, Leaves); N]) {
    for (promise, kind, leaves) in mutants {
        let mutant = Mutant::with(|it| it.leaves = Some((kind, leaves)));
        is_found_out(mutant, promise).await;
    }
}

#[tokio::test]
async fn a_store_that_writes_settlements_wrongly_is_found_out() {
    const OWN_FINGERPRINT: &str = "a recording leaves its own fingerprint";
    const OWN_DATA: &str = "a recording leaves its own data";
    leaving([
        (
            "up to the end of its longer lease",
            RENEW,
            |_, existing, item| {
                item.lease_until = existing.unwrap().lease_until;
            },
        ),
        ("carries another fence over", RENEW, |_, existing, item| {
            item.fence = existing.unwrap().fence;
        }),
        ("larger fence", RELEASE, |_, existing, item| {
            *item = existing.unwrap().clone()
        }),
        (EXPIRATION, ANY, |_, _, item| item.data = None),
        ("expires within a second", COMPLETE, |one, _, item| {
            if let Settling::Complete { expiration, .. } = &one.settling {
                item.expiration = Some(Timestamp::from_secs(expiration.as_secs()));
            }
        }),
        (OWN_FINGERPRINT, RECORD, |_, existing, item| {
            item.fence = existing.map_or(item.fence, |existing| existing.fence);
        }),
        (OWN_DATA, RECORD, |_, existing, item| {
            let left = existing.and_then(|existing| existing.data.clone());
            item.data = left.or(item.data.take());
        }),
    ])
    .await;
    let deleting = Mutant::with(|it| it.deletes = true);
    is_found_out(deleting, "larger fence").await;
}

#[tokio::test]
async fn a_store_that_answers_out_of_order_or_looks_first_and_writes_later_is_found_out() {
    let disorder = Mutant::with(|it| it.disorder = true);
    is_found_out(disorder, "in their order").await;
    let skips = Mutant::with(|it| it.skips_absent = true);
    is_found_out(skips, "a slice of one has one answer").await;
    let racy = Mutant::with(|it| it.racy = true);
    is_found_out(racy, "exactly one is granted").await;
}

#[tokio::test]
async fn a_store_that_takes_one_key_in_two_namespaces_for_one_item_is_found_out() {
    let mutant = Mutant::with(|it| it.ignores_namespaces = true);
    is_found_out(mutant, "only for the key of its namespace").await;
}
