//! The off switch: no store at all.

use crate::key::ItemId;

use super::{Claim, Claimed, Fence, Item, Settled, Settlement, Store, StoreFuture};

/// Grants every claim and keeps nothing (`SQS_ONCE_DISABLED`).
pub(crate) struct OffStore;

impl Store for OffStore {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            let granted = |claim: &Claim| {
                Ok(Claimed::Written {
                    fence: Fence::first(claim.now),
                })
            };
            claims.iter().map(granted).collect()
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move { settlements.iter().map(|_| Ok(Settled::Written)).collect() })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move { ids.iter().map(|_| Ok(None)).collect() })
    }
}
