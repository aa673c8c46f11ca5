//! A second lookup for keys that the table may hold under another id, while a consumer changes its codec or namespace.

use std::collections::HashMap;
use std::sync::Arc;

use crate::key::{BusinessKey, Fingerprint, ItemId, KeyError};
use crate::store::{
    Claim, Claimed, Fence, Item, Owner, Settled, Settlement, Settling, Store, StoreError,
};
use crate::time::Timestamp;

use super::driver::all_of;
use super::retry::contended;
use super::settle::{CommitsWith, PendingSettlement};
use super::{
    Admission, KeyRules, Mode, OnUnknown, Refusal, carried_over, ends_refused, on_found,
    on_found_under_other_id, takes_over,
};

#[derive(Clone)]
pub(crate) struct OtherId {
    id: ItemId,
    /// The fingerprint in the form that the table stores under that id.
    fingerprint: Option<Fingerprint>,
}

/// A claim of a key, with the rules of its route.
pub(crate) struct Asked<'a> {
    pub(crate) rules: &'a KeyRules,
    pub(crate) claim: &'a mut Claim,
    /// The key's other id, if it has one.
    pub(crate) other_id: &'a Option<OtherId>,
    /// When SQS received the message. Zero without a message or a cache.
    pub(crate) sent_at: Timestamp,
    /// Whether the claim replaces an attempt of unknown outcome that has to be asked about.
    pub(crate) follows_unknown: &'a mut bool,
    /// Whether the key is read before it is claimed, because it is likely to have an item.
    pub(crate) reads_first: &'a mut bool,
}

impl KeyRules {
    pub(crate) fn other_id(
        &self,
        key: &BusinessKey,
        id: &ItemId,
        fingerprint: Option<&Fingerprint>,
    ) -> Result<Option<OtherId>, KeyError> {
        let Some(codec) = &self.also_read else {
            return Ok(None);
        };
        let other_id = OtherId {
            id: codec.item_id(key)?,
            fingerprint: fingerprint.and_then(|it| codec.fingerprint(it.clone())),
        };
        // Without this filter, a key with the same id in both codecs would be refused by its own claim forever.
        Ok(Some(other_id).filter(|other| other.id != *id))
    }

    /// Decides on an admitted record by the item under its key's other id.
    fn decide(&self, claim: &Claim, run: Run, other: &OtherId, item: &Item) -> Admission {
        let claim = Claim {
            fingerprint: other.fingerprint.clone(),
            ..claim.clone()
        };
        let (fence, since) = run;
        match self.mode {
            Mode::RecordAfter => match on_found(&claim, Some(item)) {
                Admission::Run {
                    fence: follows,
                    first_attempt,
                } => Admission::Run {
                    fence: fence.max(follows),
                    first_attempt: since.min(first_attempt),
                },
                refused => refused,
            },
            _ if self.on_unknown == OnUnknown::Keep && is_lapsed(&claim, item) => {
                Admission::Refused(Refusal::OutcomeUnknown)
            }
            _ => on_found_under_other_id(&claim, run, item),
        }
    }

    /// Ends a claim that the item under the other id refuses.
    fn settling(
        &self,
        claim: &Claim,
        run: Run,
        other: &OtherId,
        refusal: &Refusal,
        item: &Item,
    ) -> Settling {
        let kept = self.driver.clock.now() + self.retention;
        let fingerprint = other.fingerprint.as_ref();
        ends_refused(claim, run, (refusal, item), fingerprint, kept)
    }
}

/// Decides again on admitted claims whose key has an item under its other id.
///
/// Reads only after the claims were answered. If two versions each claim under their own id and then read the other's,
/// at least one of them sees the other's claim.
///
/// Returns the ends of claims that are refused after all. No record waits for them: after a lapsed lease the next delivery
/// reads the other id again.
pub(super) async fn check_other_ids(
    asked: &mut [Asked<'_>],
    answers: &mut [Result<Option<Admission>, StoreError>],
) -> Vec<PendingSettlement> {
    let mut refused = Vec::new();
    let Some(store) = asked.first().map(|one| Arc::clone(&one.rules.driver.store)) else {
        return refused;
    };
    let mut found = read_other_ids(&*store, asked, answers).await;
    if found.is_empty() {
        return refused;
    }
    for (one, answer) in asked.iter_mut().zip(&*answers) {
        let other = one.other_id.as_ref().filter(|_| admitted(answer).is_some());
        if let Some(Ok(item)) = other.and_then(|other| found.get(&other.id)) {
            let asks = one.rules.on_unknown == OnUnknown::Ask;
            *one.follows_unknown |= asks && is_lapsed(one.claim, item);
        }
    }
    take_over(&*store, asked, answers, &mut found).await;
    // The settlements that handlers wait for, each with the place of its record.
    let mut carried = Vec::new();
    let mut renamed = Vec::new();
    for (at, (one, answer)) in asked.iter_mut().zip(&mut *answers).enumerate() {
        let Some(other) = one.other_id.as_ref().filter(|_| is_undecided(answer)) else {
            continue;
        };
        let item = match found.get(&other.id) {
            None => continue,
            Some(Ok(item)) => item,
            Some(Err(error)) => {
                *answer = Err(error.clone());
                continue;
            }
        };
        let rules = one.rules;
        let Some(run) = admitted(answer) else {
            // The attempt that its key keeps may be a copy of an event that is completed there.
            let unrun = (Fence::default(), None);
            if let refused @ Admission::Refused(_) = rules.decide(one.claim, unrun, other, item) {
                *answer = Ok(Some(refused));
            }
            continue;
        };
        let admission = rules.decide(one.claim, run, other, item);
        match &admission {
            Admission::Run {
                fence,
                first_attempt,
            } if rules.claims_before() => {
                if let Some(follows) = carried_over(run, (*fence, *first_attempt)) {
                    let settlement = Settlement {
                        id: one.claim.id.clone(),
                        owner: one.claim.owner,
                        settling: Settling::carry_over(one.claim.lease_until, run.0, follows),
                    };
                    carried.push((at, settlement));
                }
            }
            Admission::Refused(refusal) if rules.claims_before() => {
                let settling = rules.settling(one.claim, run, other, refusal, item);
                // If the claim were released, its key would forget the attempt that it replaced.
                if !*one.follows_unknown || matches!(settling, Settling::Complete { .. }) {
                    refused.push(rules.settlement(one.claim, settling, CommitsWith::Nothing));
                }
                renamed.push(at);
            }
            _ => {}
        }
        *answer = Ok(Some(admission));
    }
    carry_over(&*store, carried, answers).await;
    for at in renamed {
        let driver = &asked[at].rules.driver;
        asked[at].claim.owner = Owner::from_bits(driver.random.bits());
    }
    refused
}

/// Writes the fences that follow on those of the other ids. No handler may receive one that is not written.
async fn carry_over(
    store: &dyn Store,
    carried: Vec<(usize, Settlement)>,
    answers: &mut [Result<Option<Admission>, StoreError>],
) {
    if carried.is_empty() {
        return;
    }
    let (records, settlements): (Vec<_>, Vec<_>) = carried.into_iter().unzip();
    let settled = all_of(settlements.len(), store.settle(&settlements).await);
    for (at, settled) in records.into_iter().zip(settled) {
        match settled {
            Ok(Settled::Written) => {}
            Err(error) => answers[at] = Err(error),
            Ok(Settled::Refused(_)) => answers[at] = Err(contended()),
        }
    }
}

/// Returns whether an item is an attempt of unknown outcome, and its lease is over.
fn is_lapsed(claim: &Claim, item: &Item) -> bool {
    claim.finds_free(item) && item.is_of_unknown_outcome()
}

/// The fence of an admitted record, and its first attempt.
type Run = (Fence, Option<Timestamp>);

fn admitted(answer: &Result<Option<Admission>, StoreError>) -> Option<Run> {
    match answer {
        Ok(Some(Admission::Run {
            fence,
            first_attempt,
        })) => Some((*fence, *first_attempt)),
        _ => None,
    }
}

/// Returns whether the item under the other id may change a decision: the record may run, or its key keeps an attempt.
fn is_undecided(answer: &Result<Option<Admission>, StoreError>) -> bool {
    let kept = Admission::Refused(Refusal::OutcomeUnknown);
    admitted(answer).is_some() || matches!(answer, Ok(Some(it)) if *it == kept)
}

/// Items under other ids. Two keys may share an id in the other codec.
type Found = HashMap<ItemId, Result<Item, StoreError>>;

/// Reads the items under the other ids of the admitted claims.
async fn read_other_ids(
    store: &dyn Store,
    asked: &[Asked<'_>],
    answers: &[Result<Option<Admission>, StoreError>],
) -> Found {
    let wanted = asked.iter().zip(answers);
    let wanted = wanted.filter(|(_, answer)| is_undecided(answer));
    // A request may contain each id only once.
    let mut ids: Vec<_> = wanted
        .filter_map(|(one, _)| Some(one.other_id.as_ref()?.id.clone()))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Found::new();
    }
    let items = all_of(ids.len(), store.read(&ids).await);
    let found = ids.into_iter().zip(items);
    found
        .filter_map(|(id, item)| Some((id, item.transpose()?)))
        .collect()
}

/// Takes lapsed claims under the other ids from their owners, which may still run, so that they can't complete any more.
async fn take_over(
    store: &dyn Store,
    asked: &[Asked<'_>],
    answers: &[Result<Option<Admission>, StoreError>],
    found: &mut Found,
) {
    let mut claims: Vec<Claim> = Vec::new();
    for (one, answer) in asked.iter().zip(answers) {
        let other = one.other_id.as_ref().filter(|_| admitted(answer).is_some());
        let Some(Ok(item)) = other.and_then(|other| found.get(&other.id)) else {
            continue;
        };
        let is_first = claims.iter().all(|claim| claim.id != item.id);
        let takes = one.rules.claims_before() && one.rules.on_unknown != OnUnknown::Keep;
        if takes && is_first {
            let owner = Owner::from_bits(one.rules.driver.random.bits());
            claims.extend(takes_over(one.claim, owner, item));
        }
    }
    if claims.is_empty() {
        return;
    }
    let answers = all_of(claims.len(), store.claim(&claims).await);
    for (claim, answer) in claims.iter().zip(answers) {
        let taken = answer.map(|claimed| match claimed {
            Claimed::Written { .. } => Ok(claim.write(found[&claim.id].as_ref().ok())),
            // Its owner still has it, with a newer fence. A handler beside that owner needs its end.
            Claimed::Refused(item) if takes_over(claim, claim.owner, &item).is_some() => {
                Err(contended())
            }
            // What another worker wrote in the meantime decides.
            Claimed::Refused(item) => Ok(*item),
        });
        found.insert(claim.id.clone(), taken.flatten());
    }
}
