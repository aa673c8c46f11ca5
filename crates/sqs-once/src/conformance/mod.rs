//! The promises that every store keeps, as a suite that any store can run.
//!
//! Implement [`Fixture`] for the store and call [`run`] in a test. It panics with the first broken
//! promise.
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
//! Every case uses keys of its own, in the namespace `conformance`, and leaves its items behind. The
//! cases run in the year 2100, so that no store deletes their items as expired.

mod claims;
mod commits;
mod completions;
mod foreign;
mod records;
mod releases;
mod scenario;
mod seen;
mod slices;

use std::future::Future;

use crate::key::ItemId;

use crate::store::{Item, Store};
use scenario::Grouping;

/// A store under test, with a way around its conditions. `plant`, `peek` and `delete` should not go
/// through the [`Store`]: what they see and leave is what the promises are checked against.
pub trait Fixture: Sync {
    /// The store under test.
    fn store(&self) -> &dyn Store;

    /// Puts an item as it is, whatever stood there. What is `None` is absent from the item, as in
    /// those that Powertools for AWS Lambda writes.
    fn plant(&self, item: Item) -> impl Future<Output = ()> + Send;

    /// The item kept under `id`.
    fn peek(&self, id: &ItemId) -> impl Future<Output = Option<Item>> + Send;

    /// Deletes an item, as a store may do once the item is expired.
    fn delete(&self, id: &ItemId) -> impl Future<Output = ()> + Send;
}

/// Runs the whole suite, one case after the other.
///
/// # Panics
/// At the first promise that the store breaks; the message names it. So does an `Err` of the store:
/// the suite wants a store that answers.
pub async fn run<F: Fixture>(fixture: &F) {
    for grouping in [Grouping::Alone, Grouping::Grouped] {
        claims::all(fixture, grouping).await;
        completions::all(fixture, grouping).await;
        releases::all(fixture, grouping).await;
        records::all(fixture, grouping).await;
        foreign::all(fixture, grouping).await;
        seen::all(fixture, grouping).await;
        commits::all(fixture, grouping).await;
    }
    if fixture.store().atomic_writes().is_some() {
        commits::all(fixture, Grouping::InTransaction).await;
    }
    slices::all(fixture).await;
}
