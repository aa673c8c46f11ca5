//! Takes the protocol's decisions to the store: makes claims, sends them, retries what may be retried.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::key::{BusinessKey, Fingerprint, ItemId, Namespace};
use crate::random::Random;
use crate::store::{
    Claim, Owner, Settled, Settlement, Settling, Store, StoreError, StoreErrorKind,
};
use crate::time::{Clock, Timestamp};

use super::{Admission, Mode, Refusal, on_claimed, on_found};

const FIRST_BACKOFF: Duration = Duration::from_millis(25);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// What every record of a consumer goes through the store with.
#[derive(Clone)]
pub(crate) struct Idempotency {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) namespace: Namespace,
    pub(crate) retention: Duration,
    pub(crate) mode: Mode,
}

impl Idempotency {
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
            expiration: now + self.retention,
            fingerprint,
        }
    }

    /// Asks, for each claim, whether its record may run. What the store could not answer by `until`
    /// stays unknown.
    pub(crate) async fn admit(
        &self,
        claims: &[Claim],
        until: Instant,
    ) -> Vec<Result<Admission, StoreError>> {
        let mut answers = self.ask(claims).await;
        let mut backoff = FIRST_BACKOFF;
        while let Some(again) = self.wait_for_retry(&answers, &mut backoff, until).await {
            let resent = self.ask(&picked(claims, &again)).await;
            replace(&mut answers, again, resent);
        }
        answers
    }

    /// Asks again and again for a key that another worker has, until it is decided or `until` comes.
    pub(crate) async fn admit_when_free(
        &self,
        claim: &Claim,
        until: Instant,
    ) -> Result<Admission, StoreError> {
        let mut pause = FIRST_BACKOFF;
        loop {
            let next = Instant::now() + self.jittered(pause);
            sleep_until(next.min(until)).await;
            let claim = Claim {
                now: self.clock.now(),
                ..claim.clone()
            };
            let mut answers = self.admit(std::slice::from_ref(&claim), until).await;
            let answer = answers.remove(0);
            let is_taken = matches!(answer, Ok(Admission::Refused(Refusal::InProgress { .. })));
            if !is_taken || next >= until {
                return answer;
            }
            pause = (pause * 2).min(LONGEST_BACKOFF);
        }
    }

    async fn ask(&self, claims: &[Claim]) -> Vec<Result<Admission, StoreError>> {
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
    pub(crate) fn completion(&self, claim: &Claim) -> Settlement {
        let now = self.clock.now();
        let expiration = now + self.retention;
        let settling = match self.mode {
            Mode::ClaimFirst => Settling::Complete {
                expiration,
                data: None,
            },
            Mode::RecordAfter => Settling::Record {
                now,
                expiration,
                fingerprint: claim.fingerprint.clone(),
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

    /// Settles claims. What the store could not answer by `until` stays unknown.
    pub(crate) async fn settle(
        &self,
        settlements: &[Settlement],
        until: Instant,
    ) -> Vec<Result<Settled, StoreError>> {
        let mut answers = all_of(settlements.len(), self.store.settle(settlements).await);
        let mut backoff = FIRST_BACKOFF;
        while let Some(again) = self.wait_for_retry(&answers, &mut backoff, until).await {
            let resent = picked(settlements, &again);
            let resent = all_of(resent.len(), self.store.settle(&resent).await);
            replace(&mut answers, again, resent);
        }
        answers
    }

    /// Which entries to send again, after a wait that grows, and is at random, so that workers that
    /// were throttled together don't come back together. An entry that is sent twice changes nothing
    /// the second time.
    async fn wait_for_retry<T>(
        &self,
        answers: &[Result<T, StoreError>],
        backoff: &mut Duration,
        until: Instant,
    ) -> Option<Vec<usize>> {
        let again: Vec<usize> = (0..answers.len())
            .filter(|&at| matches!(&answers[at], Err(error) if error.is_transient()))
            .collect();
        let next = Instant::now() + self.jittered(*backoff);
        if again.is_empty() || next >= until {
            return None;
        }
        sleep_until(next).await;
        *backoff = (*backoff * 2).min(LONGEST_BACKOFF);
        Some(again)
    }

    /// Between half of `backoff` and all of it.
    fn jittered(&self, backoff: Duration) -> Duration {
        let half = backoff / 2;
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

fn picked<E: Clone>(entries: &[E], at: &[usize]) -> Vec<E> {
    at.iter().map(|&at| entries[at].clone()).collect()
}

fn replace<T>(answers: &mut [T], at: Vec<usize>, with: Vec<T>) {
    for (at, answer) in at.into_iter().zip(with) {
        answers[at] = answer;
    }
}
