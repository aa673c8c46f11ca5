//! A test suite for the promises that every store must keep.
//!
//! A minor release may add cases.
//!
//! Implement [`Fixture`] for the store and call [`run`] in a test. It panics at the first broken promise, with the steps
//! that led to it. The suite compares the store with the protocol's own decisions: [`Claim::admitted_by`],
//! [`Claim::write`], and the same functions of a [`Settlement`](crate::store::Settlement).
//!
//! ```
//! use sqs_once::key::ItemId;
//! use sqs_once::conformance::{self, Fixture};
//! use sqs_once::store::{Item, MemoryStore, Store};
//!
//! struct Memory(MemoryStore);
//!
//! impl Fixture for Memory {
//!     fn store(&self) -> &dyn Store {
//!         &self.0
//!     }
//!     async fn plant(&self, item: Item) {
//!         self.0.put(item);
//!     }
//!     async fn peek(&self, id: &ItemId) -> Option<Item> {
//!         self.0.get(id)
//!     }
//!     async fn delete(&self, id: &ItemId) {
//!         self.0.remove(id);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! conformance::run(&Memory(MemoryStore::new())).await;
//! # }
//! ```
//!
//! First come the rows of the protocol's tables, each by its name. Then come random histories, the same in each run. If
//! one of them breaks a promise, the message names its seed and the shortest history that still does so. Call
//! [`histories`] to repeat a seed, or to try others.
//!
//! Every history uses new keys in the namespaces `conformance` and `conformance-2`, and leaves its items behind. Histories
//! happen in the year 2100, so that no store deletes their items as expired.

#[cfg(feature = "unstable")]
pub(crate) mod attributes;
#[cfg_attr(
    not(feature = "unstable"),
    allow(unreachable_pub, reason = "the tools reach it through `unstable`")
)]
pub(crate) mod claim;
mod random;
mod row;
mod rows;
mod world;

use std::ops::Range;

use futures_util::future::join_all;

use crate::key::ItemId;
use crate::store::{Claim, Claimed, Item, Store};

use claim::claim;
use row::{LEASE, RETENTION, at};
use world::{Way, stranger};

/// The random histories of each run.
const SEEDS: Range<u64> = 0..20;

/// A store under test, with direct access to its items. `plant`, `peek` and `delete` should not use the [`Store`],
/// because the suite compares the store's behaviour with their results.
pub trait Fixture: Sync {
    /// Returns the store under test.
    fn store(&self) -> &dyn Store;

    /// Puts an item and replaces any existing one. Fields that are `None` must be absent from the stored item, as in
    /// items that Powertools for AWS Lambda writes.
    fn plant(&self, item: Item) -> impl Future<Output = ()> + Send;

    /// Returns the item with this id.
    fn peek(&self, id: &ItemId) -> impl Future<Output = Option<Item>> + Send;

    /// Deletes an item, as a store may do after it expired.
    fn delete(&self, id: &ItemId) -> impl Future<Output = ()> + Send;
}

/// Runs the whole suite, one history after the other.
///
/// # Panics
/// At the first promise that the store breaks; the message names the promise. Also if the store returns an `Err`,
/// because the suite needs a store that answers.
pub async fn run<F: Fixture>(fixture: &F) {
    for in_transaction in [false, true] {
        if in_transaction && fixture.store().atomic_writes().is_none() {
            continue;
        }
        for in_company in [false, true] {
            let way = Way {
                in_company,
                in_transaction,
            };
            let mut rows = Vec::new();
            if !in_transaction {
                rows.extend(rows::claims());
                rows.extend(rows::settlements());
                rows.extend(rows::carry_overs());
                rows.extend(rows::foreign_items());
            }
            rows.extend(rows::commits());
            for row in rows {
                row.holds(fixture, way).await;
            }
        }
    }
    one_of_many_is_granted(fixture.store()).await;
    random::slices_hold(fixture).await;
    histories(fixture, SEEDS).await;
}

/// Runs a random history for each of these seeds.
///
/// # Panics
/// At the first history in which the store breaks a promise.
pub async fn histories<F: Fixture>(fixture: &F, seeds: Range<u64>) {
    for seed in seeds {
        random::history_holds(fixture, seed).await;
    }
}

async fn one_of_many_is_granted(store: &dyn Store) {
    let (id, _) = stranger();
    for now in [0, LEASE * 2] {
        let claims = [(); 16].map(|()| {
            let [now, lease, retention] = [now, now + LEASE, now + RETENTION].map(at);
            Claim::new(id.clone(), stranger().1, now, lease, retention)
        });
        let sent = claims
            .each_ref()
            .map(|one| claim(store, std::slice::from_ref(one)));
        let answers = join_all(sent).await;
        let is_granted = |answers: &&Vec<_>| matches!(answers[..], [Ok(Claimed::Written { .. })]);
        let granted = answers.iter().filter(is_granted).count();
        assert!(
            granted == 1,
            "promise broken: exactly one of many claims at the same time is granted: {answers:?}"
        );
    }
}
