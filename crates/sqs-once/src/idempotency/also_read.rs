//! A second lookup for keys that the table may hold under another id, while a consumer changes its codec or namespace.

use std::collections::HashMap;
use std::sync::Arc;

use crate::key::{BusinessKey, Fingerprint, ItemId, KeyError};
use crate::store::{Claim, Item, Owner, Settlement, Settling, StoreError};

use super::driver::{Asked, all_of};
use super::{Admission, Driver, Mode, Refusal, on_found, on_found_under_other_id};

#[derive(Clone)]
pub(crate) struct OtherId {
    id: ItemId,
    /// The fingerprint in the form that the table stores under that id.
    fingerprint: Option<Fingerprint>,
}

impl Driver {
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

    fn refused_under_other_id(
        &self,
        claim: &Claim,
        other: &OtherId,
        item: &Item,
    ) -> Option<Refusal> {
        let claim = Claim {
            fingerprint: other.fingerprint.clone(),
            ..claim.clone()
        };
        match self.mode {
            Mode::RecordAfter => match on_found(&claim, Some(item)) {
                Admission::Refused(refusal) => Some(refusal),
                Admission::Run { .. } => None,
            },
            _ => on_found_under_other_id(&claim, item),
        }
    }

    /// Copies a completion under the other id with its expiry, so that the next duplicate needs no second read.
    fn settling(&self, refusal: &Refusal, item: &Item) -> Settling {
        match refusal {
            Refusal::Duplicate { data } => Settling::Complete {
                expiration: item
                    .expiration
                    .unwrap_or_else(|| self.clock.now() + self.retention),
                data: data.clone(),
            },
            _ => Settling::Release,
        }
    }
}

/// Refuses admitted claims whose key is known under its other id.
///
/// Reads only after the claims were answered. If two versions each claim under their own id and then read the other's,
/// at least one of them sees the other's claim.
pub(super) async fn check_other_ids(
    asked: &mut [Asked<'_>],
    answers: &mut [Result<Option<Admission>, StoreError>],
) {
    let admitted = |answer: &Result<_, _>| matches!(answer, Ok(Some(Admission::Run { .. })));
    let wanted = answers.iter().zip(&*asked);
    let wanted = wanted.filter(|(answer, _)| admitted(answer));
    // Two keys may share an id in the other codec, and a request may contain each id only once.
    let mut ids: Vec<_> = wanted
        .filter_map(|(_, one)| Some(one.other_id.as_ref()?.id.clone()))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let Some(store) = asked.first().map(|one| Arc::clone(&one.driver.store)) else {
        return;
    };
    if ids.is_empty() {
        return;
    }
    let found = all_of(ids.len(), store.read(&ids).await);
    let found: HashMap<_, _> = ids.iter().zip(found).collect();
    let mut settlements = Vec::new();
    for (one, answer) in asked.iter_mut().zip(answers) {
        let driver = one.driver;
        let found = one
            .other_id
            .as_ref()
            .and_then(|other| Some((other, found.get(&other.id)?)));
        let Some((other, found)) = found.filter(|_| admitted(answer)) else {
            continue;
        };
        let item = match found {
            Ok(None) => continue,
            Ok(Some(item)) => item,
            Err(error) => {
                *answer = Err(error.clone());
                continue;
            }
        };
        let Some(refusal) = driver.refused_under_other_id(one.claim, other, item) else {
            continue;
        };
        if driver.claims_before() {
            settlements.push(Settlement {
                id: one.claim.id.clone(),
                owner: one.claim.owner,
                settling: driver.settling(&refusal, item),
            });
            one.claim.owner = Owner::from_bits(driver.random.bits());
        }
        *answer = Ok(Some(Admission::Refused(refusal)));
    }
    if !settlements.is_empty() {
        // If this settlement is not written, the next delivery repeats it when the claim's lease has lapsed.
        let _ = store.settle(&settlements).await;
    }
}
