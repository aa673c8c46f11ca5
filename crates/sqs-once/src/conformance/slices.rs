//! Slices of any length, with one answer for each entry in the order of the slice.

use crate::key::ItemId;
use crate::store::{Answers, Claim, Claimed, Fence, Item, Settled, Settlement, Settling};

use super::Fixture;
use super::case::{
    MILLISECOND, NOW, claim_of, completion, in_another_namespace, new_id, settlement_of,
};

/// Lengths around the limits at which stores start another request.
const LENGTHS: [usize; 9] = [0, 1, 2, 24, 25, 26, 60, 100, 101];

pub(super) async fn all<F: Fixture>(fixture: &F) {
    for length in LENGTHS {
        claims(fixture, length).await;
        settlements(fixture, length).await;
        reads(fixture, length).await;
    }
}

async fn claims<F: Fixture>(fixture: &F, length: usize) {
    let (claims, taken) = planted(fixture, length).await;
    let answers = answered(fixture.store().claim(&claims).await);
    let expected = claims.iter().zip(taken).map(|(claim, taken)| {
        let fence = Fence::first(claim.now);
        taken.map_or(Claimed::Written { fence }, |item| {
            Claimed::Refused(Box::new(item))
        })
    });
    same("claims", length, &answers, &expected.collect::<Vec<_>>());
}

async fn settlements<F: Fixture>(fixture: &F, length: usize) {
    let (claims, taken) = planted(fixture, length).await;
    for (_, claim) in claims.iter().enumerate().filter(|(n, _)| n % 3 == 1) {
        fixture.plant(claim.write(None)).await;
    }
    let settlements: Vec<_> = claims.iter().enumerate().map(nth_settlement).collect();
    let answers = answered(fixture.store().settle(&settlements).await);
    let expected = taken.into_iter().enumerate().map(|(n, taken)| match n % 3 {
        1 => Settled::Written,
        _ => Settled::Refused(taken.map(Box::new)),
    });
    same(
        "settlements",
        length,
        &answers,
        &expected.collect::<Vec<_>>(),
    );
}

async fn reads<F: Fixture>(fixture: &F, length: usize) {
    let (claims, planted) = planted(fixture, length).await;
    let ids: Vec<ItemId> = claims.iter().map(|claim| claim.id.clone()).collect();
    let answers = answered(fixture.store().read(&ids).await);
    same("reads", length, &answers, &planted);
}

fn nth_settlement((n, claim): (usize, &Claim)) -> Settlement {
    let settling = match n % 2 {
        0 => Settling::Release,
        _ => completion(claim.now),
    };
    settlement_of(claim, settling)
}

/// Creates claims at different times, so that their fences differ, and gives the keys 0, 3, 6 … to other owners. The keys
/// 0 and 1 are one key in two namespaces, as are 2 and 3, and so on: a slice has claims of several routes.
async fn planted<F: Fixture>(fixture: &F, length: usize) -> (Vec<Claim>, Vec<Option<Item>>) {
    let (mut claims, mut planted) = (Vec::new(), Vec::new());
    let keys = std::iter::repeat_with(new_id).flat_map(|id| {
        let elsewhere = in_another_namespace(&id);
        [id, elsewhere]
    });
    for (n, id) in keys.take(length).enumerate() {
        let now = NOW + MILLISECOND * u32::try_from(n).unwrap_or(u32::MAX);
        let claim = claim_of(id, now);
        let other = claim_of(claim.id.clone(), now + MILLISECOND * 500);
        let item = (n % 3 == 0).then(|| other.write(None));
        if let Some(item) = &item {
            fixture.plant(item.clone()).await;
        }
        claims.push(claim);
        planted.push(item);
    }
    (claims, planted)
}

fn answered<T>(answers: Answers<T>) -> Vec<T> {
    let answered = answers.into_iter().collect::<Result<_, _>>();
    answered.unwrap_or_else(|error| panic!("the store does not answer a slice: {error}"))
}

fn same<T: std::fmt::Debug + PartialEq>(what: &str, length: usize, found: &[T], expected: &[T]) {
    let promise =
        format!("{what} are answered in their order, and each only for the key of its namespace");
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
