//! Takes the protocol's decisions to the store and back.

use std::sync::Arc;
use std::time::Duration;

use crate::key::{BusinessKey, Fingerprint, ItemId, Namespace};
use crate::random::Random;
use crate::store::{
    Claim, Claimed, Item, Owner, Settled, Settlement, Settling, Store, StoreError, StoreErrorKind,
};
use crate::time::{Clock, Timestamp};

use super::cache::CompletedKeys;
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
    pub(crate) completed: Option<CompletedKeys>,
}

/// A settlement, with the fingerprint that its claim has left in the item.
#[derive(Clone)]
pub(crate) struct Ending {
    pub(crate) settlement: Settlement,
    fingerprint: Option<Fingerprint>,
}

impl Ending {
    fn new(claim: &Claim, settling: Settling) -> Self {
        Self {
            settlement: Settlement {
                id: claim.id.clone(),
                owner: claim.owner,
                settling,
            },
            fingerprint: claim.fingerprint.clone(),
        }
    }

    /// The item that the settlement has left, once it is written.
    fn item(&self) -> Item {
        Item {
            fingerprint: self.fingerprint.clone(),
            ..self.settlement.write(None)
        }
    }
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

    /// Asks once, for each claim, whether its record may run. Keys that are known to be completed are
    /// not asked of the store; the others go to it together.
    pub(crate) async fn admit(&self, claims: &[Claim]) -> Vec<Result<Admission, StoreError>> {
        let Some(completed) = &self.completed else {
            return self.ask(claims).await;
        };
        let now = self.clock.now();
        let known: Vec<_> = claims
            .iter()
            .map(|claim| completed.find(claim, now))
            .collect();
        let unknown: Vec<_> = claims
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(claim, _)| claim.clone())
            .collect();
        let mut asked = match unknown[..] {
            [] => Vec::new(),
            _ => self.ask(&unknown).await,
        }
        .into_iter();
        let decided = known.into_iter().zip(claims);
        decided
            .filter_map(|(known, claim)| match known {
                Some(item) => Some(Ok(on_claimed(claim, &Claimed::Refused(item)))),
                None => asked.next(),
            })
            .collect()
    }

    async fn ask(&self, claims: &[Claim]) -> Vec<Result<Admission, StoreError>> {
        match self.mode {
            Mode::ClaimFirst => {
                let answers = all_of(claims.len(), self.store.claim(claims).await);
                let decide = |(answer, claim): (Result<Claimed, _>, _)| {
                    let claimed = answer?;
                    let admission = on_claimed(claim, &claimed);
                    if let Claimed::Refused(item) = claimed {
                        self.keep(*item);
                    }
                    Ok(admission)
                };
                answers.into_iter().zip(claims).map(decide).collect()
            }
            Mode::RecordAfter => {
                let ids: Vec<_> = claims.iter().map(|claim| claim.id.clone()).collect();
                let answers = all_of(ids.len(), self.store.read(&ids).await);
                let decide = |(answer, claim): (Result<Option<Item>, _>, _)| {
                    let found = answer?;
                    let admission = on_found(claim, found.as_ref());
                    if let Some(item) = found {
                        self.keep(item);
                    }
                    Ok(admission)
                };
                answers.into_iter().zip(claims).map(decide).collect()
            }
        }
    }

    /// Remembers what the store has said of a key, if that is a completion.
    fn keep(&self, item: Item) {
        if let Some(completed) = &self.completed {
            completed.keep(item, self.clock.now());
        }
    }

    /// The settlement that records a claim's effect as done.
    pub(crate) fn completion(&self, claim: &Claim, data: Option<Arc<str>>) -> Ending {
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
        Ending::new(claim, settling)
    }

    /// The settlement that gives a claim up; none where nothing was claimed.
    pub(crate) fn release(&self, claim: &Claim) -> Option<Ending> {
        (self.mode == Mode::ClaimFirst).then(|| Ending::new(claim, Settling::Release))
    }

    /// Settles claims, once.
    pub(crate) async fn settle(&self, endings: &[Ending]) -> Vec<Result<Settled, StoreError>> {
        let settlements: Vec<_> = endings.iter().map(|one| one.settlement.clone()).collect();
        let answers = all_of(settlements.len(), self.store.settle(&settlements).await);
        if let Some(completed) = &self.completed {
            let now = self.clock.now();
            for (answer, ending) in answers.iter().zip(endings) {
                match answer {
                    Ok(Settled::Written) => completed.keep(ending.item(), now),
                    Ok(Settled::Refused(Some(item))) => completed.keep((**item).clone(), now),
                    Ok(Settled::Refused(None)) | Err(_) => {}
                }
            }
        }
        answers
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
