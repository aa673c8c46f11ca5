//! Takes the protocol's decisions to the store and back.

use std::sync::Arc;
use std::time::Duration;

use crate::key::{BusinessKey, Fingerprint, ItemId, Namespace};
use crate::random::Random;
use crate::store::{
    Claim, Owner, Settled, Settlement, Settling, Store, StoreError, StoreErrorKind,
};
use crate::time::{Clock, Timestamp};

use super::{Admission, Mode, on_claimed, on_found};

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What every record of a consumer goes through the store with.
pub(crate) struct Driver {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) namespace: Namespace,
    pub(crate) retention: Duration,
    pub(crate) mode: Mode,
}

impl Driver {
    pub(crate) fn item_id(&self, key: &BusinessKey) -> ItemId {
        self.namespace.item_id(key)
    }

    /// A claim by a new owner, whose lease ends at `lease_until`.
    pub(crate) fn new_claim(
        &self,
        id: ItemId,
        fingerprint: Option<Fingerprint>,
        lease_until: Timestamp,
    ) -> Claim {
        let now = self.clock.now();
        Claim {
            id,
            owner: Owner::from_bits(self.random.bits()),
            now,
            lease_until,
            // Never before the lease ends: the table may delete the item from then on.
            expiration: (now + self.retention).max(lease_until),
            fingerprint,
        }
    }

    /// Asks once, for each claim, whether its record may run.
    pub(crate) async fn admit(&self, claims: &[Claim]) -> Vec<Result<Admission, StoreError>> {
        match self.mode {
            Mode::ClaimFirst => {
                let answers = all_of(claims.len(), self.store.claim(claims).await);
                let decided = answers.into_iter().zip(claims);
                decided
                    .map(|(answer, claim)| answer.map(|claimed| on_claimed(claim, &claimed)))
                    .collect()
            }
            Mode::RecordAfter => {
                let ids: Vec<_> = claims.iter().map(|claim| claim.id.clone()).collect();
                let answers = all_of(ids.len(), self.store.read(&ids).await);
                let decided = answers.into_iter().zip(claims);
                decided
                    .map(|(answer, claim)| answer.map(|found| on_found(claim, found.as_ref())))
                    .collect()
            }
        }
    }

    /// The settlement that records a claim's effect as done.
    pub(crate) fn completion(&self, claim: &Claim, data: Option<Arc<str>>) -> Settlement {
        let now = self.clock.now();
        let expiration = now + self.retention;
        let settling = match self.mode {
            Mode::ClaimFirst => Settling::Complete { expiration, data },
            Mode::RecordAfter => Settling::Record {
                now,
                expiration,
                fingerprint: claim.fingerprint.clone(),
                data,
            },
        };
        Settlement {
            id: claim.id.clone(),
            owner: claim.owner,
            settling,
        }
    }

    /// The settlement that gives a claim up; none where nothing was claimed.
    pub(crate) fn release(&self, claim: &Claim) -> Option<Settlement> {
        (self.mode == Mode::ClaimFirst).then(|| Settlement {
            id: claim.id.clone(),
            owner: claim.owner,
            settling: Settling::Release,
        })
    }

    /// Settles claims, once.
    pub(crate) async fn settle(
        &self,
        settlements: &[Settlement],
    ) -> Vec<Result<Settled, StoreError>> {
        all_of(settlements.len(), self.store.settle(settlements).await)
    }

    /// The pause that follows a pause of `last`.
    pub(crate) fn longer(last: Option<Duration>) -> Duration {
        last.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE))
    }

    /// Between half of `pause` and all of it.
    pub(crate) fn jittered(&self, pause: Duration) -> Duration {
        let half = pause / 2;
        let nanos = u128::max(half.as_nanos(), 1);
        let extra = u64::try_from(self.random.bits() % nanos).unwrap_or(0);
        half + Duration::from_nanos(extra)
    }
}

/// The answers to `count` entries. A store that forgets some left them unknown.
fn all_of<T>(count: usize, mut answers: Vec<Result<T, StoreError>>) -> Vec<Result<T, StoreError>> {
    let found = answers.len();
    answers.resize_with(count, || {
        let message = format!("{found} answers to {count} entries");
        Err(StoreError::new(StoreErrorKind::Other, message))
    });
    answers
}
