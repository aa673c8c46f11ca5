//! Concurrent slices with the same keys, and slices with errors.

use std::time::Duration;

use futures_util::future::join_all;
use sqs_once::conformance::{Fixture, claim};
use sqs_once::store::{Claimed, Owner, Settled, Settling, Store, StoreError};

use crate::support::{
    Database, NOW, completion, is_written, new_claims, rival, rivals, settlement, settlements,
};

/// The number of granted claims. Every claim must have an answer.
fn granted(answers: &[Vec<Result<Claimed, StoreError>>]) -> usize {
    let answers = answers.iter().flatten();
    let answers = answers.inspect(|answer| assert!(answer.is_ok(), "{answer:?}"));
    answers.filter(|answer| is_written(answer)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_with_the_same_keys_in_opposite_orders_never_deadlock() {
    let database = Database::new().await;
    for round in 0..20 {
        let claims = new_claims(60);
        let mut others = rivals(&claims);
        others.reverse();
        let answers = join_all([&claims, &others].map(|claims| database.store.claim(claims))).await;
        assert_eq!(granted(&answers), 60, "round {round}");

        // Repeats the claims over the rows of released claims.
        let releases = [&claims, &others].map(|all| settlements(all, &Settling::Release));
        join_all(releases.iter().map(|all| database.store.settle(all))).await;
        let over = [rivals(&claims), rivals(&others)];
        let answers = join_all(over.iter().map(|all| claim(&database.store, all))).await;
        assert_eq!(granted(&answers), 60, "round {round}");

        let completions = over.map(|all| settlements(&all, &completion()));
        let answers = join_all(completions.iter().map(|all| database.store.settle(all))).await;
        let written = answers.iter().flatten();
        let written = written.filter(|answer| matches!(answer, Ok(Settled::Written)));
        assert_eq!(written.count(), 60, "round {round}");
    }
}

#[tokio::test]
async fn a_key_that_is_twice_in_a_slice_does_not_spoil_the_others() {
    let database = Database::new().await;
    let mut claims = new_claims(3);
    claims.insert(1, rival(&claims[0]));
    let answers = database.store.claim(&claims).await;
    let granted: Vec<_> = answers.iter().map(is_written).collect();
    assert_eq!(granted, [true, false, true, true]);

    let mut settlements = settlements(&claims, &completion());
    settlements.push(settlement(&claims[0], Settling::Release));
    let answers = database.store.settle(&settlements).await;
    let is_written = |answer: &Result<_, _>| *answer.as_ref().unwrap() == Settled::Written;
    let written: Vec<_> = answers.iter().map(is_written).collect();
    assert_eq!(written, [true, false, true, true, false]);
}

#[tokio::test]
async fn a_row_that_is_not_readable_spoils_its_own_answer_alone() {
    let database = Database::new().await;
    let claims = new_claims(3);
    database.store.claim(&claims).await;
    let spoil = "UPDATE processed_events SET owner = 'nobody' WHERE id = $1";
    let id = claims[1].id.as_str();
    database.client.execute(spoil, &[&id]).await.unwrap();

    let answers = database.store.claim(&rivals(&claims)).await;
    let is_known: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(is_known, [true, false, true]);
    let kind = answers[1].as_ref().unwrap_err().kind();
    assert_eq!(kind, sqs_once::store::StoreErrorKind::BadItem);
    assert!(!format!("{answers:?}").contains("nobody"));
}

#[tokio::test]
async fn times_that_no_column_holds_are_the_end_of_time() {
    let database = Database::new().await;
    let mut claim = new_claims(1).remove(0);
    claim.owner = Owner::from_bits(u128::MAX);
    claim.lease_until = sqs_once::time::Timestamp::from_millis(u64::MAX);
    let answers = database.store.claim(std::slice::from_ref(&claim)).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    let mut rival = rival(&claim);
    rival.now = NOW + Duration::from_secs(u64::from(u32::MAX));
    let answers = database.store.claim(&[rival]).await;
    assert!(matches!(answers[0], Ok(Claimed::Refused(_))), "{answers:?}");
    let owner = database.peek(&claim.id).await.unwrap().owner;
    assert_eq!(owner, Some(claim.owner));
}
