//! A test suite for the promises that every store must keep.
//!
//! This module is unstable: a minor release may add cases and change its items.
//!
//! Implement [`Fixture`] for the store and call [`run`] in a test. It panics at the first broken promise.
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
//! Every case uses new keys in the namespaces `conformance` and `conformance-2`, and leaves its items behind. The cases
//! run in the year 2100, so that no store deletes their items as expired.

mod attributes;
mod case;
mod claims;
mod commits;
mod foreign;
mod seen;
mod settlements;
mod slices;

pub use attributes::{from_attributes, to_attributes};

use tokio::time::Instant;

use crate::idempotency::{Retries, on_refused};
use crate::key::ItemId;
use crate::store::{Claim, Claimed, Item, Store, StoreError};
use case::{Grouping, Suite};

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

/// Runs the whole suite, one case after the other.
///
/// # Panics
/// At the first promise that the store breaks; the message names the promise. Also if the store returns an `Err`,
/// because the suite needs a store that answers.
pub async fn run<F: Fixture>(fixture: &F) {
    for grouping in [Grouping::Alone, Grouping::Grouped] {
        let suite = &Suite { fixture, grouping };
        claims::all(suite).await;
        settlements::completions(suite).await;
        settlements::releases(suite).await;
        settlements::renewals(suite).await;
        settlements::recordings(suite).await;
        foreign::all(suite).await;
        seen::all(suite).await;
        commits::all(suite).await;
    }
    if fixture.store().atomic_writes().is_some() {
        for grouping in [Grouping::InTransaction, Grouping::InSharedTransaction] {
            commits::all(&Suite { fixture, grouping }).await;
        }
    }
    slices::all(fixture).await;
}

/// Claims keys as a consumer does: first as new keys, then by replacing items whose keys are free. Returns the store's
/// last answer to each claim, in order.
pub async fn claim(store: &dyn Store, claims: &[Claim]) -> Vec<Result<Claimed, StoreError>> {
    let mut answers = store.claim(claims).await;
    let mut retries = Retries::new(Instant::now());
    while retries.at_once() {
        let refused = claims.iter().zip(&answers).enumerate();
        let over_free_items = refused.filter_map(|(place, (claim, answer))| match answer {
            Ok(Claimed::Refused(item)) => Some((place, on_refused(claim, item)?)),
            _ => None,
        });
        let (places, again): (Vec<_>, Vec<_>) = over_free_items.unzip();
        if again.is_empty() {
            break;
        }
        for (place, answer) in places.into_iter().zip(store.claim(&again).await) {
            answers[place] = answer;
        }
    }
    answers
}
