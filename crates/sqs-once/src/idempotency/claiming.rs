//! Sends claims to a store until they are decided.

use crate::store::{Claim, Claimed, Store, StoreError, StoreErrorKind};

use super::driver::all_of;
use super::on_refused;

/// The most attempts to claim a key that is free again after each refusal.
pub(crate) const TRIES: usize = 3;

/// Claims keys in a store: first as new keys, then by replacing items whose keys are free.
///
/// Returns one answer for each claim, in order. A key that other workers keep claiming and releasing is `Throttled`.
pub async fn claim(store: &dyn Store, claims: &[Claim]) -> Vec<Result<Claimed, StoreError>> {
    let mut answers = all_of(claims.len(), store.claim(claims).await);
    for _ in 1..TRIES {
        let (places, again) = free(claims, &answers);
        if again.is_empty() {
            return answers;
        }
        let later = all_of(again.len(), store.claim(&again).await);
        for (place, answer) in places.into_iter().zip(later) {
            answers[place] = answer;
        }
    }
    for place in free(claims, &answers).0 {
        answers[place] = Err(contended());
    }
    answers
}

/// Returns the claims that an item with a free key refused, in the form to send next, and their positions.
fn free(claims: &[Claim], answers: &[Result<Claimed, StoreError>]) -> (Vec<usize>, Vec<Claim>) {
    let pairs = claims.iter().zip(answers).enumerate();
    let again = pairs.filter_map(|(place, (claim, answer))| match answer {
        Ok(Claimed::Refused(item)) => Some((place, on_refused(claim, item)?)),
        _ => None,
    });
    again.unzip()
}

pub(crate) fn contended() -> StoreError {
    StoreError::new(
        StoreErrorKind::Throttled,
        "other workers claim and release this key faster than it can be claimed",
    )
}
