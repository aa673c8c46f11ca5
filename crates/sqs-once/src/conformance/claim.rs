//! Claims and seeds, which the tests of the library's own stores share with the suite.

#[cfg(feature = "unstable")]
use std::ops::Range;

use tokio::time::Instant;

use crate::idempotency::{Retries, on_refused};
#[cfg(feature = "unstable")]
use crate::random::{OsRandom, Random as _};
use crate::store::{Claim, Claimed, Store, StoreError};

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

/// Returns seeds for [`histories`](super::histories) that differ in every run. A failure prints its seed.
#[cfg(feature = "unstable")]
pub fn fresh_seeds(count: u64) -> Range<u64> {
    let first = u64::from(OsRandom.bits() as u32);
    first..first + count
}
