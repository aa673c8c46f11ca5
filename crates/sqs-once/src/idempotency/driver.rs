//! Sends claims and settlements to the store, and turns its answers into the protocol's decisions.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use crate::key::{Fingerprint, ItemId, KeyCodec, Namespace};
use crate::random::Random;
use crate::store::{
    Answers, Begun, Claim, Claimed, Fence, Item, OpenTransaction, Owner, Recording, Seen,
    Settlement, Settling, Store, StoreError, StoreErrorKind,
};
use crate::time::{Clock, Timestamp};

use super::also_read::{OtherId, check_other_ids};
use super::cache::CompletedKeys;
use super::deadline::{Deadline, Margins};
use super::settle::{CommitsWith, Ending, PendingSettlement};
use super::{Admission, Effect, Mode, on_claimed, on_found, on_refused};

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
    pub(crate) completed: Option<Arc<CompletedKeys>>,
}

/// Whether a record or work may run, and in which transaction.
pub(crate) type Admitted = (Admission, Option<Box<dyn OpenTransaction>>);
/// Whether each record may run, and in which transaction.
type AllAdmitted = (Answers<Admission>, Option<Box<dyn OpenTransaction>>);

/// New owners for the claims of one batch: a random number and its successors. The operating system's generator takes a
/// system call, which would be a noticeable part of a record's CPU time.
pub(crate) struct Owners(u128);

impl Owners {
    pub(crate) fn next(&mut self) -> Owner {
        self.0 = self.0.wrapping_add(1);
        Owner::from_bits(self.0)
    }
}

impl Driver {
    pub(crate) fn owners(&self) -> Owners {
        Owners(self.random.bits())
    }

    pub(crate) fn deadline(&self, ends_at: Timestamp) -> Deadline {
        Deadline::new(ends_at, self.clock.now(), self.margins)
    }

    /// Creates a claim whose lease ends at `lease_until`.
    pub(crate) fn new_claim(
        &self,
        owner: Owner,
        id: ItemId,
        fingerprint: Option<Fingerprint>,
        lease_until: Timestamp,
    ) -> Claim {
        let now = self.clock.now();
        Claim {
            id,
            owner,
            now,
            lease_until,
            // At or after the end of the lease, because the table may delete the item once it has expired.
            expiration: (now + self.retention).max(lease_until),
            fingerprint: fingerprint.and_then(|it| self.codec.fingerprint(it)),
            seen: Seen::Nothing,
        }
    }

    /// Returns the names under which this handler has tokens, and writes or reads ids.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        let codecs = [Some(&self.codec), self.also_read.as_ref()];
        let prefixes = codecs.into_iter().flatten().map(KeyCodec::prefix);
        // Tokens contain only the namespace's name.
        let names = iter::once(self.namespace.as_str()).chain(prefixes);
        names.map(Into::into).collect()
    }

    /// Returns the name that this handler would share with one that has these names, if any. Their messages would be
    /// duplicates of each other, or have the same tokens.
    pub(crate) fn shared_name(&self, others: &[Arc<str>]) -> Option<Arc<str>> {
        self.names().into_iter().find(|name| others.contains(name))
    }

    /// Returns the completion in the cache that refuses a claim for a message of this time.
    fn known(&self, claim: &Claim, sent_at: Timestamp) -> Option<Box<Item>> {
        let completed = self.completed.as_ref()?;
        completed.find(claim, sent_at, self.clock.now())
    }

    /// Returns the cache's time before a request, for what the answer shows.
    fn asks_at(&self) -> Timestamp {
        let completed = self.completed.as_ref();
        completed.map_or_else(Timestamp::default, |it| it.sqs_time())
    }

    /// Decides without a request, if the cache knows the key or its handler runs without a claim.
    fn admit_unasked(&self, claim: &Claim, sent_at: Timestamp) -> Option<Admission> {
        match (self.known(claim, sent_at), self.mode) {
            (Some(item), _) => Some(on_claimed(claim, &Claimed::Refused(item))),
            (None, Mode::Transactional) => Some(Admission::Run {
                fence: Fence::first(claim.now),
                first_attempt: Some(claim.now),
            }),
            (None, Mode::ClaimFirst | Mode::RecordAfter) => None,
        }
    }

    /// Decides by the answer to a claim. `None` if the claim now replaces an item whose key is free.
    fn claimed(
        &self,
        claim: &mut Claim,
        claimed: Claimed,
        asked_at: Timestamp,
    ) -> Option<Admission> {
        if let Claimed::Refused(item) = &claimed
            && let Some(over) = on_refused(claim, item)
        {
            *claim = over;
            return None;
        }
        Some(self.answered(claim, claimed, asked_at))
    }

    /// Decides by the item that a lookup found.
    fn found(&self, claim: &Claim, found: Option<Item>, asked_at: Timestamp) -> Admission {
        let admission = on_found(claim, found.as_ref());
        if let Some(item) = found {
            self.keep(item, asked_at);
        }
        admission
    }

    fn keep(&self, item: Item, asked_at: Timestamp) {
        if let Some(completed) = &self.completed {
            completed.keep(item, asked_at, self.clock.now());
        }
    }

    /// Returns whether a key is claimed before its handler runs.
    pub(crate) fn claims_before(&self) -> bool {
        self.mode == Mode::ClaimFirst
    }

    /// Returns whether effects commit together with their record.
    pub(crate) fn commits_effects(&self) -> bool {
        self.effect != Effect::APART
    }

    /// Returns whether claims are written in a transaction that they open.
    pub(crate) fn opens_transactions(&self) -> bool {
        self.effect.transaction
    }

    /// Opens a transaction for a claim: see [`begin_all`](Self::begin_all).
    pub(crate) async fn begin(
        &self,
        claim: Claim,
        sent_at: Timestamp,
        patience: Duration,
    ) -> Result<Admitted, StoreError> {
        let claims = vec![(claim, sent_at)];
        let (answers, transaction) = self.begin_all(claims, patience, patience).await?;
        Ok((first_of(answers)?, transaction))
    }

    /// Opens one transaction for all claims whose keys the cache does not know. Each claim has the time at which SQS received
    /// its message. Waits up to `patience` for others on the keys. The transaction lasts for `limit` at most.
    pub(crate) async fn begin_all(
        &self,
        claims: Vec<(Claim, Timestamp)>,
        patience: Duration,
        limit: Duration,
    ) -> Result<AllAdmitted, StoreError> {
        let Some(transactions) = self.store.transactions() else {
            return Err(incapable("open transactions"));
        };
        let asked_at = self.asks_at();
        let known = |(claim, sent_at): &(Claim, Timestamp)| {
            let item = self.known(claim, *sent_at)?;
            Some(Ok(on_claimed(claim, &Claimed::Refused(item))))
        };
        let known: Vec<_> = claims.iter().map(known).collect();
        let unknown = claims.into_iter().zip(&known);
        let unknown = unknown.filter_map(|((claim, _), known)| known.is_none().then_some(claim));
        let unknown: Vec<_> = unknown.collect();
        let begun = match unknown.is_empty() {
            true => Begun::new(Vec::new(), None),
            false => transactions.begin(&unknown, patience, limit).await?,
        };
        let answers = unknown.iter().zip(all_of(unknown.len(), begun.answers));
        let mut answers =
            answers.map(|(claim, answer)| Ok(self.answered(claim, answer?, asked_at)));
        let admitted = known.into_iter().map(|known| {
            let answer = known.or_else(|| answers.next());
            answer.unwrap_or_else(|| Err(unanswered()))
        });
        Ok((admitted.collect(), begun.transaction))
    }

    fn answered(&self, claim: &Claim, claimed: Claimed, asked_at: Timestamp) -> Admission {
        let admission = on_claimed(claim, &claimed);
        if let Claimed::Refused(item) = claimed {
            self.keep(*item, asked_at);
        }
        admission
    }

    /// Returns the settlement that records a claim's effect, alone or together with the work.
    pub(crate) fn completion(
        &self,
        claim: &Claim,
        data: Option<Arc<str>>,
        work: CommitsWith,
    ) -> PendingSettlement {
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
        self.settlement(claim, settling, work)
    }

    /// Returns the settlement that releases a claim, or `None` if the mode claims nothing before the handler.
    pub(crate) fn release(&self, claim: &Claim) -> Option<PendingSettlement> {
        self.claims_before()
            .then(|| self.settlement(claim, Settling::Release, CommitsWith::Nothing))
    }

    pub(super) fn settlement(
        &self,
        claim: &Claim,
        settling: Settling,
        work: CommitsWith,
    ) -> PendingSettlement {
        let settlement = Settlement {
            id: claim.id.clone(),
            owner: claim.owner,
            settling,
        };
        let ending = Ending {
            settlement,
            fingerprint: claim.fingerprint.clone(),
            is_claimed: self.claims_before(),
            completed: self.completed.clone(),
            asked_at: self.asks_at(),
        };
        PendingSettlement { ending, work }
    }
}

/// A claim of a key, with the driver of its consumer.
pub(crate) struct Asked<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) claim: &'a mut Claim,
    /// The key's other id, if it has one.
    pub(crate) other_id: &'a Option<OtherId>,
    /// When SQS received the message. Zero without a message or a cache.
    pub(crate) sent_at: Timestamp,
}

/// Decides for each claim whether its record may run. Keys in the cache cost no request. The claims of all consumers share
/// a request, because their store is the same. All of them have one mode.
///
/// The answer is `None` if an item refused the claim although its key is free. The claim then replaces this item: the
/// caller sends it again. A claim that was written and then refused by its key's other id gets a new owner for its next
/// attempt, and its end is returned: the caller sends it, and no record waits for it.
pub(crate) async fn admit(
    asked: &mut [Asked<'_>],
) -> (Answers<Option<Admission>>, Vec<PendingSettlement>) {
    // An answer of the store replaces each `None`.
    let (mut answers, mut open) = (Vec::with_capacity(asked.len()), Vec::new());
    for (at, one) in asked.iter().enumerate() {
        let admission = one.driver.admit_unasked(one.claim, one.sent_at);
        if admission.is_none() {
            open.push((at, one.driver.asks_at()));
        }
        answers.push(Ok(admission));
    }
    if let Some(&(first, _)) = open.first() {
        let driver = asked[first].driver;
        let claims = open.iter().map(|&(at, _)| &*asked[at].claim);
        if driver.mode == Mode::RecordAfter {
            let ids: Vec<_> = claims.map(|claim| claim.id.clone()).collect();
            let found = driver.store.read(&ids).await;
            for ((at, asked_at), answer) in open.into_iter().zip(all_of(ids.len(), found)) {
                let one = &asked[at];
                let found = |found| Some(one.driver.found(one.claim, found, asked_at));
                answers[at] = answer.map(found);
            }
        } else {
            let claims: Vec<_> = claims.cloned().collect();
            let claimed = driver.store.claim(&claims).await;
            for ((at, asked_at), answer) in open.into_iter().zip(all_of(claims.len(), claimed)) {
                let one = &mut asked[at];
                let claimed = |claimed| one.driver.claimed(one.claim, claimed, asked_at);
                answers[at] = answer.map(claimed);
            }
        }
    }
    let refused = check_other_ids(asked, &mut answers).await;
    (answers, refused)
}

/// The store no longer offers a capability that it offered at start.
pub(super) fn incapable(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Other, format!("this store can't {what}"))
}

/// Extends the answers to `count` entries. Adds an error for each entry that the store did not answer.
pub(super) fn all_of<T>(count: usize, mut answers: Answers<T>) -> Answers<T> {
    answers.resize_with(count, || Err(unanswered()));
    answers
}

/// Returns the answer to a request with one entry.
pub(crate) fn first_of<T>(answers: Answers<T>) -> Result<T, StoreError> {
    let first = answers.into_iter().next();
    first.unwrap_or_else(|| Err(unanswered()))
}

pub(super) fn unanswered() -> StoreError {
    StoreError::new(
        StoreErrorKind::Other,
        "the store returned fewer answers than there were entries",
    )
}
