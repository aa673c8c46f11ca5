//! Claims of new keys and their settlements, for the tests of every store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqs_once::key::ItemId;
use sqs_once::store::{Claim, Claimed, Owner, Settlement, Settling, StoreError, Timestamp};

pub(crate) const NOW: Timestamp = Timestamp::from_secs(4_102_444_800);

/// Claims of keys that no other test uses.
pub(crate) fn new_claims(count: usize) -> Vec<Claim> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let claims = (0..count).map(|_| {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = ItemId::from_stored(format!("tests#{n:064x}"));
        let owner = Owner::from_bits(n.into());
        let [lease, retention] = [60, 3600].map(|seconds| NOW + Duration::from_secs(seconds));
        Claim::new(id, owner, NOW, lease, retention)
    });
    claims.collect()
}

/// Claims of the same keys by another worker.
pub(crate) fn rivals(claims: &[Claim]) -> Vec<Claim> {
    let mut rivals = new_claims(claims.len());
    for (rival, claim) in rivals.iter_mut().zip(claims) {
        rival.id = claim.id.clone();
    }
    rivals
}

pub(crate) fn is_written(claimed: &Result<Claimed, StoreError>) -> bool {
    matches!(claimed, Ok(Claimed::Written { .. }))
}

pub(crate) fn settlements(claims: &[Claim], settling: &Settling) -> Vec<Settlement> {
    let settled = |claim: &Claim| Settlement::new(claim.id.clone(), claim.owner, settling.clone());
    claims.iter().map(settled).collect()
}

pub(crate) fn completion() -> Settling {
    Settling::complete(NOW + Duration::from_secs(3600), None)
}
