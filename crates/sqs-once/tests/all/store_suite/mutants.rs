//! Tests the suite itself: each mutant store breaks one promise, and the suite must detect it.

mod commits;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;

use futures_util::FutureExt;
use sqs_once::conformance::{self, Fixture};
use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, Claimed, Fence, Item, Seen, Settled, Settlement, Settling, Status, Store, StoreFuture,
};
use sqs_once::time::Timestamp;

type Items = HashMap<ItemId, Item>;
type Admits = fn(&Claim, &Item) -> bool;
type Claims = fn(&Claim, Option<&Item>, &mut Item);
type Settles = fn(&Settlement, Option<&Item>) -> bool;
type Leaves = fn(&Settlement, Option<&Item>, Item) -> Option<Item>;

/// The reference store with one error.
#[derive(Default)]
struct Mutant {
    items: Mutex<Items>,
    /// Decides a claim instead of the reference. `None` leaves the decision to the reference.
    admits: Option<Admits>,
    /// Changes the item that a claim writes.
    claims: Option<Claims>,
    /// Decides a settlement instead of the reference.
    settles: Option<Settles>,
    /// Changes the item that a settlement writes. `None` deletes the item.
    leaves: Option<Leaves>,
    /// Refuses settlements without returning the item.
    shows_nothing: bool,
    /// Returns answers in the wrong order.
    disorder: bool,
    /// Reads first and writes later, without a condition.
    racy: bool,
    /// Omits the answers for absent items.
    skips_absent: bool,
}

impl Mutant {
    fn claim_one(&self, claim: &Claim, looked: Option<Item>) -> Claimed {
        let mut items = self.items.lock().unwrap();
        let existing = looked.or_else(|| items.get(&claim.id).cloned().filter(|_| !self.racy));
        if let Some(item) = &existing {
            let admitted = self.admits.map_or_else(
                || claim.admitted_by(Some(item)),
                |admits| admits(claim, item),
            );
            if !admitted {
                return Claimed::Refused(Box::new(item.clone()));
            }
        }
        let mut item = claim.write(existing.as_ref());
        if let Some(claims) = self.claims {
            claims(claim, existing.as_ref(), &mut item);
        }
        let fence = item.fence.unwrap_or_default();
        items.insert(item.id.clone(), item);
        Claimed::Written { fence }
    }

    fn settle_one(&self, settlement: &Settlement) -> Settled {
        let mut items = self.items.lock().unwrap();
        let existing = items.get(&settlement.id).cloned();
        let admitted = self.settles.map_or_else(
            || settlement.admitted_by(existing.as_ref()),
            |settles| settles(settlement, existing.as_ref()),
        );
        if !admitted {
            let shown = existing.filter(|_| !self.shows_nothing);
            return Settled::Refused(shown.map(Box::new));
        }
        let item = settlement.write(existing.as_ref());
        let left = match self.leaves {
            Some(leaves) => leaves(settlement, existing.as_ref(), item),
            None => Some(item),
        };
        match left {
            Some(item) => items.insert(item.id.clone(), item),
            None => items.remove(&settlement.id),
        };
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
            let looked: Vec<_> = claims
                .iter()
                .map(|claim| self.items.lock().unwrap().get(&claim.id).cloned())
                .collect();
            if self.racy {
                tokio::task::yield_now().await;
            }
            let answers = claims.iter().zip(looked);
            self.ordered(
                answers
                    .map(|(claim, looked)| Ok(self.claim_one(claim, looked)))
                    .collect(),
            )
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let answers = settlements
                .iter()
                .map(|settlement| Ok(self.settle_one(settlement)));
            self.ordered(answers.collect())
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move {
            let items = self.items.lock().unwrap();
            let answers = ids.iter().map(|id| Ok(items.get(id).cloned()));
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
        self.items.lock().unwrap().insert(item.id.clone(), item);
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        self.items.lock().unwrap().get(id).cloned()
    }

    async fn delete(&self, id: &ItemId) {
        self.items.lock().unwrap().remove(id);
    }
}

async fn verdict(mutant: Mutant) -> Result<(), String> {
    let run = AssertUnwindSafe(conformance::run(&mutant))
        .catch_unwind()
        .await;
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

async fn admitting(admits: Admits, promise: &str) {
    let mutant = Mutant {
        admits: Some(admits),
        ..Mutant::default()
    };
    is_found_out(mutant, promise).await;
}

async fn claiming(claims: Claims, promise: &str) {
    let mutant = Mutant {
        claims: Some(claims),
        ..Mutant::default()
    };
    is_found_out(mutant, promise).await;
}

async fn settling(settles: Settles, promise: &str) {
    let mutant = Mutant {
        settles: Some(settles),
        ..Mutant::default()
    };
    is_found_out(mutant, promise).await;
}

async fn leaving(leaves: Leaves, promise: &str) {
    let mutant = Mutant {
        leaves: Some(leaves),
        ..Mutant::default()
    };
    is_found_out(mutant, promise).await;
}

#[tokio::test]
async fn a_store_that_admits_the_wrong_claims_is_found_out() {
    admitting(|_, _| true, "up to the last millisecond of its lease").await;
    admitting(
        |claim, item| match item.lease_until {
            Some(lease) if item.status == Status::InProgress => lease <= claim.now,
            _ => claim.admitted_by(Some(item)),
        },
        "up to the last millisecond of its lease",
    )
    .await;
    // Stores leases in seconds.
    admitting(
        |claim, item| match item.lease_until {
            Some(lease) if item.status == Status::InProgress => {
                lease.as_secs() < claim.now.as_secs() && item.owner != Some(claim.owner)
            }
            _ => claim.admitted_by(Some(item)),
        },
        "up to the last millisecond of its lease",
    )
    .await;
    admitting(
        |claim, item| match item.status {
            Status::Completed => item.expiration.is_none_or(|at| at <= claim.now),
            _ => claim.admitted_by(Some(item)),
        },
        "up to the last second of its expiration",
    )
    .await;
    admitting(
        |claim, item| item.status != Status::Completed && claim.admitted_by(Some(item)),
        "up to the last second of its expiration",
    )
    .await;
    admitting(
        |claim, item| match item.lease_until {
            Some(lease) if item.status == Status::InProgress => lease < claim.now,
            _ => claim.admitted_by(Some(item)),
        },
        "a late copy of a released claim",
    )
    .await;
    admitting(|claim, item| claim.finds_free(item), "has seen no item").await;
    admitting(
        |claim, item| claim.seen != Seen::Nothing && claim.finds_free(item),
        "a late copy of a released claim changes nothing once another has released",
    )
    .await;
    admitting(
        |claim, item| claim.seen == Seen::Item(item.fence),
        "up to the last millisecond of its lease",
    )
    .await;
    admitting(
        |claim, item| {
            let unfenced = matches!(claim.seen, Seen::Item(None));
            (unfenced && claim.finds_free(item)) || claim.admitted_by(Some(item))
        },
        "an item without a fence from one with a fence",
    )
    .await;
    admitting(
        |claim, item| {
            let own = item.status == Status::Completed && item.owner == Some(claim.owner);
            own || claim.admitted_by(Some(item))
        },
        "once its effect is completed",
    )
    .await;
    admitting(
        |claim, item| {
            let leaseless = item.status == Status::InProgress && item.lease_until.is_none();
            leaseless || claim.admitted_by(Some(item))
        },
        "without an owner and a lease",
    )
    .await;
    admitting(
        |claim, item| item.owner.is_some() && claim.admitted_by(Some(item)),
        "kept for its lease, and passes on",
    )
    .await;
    admitting(
        |claim, item| matches!(item.status, Status::Unknown(_)) || claim.admitted_by(Some(item)),
        "unknown status",
    )
    .await;
}

#[tokio::test]
async fn a_store_that_writes_claims_wrongly_is_found_out() {
    claiming(
        |claim, _, item| item.fence = Some(Fence::first(claim.now)),
        "passes to the next owner",
    )
    .await;
    claiming(
        |_, existing, item| {
            item.fence = Some(existing.map_or(Fence::from_stored(1), |_| Fence::from_stored(2)))
        },
        "a new key is claimed",
    )
    .await;
    claiming(
        |_, existing, item| item.fence = existing.map_or(item.fence, |existing| existing.fence),
        "passes to the next owner",
    )
    .await;
    claiming(
        |_, existing, item| item.data = existing.and_then(|existing| existing.data.clone()),
        "starts afresh, except for its fence",
    )
    .await;
    claiming(
        |claim, existing, item| {
            let left = existing.and_then(|existing| existing.fingerprint.clone());
            item.fingerprint = claim.fingerprint.clone().or(left);
        },
        "none where it has none",
    )
    .await;
    claiming(
        |claim, existing, item| {
            item.expiration =
                existing.map_or(Some(claim.expiration), |existing| existing.expiration);
        },
        "passes to the next owner",
    )
    .await;
}

#[tokio::test]
async fn a_store_that_admits_the_wrong_settlements_is_found_out() {
    // Ignores owners: settles any existing item.
    settling(
        |_, existing| existing.is_some(),
        "a completion that comes after a new claim",
    )
    .await;
    settling(
        |settlement, existing| match settlement.settling {
            Settling::Complete { .. } => true,
            _ => settlement.admitted_by(existing),
        },
        "a completion that comes after a new claim",
    )
    .await;
    settling(
        |settlement, existing| match settlement.settling {
            Settling::Complete { .. } => existing.is_none() || settlement.admitted_by(existing),
            _ => settlement.admitted_by(existing),
        },
        "a completion of a key without an item",
    )
    .await;
    settling(
        |settlement, existing| match settlement.settling {
            Settling::Release => existing.is_some_and(|item| item.status == Status::InProgress),
            _ => settlement.admitted_by(existing),
        },
        "a release that comes after a new claim",
    )
    .await;
    settling(
        |settlement, existing| match settlement.settling {
            Settling::Release => existing.is_some_and(|item| item.owner == Some(settlement.owner)),
            _ => settlement.admitted_by(existing),
        },
        "the claim's own completion",
    )
    .await;
    settling(
        |settlement, existing| match settlement.settling {
            Settling::Release => existing.is_none() || settlement.admitted_by(existing),
            _ => settlement.admitted_by(existing),
        },
        "a release of a key without an item",
    )
    .await;
    settling(
        |settlement, existing| match settlement.settling {
            Settling::Record(_) => true,
            _ => settlement.admitted_by(existing),
        },
        "a recording that is sent again",
    )
    .await;
    settling(
        |settlement, existing| match settlement.settling {
            Settling::Record(_) => existing.is_none(),
            _ => settlement.admitted_by(existing),
        },
        "a recording leaves its own fingerprint",
    )
    .await;
    settling(
        |settlement, existing| {
            let unknown = existing.is_some_and(|item| matches!(item.status, Status::Unknown(_)));
            unknown || settlement.admitted_by(existing)
        },
        "unknown status",
    )
    .await;
    let blind = Mutant {
        shows_nothing: true,
        ..Mutant::default()
    };
    is_found_out(blind, "is refused by the new owner's item").await;
}

#[tokio::test]
async fn a_store_that_writes_settlements_wrongly_is_found_out() {
    leaving(
        |settlement, _, item| (settlement.settling != Settling::Release).then_some(item),
        "larger fence",
    )
    .await;
    leaving(
        |settlement, existing, item| match settlement.settling {
            Settling::Release => existing.cloned(),
            _ => Some(item),
        },
        "larger fence",
    )
    .await;
    leaving(
        |_, _, item| {
            Some({
                let mut item = item;
                item.data = None;
                item
            })
        },
        "up to the last second of its expiration",
    )
    .await;
    leaving(
        |settlement, _, item| {
            let expiration = match &settlement.settling {
                Settling::Complete { expiration, .. } => {
                    Some(Timestamp::from_secs(expiration.as_secs()))
                }
                _ => item.expiration,
            };
            Some({
                let mut item = item;
                item.expiration = expiration;
                item
            })
        },
        "expires within a second",
    )
    .await;
    leaving(
        |settlement, existing, item| match settlement.settling {
            Settling::Record(_) => Some({
                let mut item = item;
                item.fence = existing.map_or(item.fence, |existing| existing.fence);
                item
            }),
            _ => Some(item),
        },
        "a recording leaves its own fingerprint",
    )
    .await;
    leaving(
        |settlement, existing, item| match settlement.settling {
            Settling::Record(_) => Some({
                let mut item = item;
                item.data = existing
                    .and_then(|existing| existing.data.clone())
                    .or(item.data);
                item
            }),
            _ => Some(item),
        },
        "a recording leaves its own data",
    )
    .await;
}

#[tokio::test]
async fn a_store_that_answers_out_of_order_is_found_out() {
    let disorder = Mutant {
        disorder: true,
        ..Mutant::default()
    };
    is_found_out(disorder, "in their order").await;
    let skips = Mutant {
        skips_absent: true,
        ..Mutant::default()
    };
    is_found_out(skips, "a slice of one has one answer").await;
}

#[tokio::test]
async fn a_store_that_looks_first_and_writes_later_is_found_out() {
    let racy = Mutant {
        racy: true,
        ..Mutant::default()
    };
    is_found_out(racy, "exactly one is granted").await;
}
