//! Tests the suite itself: each mutant store breaks one promise, and the suite must detect it.

mod list;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sqs_once::conformance;
use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, Claimed, Item, MemoryStore, Settled, Settlement, Settling, Status, Store, StoreFuture,
    Timestamp,
};

use crate::store_suite::support::InMemory;

type Kind = fn(&Settling) -> bool;

/// The one error of a store. Each decision also gets that of the protocol.
#[derive(Clone, Copy)]
enum Error {
    None,
    /// Decides whether a claim replaces an item.
    Admits(fn(&Claim, &Item, bool) -> bool),
    /// Changes the item that a claim writes.
    Claims(fn(&Claim, Option<&Item>, &mut Item)),
    /// Decides whether a settlement of a kind is written.
    Settles(Kind, fn(&Settlement, Option<&Item>, bool) -> bool),
    /// The same, for an item with the settlement's owner.
    SettlesOwn(Kind, fn(&Settlement, &Item, bool) -> bool),
    /// Decides on a commit over an item, from its time and whether the item is its own.
    Commits(fn(Timestamp, bool, &Item, bool) -> bool),
    /// Changes the item that a settlement of a kind writes.
    Leaves(Kind, fn(&Settlement, Option<&Item>, &mut Item)),
    /// Deletes the items of released claims.
    Deletes,
    /// Refuses settlements without returning the item.
    ShowsNothing,
    Disorder,
    /// Reads first and writes later, without a condition.
    Races,
    SkipsAbsent,
    /// Takes one key in two namespaces for one item.
    IgnoresNamespaces,
}

/// The lease of an item that is in progress.
fn lease(item: &Item) -> Option<Timestamp> {
    item.lease_until
        .filter(|_| item.status == Status::InProgress)
}

struct Mutant {
    items: MemoryStore,
    error: Error,
}

impl Mutant {
    fn get(&self, id: &ItemId) -> Option<Item> {
        let item = self.items.get(id);
        let elsewhere = || match self.error {
            Error::IgnoresNamespaces => {
                let id = id.as_str().replace("-2#", "#");
                self.items.get(&ItemId::from_stored(id))
            }
            _ => None,
        };
        item.or_else(elsewhere)
    }

    fn claim_one(&self, claim: &Claim, looked: Option<Item>) -> Claimed {
        let races = matches!(self.error, Error::Races);
        let existing = looked.or_else(|| self.get(&claim.id).filter(|_| !races));
        if let Some(item) = &existing {
            let protocol = claim.admitted_by(Some(item));
            let is_admitted = match self.error {
                Error::Admits(admits) => admits(claim, item, protocol),
                _ => protocol,
            };
            if !is_admitted {
                return Claimed::Refused(Box::new(item.clone()));
            }
        }
        let mut item = claim.write(existing.as_ref());
        if let Error::Claims(claims) = self.error {
            claims(claim, existing.as_ref(), &mut item);
        }
        let fence = item.fence.unwrap_or_default();
        self.items.put(item);
        Claimed::Written { fence }
    }

    fn settle_one(&self, settlement: &Settlement) -> Settled {
        let (existing, settling) = (self.get(&settlement.id), &settlement.settling);
        let protocol = settlement.admitted_by(existing.as_ref());
        let is_admitted = match (self.error, settling, &existing) {
            (Error::Settles(kind, settles), settling, _) if kind(settling) => {
                settles(settlement, existing.as_ref(), protocol)
            }
            (Error::SettlesOwn(kind, settles), settling, Some(item))
                if kind(settling) && item.owner == Some(settlement.owner) =>
            {
                settles(settlement, item, protocol)
            }
            (Error::Commits(commits), Settling::Commit(recording), Some(item)) => {
                let is_own = item.owner == Some(settlement.owner);
                commits(recording.now, is_own, item, protocol)
            }
            _ => protocol,
        };
        if !is_admitted {
            let shown = existing.filter(|_| !matches!(self.error, Error::ShowsNothing));
            return Settled::Refused(shown.map(Box::new));
        }
        let mut item = settlement.write(existing.as_ref());
        match self.error {
            Error::Leaves(kind, leaves) if kind(settling) => {
                leaves(settlement, existing.as_ref(), &mut item);
                self.items.put(item);
            }
            Error::Deletes if *settling == Settling::Release => self.items.remove(&settlement.id),
            _ => self.items.put(item),
        }
        Settled::Written
    }

    fn ordered<T>(&self, mut answers: Vec<T>) -> Vec<T> {
        if matches!(self.error, Error::Disorder) && answers.len() > 3 {
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
            if matches!(self.error, Error::Races) {
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
            let skips = matches!(self.error, Error::SkipsAbsent);
            let items = ids.iter().map(|id| self.get(id));
            let answers = items.filter(|item| !skips || item.is_some()).map(Ok);
            self.ordered(answers.collect())
        })
    }
}

fn mutant(error: Error) -> InMemory<Mutant> {
    InMemory::new(|items| Mutant { items, error })
}

async fn verdict(error: Error) -> Result<(), String> {
    let mutant = mutant(error);
    let run = AssertUnwindSafe(conformance::run(&mutant)).catch_unwind();
    let run = run.await;
    run.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[tokio::test]
async fn the_protocol_itself_is_not_found_out() {
    assert_eq!(verdict(Error::None).await, Ok(()));
}

/// The suite names the promise that each store breaks.
async fn are_found_out<const N: usize>(mutants: [(&str, Error); N]) {
    let mut missed = Vec::new();
    for (n, (promise, error)) in mutants.into_iter().enumerate() {
        let broken = verdict(error).await.err().unwrap_or_default();
        let named = broken.strip_prefix("promise broken: ");
        if !named.is_some_and(|named| named.contains(promise)) {
            missed.push(format!(
                "{n}: {promise}: {}",
                broken.lines().next().unwrap_or_default()
            ));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// No row tests a claim without a fingerprint over an item with data.
#[tokio::test]
async fn a_random_history_that_breaks_a_promise_is_the_shortest_and_has_a_seed() {
    let error = Error::Admits(|claim, item, admitted| {
        admitted && (item.data.is_none() || claim.fingerprint.is_some())
    });
    let found = async |seeds| {
        let mutant = mutant(error);
        let run = AssertUnwindSafe(conformance::histories(&mutant, seeds)).catch_unwind();
        let panic = run.await.unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    };
    let broken = found(0..45).await;
    let seed = broken.split_once("(seed ").unwrap().1;
    let seed: u64 = seed.split_once(')').unwrap().0.parse().unwrap();
    assert!(broken.lines().count() < 8, "{broken}");
    let again = found(seed..seed + 1).await;
    assert_eq!(again.lines().count(), broken.lines().count());
}
