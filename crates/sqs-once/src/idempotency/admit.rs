//! Sends claims, and decides by the store's answers which records and work may run.

use std::time::Duration;

use crate::store::{Answers, Begun, Claim, Claimed, Fence, Item, OpenTransaction, StoreError};
use crate::time::Timestamp;

use super::also_read::{Asked, check_other_ids};
use super::driver::{all_of, first_of, incapable, unanswered};
use super::settle::PendingSettlement;
use super::{Admission, KeyRules, Mode, OnUnknown, Refusal, on_claimed, on_found, on_refused};

/// Whether a record or work may run, and in which transaction.
pub(crate) type Admitted = (Admission, Option<Box<dyn OpenTransaction>>);
/// Whether each record may run, and in which transaction.
type AllAdmitted = (Answers<Admission>, Option<Box<dyn OpenTransaction>>);

/// Decides for each claim whether its record may run. Keys in the cache cost no request. The claims of all consumers share
/// a request, because their store is the same. All of them have one mode, and are read first or not.
///
/// The answer is `None` if the caller sends the claim again: an item refused the claim although its key is free, and the
/// claim now replaces this item, or the key was read first and is free. A claim that was written and then refused by its
/// key's other id gets a new owner for its next attempt, and its end is returned: the caller sends it, and no record waits
/// for it.
pub(crate) async fn admit(
    asked: &mut [Asked<'_>],
) -> (Answers<Option<Admission>>, Vec<PendingSettlement>) {
    // An answer of the store replaces each `None`.
    let (mut answers, mut open) = (Vec::with_capacity(asked.len()), Vec::new());
    for (at, one) in asked.iter().enumerate() {
        let admission = one.rules.admit_unasked(one.claim, one.sent_at);
        if admission.is_none() {
            open.push((at, one.rules.asks_at()));
        }
        answers.push(Ok(admission));
    }
    if let Some(&(first, _)) = open.first() {
        let rules = asked[first].rules;
        let claims = open.iter().map(|&(at, _)| &*asked[at].claim);
        if rules.mode == Mode::RecordAfter || *asked[first].reads_first {
            let ids: Vec<_> = claims.map(|claim| claim.id.clone()).collect();
            let found = rules.driver.store.read(&ids).await;
            for ((at, asked_at), answer) in open.into_iter().zip(all_of(ids.len(), found)) {
                let one = &mut asked[at];
                answers[at] = answer.map(|found| one.read(found, asked_at));
            }
        } else {
            let claims: Vec<_> = claims.cloned().collect();
            let claimed = rules.driver.store.claim(&claims).await;
            for ((at, asked_at), answer) in open.into_iter().zip(all_of(claims.len(), claimed)) {
                let one = &mut asked[at];
                answers[at] = answer.map(|claimed| one.claimed(claimed, asked_at));
            }
        }
    }
    let refused = check_other_ids(asked, &mut answers).await;
    (answers, refused)
}

impl Asked<'_> {
    /// Decides by a key that was read. Without an item, a key that was read before it is claimed is claimed now.
    fn read(&mut self, found: Option<Item>, asked_at: Timestamp) -> Option<Admission> {
        if self.rules.mode == Mode::RecordAfter {
            return Some(self.rules.found(self.claim, found, asked_at));
        }
        *self.reads_first = false;
        self.claimed(Claimed::Refused(Box::new(found?)), asked_at)
    }

    /// Decides by the answer to the claim. `None` if the claim now replaces an item whose key is free.
    fn claimed(&mut self, claimed: Claimed, asked_at: Timestamp) -> Option<Admission> {
        if let Claimed::Refused(item) = &claimed
            && let Some(over) = on_refused(self.claim, item)
        {
            let is_unknown = item.is_of_unknown_outcome();
            if is_unknown && self.rules.on_unknown == OnUnknown::Keep {
                return Some(Admission::Refused(Refusal::OutcomeUnknown));
            }
            *self.follows_unknown = is_unknown && self.rules.on_unknown == OnUnknown::Ask;
            *self.claim = over;
            return None;
        }
        Some(self.rules.answered(self.claim, claimed, asked_at))
    }
}

impl KeyRules {
    /// Returns whether the store is asked for a claim.
    pub(crate) fn asks(&self, claim: &Claim, sent_at: Timestamp) -> bool {
        self.admit_unasked(claim, sent_at).is_none()
    }

    /// Decides without a request, if the cache knows the key or its handler runs without a claim.
    fn admit_unasked(&self, claim: &Claim, sent_at: Timestamp) -> Option<Admission> {
        match (self.known(claim, sent_at), self.mode) {
            (Some(item), _) => Some(on_claimed(claim, &Claimed::Refused(item))),
            (None, Mode::Writes | Mode::Transaction) => Some(Admission::Run {
                fence: Fence::first(claim.now),
                first_attempt: Some(claim.now),
            }),
            (None, _) => None,
        }
    }

    /// Decides by the item that a lookup found.
    fn found(&self, claim: &Claim, found: Option<Item>, asked_at: Timestamp) -> Admission {
        let admission = on_found(claim, found.as_ref());
        if let Some(item) = found {
            self.keep(item, asked_at);
        }
        admission
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

    /// Opens one transaction for all claims whose keys the cache does not know. Each claim has the time at which SQS
    /// received its message. Waits up to `patience` for others on the keys. The transaction lasts for `limit` at most.
    pub(crate) async fn begin_all(
        &self,
        claims: Vec<(Claim, Timestamp)>,
        patience: Duration,
        limit: Duration,
    ) -> Result<AllAdmitted, StoreError> {
        let Some(transactions) = self.driver.store.transactions() else {
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
}
