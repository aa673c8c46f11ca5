//! Takes the protocol's decisions to the store and back.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::error::Disposition;
use crate::key::{BusinessKey, Fingerprint, ItemId, KeyCodec, KeyError, Namespace};
use crate::random::Random;
use crate::store::{
    Begun, Claim, Claimed, Committed, Fence, Item, OpenTransaction, Owner, Recording, Seen,
    Settled, Settlement, Settling, Store, StoreError, StoreErrorKind, Writes,
};
use crate::time::{Clock, Timestamp};

use super::also_read::OtherId;
use super::cache::CompletedKeys;
use super::deadline::{Deadline, Margins};
use super::{
    Admission, Commitment, CommitsWith, Completion, Effect, Mode, Refusal, claim, on_claimed,
    on_committed, on_completed, on_found,
};

/// The store and the settings that all records of a consumer share.
pub(crate) struct Driver {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) namespace: Namespace,
    pub(crate) codec: KeyCodec,
    pub(crate) also_read: Option<KeyCodec>,
    pub(crate) retention: Duration,
    pub(crate) margins: Margins,
    pub(crate) mode: Mode,
    pub(crate) effect: Effect,
    pub(crate) completed: Option<CompletedKeys>,
}

/// A settlement, with what commits together with it.
pub(crate) struct Ending {
    pub(crate) settlement: Settlement,
    /// What the claim wrote to the item.
    fingerprint: Option<Fingerprint>,
    /// None where the work was tried and can't be tried again.
    work: Option<CommitsWith>,
}

impl Ending {
    fn new(claim: &Claim, settling: Settling, work: CommitsWith) -> Self {
        Self {
            settlement: Settlement {
                id: claim.id.clone(),
                owner: claim.owner,
                settling,
            },
            fingerprint: claim.fingerprint.clone(),
            work: Some(work),
        }
    }

    /// The release of the same claim.
    fn given_up(&self) -> Self {
        Self {
            settlement: Settlement {
                settling: Settling::Release,
                ..self.settlement.clone()
            },
            fingerprint: self.fingerprint.clone(),
            work: Some(CommitsWith::Nothing),
        }
    }

    /// What the store's answer comes to. Without a claim two attempts may both run, and neither has overtaken the
    /// other.
    fn concluded(&self, settled: &Settled) -> Conclusion {
        let is_claimed = matches!(self.settlement.settling, Settling::Complete { .. });
        match (on_completed(settled), settled) {
            (Completion::Recorded, Settled::Refused(Some(item)))
                if is_claimed && item.owner != Some(self.settlement.owner) =>
            {
                Conclusion::RecordedByAnother
            }
            (Completion::Recorded, _) => Conclusion::Recorded,
            (Completion::LeaseLost, _) => Conclusion::LeaseLost,
        }
    }

    /// Whether it may be sent again when its answer did not come.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.work.is_some()
    }

    /// The item that the settlement has left, once it is written.
    fn item(&self) -> Item {
        Item {
            fingerprint: self.fingerprint.clone(),
            ..self.settlement.write(None)
        }
    }
}

/// Whether a record may run, and in which transaction.
pub(crate) struct Admitted {
    pub(crate) admission: Admission,
    pub(crate) transaction: Option<Box<dyn OpenTransaction>>,
}

/// What a settlement came to.
pub(crate) enum Conclusion {
    /// The effect is on record.
    Recorded,
    /// The effect happened, and is on record by another attempt that had taken the key over: maybe it happened
    /// twice.
    RecordedByAnother,
    /// The effect happened, and another attempt had the key meanwhile.
    LeaseLost,
    /// The effect did not happen, because of the existing item.
    Refused(Refusal),
    /// The effect did not happen, because a condition of the handler's own was not met.
    Conflict {
        disposition: Disposition,
        reason: String,
        /// Releases the claim, if there is one.
        release: Option<Ending>,
    },
}

impl From<Commitment> for Conclusion {
    fn from(commitment: Commitment) -> Self {
        match commitment {
            Commitment::Recorded => Self::Recorded,
            Commitment::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl Driver {
    /// The moments of an invocation that ends at `ends_at`.
    pub(crate) fn deadline(&self, ends_at: Timestamp) -> Deadline {
        Deadline::new(ends_at, self.clock.now(), self.margins)
    }

    /// Where the table keeps a key.
    pub(crate) fn item_id(&self, key: &BusinessKey) -> Result<ItemId, KeyError> {
        self.codec.item_id(key)
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
            fingerprint: fingerprint.and_then(|it| self.codec.fingerprint(it)),
            seen: Seen::Nothing,
        }
    }

    /// Decides for each claim whether its record may run. Keys in the cache cost no request; the others go to the store
    /// together. `elsewhere` holds the other id of each key.
    ///
    /// A claim that was made and released gets a new owner for its next attempt.
    pub(crate) async fn admit(
        &self,
        claims: &mut [Claim],
        other_id: &[Option<OtherId>],
    ) -> Vec<Result<Admission, StoreError>> {
        let mut answers = self.admit_here(claims).await;
        self.check_other_ids(claims, other_id, &mut answers).await;
        answers
    }

    async fn admit_here(&self, claims: &[Claim]) -> Vec<Result<Admission, StoreError>> {
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
                let answers = claim(&*self.store, claims).await;
                let decide = |(answer, claim): (Result<Claimed, _>, _)| {
                    answer.map(|claimed| self.answered(claim, claimed))
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
            Mode::Transactional => {
                let run = |claim: &Claim| {
                    Ok(Admission::Run {
                        fence: Fence::first(claim.now),
                    })
                };
                claims.iter().map(run).collect()
            }
        }
    }

    /// Remembers what the store has said of a key, if that is a completion.
    fn keep(&self, item: Item) {
        if let Some(completed) = &self.completed {
            completed.keep(item, self.clock.now());
        }
    }

    /// Whether a key is claimed before its handler runs, so that its lease outlives a handler that ends
    /// without a word.
    pub(crate) fn claims_before(&self) -> bool {
        self.mode == Mode::ClaimFirst
    }

    /// Whether effects commit together with their record.
    pub(crate) fn commits_effects(&self) -> bool {
        self.effect != Effect::APART
    }

    /// Whether it opens transactions, which are as few as there are handlers running.
    pub(crate) fn opens_transactions(&self) -> bool {
        self.effect.transaction
    }

    /// Opens a transaction for a claim, unless its key is known to be completed. Waits for another
    /// transaction on the key, for as long as `patience`.
    pub(crate) async fn begin(
        &self,
        claim: &Claim,
        patience: Duration,
    ) -> Result<Admitted, StoreError> {
        let now = self.clock.now();
        let known = self.completed.as_ref().and_then(|all| all.find(claim, now));
        let (admission, transaction) = match (known, self.store.transactions()) {
            (Some(item), _) => (on_claimed(claim, &Claimed::Refused(item)), None),
            (None, Some(transactions)) => match transactions.begin(claim, patience).await? {
                Begun::Open { fence, transaction } => (Admission::Run { fence }, Some(transaction)),
                Begun::Refused(item) => (self.answered(claim, Claimed::Refused(item)), None),
            },
            (None, None) => return Err(incapable("open transactions")),
        };
        Ok(Admitted {
            admission,
            transaction,
        })
    }

    /// What the store's answer to a claim comes to; a completion that it shows is remembered.
    fn answered(&self, claim: &Claim, claimed: Claimed) -> Admission {
        let admission = on_claimed(claim, &claimed);
        if let Claimed::Refused(item) = claimed {
            self.keep(*item);
        }
        admission
    }

    /// The settlement that records a claim's effect as done, or that commits with the work.
    pub(crate) fn completion(
        &self,
        claim: &Claim,
        data: Option<Arc<str>>,
        work: CommitsWith,
    ) -> Ending {
        let now = self.clock.now();
        let expiration = now + self.retention;
        let recording = |data| Recording {
            now,
            expiration,
            fingerprint: claim.fingerprint.clone(),
            data,
        };
        let settling = match (&work, self.mode) {
            (CommitsWith::Writes(_), _) => Settling::Commit(recording(data)),
            (CommitsWith::Nothing, Mode::RecordAfter) => Settling::Record(recording(data)),
            _ => Settling::Complete { expiration, data },
        };
        Ending::new(claim, settling, work)
    }

    /// The settlement that gives a claim up; none where nothing was claimed, or only in a transaction.
    pub(crate) fn release(&self, claim: &Claim) -> Option<Ending> {
        self.claims_before()
            .then(|| Ending::new(claim, Settling::Release, CommitsWith::Nothing))
    }

    /// Settles claims, once. Those that commit with work travel alone, the others together.
    pub(crate) async fn conclude(
        &self,
        endings: Vec<&mut Ending>,
    ) -> Vec<Result<Conclusion, StoreError>> {
        let is_done = |ending: &Ending| matches!(ending.work, Some(CommitsWith::Nothing));
        if endings.iter().all(|ending| is_done(ending)) {
            let endings: Vec<_> = endings.iter().map(|ending| &**ending).collect();
            return self.settle(&endings).await;
        }
        let each = endings.into_iter().map(async |ending| {
            if is_done(ending) {
                let settled = self.settle(&[ending]).await;
                settled
                    .into_iter()
                    .next()
                    .unwrap_or_else(|| Err(incapable("settle a claim")))
            } else {
                self.commit(ending).await
            }
        });
        join_all(each).await
    }

    /// Settles claims that commit with nothing, once, together.
    pub(crate) async fn settle(&self, endings: &[&Ending]) -> Vec<Result<Conclusion, StoreError>> {
        let settlements: Vec<_> = endings.iter().map(|one| one.settlement.clone()).collect();
        let answers = all_of(settlements.len(), self.store.settle(&settlements).await);
        for (answer, ending) in answers.iter().zip(endings) {
            match answer {
                Ok(Settled::Written) => self.keep(ending.item()),
                Ok(Settled::Refused(Some(item))) => self.keep((**item).clone()),
                Ok(Settled::Refused(None)) | Err(_) => {}
            }
        }
        let concluded = answers.into_iter();
        concluded
            .zip(endings)
            .map(|(answer, ending)| answer.map(|settled| ending.concluded(&settled)))
            .collect()
    }

    async fn commit(&self, ending: &mut Ending) -> Result<Conclusion, StoreError> {
        if let Some(CommitsWith::Writes(writes)) = &ending.work {
            return self.commit_writes(ending, writes).await;
        }
        let Some(CommitsWith::Transaction(transaction)) = ending.work.take() else {
            return Err(incapable("commit a transaction twice"));
        };
        transaction.commit(ending.settlement.clone()).await?;
        self.keep(ending.item());
        Ok(Conclusion::Recorded)
    }

    async fn commit_writes(
        &self,
        ending: &Ending,
        writes: &Writes,
    ) -> Result<Conclusion, StoreError> {
        let Some(atomic) = self.store.atomic_writes() else {
            return Err(incapable("commit writes"));
        };
        let refused_by = match atomic.commit(&ending.settlement, writes).await? {
            Committed::Written => None,
            Committed::Refused(item) => Some(*item),
            Committed::Conflict(conflict) => {
                let (disposition, reason) = writes.judge(&conflict);
                return Ok(Conclusion::Conflict {
                    disposition,
                    reason,
                    release: self.claims_before().then(|| ending.given_up()),
                });
            }
        };
        let (owner, fingerprint) = (ending.settlement.owner, ending.fingerprint.as_ref());
        let commitment = on_committed(owner, fingerprint, refused_by.as_ref());
        self.keep(refused_by.unwrap_or_else(|| ending.item()));
        Ok(commitment.into())
    }
}

/// A store that stopped saying what it said when the function started.
fn incapable(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Other, format!("this store can't {what}"))
}

/// The answers to `count` entries. A store that forgets some left them unknown.
pub(super) fn all_of<T>(
    count: usize,
    mut answers: Vec<Result<T, StoreError>>,
) -> Vec<Result<T, StoreError>> {
    let found = answers.len();
    answers.resize_with(count, || {
        let message = format!("{found} answers to {count} entries");
        Err(StoreError::new(StoreErrorKind::Other, message))
    });
    answers
}
