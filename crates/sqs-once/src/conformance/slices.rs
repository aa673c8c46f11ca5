//! Slices of any length: one answer an entry, in the slice's order.

use crate::key::ItemId;
use crate::store::{Claim, Claimed, Fence, Item, Settled, Settlement, Settling, StoreError};
use crate::time::Timestamp;

use super::Fixture;
use super::scenario::{MILLISECOND, NOW, claim_of, completion, new_id, settlement_of};

/// Around the sizes at which stores start another request.
const LENGTHS: [usize; 9] = [0, 1, 2, 24, 25, 26, 60, 100, 101];

pub(super) async fn all<F: Fixture>(fixture: &F) {
    for length in LENGTHS {
        claims(fixture, length).await;
        settlements(fixture, length).await;
        reads(fixture, length).await;
    }
}

async fn claims<F: Fixture>(fixture: &F, length: usize) {
    let claims: Vec<_> = (0..length).map(nth_claim).collect();
    let taken = plant_every_third(fixture, &claims).await;
    let answers = answered(fixture.store().claim(&claims).await);
    let expected: Vec<_> = claims
        .iter()
        .zip(&taken)
        .map(|(claim, taken)| match taken {
            Some(item) => Claimed::Refused(Box::new(item.clone())),
            None => Claimed::Written {
                fence: Fence::first(claim.now),
            },
        })
        .collect();
    same(
        "claims are answered in their order",
        length,
        &answers,
        &expected,
    );
}

async fn settlements<F: Fixture>(fixture: &F, length: usize) {
    let claims: Vec<_> = (0..length).map(nth_claim).collect();
    let taken = plant_every_third(fixture, &claims).await;
    for (_, claim) in claims.iter().enumerate().filter(|(n, _)| n % 3 == 1) {
        fixture.plant(claim.write(None)).await;
    }
    let settlements: Vec<_> = claims.iter().enumerate().map(nth_settlement).collect();
    let answers = answered(fixture.store().settle(&settlements).await);
    let expected: Vec<_> = taken
        .into_iter()
        .enumerate()
        .map(|(n, taken)| match n % 3 {
            1 => Settled::Written,
            _ => Settled::Refused(taken.map(Box::new)),
        })
        .collect();
    same(
        "settlements are answered in their order",
        length,
        &answers,
        &expected,
    );
}

async fn reads<F: Fixture>(fixture: &F, length: usize) {
    let claims: Vec<_> = (0..length).map(nth_claim).collect();
    let planted = plant_every_third(fixture, &claims).await;
    let ids: Vec<ItemId> = claims.iter().map(|claim| claim.id.clone()).collect();
    let answers = answered(fixture.store().read(&ids).await);
    same(
        "reads are answered in their order",
        length,
        &answers,
        &planted,
    );
}

/// Each at a time of its own, so that its fence tells it from the others.
fn nth_claim(n: usize) -> Claim {
    let millis = u32::try_from(n).unwrap_or(u32::MAX);
    claim_of(new_id(), NOW + MILLISECOND * millis)
}

fn nth_settlement((n, claim): (usize, &Claim)) -> Settlement {
    let settling = match n % 2 {
        0 => Settling::Release,
        _ => completion(claim.now),
    };
    settlement_of(claim, settling)
}

/// Gives the keys 0, 3, 6 … to other owners.
async fn plant_every_third<F: Fixture>(fixture: &F, claims: &[Claim]) -> Vec<Option<Item>> {
    let mut planted = Vec::with_capacity(claims.len());
    for (n, claim) in claims.iter().enumerate() {
        let item = (n % 3 == 0).then(|| claim_of(claim.id.clone(), later(claim.now)).write(None));
        if let Some(item) = &item {
            fixture.plant(item.clone()).await;
        }
        planted.push(item);
    }
    planted
}

fn later(now: Timestamp) -> Timestamp {
    now + MILLISECOND * 500
}

fn answered<T>(answers: Vec<Result<T, StoreError>>) -> Vec<T> {
    let answered = answers.into_iter().collect::<Result<_, _>>();
    answered.unwrap_or_else(|error| panic!("the store does not answer a slice: {error}"))
}

fn same<T: std::fmt::Debug + PartialEq>(promise: &str, length: usize, found: &[T], expected: &[T]) {
    assert!(
        found.len() == expected.len(),
        "promise broken: every entry of a slice has an answer ({promise}): {length} entries, {} answers",
        found.len(),
    );
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            found == expected,
            "promise broken: {promise} (entry {n} of {length}):\n found:    {found:?}\n expected: {expected:?}",
        );
    }
}
